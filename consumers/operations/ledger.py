"""The ledger's lines about some extractions, read from where they can be and not from elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from consumers.operations.partitions import partition_of
from consumers.operations.reading import OutOfTime, TopicReader, TopicUnreadable

Line = Mapping[str, Any]


@dataclass(slots=True)
class LedgerLines:
    """``incomplete``: why lines may be missing, as a sentence; None where none are."""

    lines: list[Line] = field(default_factory=list)
    incomplete: str | None = None


class Ledger:
    """The ledger's topic, on one connection for all that is asked."""

    def __init__(self, client: Mapping[str, str], topic: str) -> None:
        """:raises TopicUnreadable: the client's properties cannot work."""
        self._client = client
        self._reader = TopicReader(client, topic)

    def close(self) -> None:
        self._reader.close()

    def lines_of(
        self,
        keys: Collection[str],
        wanted: Callable[[Line], bool],
        *,
        since: float,
        until: float,
        budget_s: float,
    ) -> LedgerLines:
        """What stands under ``keys`` (extraction ids, bundle ids) between two moments (seconds
        since 1970), as far as ``budget_s`` seconds reach. Never raises for Kafka's sake."""
        deadline = time.monotonic() + budget_s
        found = LedgerLines()
        raw_keys = {key.encode() for key in keys}
        try:
            count = len(self._reader.partitions(budget_s))
            guesses = {partition_of(key, count, self._client) for key in keys}
            partitions = None if None in guesses else {g for g in guesses if g is not None}
            for some in _passes(partitions, count):
                for record in self._reader.read(
                    since=since,
                    until=until,
                    partitions=some,
                    budget_s=max(0.0, deadline - time.monotonic()),
                ):
                    if record.key() in raw_keys:
                        line = _parsed(record.value())
                        if line is not None and wanted(line):
                            found.lines.append(line)
                if found.lines:
                    break
        except OutOfTime:
            found.incomplete = f"the ledger was read for {budget_s:g} s only; give it more --budget"
        except TopicUnreadable as error:
            found.incomplete = f"the ledger could not be read: {error}"
        found.lines.sort(key=lambda line: str(line.get("at")))
        if found.incomplete is None and not found.lines:
            found.incomplete = "the ledger has nothing about it (any more)"
        return found

    def search(
        self,
        needle: str,
        matches: Callable[[Line], bool],
        *,
        since: float,
        budget_s: float,
    ) -> tuple[list[Line], str | None]:
        """The lines that match, over the whole topic from ``since`` on, in time's order; and, where
        the time did not reach to its end, a sentence about it. ``needle`` is a text that each of
        them contains: most records are passed over without being parsed.

        :raises TopicUnreadable: the topic is missing, or no broker answers.
        """
        found: list[Line] = []
        note = None
        raw = json.dumps(needle).encode()
        try:
            for record in self._reader.read(since=since, budget_s=budget_s):
                value = record.value()
                if value is None or raw not in value:
                    continue
                line = _parsed(value)
                if line is not None and matches(line):
                    found.append(line)
        except OutOfTime:
            note = f"the ledger was searched for {budget_s:g} s only"
        found.sort(key=lambda line: str(line.get("at")))
        return found, note


def _passes(partitions: set[int] | None, count: int) -> list[set[int] | None]:
    """First where the keys are now, then (a topic that was given more partitions) elsewhere."""
    if partitions is None:
        return [None]
    others = set(range(count)) - partitions
    return [partitions, others] if others else [partitions]


def _parsed(value: bytes | None) -> Line | None:
    try:
        line = json.loads(value or b"")
    except ValueError:
        return None
    return line if isinstance(line, dict) else None
