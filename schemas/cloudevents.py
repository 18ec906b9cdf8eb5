"""Reads a Kafka record as a bundle event: CloudEvents structured or binary mode, or bare JSON.

Source of the rules: CloudEvents Kafka protocol binding 1.0.2 (structured mode is told by a
``content-type`` that starts with ``application/cloudevents``, in any case of letters).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from schemas.events import BundleEvent
from schemas.reasons import Reason
from schemas.topics import CE_ID, CE_SOURCE, CONTENT_TYPE, REPLAY_COUNT, TRACEPARENT

Headers = Sequence[tuple[str, bytes | None]]


class EventRejected(Exception):
    """The record is not an acceptable bundle event. ``where`` names the member, never its value."""

    def __init__(self, reason: Reason, where: str = "") -> None:
        super().__init__(f"{reason.value}{f' at {where}' if where else ''}")
        self.reason = reason
        self.where = where


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    event: BundleEvent
    event_id: str | None
    """``<source>|<id>`` of the CloudEvents envelope, where there is one."""
    traceparent: str | None
    replays: int


def header(headers: Headers, name: str) -> str | None:
    """The last value of a header as text; None when absent or not UTF-8."""
    for key, value in reversed(headers):
        if key.lower() == name and value is not None:
            try:
                return value.decode()
            except UnicodeDecodeError:
                return None
    return None


def parse_event(value: bytes | None, headers: Headers) -> ReceivedEvent:
    """Raises `EventRejected` with the reason that its dead letter will carry."""
    if not value:
        raise EventRejected(Reason.EVENT_UNPARSABLE, "empty value")
    if value[0] == 0:
        raise EventRejected(Reason.EVENT_SCHEMA_FRAMED)
    try:
        document: Any = json.loads(value.decode())  # UTF-8, as RFC 8259 wants it
    except (ValueError, RecursionError):
        raise EventRejected(Reason.EVENT_UNPARSABLE, "not JSON") from None
    if not isinstance(document, dict):
        raise EventRejected(Reason.EVENT_UNPARSABLE, "not a JSON object")

    source: Any = header(headers, CE_SOURCE)
    identifier: Any = header(headers, CE_ID)
    data: Any = document
    content_type = (header(headers, CONTENT_TYPE) or "").lower()
    if content_type.startswith("application/cloudevents"):
        source, identifier, data = document.get("source"), document.get("id"), document.get("data")
        if not isinstance(data, dict):
            raise EventRejected(Reason.EVENT_UNPARSABLE, "data")
    try:
        event = BundleEvent.model_validate(data)
    except ValidationError as error:
        raise _rejection(error) from None
    except RecursionError:
        raise EventRejected(Reason.EVENT_UNPARSABLE, "nested too deep") from None
    return ReceivedEvent(
        event=event,
        event_id=f"{source}|{identifier}" if source and identifier else None,
        traceparent=_traceparent(headers),
        replays=_replays(headers),
    )


def _rejection(error: ValidationError) -> EventRejected:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])[:200]
    last = str(first["loc"][-1]) if first["loc"] else ""
    if last in ("bundle_id", "document_id", "parent_bundle_id", "policy", "password_secret"):
        reason = Reason.EVENT_INVALID if first["type"] == "missing" else Reason.EVENT_BAD_ID
    elif last == "key" and first["type"] != "missing":
        reason = Reason.EVENT_BAD_KEY
    else:
        reason = Reason.EVENT_INVALID
    return EventRejected(reason, where)


def _traceparent(headers: Headers) -> str | None:
    value = header(headers, TRACEPARENT)
    if value is None or len(value) != 55:  # W3C Trace Context, version 00
        return None
    return value if all(c in "0123456789abcdef-" for c in value) else None


def _replays(headers: Headers) -> int:
    value = header(headers, REPLAY_COUNT)
    return int(value) if value is not None and value.isdecimal() and len(value) < 6 else 0
