"""``bundles submit``: upload documents, announce a bundle, see what comes of it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.cli.common import ConfigOption, JsonOption, Problem, SetOption, settings

if TYPE_CHECKING:
    from consumers.client import Announcement, Progress


def submit(
    files: Annotated[list[Path], typer.Argument(help="PDF files, in order.", show_default=False)],
    bundle: Annotated[
        str | None, typer.Option(help="The bundle's id; default: made from the files' contents.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Page ranges of one file, each a document: 1-3,4-9.")
    ] = None,
    merge: Annotated[bool, typer.Option("--merge", help="All files as one document.")] = False,
    parent: Annotated[str | None, typer.Option(help="Id of the bundle this one came from.")] = None,
    policy: Annotated[str, typer.Option(help="Name of the policy.")] = "default",
    wait: Annotated[bool, typer.Option("--wait", help="Until every document has ended.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait at most.")] = 600.0,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Upload PDFs and announce them as a bundle; with --wait, show progress and the results.

    Exit code 1 when a document was dead-lettered.
    """
    from consumers.client import BundleClient, UploadFailed

    found = settings(config, set_)
    if split and (merge or len(files) != 1):
        raise Problem("--split cuts one file: give one FILE and no --merge")
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        raise Problem(f"no such file: {', '.join(missing)}")
    ranges = parse_ranges(split) if split else None
    with BundleClient(found) as client:
        try:
            announced = client.announce(
                files, bundle_id=bundle, ranges=ranges, merge=merge, parent=parent, policy=policy
            )
        except UploadFailed as error:
            raise Problem(str(error), 1) from None
        if not as_json:
            print(
                f"announced bundle {announced.bundle_id} with {len(announced.documents)} "
                f"document(s): partition {announced.partition}, offset {announced.offset}"
            )
        if not wait:
            if as_json:
                print(json.dumps(announced.as_dict()))
            return
        outcome = client.wait(announced, timeout_s=timeout, on_progress=_show_progress(as_json))
    if outcome is None:
        raise Problem(f"the bundle had not ended after {timeout:g} s; it goes on", 1)
    if as_json:
        print(json.dumps(announced.as_dict() | {"result": outcome}))
    else:
        _show_result(announced, outcome)
    if outcome["dead_lettered"]:
        raise typer.Exit(1)


def parse_ranges(text: str) -> list[tuple[int, int]]:
    """``1-3,7,9-12`` as inclusive ranges."""
    ranges = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None or int(match[1]) < 1 or int(match[2] or match[1]) < int(match[1]):
            raise Problem(f"--split {text}: write ranges as 1-3,4-9 (first page is 1)")
        ranges.append((int(match[1]), int(match[2] or match[1])))
    return ranges


def _show_progress(as_json: bool) -> Progress:
    def show(document_id: str, stage: str, event: str) -> None:
        if not as_json:
            print(f"  {document_id}: {stage} {event}", file=sys.stderr, flush=True)

    return show


def _show_result(announced: Announcement, outcome: dict[str, object]) -> None:
    documents = outcome["documents"]
    assert isinstance(documents, list)
    for document in documents:
        if document["status"] == "extracted":
            print(
                f"{document['document_id']}: {document['images']} image(s), "
                f"manifest {document['manifest_key']}"
            )
        else:
            print(f"{document['document_id']}: dead letter, {document['reason']}")
    print(
        f"bundle {announced.bundle_id}: {outcome['extracted']} extracted, "
        f"{outcome['dead_lettered']} dead-lettered"
    )
