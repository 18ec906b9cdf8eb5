"""The benchmarks' extraction service: run times, slots, queue and what it says beyond them."""

from __future__ import annotations

import json
import math
import random
import statistics
from typing import Any

import pytest

from tests import pdfs
from tests.bench import service
from tests.bench.service import Connection, Service, run_time

SIGMA = 0.8


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(service, "time", made)
    return made


def times(kind: str, *, pages: int = 1) -> list[float]:
    rng, of = random.Random(1), run_time(kind, 2.0, SIGMA, 0.5)
    return [of(rng, pages) for _ in range(20_000)]


def test_fixed_is_always_the_mean_whatever_the_pages() -> None:
    assert set(times("fixed")) == set(times("fixed", pages=9)) == {2.0}


def test_pages_is_so_much_a_page() -> None:
    assert set(times("pages", pages=8)) == {4.0}


def test_lognormal_has_the_mean_and_the_shape_that_were_given() -> None:
    found = times("lognormal")
    assert statistics.fmean(found) == pytest.approx(2.0, rel=0.03)
    assert statistics.stdev(map(math.log, found)) == pytest.approx(SIGMA, rel=0.03)


def test_the_mix_is_noise_around_so_much_a_page() -> None:
    found = times("mix", pages=8)
    assert statistics.median(found) == pytest.approx(4.0, rel=0.03)
    assert statistics.stdev(map(math.log, found)) == pytest.approx(SIGMA, rel=0.03)


def states(made: Service) -> list[str]:
    return [made.poll(f"job-{n}")[1]["status"] for n in range(len(made.jobs))]


def test_no_more_jobs_run_than_there_are_slots_and_those_that_wait_start_on_time(
    clock: Clock,
) -> None:
    made = Service(2, 10, run_time("fixed", 1.0, 0, 0), seed=1)
    for key in "abc":
        assert made.submit("", key, b"")[0] == 202
    assert (len(made.running), len(made.waiting)) == (2, 1)
    clock.now += 1.0
    assert states(made) == ["completed", "completed", "running"]
    clock.now += 5.0  # nobody asked when the third ended
    assert states(made) == ["completed"] * 3
    assert made.jobs["job-2"].finished == 1002.0
    waited, ran, at, lag, polls, _, pages = made.stats()["finished"][-1]
    assert (waited, ran, at, lag, polls, pages) == (1.0, 1.0, 1002.0, 4.0, 2, 1)


def test_beyond_slots_and_queue_a_submit_is_told_429_until_a_place_is_free(clock: Clock) -> None:
    made = Service(1, 1, run_time("fixed", 1.0, 0, 0), seed=1)
    assert [made.submit("", key, b"")[0] for key in "abc"] == [202, 202, 429]
    assert made.stats()["throttled"] == 1
    # A job that is known takes no place, and makes no other.
    assert made.submit("", "a", b"") == (202, {"job_id": "job-0", "status": "running"})
    clock.now += 1.0
    assert made.submit("", "c", b"")[0] == 202
    assert made.stats()["jobs"] == 3


def test_pages_are_counted_and_the_nth_job_of_a_size_runs_equally_long_for_each_label(
    clock: Clock,
) -> None:
    made = Service(100, 0, run_time("mix", 0, 1.0, 1.0), seed=1)
    three, one = pdfs.pages(3), pdfs.pages(1)
    for label, bodies in {"/a": (three, one, three), "/b": (one, three, three)}.items():
        for number, body in enumerate(bodies):
            made.submit(label, str(number), body)
    seconds = {
        (label, pages): [
            job.seconds for job in made.jobs.values() if (job.label, job.pages) == (label, pages)
        ]
        for label in ("/a", "/b")
        for pages in (1, 3)
    }
    assert [len(found) for found in seconds.values()] == [1, 2, 1, 2]
    assert seconds["/a", 3] == seconds["/b", 3]
    assert seconds["/a", 1] == seconds["/b", 1]
    assert len(set(seconds["/a", 3])) == 2


class Transport:
    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data


def asked(made: Service, method: str, path: str, key: str = "") -> tuple[bytes, Any]:
    """Head and body of the answer."""
    transport, connection = Transport(), Connection(made)
    connection.connection_made(transport)  # type: ignore[arg-type]
    connection.data_received(
        f"{method} {path} HTTP/1.1\r\nIdempotency-Key: {key}\r\nContent-Length: 0\r\n\r\n".encode()
    )
    head, _, body = transport.written.partition(b"\r\n\r\n")
    return head, json.loads(body)


def test_a_throttle_over_http_says_when_to_come_again(clock: Clock) -> None:
    made = Service(1, 0, run_time("fixed", 1.0, 0, 0), seed=1)
    path = "/someone/v1/pdf/extract_images"
    head, body = asked(made, "POST", path, "a")
    assert head.startswith(b"HTTP/1.1 202 ")
    assert made.jobs[body["job_id"]].label == "/someone"
    head, body = asked(made, "POST", path, "b")
    assert head.startswith(b"HTTP/1.1 429 ")
    assert b"\r\nRetry-After: 1\r\nretry-after-ms: 50\r\n" in head
    assert body["error"]["code"] == "queue_full"
    clock.now += 1.0
    _, body = asked(made, "GET", "/v1/pdf/job/get/job-0")
    assert body["status"] == "completed"
    assert len(body["images"]) == body["pages"] == 1
