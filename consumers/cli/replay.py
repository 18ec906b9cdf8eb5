"""``bundles replay``: look through the dead letters, and send them round again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.cli.common import ConfigOption, Problem, SetOption, kafka, settings
from consumers.extraction.timestamps import parse_rfc3339, rfc3339
from schemas.reasons import Reason

if TYPE_CHECKING:
    from consumers.operations.replay import Outcome, Replayed


def replay(
    reason: Annotated[
        list[str] | None, typer.Option(help="Reason code, e.g. deadline; repeatable.")
    ] = None,
    stage: Annotated[list[str] | None, typer.Option(help="Stage; repeatable.")] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Failed since: 2026-01-31T12:00:00Z, or 2h for two hours ago."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Failed before; as --since.")] = None,
    bundle: Annotated[str | None, typer.Option(help="Bundle id.")] = None,
    document: Annotated[str | None, typer.Option(help="Document id.")] = None,
    extraction_id: Annotated[str | None, typer.Option(help="Extraction id.")] = None,
    dead_letter_id: Annotated[str | None, typer.Option("--id", help="Dead letter id.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="With --apply: no filter.")] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Publish; without it, only say what would be.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many records.")] = None,
    rate: Annotated[float, typer.Option(min=0.1, help="Records published per second.")] = 100.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON lines: one per dead letter, the last the summary.")
    ] = False,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """List dead letters; with --apply, publish their original records to the events topic again.

    Each original record is replayed once, however many dead letters it has and however often this
    runs. Documents that were extracted meanwhile are found, not done again; a job that timed out is
    polled on, not submitted anew. Exit code 1 when the broker refused a record.
    """
    from consumers.operations.dead_letters import Filter
    from consumers.operations.reading import TopicUnreadable
    from consumers.operations.replay import Outcome, Replay
    from consumers.stores import open_store
    from sinks.objectstore import StoreError

    found = settings(config, set_)
    unknown = sorted(set(reason or ()) - set(Reason))
    if unknown:
        raise Problem(f"--reason {unknown[0]}: no such reason; there are {', '.join(Reason)}")
    wanted = Filter(
        reasons=frozenset(reason or ()),
        stages=frozenset(stage or ()),
        since=_moment("--since", since),
        until=_moment("--until", until),
        bundle_id=bundle,
        document_id=document,
        extraction_id=extraction_id,
        identifier=dead_letter_id,
    )
    if apply and wanted.empty and not everything:
        raise Problem("--apply without a filter replays every dead letter: add --all to mean it")
    store = open_store(found.store, threads=4)
    try:
        counts = Replay(
            kafka(found),
            found.topics,
            store,
            found.store.output_bucket,
            found.policies,
            apply=apply,
            per_second=rate,
            on_letter=_say_json if as_json else _say,
        ).run(wanted, limit=limit)
    except (TopicUnreadable, StoreError) as error:
        raise Problem(f"{error}; run it again: what was replayed is remembered", 1) from None
    finally:
        store.close()
    _show(counts, as_json, apply)
    raise typer.Exit(1 if counts.get(Outcome.REFUSED) else 0)


def _moment(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    moment = parse_rfc3339(text)
    if moment is not None:
        return moment
    from schemas.units import parse_duration

    try:
        return time.time() - float(parse_duration(text))
    except ValueError:
        raise Problem(
            f"{option} {text}: write a time as 2026-01-31T12:00:00Z, or how long ago, e.g. 2h"
        ) from None


def _row(replayed: Replayed) -> dict[str, object]:
    letter = replayed.letter
    return {
        "outcome": replayed.outcome,
        "detail": replayed.detail,
        "dead_letter_id": letter.identifier,
        "reason": letter.reason,
        "stage": letter.stage,
        "code": letter.code,
        "failed_at": rfc3339(letter.failed_at),
        "replays": letter.replays,
        "bundle_id": letter.bundle_id,
        "document_id": letter.document_id,
        "extraction_id": letter.extraction_id,
        "original": str(letter.original),
    }


def _say_json(replayed: Replayed) -> None:
    print(json.dumps(_row(replayed)))


def _say(replayed: Replayed) -> None:
    row = _row(replayed)
    detail = f" ({replayed.detail})" if replayed.detail else ""
    what = "/".join(str(row[n]) for n in ("bundle_id", "document_id") if row[n]) or "no bundle"
    code = f", {row['code']}" if row["code"] else ""
    print(
        f"{row['outcome']}{detail}: {what}: {row['reason']} in {row['stage']}{code}, "
        f"{row['failed_at']}, replayed {row['replays']} time(s), {row['dead_letter_id']}"
    )


def _show(counts: Mapping[Outcome, int], as_json: bool, apply: bool) -> None:
    from consumers.operations.replay import Outcome

    if as_json:
        summary = {"applied": apply, **{str(o): counts.get(o, 0) for o in Outcome}}
        print(json.dumps(summary))
        return
    said = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    print(said or "no dead letter matches")
    if counts.get(Outcome.WOULD_REPLAY):
        print("nothing was published: --apply does it", file=sys.stderr)
