"""Bundle events that are mutated: in their JSON, in their bytes, in their Kafka headers."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas import topics as names
from tests.corpus.fuzz import mutate

Headers = list[tuple[str, bytes | None]]

_NESTED = json.loads("[" * 100 + "]" * 100)

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**63, 2**70, -(10**40), 1.5, 1e308, float("nan"), float("inf")),
    *("", " ", "a", "..", "../../etc/passwd", "a/b", "a\x00b", "a\nb", "\ud800", "\u202e", "％"),
    *("x" * 129, "x" * 70_000, "0" * 64, "g" * 64, "default", "received", "split", "²", "nobody"),
    *([], [[]], [None], {}, {"": {}}, {"first": 2, "last": 1}, {"key": "k"}, _NESTED),
)

_HEADERS: tuple[tuple[str, bytes | None], ...] = (
    (names.CONTENT_TYPE, b"application/cloudevents+json"),
    (names.CONTENT_TYPE, b"APPLICATION/CloudEvents-Batch+JSON; charset=latin-1"),
    (names.CONTENT_TYPE, b"application/avro"),
    (names.CONTENT_TYPE, b"\xff\xfe"),
    (names.CONTENT_TYPE, None),
    (names.CE_SPECVERSION, b"0.3"),
    (names.CE_ID, b"\x00\x01"),
    (names.CE_ID, "²".encode() * 400),
    (names.CE_SOURCE, None),
    (names.CE_SOURCE, b"\xc3\x28"),
    (names.TRACEPARENT, b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01"),
    (names.TRACEPARENT, b"x" * 55),
    (names.REPLAY_COUNT, b"1"),
    (names.REPLAY_COUNT, b"-1"),
    (names.REPLAY_COUNT, "²".encode()),
    (names.REPLAY_COUNT, "٣".encode()),
    (names.REPLAY_COUNT, b"99999"),
    (f"{names.REPLAY_PREFIX}document-id", b"nobody-has-it"),
    (names.REPLAY_DEAD_LETTER_ID, b"\xff"),
    (names.DLQ_REASON, b"not_ours"),
    (names.DLQ_OFFSET, b"not a number"),
    (names.DLQ_ID, b"x" * 5000),
    ("", b"no name"),
    ("x-mine", b"\x00" * 3000),
    ("a header's name \u202e", b"value"),
)

_BYTES: tuple[bytes | None, ...] = (
    *(None, b"", b"\x00", b"\x00\x00\x00\x00\x01{}", b"null", b"0", b'"text"', b"[]", b"{}"),
    *(b"[" * 50_000, b'{"a":' * 20_000, b"\xef\xbb\xbf{}", b"\xff\xfe{\x00}\x00", b"9" * 10_000),
    *(b'{"bundle_id":1e999}', b'{"bundle_id":"\\ud800"}', b'{"a":NaN}', b'{"a":1,"a":2}'),
)


@dataclass(frozen=True)
class FuzzedEvent:
    value: bytes | None
    headers: Headers


def fuzzed(seed: Mapping[str, Any], rng: random.Random) -> FuzzedEvent:
    """One event: most are changed in one way, some in several, a few not at all."""
    event: Any = copy.deepcopy(dict(seed))
    headers: Headers = []
    kind = rng.random()
    if kind < 0.6:
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            event = _change(event, rng)
    if rng.random() < 0.2:
        headers.append((names.CONTENT_TYPE, b"application/cloudevents+json"))
        event = {"specversion": "1.0", "type": "t", "source": "/s", "id": "1", "data": event}
        if rng.random() < 0.5:
            event = _change(event, rng)
    value: bytes | None = json.dumps(event, ensure_ascii=rng.random() < 0.5).encode(
        errors="surrogatepass"
    )
    if 0.6 <= kind < 0.85:
        value = mutate(value or b"", rng)
    elif 0.85 <= kind < 0.9:
        value = rng.choice(_BYTES)
    if rng.random() < 0.4:
        headers += rng.choices(_HEADERS, k=rng.choice((1, 1, 2, 5, 100)))
    return FuzzedEvent(value, headers)


def _change(event: Any, rng: random.Random) -> Any:
    """One random change somewhere in a JSON value."""
    places = list(_places(event))
    if not places:
        return rng.choice(_VALUES)
    holder, key = rng.choice(places)
    rng.choice(_CHANGES)(holder, key, rng)
    return event


def _places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything within a JSON value that may be changed."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        if holder is _NESTED:
            continue
        entries: Sequence[Any] = ()
        if isinstance(holder, dict):
            entries = list(holder)
        elif isinstance(holder, list):
            entries = range(len(holder))
        for key in entries:
            found.append((holder, key))
            waiting.append(holder[key])
    return found


def _replace(holder: Any, key: Any, rng: random.Random) -> None:
    holder[key] = copy.deepcopy(rng.choice(_VALUES))


def _remove(holder: Any, key: Any, _rng: random.Random) -> None:
    del holder[key]


def _rename(holder: Any, key: Any, rng: random.Random) -> None:
    if isinstance(holder, dict):
        holder[rng.choice(("x", key.upper(), key + " ", "__class__"))] = holder.pop(key)


def _duplicate(holder: Any, key: Any, rng: random.Random) -> None:
    if isinstance(holder, list):
        holder += [copy.deepcopy(holder[key]) for _ in range(rng.choice((1, 2, 600)))]


def _change_text(holder: Any, key: Any, rng: random.Random) -> None:
    if isinstance(holder[key], str):
        text = list(holder[key])
        position = rng.randrange(len(text) + 1)
        text[position : position + rng.randrange(2)] = chr(rng.choice((0, 10, 47, 46, 0x2028, 233)))
        holder[key] = "".join(text)


_CHANGES: Sequence[Callable[[Any, Any, random.Random], None]] = (
    _replace,
    _replace,
    _remove,
    _rename,
    _duplicate,
    _change_text,
)
