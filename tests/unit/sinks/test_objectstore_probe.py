"""The start-up probe refuses stores that do not keep conditions, saying which one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sinks.objectstore import MemoryStore, S3Settings, S3Store, StoreError
from sinks.objectstore.probe import PROBE_PREFIX, UnsafeStore, probe
from tests.store_fakes import FaultScript, FaultyStore, StoreFault
from tests.unit.sinks.lying_s3 import LyingS3, drops_connection, says


@pytest.fixture
def server() -> Iterator[LyingS3]:
    with LyingS3() as server:
        server.buckets.add("output")
        yield server


@pytest.fixture
def store(server: LyingS3) -> S3Store:
    return S3Store(S3Settings(server.endpoint_url, "k", "s"), sleep=lambda seconds: None)


def ignore_if_none_match(server: LyingS3) -> None:
    server.ignores_if_none_match = True


def ignore_if_match(server: LyingS3) -> None:
    server.ignores_if_match = True


def create_on_if_match_of_missing(server: LyingS3) -> None:
    server.creates_on_if_match_of_missing = True


def let_all_racers_win(server: LyingS3) -> None:
    server.lets_all_racers_win = True


def refuse_every_create(server: LyingS3) -> None:
    server.store("output", PROBE_PREFIX + "same", b"other", {})


@pytest.mark.parametrize(
    ("misbehave", "complaint"),
    [
        (ignore_if_none_match, r"ignores If-None-Match: \* and overwrote"),
        (ignore_if_match, "ignores If-Match and replaced"),
        (create_on_if_match_of_missing, "ignores If-Match on a missing object"),
        (let_all_racers_win, r"simultaneous If-None-Match: \* creates of a key succeeded"),
    ],
)
def test_an_unsafe_store_is_refused_with_the_reason_and_a_remedy(
    server: LyingS3,
    store: S3Store,
    misbehave: Callable[[LyingS3], None],
    complaint: str,
) -> None:
    misbehave(server)
    with pytest.raises(UnsafeStore, match=complaint) as caught:
        probe(store, "output")
    assert "'output'" in str(caught.value)
    assert "Use a store with conditional writes" in str(caught.value)
    assert server.objects == {}


def test_a_store_that_refuses_the_first_create_is_unsafe_too(
    server: LyingS3, store: S3Store
) -> None:
    refuse_every_create(server)
    with pytest.raises(UnsafeStore, match="never existed"):
        probe(store, "output", new_name=lambda: "same")


def test_a_safe_store_is_accepted_and_nothing_is_left_in_it(
    server: LyingS3, store: S3Store
) -> None:
    probe(store, "output")
    assert server.objects == {}
    assert all(
        request.path.startswith(f"/output/{PROBE_PREFIX}")
        for request in server.requests
        if request.method == "PUT"
    )


def test_a_lost_answer_is_no_reason_to_call_a_store_unsafe(server: LyingS3, store: S3Store) -> None:
    server.lie("PUT", drops_connection(after_effect=True), says(409))
    probe(store, "output")


@pytest.mark.parametrize("fault", [StoreFault.UNAVAILABLE_503, StoreFault.ACCESS_DENIED])
def test_an_outage_is_reported_as_one_and_not_as_an_unsafe_store(fault: StoreFault) -> None:
    with pytest.raises(StoreError) as caught:
        probe(FaultyStore(FaultScript(lambda *request: fault)), "output", racers=1)
    assert caught.value.kind == "systemic"


def test_a_failing_clean_up_does_not_hide_the_finding(server: LyingS3, store: S3Store) -> None:
    server.ignores_if_match = True
    server.lie("DELETE", *[says(403)] * 20)
    with pytest.raises(UnsafeStore):
        probe(store, "output")


def test_a_store_for_one_thread_can_be_probed_without_a_race() -> None:
    store = MemoryStore()
    store.ensure_bucket("output")
    probe(store, "output", racers=1)
    assert list(store.list("output", "")) == []
