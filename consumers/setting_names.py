"""Every setting by its name, read off the models: for unknown names, for the environment, and for
the table in ``deploy/SETTINGS.md``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

PREFIX = "BUNDLES_"
ANY = "*"
"""Stands for a name that the operator chooses: a provider's, a policy's."""

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    path: Path
    model: type[BaseModel]
    """The model that has it as a field."""
    field: FieldInfo

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        return variable(self.path)

    @property
    def is_secret(self) -> bool:
        return SecretStr in alternatives(self.field.annotation)

    @property
    def is_table(self) -> bool:
        """Names of the operator's choice, with values."""
        return any(get_origin(one) is dict for one in alternatives(self.field.annotation))

    @property
    def is_list(self) -> bool:
        kinds = {get_origin(one) for one in alternatives(self.field.annotation)}
        return not kinds.isdisjoint({tuple, list, frozenset})

    def matches(self, path: Sequence[str]) -> bool:
        return len(path) == len(self.path) and all(
            mine in (ANY, theirs) for mine, theirs in zip(self.path, path, strict=True)
        )


def variable(path: Sequence[str]) -> str:
    """The environment variable of a setting."""
    return PREFIX + "__".join(path).upper()


def settings_of(model: type[BaseModel], prefix: Path = ()) -> Iterator[Setting]:
    """All settings of ``model``, in the order in which they are declared."""
    for name, field in model.model_fields.items():
        path = (*prefix, name)
        section = _section(field.annotation)
        if section is None:
            yield Setting(path, model, field)
        else:
            chosen, inner = section
            yield from settings_of(inner, (*path, ANY) if chosen else path)


def find(model: type[BaseModel], path: Sequence[str]) -> Setting | None:
    return next((one for one in _all(model) if one.matches(path)), None)


def nearest(model: type[BaseModel], path: Sequence[str]) -> Path | None:
    """The setting that was probably meant by a ``path`` that is none."""
    known = {}
    for setting in _all(model):
        meant = tuple(
            path[place] if part == ANY and place < len(path) else part
            for place, part in enumerate(setting.path)
        )
        known[".".join(meant)] = meant
        if setting.path[:-1] and ANY not in setting.path[:-1]:
            known.setdefault(".".join(meant[:-1]), meant[:-1])
    found = difflib.get_close_matches(".".join(path), known, n=1)
    return known[found[0]] if found else None


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """The types of a union without None, each without its annotations."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return alternatives(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return tuple(
            inner
            for one in get_args(annotation)
            if one is not type(None)
            for inner in alternatives(one)
        )
    return (annotation,)


def _section(annotation: Any) -> tuple[bool, type[BaseModel]] | None:
    """(whether its names are the operator's, what they stand for) of a table of settings."""
    for one in alternatives(annotation):
        if isinstance(one, type) and issubclass(one, BaseModel):
            return False, one
        if get_origin(one) is dict:
            inner = get_args(one)[1]
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                return True, inner
    return None


@cache
def _all(model: type[BaseModel]) -> tuple[Setting, ...]:
    return tuple(settings_of(model))
