"""``bundles``: one command for workers, operators and people who try it out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated

import typer

from consumers.cli.common import Problem

COMMANDS = {
    "run": "run",
    "local": "local",
    "submit": "submit",
    "doctor": "doctor",
    "metrics": "metrics",
    "replay": "replay",
    "sweep": "sweep",
    "trace": "trace",
    "verify": "verify_",
    "compare": "compare",
    "topics": "app",
    "buckets": "app",
    "config": "app",
}
"""Each is a module of this package; by its name, what in it is the command (``app``: several)."""


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"bundle-extractor {version('bundle-extractor')}")
        raise typer.Exit


def options(
    version: Annotated[  # handled before it gets here
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it and exit.")
    ] = False,
) -> None:
    """Gets the images out of bundles of scanned documents: events in, auditable manifests out."""


def application(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """With the commands of these names, whose modules are imported here."""
    made = typer.Typer(
        name="bundles",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    made.callback()(options)
    for name in names:
        command = getattr(import_module(f"consumers.cli.{name}"), COMMANDS[name])
        if isinstance(command, typer.Typer):
            made.add_typer(command, name=name)
        else:
            made.command(name)(command)
    return made


def main() -> None:
    """Errors that a user can mend are one sentence and exit code 2 (or the sentence's own)."""
    # To look for plugins, Pydantic reads the metadata of every package that is installed; there
    # are none of ours.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Where it is clear which one is meant, the others need not be there.
    asked = [name for name in sys.argv[1:2] if name in COMMANDS]
    app = application(asked or COMMANDS)
    try:
        app()
    except Problem as problem:
        print(f"bundles: {problem}", file=sys.stderr)
        sys.exit(problem.code)
