"""Stages of the demo's documents: of the first announcement only, and of what was extracted."""

from __future__ import annotations

from typing import Any

from consumers.extraction.timestamps import rfc3339
from deploy.demo.stages import p50_and_p95, stage_seconds

T = 1_750_000_000.0


def line(event: str, at: float, document: str = "d", offset: int = 7) -> dict[str, Any]:
    return {
        "event": event,
        "at": rfc3339(T + at),
        "document_id": document,
        "partition": 0,
        "offset": offset,
    }


def extracted(start: float, **where: Any) -> list[dict[str, Any]]:
    events = ("accepted", "validated", "submitted", "finished", "manifest_written", "ended")
    return [line(event, start + 2 * number, **where) for number, event in enumerate(events)]


def test_a_later_announcement_does_not_count() -> None:
    lines = [*extracted(0), *extracted(100, offset=8)]
    stages = stage_seconds(lines, {(0, 7)})
    assert {name: len(seconds) for name, seconds in stages.items()} == dict.fromkeys(stages, 1)
    assert stages["service"] == [2.0]


def test_documents_of_one_event_are_told_apart() -> None:
    lines = [*extracted(0, document="a"), *extracted(50, document="b")]
    assert stage_seconds(lines, {(0, 7)})["submit"] == [2.0, 2.0]


def test_a_dead_letter_has_no_stages() -> None:
    assert stage_seconds([line("accepted", 0), line("ended", 1)], {(0, 7)}) == {}


def test_p95_is_one_of_the_measured() -> None:
    assert p50_and_p95([3.0, 1.0, 2.0]) == (2.0, 3.0)
    assert p50_and_p95([float(n) for n in range(100)]) == (49.5, 95.0)
