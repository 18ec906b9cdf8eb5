"""``bundles sweep``: delete what nobody needs any more."""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.cli.common import ConfigOption, Problem, SetOption, duration, settings

if TYPE_CHECKING:
    from consumers.operations.sweep import Deletion, Sweep, SweepOptions, SweepReport
    from consumers.settings import Settings


def sweep(
    apply: Annotated[
        bool, typer.Option("--apply", help="Delete; without it, only say what would go.")
    ] = False,
    min_age: Annotated[
        str,
        typer.Option(help="Nothing younger counts as an orphan; also the margin after deadlines."),
    ] = "24h",
    dead_letters_kept: Annotated[
        str,
        typer.Option(help="How long the dead-letter topic keeps its records: claim checks too."),
    ] = "90d",
    uploads_older_than: Annotated[
        str | None,
        typer.Option(
            help="Also delete files uploaded by `bundles submit` that no job record names and that "
            "are older: more than events and dead letters are kept. Default: leave uploads alone."
        ),
    ] = None,
    rate: Annotated[float, typer.Option(min=0.1, help="Objects deleted per second.")] = 200.0,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many objects.")] = None,
    start_after: Annotated[
        str | None, typer.Option(help="Go on where an earlier report says `resume`.")
    ] = None,
    show_lifecycle: Annotated[
        bool, typer.Option("--lifecycle", help="Print bucket life-cycle rules instead.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON lines: one per object, the last the summary.")
    ] = False,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Find (with --apply: delete) orphaned images, outputs and job records past their policy's
    retention, expired claim checks, and what dead workers left on this machine's disk.

    Never what a running job may be writing, what a manifest names, or what is under legal hold.
    Exit code 1 when the store failed on the way.
    """
    from consumers.operations.lifecycle import lifecycle, notes
    from consumers.operations.retention import Area
    from consumers.operations.sweep import SweepOptions
    from sinks.objectstore import StoreError

    found = settings(config, set_)
    kept_s = duration("--dead-letters-kept", dead_letters_kept)
    if show_lifecycle:
        print(json.dumps(lifecycle(found.policies, claim_check_s=kept_s), indent=2))
        for note in notes(found.policies):
            print(f"note: {note}", file=sys.stderr)
        return
    if start_after and start_after.partition(":")[0] not in list(Area):
        raise Problem(f"--start-after: copy the `resume` of a report, e.g. {Area.DOCUMENTS}:")
    options = SweepOptions(
        apply=apply,
        min_age_s=duration("--min-age", min_age),
        claim_check_s=kept_s,
        uploads_s=(
            None
            if uploads_older_than is None
            else duration("--uploads-older-than", uploads_older_than)
        ),
        per_second=rate,
        max_deletions=limit,
        start_after=start_after,
    )
    with ExitStack() as stack:
        walk = _walk(found, options, stack, as_json)
        code = 0
        try:
            walk.run()
        except StoreError as error:
            print(f"bundles: {error}", file=sys.stderr)
            code = 1
        except KeyboardInterrupt:
            code = 130
        _show(walk.report, as_json)
    raise typer.Exit(code or (1 if walk.report.raced else 0))


def _walk(found: Settings, options: SweepOptions, stack: ExitStack, as_json: bool) -> Sweep:
    from consumers.operations.retention import Rules
    from consumers.operations.sweep import Sweep
    from consumers.stores import open_store

    store = open_store(found.store, threads=options.threads)
    stack.callback(store.close)
    uploads = None
    if options.uploads_s is not None:
        # Uploads are written with the output store's identity: see `consumers.client`.
        uploads = (store, found.store.input_bucket)
    return Sweep(
        store,
        found.store.output_bucket,
        Rules(found.policies, options.min_age_s),
        options,
        uploads=uploads,
        temp_root=found.temp.dir or Path(tempfile.gettempdir()) / "bundle-extractor",
        on_deletion=_say_json if as_json else _say,
    )


def _say(deletion: Deletion) -> None:
    from schemas.units import format_duration

    age = "" if deletion.age_s is None else f", {format_duration(round(deletion.age_s))} old"
    print(f"{deletion.why}: {deletion.key} ({deletion.bytes} bytes{age})")


def _say_json(deletion: Deletion) -> None:
    line = {
        "area": deletion.area,
        "why": deletion.why,
        "key": deletion.key,
        "bytes": deletion.bytes,
        "age_s": None if deletion.age_s is None else round(deletion.age_s, 1),
    }
    print(json.dumps(line))


def _show(report: SweepReport, as_json: bool) -> None:
    if as_json:
        print(json.dumps(report.as_dict()))
        return
    verb = "deleted" if report.applied else "would delete"
    print(f"{verb} {sum(report.deleted.values())} object(s), {report.deleted_bytes} bytes")
    for (area, why), count in sorted(report.deleted.items()):
        print(f"  {area}: {count} {why}")
    for (area, kept), count in sorted(report.kept.items()):
        print(f"  {area}: {count} kept, {kept}")
    for prefix in report.raced:
        print(f"  came back to life meanwhile, check with `bundles verify`: {prefix}")
    if report.resume is not None:
        print(f"not finished; go on with --start-after '{report.resume}'")
    elif not report.applied and report.deleted:
        print("nothing was deleted: --apply does it")
