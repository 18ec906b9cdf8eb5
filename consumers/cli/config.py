"""``bundles config``: what holds, and what there is."""

from __future__ import annotations

import json

import typer

from consumers.cli.common import ConfigOption, SetOption, settings

app = typer.Typer(help="Show the settings.", no_args_is_help=True)


@app.command()
def show(config: ConfigOption = None, set_: SetOption = None) -> None:
    """Print the settings that hold, as JSON, secrets redacted."""
    found = settings(config, set_)
    print(json.dumps(found.model_dump(mode="json"), indent=2))


@app.command()
def names() -> None:
    """Print every setting's name."""
    from consumers.settings import known_names

    for name in known_names():
        print(name)
