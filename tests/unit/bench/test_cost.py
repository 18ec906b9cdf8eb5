"""What is told of the growth of memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.bench import cost
from tests.bench.goals import verdict
from tests.bench.harness import Servers


@pytest.mark.parametrize(("grows_by", "missed"), [(0.0, []), (3.1, [27.9])])
def test_growth_is_from_the_first_lot_to_the_last(
    grows_by: float, missed: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many documents a lot as the goal is for; nothing is started here."""
    resident = iter(120.0 + grows_by * lot for lot in range(10))
    sent: list[int] = []

    @contextmanager
    def scenario(*_: object, **__: object) -> Iterator[Any]:
        yield SimpleNamespace(
            pipeline=None,
            start_worker=lambda: SimpleNamespace(pid=1),
            send=lambda documents, prefix: sent.append(documents),
        )

    counter = SimpleNamespace(wait=lambda count, timeout: None, close=lambda: None, seen={})
    monkeypatch.setattr(cost, "scenario", scenario)
    monkeypatch.setattr(cost, "ResultCounter", lambda pipeline: counter)
    monkeypatch.setattr(cost, "rss_mib", lambda pid: next(resident))
    found = cost.growth(cast(Servers, None), 10_000)
    assert sum(sent) == 100_000
    assert found["growth_from_to"] == [10_000, 100_000]
    said = verdict("cost", found)
    assert [one["value"] for one in said["missed"]] == missed
    assert "rss_mb_growth_10000_to_100000" not in said["not_measured"]


def test_growth_over_other_numbers_is_not_that_of_the_goal() -> None:
    said = verdict("cost", {"rss_mb_growth_600_to_6000": 0.0})
    assert "rss_mb_growth_10000_to_100000" in said["not_measured"]
