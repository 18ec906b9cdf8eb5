import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from consumers.extraction.timestamps import rfc3339
from consumers.operations.compare import (
    Extraction,
    Way,
    calls_of,
    compare,
    documents_of,
    extract,
    row,
)
from consumers.operations.compare_calls import Calls
from consumers.providers.errors import CallFailed, ProviderError, SubmitUnknown, Throttled
from consumers.providers.protocol import (
    Abilities,
    Document,
    FetchedImage,
    JobState,
    JobStatus,
    RemoteImage,
    Submission,
    SubmitOptions,
)
from schemas.policy import Policy, Polling
from tests import pdfs


class Service:
    """Finishes a job at the third poll, with one image; a document of two pages is refused."""

    name = "service"

    def __init__(self, *, forgets: bool) -> None:
        self.abilities = Abilities(idempotent_submit=True, forgets=forgets)
        self.keys: list[str] = []
        self.polls: dict[str, int] = {}
        self.forgotten: list[str] = []

    def submit(self, document: Document, *, key: str, options: SubmitOptions) -> Submission:
        if document.pages == 2:
            raise CallFailed("refused", operation="submit")
        self.keys.append(key)
        return Submission(key)

    def find(self, key: str) -> str | None:
        return None

    def poll(self, job_id: str) -> JobStatus:
        self.polls[job_id] = self.polls.get(job_id, 0) + 1
        if self.polls[job_id] < 3:
            return JobStatus(JobState.RUNNING, "running")
        return JobStatus(JobState.SUCCEEDED, "done", images=(RemoteImage(1, 1, data=b"png"),))

    def images(self, job_id: str, document: Document | None) -> tuple[RemoteImage, ...]:
        raise AssertionError

    def fetch_image(
        self, job_id: str, image: RemoteImage, destination: Path, *, max_bytes: int
    ) -> FetchedImage:
        assert image.data is not None
        destination.write_bytes(image.data)
        return FetchedImage(destination, len(image.data), "0" * 64, None)

    def forget(self, job_id: str) -> None:
        self.forgotten.append(job_id)

    def close(self) -> None: ...


POLICY = Policy(name="p", polling=Polling(first_delay_s=0.01, floor_s=0.01, ceiling_s=0.02))


@pytest.fixture
def documents(tmp_path: Path) -> list[Document]:
    files = [tmp_path / "one.pdf", tmp_path / "two.pdf"]
    files[0].write_bytes(pdfs.pages(1))
    files[1].write_bytes(pdfs.pages(2))
    return documents_of(files)


def test_every_way_extracts_the_same_documents_under_keys_of_its_own(
    documents: list[Document],
) -> None:
    service = Service(forgets=True)
    ways = [Way("sync", service, POLICY, True, 0.5), Way("polling", service, POLICY, False)]
    rows = compare(ways, documents, concurrency=2)
    assert [r["images"] for r in rows] == [1, 1]
    assert [r["failures"] for r in rows] == [{"refused": 1}, {"refused": 1}]
    # The stand-in's polls say nothing of a synchronous request.
    assert [r["polls"] for r in rows] == [None, 3]
    # One page each: the document of two pages was refused.
    assert [r["cost"] for r in rows] == [0.5, None]
    assert [r["bytes_submitted"] for r in rows] == [sum(d.bytes for d in documents)] * 2
    assert [r["bytes_received"] for r in rows] == [3, 3]
    assert len(set(service.keys)) == 2
    assert sorted(service.forgotten) == sorted(service.keys)


def test_what_a_service_cannot_forget_is_counted_as_left_behind(documents: list[Document]) -> None:
    way = Way("polling", Service(forgets=False), POLICY, synchronous=False)
    (found,) = compare([way], documents[:1], concurrency=1)
    assert (found["jobs_left_at_service"], found["manual_steps"]) == (1, 1)
    assert found["bytes_left_at_service"] == documents[0].bytes + len(b"png")
    assert found["jobs_perhaps_left"] == 0


