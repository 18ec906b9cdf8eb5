"""The settings of a worker: command line over environment over file over defaults.

Environment names are ``BUNDLES_`` and the path of the setting with ``__`` between its parts, e.g.
``BUNDLES_KAFKA__BOOTSTRAP_SERVERS``; an empty variable counts as not set. The file is TOML
(``--config`` or ``BUNDLES_CONFIG``), one table per section. Unknown names are errors that name the
nearest match; a wrong value stops the start with a sentence that names the setting and the fix.
`bundles config show` prints what holds, secrets redacted.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from consumers import setting_names
from consumers.providers.settings import Kind
from consumers.setting_names import PREFIX
from consumers.settings_model import (
    KafkaSettings,
    Settings,
    StoreCredentials,
    StoreSettings,
)

__all__ = [
    "PREFIX",
    "KafkaSettings",
    "Settings",
    "SettingsError",
    "StoreCredentials",
    "StoreSettings",
    "known_names",
    "load",
    "read_secret",
]

CONFIG_VARIABLE = f"{PREFIX}CONFIG"


class SettingsError(Exception):
    """A setting is wrong. The text names it, says what is wrong and what to do."""


def load(
    *,
    config: Path | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings that hold.

    ``overrides`` are command-line values by dotted path (``kafka.bootstrap_servers``); None values
    are ignored.

    :raises SettingsError: see the class.
    """
    environment = os.environ if environment is None else environment
    if config is None and (named := environment.get(CONFIG_VARIABLE)):
        config = Path(named)
    values = _Values(_from_file(config) if config else {}, config)
    for name, text in sorted(environment.items()):
        if name.startswith(PREFIX) and name != CONFIG_VARIABLE and text:
            values.put(values.path_of_variable(name), text, name)
    for dotted, value in (overrides or {}).items():
        if value is not None:
            values.put(tuple(dotted.split(".")), value, dotted)
    _fill_in_names(values.tree)
    try:
        return Settings.model_validate(values.tree)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise SettingsError("\n".join(values.explain(found))) from None


def read_secret(value: SecretStr | None, file: Path | None, name: str) -> str | None:
    """A secret given directly or by file; its name goes into the error, never its value.

    :raises SettingsError: the file cannot be read, or is empty.
    """
    if value is not None:
        return value.get_secret_value()
    if file is None:
        return None
    try:
        secret = file.read_text().strip()
    except OSError as error:
        raise SettingsError(f"{name}_file: cannot read the file ({error.strerror})") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{name}_file: the file is not text") from None
    if not secret:
        raise SettingsError(f"{name}_file: the file is empty")
    return secret


def known_names() -> list[str]:
    """Every setting by its dotted path; ``*`` stands for a name of the operator's choice."""
    return [setting.name for setting in setting_names.settings_of(Settings)]


class _Values:
    """What was given so far, and by what name, for errors that speak the operator's language."""

    def __init__(self, tree: dict[str, Any], file: Path | None) -> None:
        self.tree = tree
        self._file = file
        self._given_as: dict[tuple[str, ...], str] = {}

    def path_of_variable(self, name: str) -> tuple[str, ...]:
        path = name.removeprefix(PREFIX).lower().split("__")
        # No shell takes a hyphen in a variable's name.
        if path[0] == "providers" and len(path) > 1 and path[1] not in self._section("providers"):
            path[1] = path[1].replace("_", "-")
        return tuple(path)

    def _section(self, name: str) -> dict[str, Any]:
        found = self.tree.get(name)
        return found if isinstance(found, dict) else {}

    def put(self, path: tuple[str, ...], value: Any, given_as: str) -> None:
        """:raises SettingsError: it stands below a value, or is a list or table that cannot be
        read."""
        inner = self.tree
        for part in path[:-1]:
            below = inner.setdefault(part, {})
            if not isinstance(below, dict):
                raise SettingsError(f"{given_as}: {part} is a value, not a section")
            inner = below
        inner[path[-1]] = _parsed(path, value, given_as)
        self._given_as[path] = given_as
        partner = _partner(path)
        if partner not in self._given_as:
            inner.pop(partner[-1], None)  # the settings file's, which this one replaces

    def explain(self, problems: Iterable[ErrorDetails]) -> Iterator[str]:
        """One sentence for each."""
        for problem in problems:
            path = tuple(str(part) for part in problem["loc"])
            if problem["type"] == "extra_forbidden":
                below = [given for given in self._given_as if given[: len(path)] == path]
                yield from map(self._unknown, below or [path])
            else:
                message = problem["msg"].removeprefix("Value error, ")
                yield f"{self._name(path)}: {message[:1].lower()}{message[1:]}"

    def _unknown(self, path: tuple[str, ...]) -> str:
        meant = setting_names.nearest(Settings, path)
        hint = f"; did you mean {self._like(path, meant)}?" if meant else ""
        return f"{self._name(path)}: no such setting{hint}"

    def _name(self, path: tuple[str, ...]) -> str:
        """As the operator wrote it; where he wrote nothing, both ways of doing so."""
        for length in range(len(path), 0, -1):
            if (given := self._given_as.get(path[:length])) is not None:
                rest = path[length:]
                return f"{given} ({'.'.join(rest)})" if rest else given
        dotted = ".".join(path)
        if self._file is not None and _is_in(self.tree, path):
            return f"{dotted} ({self._file})"
        return f"{dotted} (in the environment: {setting_names.variable(path)})"

    def _like(self, path: tuple[str, ...], meant: tuple[str, ...]) -> str:
        given = self._given_as.get(path, "")
        return setting_names.variable(meant) if given.startswith(PREFIX) else ".".join(meant)


def _fill_in_names(tree: dict[str, Any]) -> None:
    """A policy is named as its table; a provider whose name is a kind is of that kind."""
    policies = tree.setdefault("policies", {})
    if isinstance(policies, dict):
        policies.setdefault("default", {})
        for name, policy in policies.items():
            if isinstance(policy, dict):
                policy.setdefault("name", name)
    providers = tree.get("providers", {})
    if isinstance(providers, dict):
        for name, provider in providers.items():
            if isinstance(provider, dict) and name in set(Kind):
                provider.setdefault("kind", name)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"config file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"config file {path}: not TOML: {error}") from None


def _parsed(path: tuple[str, ...], value: Any, given_as: str) -> Any:
    """Text for a list (with commas, or JSON) or a table (JSON) as what it stands for."""
    setting = setting_names.find(Settings, path)
    if not isinstance(value, str) or setting is None or not (setting.is_list or setting.is_table):
        return value
    text = value.strip()
    if setting.is_list and not text.startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        example = '["a", "b"]' if setting.is_list else '{"name": "value"}'
        raise SettingsError(
            f"{given_as}: not JSON (at character {error.pos + 1}); write it like {example}"
        ) from None


def _partner(path: tuple[str, ...]) -> tuple[str, ...]:
    """Of a secret the setting for its file, and the other way round."""
    name = path[-1]
    other = name.removesuffix("_file") if name.endswith("_file") else f"{name}_file"
    return (*path[:-1], other)


def _is_in(tree: Any, path: tuple[str, ...]) -> bool:
    for part in path:
        if not isinstance(tree, dict) or part not in tree:
            return False
        tree = tree[part]
    return True
