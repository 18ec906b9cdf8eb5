"""``bundles``: one command for workers, operators and people who try it out."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from consumers.cli import (
    buckets,
    compare,
    config,
    doctor,
    local,
    metrics,
    replay,
    run,
    submit,
    sweep,
    topics,
    trace,
    verify,
)
from consumers.cli.common import Problem


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"bundle-extractor {version('bundle-extractor')}")
        raise typer.Exit


app = typer.Typer(
    name="bundles",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def options(
    version: Annotated[  # handled before it gets here
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it and exit.")
    ] = False,
) -> None:
    """Gets the images out of bundles of scanned documents: events in, auditable manifests out."""


app.command("run")(run.run)
app.command("local")(local.local)
app.command("submit")(submit.submit)
app.command("doctor")(doctor.doctor)
app.command("metrics")(metrics.metrics)
app.command("replay")(replay.replay)
app.command("sweep")(sweep.sweep)
app.command("trace")(trace.trace)
app.command("verify")(verify.verify_)
app.command("compare")(compare.compare)
app.add_typer(topics.app, name="topics")
app.add_typer(buckets.app, name="buckets")
app.add_typer(config.app, name="config")


def main() -> None:
    """Errors that a user can mend are one sentence and exit code 2 (or the sentence's own)."""
    # To look for plugins, Pydantic reads the metadata of every package that is installed; there
    # are none of ours.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        app()
    except Problem as problem:
        print(f"bundles: {problem}", file=sys.stderr)
        sys.exit(problem.code)
