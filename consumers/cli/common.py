"""What several commands share: finding the settings, and saying what went wrong."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from consumers.settings import Settings

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="TOML file with settings (or BUNDLES_CONFIG)."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", help="One setting, e.g. -s kafka.bootstrap_servers=kafka:9092; repeatable."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document for machines.")]


class Problem(Exception):
    """Ends the command: the sentence is shown, ``code`` is the exit code."""

    def __init__(self, sentence: str, code: int = 2) -> None:
        super().__init__(sentence)
        self.code = code


def local_settings_file() -> Path:
    """Where a running local stack leaves its addresses and keys for the other commands."""
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state else Path.home() / ".local" / "state"
    return base / "bundle-extractor" / "local.toml"


def settings(config: Path | None, overrides: list[str] | None = None) -> Settings:
    """The settings for a command; those of the running local stack where none are given."""
    from consumers.settings import PREFIX, SettingsError, load

    given = config is not None or any(name.startswith(PREFIX) for name in os.environ)
    if not given and local_settings_file().exists():
        config = local_settings_file()
        print("using the local stack", file=sys.stderr)
    values: dict[str, str] = {}
    for override in overrides or []:
        name, equals, value = override.partition("=")
        if not equals:
            raise Problem(f"--set {override}: write it as name=value")
        values[name.strip()] = value
    try:
        return load(config=config, overrides=values)
    except SettingsError as error:
        raise Problem(str(error)) from None


def duration(option: str, text: str) -> float:
    """Seconds of an option's value.

    :raises Problem: it is no duration.
    """
    from schemas.units import parse_duration

    try:
        return float(parse_duration(text))
    except ValueError as error:
        raise Problem(f"{option} {text}: {error}") from None


def kafka(found: Settings) -> dict[str, str]:
    """librdkafka properties of a client of these settings.

    :raises Problem: a secret's file cannot be read.
    """
    from consumers.kafka_client import kafka_client
    from consumers.settings import SettingsError

    try:
        return {"bootstrap.servers": found.kafka.bootstrap_servers, **kafka_client(found)}
    except SettingsError as error:
        raise Problem(str(error)) from None
