"""The parts of a document's way, told from its ledger lines: what traces and timelines draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consumers.extraction.timestamps import parse_rfc3339

MILESTONES = (
    ("accepted", "queue"),
    ("validated", "fetch and validate"),
    ("submitted", "submit"),
    ("finished", "service"),
    ("manifest_written", "store"),
    ("result_published", "publish"),
    ("ended", "end"),
)
"""(the event that ends a part, the part's name), in order. A part whose event is missing (a job
that was resumed, a manifest that stood) counts to the next one."""


@dataclass(frozen=True, slots=True)
class Part:
    """Seconds since 1970."""

    name: str
    start: float
    end: float


def parts(lines: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Of the lines of one document in one delivery of its event; they follow each other without
    gaps, from the event's timestamp on."""
    times: dict[str, float] = {}
    for line in lines:
        at = parse_rfc3339(str(line.get("at")))
        if at is not None:
            # The last of its kind: shards and further jobs have several.
            event = str(line.get("event"))
            times[event] = max(at, times.get(event, at))
    if not times:
        return []
    ended = next((x for x in lines if x.get("event") == "ended"), {})
    waited = next((x.get("wait_s") for x in lines if x.get("event") == "accepted"), None)
    if "ended" in times and ended.get("seconds") is not None:
        start = times["ended"] - float(ended["seconds"])
    else:
        start = times.get("accepted", min(times.values())) - float(waited or 0.0)
    if "accepted" in times and waited is not None:
        # Without checksums in the event, sources are fetched before it can be accepted.
        times["accepted"] = min(times["accepted"], start + float(waited))
    found = []
    for event, name in MILESTONES:
        end = times.get(event)
        if end is not None and end >= start:
            found.append(Part(name, start, end))
            start = end
    return found