def test_a_job_beyond_its_deadline_is_a_failure(documents: list[Document]) -> None:
    hurried = POLICY.model_copy(
        update={"polling": POLICY.polling.model_copy(update={"deadline_s": 1e-6})}
    )
    way = Way("polling", Service(forgets=True), hurried, synchronous=False)
    (found,) = compare([way], documents[:1], concurrency=1)
    assert found["failures"] == {"deadline": 1}


def test_percentiles_are_of_those_that_came_so_far() -> None:
    done = [
        Extraction({"submit": 1.0, "end_to_end": 2.0}, failure="x"),
        Extraction({"submit": 3.0, "provider": 4.0, "end_to_end": 9.0}),
    ]
    way = Way("w", Service(forgets=True), POLICY, synchronous=False)
    found = row(way, done, 2.0)
    assert found["seconds"]["provider"] == {"p50": 4.0, "p95": 4.0, "p99": 4.0}
    assert found["seconds"]["images"] == {}
    assert found["documents_per_s"] == 0.5


def test_a_file_that_is_no_pdf_is_named(tmp_path: Path) -> None:
    file = tmp_path / "not.pdf"
    file.write_bytes(b"hello")
    with pytest.raises(ValueError, match=r"not\.pdf"):
        documents_of([file])


class Failing(Service):
    """Each call first fails with what stands in line for its operation."""

    def __init__(self, **line: list[ProviderError]) -> None:
        super().__init__(forgets=True)
        self.line = line

    def _fail(self, operation: str) -> None:
        if self.line.get(operation):
            raise self.line[operation].pop(0)

    def submit(self, document: Document, *, key: str, options: SubmitOptions) -> Submission:
        self._fail("submit")
        return super().submit(document, key=key, options=options)

    def poll(self, job_id: str) -> JobStatus:
        self._fail("poll")
        return super().poll(job_id)

    def fetch_image(
        self, job_id: str, image: RemoteImage, destination: Path, *, max_bytes: int
    ) -> FetchedImage:
        self._fail("fetch")
        return super().fetch_image(job_id, image, destination, max_bytes=max_bytes)

    def forget(self, job_id: str) -> None:
        self._fail("forget")
        super().forget(job_id)


def throttle(retry_after: float = 0.01) -> ProviderError:
    return Throttled("rate_limited", status=429, retry_after=retry_after)


@pytest.mark.parametrize("operation", ["submit", "poll", "fetch", "forget"])
@pytest.mark.parametrize("synchronous", [True, False])
def test_a_throttle_is_waited_for_and_is_no_failure(
    operation: str, synchronous: bool, documents: list[Document]
) -> None:
    service = Failing(**{operation: [throttle(), throttle()]})
    way = Way("way", service, POLICY, synchronous)
    (found,) = compare([way], documents[:1], concurrency=1)
    assert (found["failures"], found["throttled"], found["images"]) == ({}, 2, 1)
    assert (found["jobs_left_at_service"], found["manual_steps"]) == (0, 0)
    assert found["polls"] == (None if synchronous else 3)
    tries = 3 if operation == "submit" else 1
    assert found["bytes_submitted"] == tries * documents[0].bytes


def test_a_throttle_beyond_the_deadline_is_a_failure(documents: list[Document]) -> None:
    hurried = POLICY.model_copy(
        update={"polling": POLICY.polling.model_copy(update={"deadline_s": 0.2})}
    )
    service = Failing(submit=[throttle(0.15), throttle(0.15), throttle(0.15)])
    way = Way("polling", service, hurried, synchronous=False)
    (found,) = compare([way], documents[:1], concurrency=1)
    assert (found["failures"], found["throttled"]) == ({"rate_limited": 1}, 2)
    assert service.keys == []


def test_a_submit_without_an_answer_may_have_left_a_job_and_is_not_charged(
    documents: list[Document],
) -> None:
    service = Failing(submit=[SubmitUnknown("lost")])
    way = Way("polling", service, POLICY, synchronous=False, price_per_page=0.5)
    (found,) = compare([way], documents[:1], concurrency=1)
    assert (found["jobs_perhaps_left"], found["jobs_left_at_service"]) == (1, 0)
    # Sent again, and looked for.
    assert found["manual_steps"] == 2
    assert found["cost"] == 0.0


