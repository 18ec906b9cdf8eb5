"""Long walks over a store."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from consumers.operations.lifecycle import lifecycle, notes
from consumers.operations.retention import DAY_S
from consumers.operations.storage import ATTEMPTS, Pace, listed, patiently, read_ahead
from sinks.objectstore import AccessDenied, ListedObject, ObjectNotFound, StoreUnavailable
from tests.unit.consumers.operations.stored import BUCKET, Stored, policy


class Breaking:
    """A store whose listing breaks after every second item, so many times."""

    def __init__(self, stored: Stored, times: int) -> None:
        self.store, self.left = stored.store, times

    def list(
        self, bucket: str, prefix: str, *, start_after: str | None = None
    ) -> Iterator[ListedObject]:
        for number, item in enumerate(self.store.list(bucket, prefix, start_after=start_after)):
            if number == 2 and self.left:
                self.left -= 1
                raise StoreUnavailable("list", bucket)
            yield item


def test_a_listing_that_breaks_goes_on_without_missing_or_repeating_a_key() -> None:
    stored = Stored()
    keys = [stored.put(f"key-{number:02d}") for number in range(11)]
    broken = Breaking(stored, times=4)
    found = listed(broken, BUCKET, sleep=lambda _: None)  # type: ignore[arg-type]
    assert [item.key for item in found] == keys
    assert broken.left == 0


@pytest.mark.parametrize(
    "error", [ObjectNotFound("get", BUCKET), AccessDenied("get", BUCKET)], ids=["missing", "denied"]
)
def test_what_waiting_cannot_cure_is_raised_at_once(error: Exception) -> None:
    calls = []

    def call() -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)):
        patiently(call, sleep=lambda _: None)
    assert len(calls) == 1


def test_patience_ends() -> None:
    pauses: list[float] = []

    def call() -> None:
        raise StoreUnavailable("get", BUCKET)

    with pytest.raises(StoreUnavailable):
        patiently(call, sleep=pauses.append)
    assert len(pauses) == ATTEMPTS - 1
    assert pauses == sorted(pauses)


def test_reads_run_ahead_in_threads_and_come_back_in_order() -> None:
    together = threading.Barrier(4, timeout=30)

    def read(number: int) -> int:
        if number < 4:
            together.wait()  # four at the same time, or this breaks
            time.sleep(0.01 * (4 - number))
        return number * 10

    assert list(read_ahead(range(20), read, threads=4)) == [(n, n * 10) for n in range(20)]


def test_no_more_is_read_ahead_than_the_bound() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    walk = read_ahead(items(), lambda number: number, threads=2)
    next(walk)
    assert len(taken) <= 2 * 4
    walk.close()  # type: ignore[attr-defined]


def test_the_first_goes_at_once_and_the_rest_at_the_rate() -> None:
    now, pauses = [0.0], []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    pace = Pace(10.0, sleep=sleep, monotonic=lambda: now[0])
    for _ in range(3):
        pace.wait(5)
    assert pauses == pytest.approx([0.5, 0.5])


def test_under_a_legal_hold_no_rule_expires_anything_of_ours_but_the_probes_leftovers() -> None:
    held = {"held": policy("held", retention={"legal_hold": True})}
    rules = lifecycle(held, claim_check_s=90 * DAY_S)["Rules"]
    assert [r["Filter"]["Prefix"] for r in rules if "Expiration" in r] == ["_probe/"]
    assert any("held" in note for note in notes(held))


def test_no_rule_ever_reaches_manifests_images_or_job_records() -> None:
    short = {"default": policy(retention={"output_days": 1, "job_record_days": 1})}
    rules = lifecycle(short, claim_check_s=1.5 * DAY_S)["Rules"]
    expiring = {r["Filter"]["Prefix"]: r["Expiration"]["Days"] for r in rules if "Expiration" in r}
    assert expiring == {"_probe/": 1, "_dead-letters/": 2, "_replays/": 2}
