"""``bundles verify``: is what the manifests name really there, byte for byte?"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.cli.common import ConfigOption, Problem, SetOption, settings

if TYPE_CHECKING:
    from consumers.operations.verify import Verified

PROGRESS_EVERY = 1000


def verify_(
    bundle: Annotated[str | None, typer.Argument(help="Bundle id.", show_default=False)] = None,
    document: Annotated[str | None, typer.Option(help="Only this document.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every bundle.")] = False,
    sizes_only: Annotated[
        bool, typer.Option("--sizes-only", help="Do not read the images: there, and of that size?")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="JSON lines: one per document at fault, the last the summary."),
    ] = False,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Hold manifests against the stored objects: checksums (by reading), missing, extra.

    Exit code 1 when something is wrong, or when there is nothing to verify.
    """
    from consumers.operations.verify import Fault, verify
    from consumers.stores import open_store
    from sinks.objectstore import StoreError

    if everything == (bundle is not None):
        raise Problem("give a BUNDLE, or --all")
    if everything and document is not None:
        raise Problem("--document needs its BUNDLE")
    found = settings(config, set_)
    store = open_store(found.store, threads=8)
    counted = ("documents", "unfinished", "images", "bytes", "problems", *Fault)
    totals: dict[str, int] = dict.fromkeys(counted, 0)
    faults = 0
    try:
        for verified in verify(
            store,
            found.store.output_bucket,
            bundle_id=bundle,
            document_id=document,
            read=not sizes_only,
        ):
            totals["documents"] += verified.finished
            totals["unfinished"] += not verified.finished
            totals["images"] += verified.images
            totals["bytes"] += verified.bytes
            totals["problems"] += verified.problems
            for finding in verified.faults:
                totals[finding.fault] += 1
            faults += len(verified.faults)
            if verified.faults:
                _say(verified, as_json)
            if totals["documents"] % PROGRESS_EVERY == 0 and everything and verified.finished:
                print(f"{totals['documents']} documents", file=sys.stderr)
    except StoreError as error:
        raise Problem(str(error), 1) from None
    finally:
        store.close()
    if as_json:
        print(json.dumps(totals | {"read": not sizes_only}))
    else:
        print(
            f"{totals['documents']} document(s), {totals['images']} image(s), "
            f"{totals['bytes']} bytes {'listed' if sizes_only else 'read'}: "
            f"{faults or 'no'} fault(s)"
        )
        if totals["problems"]:
            print(f"{totals['problems']} image(s) or page(s) that a service could not give")
        if totals["unfinished"]:
            print(f"{totals['unfinished']} document(s) without a manifest (yet)")
    if faults or not totals["documents"]:
        raise typer.Exit(1)


def _say(verified: Verified, as_json: bool) -> None:
    if as_json:
        line = {
            "bundle_id": verified.bundle_id,
            "document_id": verified.document_id,
            "extraction_id": verified.extraction_id,
            "faults": [{"fault": f.fault, "key": f.key} for f in verified.faults],
        }
        print(json.dumps(line))
        return
    for finding in verified.faults:
        print(f"{finding.fault}: {finding.key}")