@pytest.mark.parametrize("synchronous", [True, False])
def test_the_threads_keep_to_one_limit_on_polls(
    synchronous: bool, documents: list[Document]
) -> None:
    moments: list[float] = []

    class Counting(Service):
        def poll(self, job_id: str) -> JobStatus:
            moments.append(time.monotonic())
            return super().poll(job_id)

    way = Way("way", Counting(forgets=True), POLICY, synchronous, polls_per_second=40.0)
    (found,) = compare([way], documents[:1] * 8, concurrency=8)
    assert found["failures"] == {}
    assert len(moments) == 24
    # 24 polls take 23 intervals; each thread alone would have been through in 0.15 s.
    assert max(moments) - min(moments) >= 0.9 * 23 / 40


def test_what_a_service_publishes_is_its_limit_where_none_is_set() -> None:
    service = Service(forgets=True)
    service.abilities = Abilities(idempotent_submit=True, max_polls_per_second=2.0)
    slept: list[float] = []
    for set_to, last in ((None, 1.0), (4.0, 0.5)):
        calls = calls_of(Way("way", service, POLICY, False, polls_per_second=set_to))
        calls.sleep = slept.append
        for _ in range(3):
            calls.make(lambda: 1, until=0.0, throttled=lambda: None, is_poll=True)
        assert slept[-1] == pytest.approx(last, abs=0.1)
    calls.make(lambda: 1, until=0.0, throttled=lambda: None)
    assert slept[-1] == 0.0


def test_when_one_is_throttled_all_wait() -> None:
    slept: list[float] = []
    calls = Calls(POLICY, None, sleep=slept.append)
    service = Failing(poll=[throttle(5.0)])
    with pytest.raises(Throttled):
        calls.make(lambda: service.poll("a"), until=0.0, throttled=lambda: None)
    calls.make(lambda: service.poll("b"), until=0.0, throttled=lambda: None)
    assert slept[-1] == pytest.approx(5.0, abs=0.1)


def test_what_is_learned_is_touched_by_one_thread_at_a_time() -> None:
    calls = Calls(POLICY, None)
    inside, met = threading.Lock(), []

    class Schedule:
        def _enter(self) -> None:
            met.append(not inside.acquire(blocking=False))
            time.sleep(0.001)
            if not met[-1]:
                inside.release()

        def next_delay(self, *_: object) -> float:
            self._enter()
            return 0.0

        def asked(self, late_s: float) -> None:
            self._enter()

        def learn(self, run_s: float, pages: int) -> None:
            self._enter()

    calls._schedule = Schedule()
    with ThreadPoolExecutor(8) as threads:
        for _ in range(10):
            threads.submit(calls.next_delay, 1.0, 1, None, 1)
            threads.submit(calls.asked, 0.1)
            threads.submit(calls.learn, 1.0, 1)
    assert len(met) == 30
    assert not any(met)


def test_the_schedule_learns_how_long_a_job_ran_and_not_when_it_was_seen(
    documents: list[Document], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Early(Service):
        """Jobs ended when they were submitted."""

        def poll(self, job_id: str) -> JobStatus:
            status = super().poll(job_id)
            return replace(status, finished_at=ended) if status.images else status

    ended = rfc3339(time.time())
    learned: list[tuple[float, int]] = []
    way = Way("polling", Early(forgets=True), POLICY, synchronous=False)
    calls = calls_of(way)
    monkeypatch.setattr(calls, "learn", lambda run_s, pages: learned.append((run_s, pages)))
    outcome = extract(way, calls, documents[0], tmp_path)
    assert outcome.failure is None
    assert outcome.seconds["poll_lag"] > 0.02
    assert learned == [(outcome.seconds["provider"], 1)]
    assert learned[0][0] < 0.01
