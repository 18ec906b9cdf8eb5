"""``bundles trace``: what happened to this?"""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.cli.common import (
    ConfigOption,
    JsonOption,
    Problem,
    SetOption,
    duration,
    kafka,
    settings,
)

if TYPE_CHECKING:
    from consumers.operations.trace import Answer, Tracer

MANY = 5


def trace(
    identifier: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="Image name or document id (both with --bundle), bundle id, extraction id, or the "
            "provider's job id.",
        ),
    ],
    bundle: Annotated[str | None, typer.Option(help="The bundle of the image or document.")] = None,
    document: Annotated[str | None, typer.Option(help="The document of the image.")] = None,
    budget: Annotated[str, typer.Option(help="How long to read the ledger.")] = "600ms",
    search: Annotated[
        str, typer.Option(help="How long to search the ledger for what is under no key.")
    ] = "20s",
    since: Annotated[str, typer.Option(help="How far back to search the ledger.")] = "7d",
    as_json: JsonOption = False,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Say where an image, document or bundle came from and what became of it: source, checksum,
    jobs, attempts, manifest, and where the time went. The upload is not opened.

    What has a manifest is found at once, however much is stored. A provider's job id, and a
    document without images so far, are searched for in the ledger and the youngest job records. Of
    a document that was refused before it had a job, the ledger alone tells: event, reason, dead
    letter.
    Exit code 1 when there is no such thing.
    """
    from consumers.operations.ledger import Ledger
    from consumers.operations.reading import TopicUnreadable
    from consumers.operations.trace import Tracer
    from consumers.stores import open_store
    from sinks.objectstore import StoreError

    started = time.monotonic()
    found = settings(config, set_)
    budget_s, search_s = duration("--budget", budget), duration("--search", search)
    searched_since = time.time() - duration("--since", since)
    try:
        with (
            closing(open_store(found.store, threads=8)) as store,
            closing(Ledger(kafka(found), found.topics.ledger)) as ledger,
        ):
            tracer = Tracer(
                store,
                found.store.output_bucket,
                ledger,
                budget_s=budget_s,
                search_s=search_s,
                searched_since=searched_since,
                on_progress=lambda line: print(line, file=sys.stderr, flush=True),
            )
            answer = _ask(tracer, identifier, bundle, document)
    except (StoreError, TopicUnreadable) as error:
        raise Problem(str(error), 1) from None
    seconds = time.monotonic() - started
    if as_json:
        _print_json(identifier, answer, seconds)
    else:
        _print(answer, seconds)
    if answer.empty:
        raise Problem(f"nothing is known of {identifier}{_hint(bundle)}", 1)


def _ask(tracer: Tracer, identifier: str, bundle: str | None, document: str | None) -> Answer:
    from consumers.operations.trace import IMAGE_NAME

    if IMAGE_NAME.fullmatch(identifier):
        if bundle is None:
            raise Problem(f"{identifier} is the name of many images: add --bundle")
        return tracer.image(bundle, identifier, document)
    if bundle is not None:
        return tracer.document(bundle, identifier)
    return tracer.anything(identifier)


def _hint(bundle: str | None) -> str:
    if bundle is None:
        return "; if it is a bundle, `bundles replay --bundle` lists its dead letters"
    return f" in bundle {bundle}; `bundles replay --bundle {bundle}` lists its dead letters"


def _print_json(identifier: str, answer: Answer, seconds: float) -> None:
    from consumers.operations.trace_report import as_dict, ledger_only_as_dict

    said = {
        "id": identifier,
        "traces": [
            *(as_dict(one) for one in answer.traces),
            *(ledger_only_as_dict(one) for one in answer.ledger_only),
        ],
        "notes": answer.notes,
        "answered_in_s": round(seconds, 3),
    }
    print(json.dumps(said))


def _print(answer: Answer, seconds: float) -> None:
    from rich.console import Console

    from consumers.operations.trace_view import overview, show, show_ledger_only

    console = Console(highlight=False, emoji=False)
    if len(answer.traces) + len(answer.ledger_only) > MANY:
        console.print(overview(answer.traces, answer.ledger_only))
    else:
        shows = [
            *(partial(show, one) for one in answer.traces),
            *(partial(show_ledger_only, one) for one in answer.ledger_only),
        ]
        for number, show_one in enumerate(shows):
            if number:
                console.rule()
            show_one(console)
    for note in answer.notes:
        console.print(f"note: {note}", style="yellow", markup=False)
    console.print(f"answered in {seconds:.2f} s", style="dim")
