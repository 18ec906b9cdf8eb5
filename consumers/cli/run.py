"""``bundles run``: a worker."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from consumers.cli.common import ConfigOption, Problem, SetOption, settings


def run(
    config: ConfigOption = None,
    set_: SetOption = None,
    ready_file: Annotated[
        Path | None,
        typer.Option(help="Written once the worker consumes: JSON with its http address and pid."),
    ] = None,
) -> None:
    """Run a worker until SIGTERM. Scale by starting more of them with one group id.

    The exit code tells how it ended: 0 drained; 64 settings; 65 work left to the next owner; 66-69
    a fault; 70 lost offsets; 71 fenced; 72 the store refused.
    """
    from consumers import logs
    from consumers.app import Refused
    from consumers.app import run as run_worker
    from consumers.settings import SettingsError

    found = settings(config, set_)
    logs.configure(found.log.level, found.log.format)

    def ready(address: str) -> None:
        if ready_file is not None:
            partial = ready_file.with_suffix(".tmp")
            partial.write_text(json.dumps({"http": address, "pid": os.getpid()}) + "\n")
            partial.replace(ready_file)

    try:
        code = run_worker(found, on_ready=ready)
    except Refused as refused:
        raise Problem(refused.message, int(refused.code)) from None
    except SettingsError as error:
        raise Problem(str(error), 64) from None
    raise typer.Exit(code)
