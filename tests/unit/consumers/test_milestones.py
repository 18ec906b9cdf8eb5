"""A document's parts, told from its ledger lines."""

from __future__ import annotations

from typing import Any

from consumers.extraction.timestamps import rfc3339
from consumers.milestones import parts

T = 1_750_000_000.0


def line(event: str, at: float, **fields: Any) -> dict[str, Any]:
    return {"event": event, "at": rfc3339(T + at), **fields}


def names_and_times(lines: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
    return [(p.name, round(p.start - T, 3), round(p.end - T, 3)) for p in parts(lines)]


def test_parts_follow_each_other_from_the_events_timestamp_to_the_end() -> None:
    lines = [
        line("accepted", 2, wait_s=2.0),
        line("validated", 3),
        line("submitted", 4),
        line("finished", 9),
        line("manifest_written", 10),
        line("result_published", 11),
        line("ended", 12, seconds=12.0),
    ]
    assert names_and_times(lines) == [
        ("queue", 0, 2),
        ("fetch and validate", 2, 3),
        ("submit", 3, 4),
        ("service", 4, 9),
        ("store", 9, 10),
        ("publish", 10, 11),
        ("end", 11, 12),
    ]


def test_the_queue_ends_when_work_began_also_where_the_sources_had_to_be_fetched_first() -> None:
    lines = [line("accepted", 5, wait_s=2.0), line("validated", 6), line("ended", 7, seconds=7.0)]
    assert names_and_times(lines)[:2] == [("queue", 0, 2), ("fetch and validate", 2, 6)]


def test_of_several_jobs_the_last_one_counts() -> None:
    lines = [line("submitted", 1), line("submitted", 2), line("finished", 4), line("finished", 3)]
    assert names_and_times(lines)[-1] == ("service", 2, 4)


def test_a_document_that_failed_early_ends_with_what_it_reached() -> None:
    lines = [line("accepted", 1, wait_s=1.0), line("ended", 4, seconds=4.0)]
    assert names_and_times(lines) == [("queue", 0, 1), ("end", 1, 4)]


def test_without_lines_there_are_no_parts() -> None:
    assert parts([]) == []
    assert parts([{"event": "accepted", "at": "nonsense"}]) == []
