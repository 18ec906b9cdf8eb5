"""What the mixed benchmark announces, and what it makes of the answers."""

from __future__ import annotations

import pytest

from schemas.events import BundleEvent
from tests.bench.mixed import (
    BURSTS,
    MERGED,
    SHARES,
    SPLIT_INTO,
    SPLIT_PAGES,
    event_of,
    plan,
    summary,
)

SOURCES = {
    kind: [{"key": f"{kind}-{n}.pdf"} for n in range(count)]
    for kind, count in {"tiny": 20, "long": 4, "near_limit": 1, "split": 1}.items()
}


def test_a_seed_announces_the_same_again_and_another_seed_something_else() -> None:
    def announced(seed: int) -> list[tuple[float, object]]:
        return [(one.at_s, event_of(one, SOURCES, seed)) for one in plan(100, 30.0, seed)]

    assert announced(1) == announced(1)
    assert announced(1) != announced(2)


def test_every_class_has_its_share_and_splits_and_merges_come_in_bursts() -> None:
    planned = plan(1000, 30.0, 1)
    moments = {kind: [one.at_s for one in planned if one.kind == kind] for kind in SHARES}
    assert {kind: len(at) / 1000 for kind, at in moments.items()} == pytest.approx(SHARES)
    assert [one.at_s for one in planned] == sorted(one.at_s for one in planned)
    assert all(0 <= one.at_s <= 30.0 for one in planned)
    for kind, at in moments.items():
        assert len(set(at)) == (BURSTS if kind in ("split", "merge") else len(at))


def test_a_split_takes_every_page_once_and_a_merge_has_several_sources() -> None:
    for one in plan(200, 30.0, 3):
        event = BundleEvent.model_validate(event_of(one, SOURCES, 3))
        segments = [segment for document in event.documents for segment in document.segments]
        if one.kind == "split":
            assert len(event.documents) == SPLIT_INTO
            pages = [n for s in segments if s.pages for n in range(s.pages.first, s.pages.last + 1)]
            assert pages == list(range(1, SPLIT_PAGES + 1))
            continue
        assert len(event.documents) == 1
        assert event.documents[0].is_whole == (one.kind != "merge")
        if one.kind == "merge":
            assert MERGED[0] <= len(segments) <= MERGED[1]


def test_the_summary_tells_classes_apart() -> None:
    latencies = [(f"tiny-{n}", float(n)) for n in range(100)] + [("near_limit-0", 7.0)]
    found = summary(
        latencies,
        [
            {"bundle_id": "tiny-1", "causes": {"provider": 1.0, "storage": 0.5}},
            {"bundle_id": "tiny-2", "causes": {"provider": 2.0, "storage": 0.5, "queue": 0.0}},
            {"bundle_id": "warm-0", "causes": {"provider": 9.0}},
        ],
    )
    assert set(found) == set(SHARES)
    assert found["tiny"] == {
        "documents": 100,
        "p50": 50.0,
        "p95": 95.0,
        "p99": 99.0,
        "causes_share": {"provider": 0.75, "storage": 0.25},
    }
    assert found["near_limit"]["p99"] == 7.0
    assert found["long"]["documents"] == 0
