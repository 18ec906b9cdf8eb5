"""What every model that crosses a boundary shares: strictness, and the types of ids and hashes."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:@+=-]{0,127}$"
"""Ids become parts of object keys: no slash, no control characters, no leading dot or underscore
(prefixes with a leading underscore are ours: ``_jobs/``, ``_dead-letters/``, ``_replays/``,
``_probe/``)."""


def _no_traversal(value: str) -> str:
    if ".." in value:
        raise ValueError("an id must not contain '..'")
    return value


Id = Annotated[str, StringConstraints(pattern=ID_PATTERN), AfterValidator(_no_traversal)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Code = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
"""A bounded machine-readable word: reason codes, provider statuses, stages."""

MediaType = Annotated[
    str, StringConstraints(pattern=r"^[a-zA-Z0-9.+-]{1,60}/[a-zA-Z0-9.+-]{1,60}$")
]

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _clean_key(value: str) -> str:
    if len(value.encode()) > 1024:
        raise ValueError("an object key is at most 1,024 bytes of UTF-8")
    if value.startswith("/") or any(part in ("", ".", "..") for part in value.split("/")):
        raise ValueError("an object key must not have empty, '.' or '..' parts")
    if _CONTROL.search(value):
        raise ValueError("an object key must not contain control characters")
    return value


ObjectKey = Annotated[str, StringConstraints(min_length=1), AfterValidator(_clean_key)]
BucketName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]


class Operation(StrEnum):
    RECEIVED = "received"
    SPLIT = "split"
    MERGED = "merged"


class Contract(BaseModel):
    """Base of what we write: immutable, unknown members are errors. The text below a field is its
    description in the exported schema."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Received(BaseModel):
    """Base of what others send us: unknown members are ignored, so producers may add theirs."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)
