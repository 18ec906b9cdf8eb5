"""The durable record of jobs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.extractor.contract import JobError, JobStatus
from deploy.extractor.records import Accepted, ImageRow
from deploy.extractor.store import JobStore

DAY = 86_400.0
IMAGE = ImageRow(1, 1, "a.png", "image/png", 3, 2, "ab" * 32, 10, is_mask=False)
MASK = ImageRow(1, 2, "b.png", "image/png", 3, 2, "cd" * 32, 11, is_mask=True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JobStore]:
    opened = JobStore(tmp_path / "jobs.sqlite")
    yield opened
    opened.close()


def accept(
    store: JobStore,
    job_id: str,
    key: str | None = None,
    fingerprint: str = "f",
    now: float = 0.0,
) -> Accepted:
    return store.accept(
        job_id,
        owner="o",
        key_digest=key,
        fingerprint=fingerprint,
        options="{}",
        input_bytes=1,
        now=now,
        window_s=DAY,
    )


def complete(store: JobStore, job_id: str, now: float = 0.0) -> bool:
    return store.complete(job_id, pages=1, images=(IMAGE, MASK), problems=("p",), now=now)


def test_a_job_goes_from_queued_over_running_to_completed_with_its_images(store: JobStore) -> None:
    accept(store, "a", now=1.0)
    assert store.start("a")
    assert complete(store, "a", now=2.0)
    job = store.get("a")
    assert job is not None
    assert (job.status, job.pages, job.submitted_at, job.finished_at) == (
        JobStatus.COMPLETED,
        1,
        1.0,
        2.0,
    )
    assert job.problems == ("p",)
    assert store.images("a") == [IMAGE, MASK]
    assert store.image("a", 1) == MASK
    assert store.image("a", 2) is None


def test_a_file_from_before_jobs_had_owners_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    old = JobStore(path)
    accept(old, "a")
    old.close()
    db = sqlite3.connect(path)
    db.execute("ALTER TABLE jobs DROP COLUMN owner")
    db.close()
    for _ in range(2):
        opened = JobStore(path)
        job = opened.get("a")
        assert job is not None
        assert job.owner == ""
        opened.close()


def test_a_key_is_honoured_within_its_window_and_not_after(store: JobStore) -> None:
    assert accept(store, "a", key="k", now=0.0).is_new
    assert accept(store, "b", key="k", now=DAY - 1) == Accepted("a", is_new=False)
    assert accept(store, "c", key="k", now=DAY) == Accepted("c", is_new=True)
    assert store.get("b") is None
    assert store.get("a") is not None


def test_a_key_with_another_fingerprint_is_a_mismatch(store: JobStore) -> None:
    accept(store, "a", key="k", fingerprint="one")
    assert accept(store, "b", key="k", fingerprint="two").is_mismatch
    assert store.get("b") is None


def test_a_job_is_started_once(store: JobStore) -> None:
    accept(store, "a")
    assert store.start("a")
    assert not store.start("a")
    assert not store.start("unknown")


def test_a_deleted_job_can_neither_complete_nor_fail_nor_leave_images(store: JobStore) -> None:
    accept(store, "a", key="k")
    store.start("a")
    assert store.delete("a")
    assert not store.delete("a")
    assert not complete(store, "a")
    assert not store.fail("a", JobError.TIMEOUT, None, 1.0)
    assert store.images("a") == []
    assert not store.is_known_key("k")


def test_deleting_a_completed_job_forgets_its_images(store: JobStore) -> None:
    accept(store, "a")
    store.start("a")
    complete(store, "a")
    store.delete("a")
    assert store.image("a", 0) is None


def test_after_a_crash_unfinished_jobs_are_queued_again_in_order(tmp_path: Path) -> None:
    crashed = JobStore(tmp_path / "jobs.sqlite")
    for job_id in ("c", "a", "b"):
        accept(crashed, job_id)
    crashed.start("a")
    accept(crashed, "done")
    crashed.start("done")
    complete(crashed, "done")
    crashed.close()

    store = JobStore(tmp_path / "jobs.sqlite")
    assert store.recover(max_attempts=3, now=5.0) == ["c", "a", "b"]
    assert store.start("a")
    accept(store, "later")
    assert store.recover(max_attempts=3, now=5.0) == ["c", "a", "b", "later"]
    store.close()


def test_a_job_running_at_too_many_crashes_is_failed(store: JobStore) -> None:
    accept(store, "a")
    for _ in range(2):
        store.start("a")
        assert store.recover(max_attempts=3, now=5.0) == ["a"]
    store.start("a")
    assert store.recover(max_attempts=3, now=5.0) == []
    job = store.get("a")
    assert job is not None
    assert (job.status, job.error_code, job.finished_at) == (
        JobStatus.FAILED,
        JobError.CRASHED,
        5.0,
    )


def test_a_job_given_back_is_not_charged_the_attempt(store: JobStore) -> None:
    accept(store, "a")
    for _ in range(5):
        store.start("a")
        store.requeue("a")
    job = store.get("a")
    assert job is not None
    assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)


def test_only_jobs_that_finished_long_ago_are_removed_by_age(store: JobStore) -> None:
    for job_id, finished in (("old", 10.0), ("new", 30.0)):
        accept(store, job_id)
        store.start(job_id)
        complete(store, job_id, now=finished)
    accept(store, "waiting", now=0.0)
    assert store.delete_finished_before(20.0) == ["old"]
    assert store.statuses() == {"new": JobStatus.COMPLETED, "waiting": JobStatus.QUEUED}


def test_a_write_that_fails_leaves_nothing_behind_and_the_store_usable(store: JobStore) -> None:
    accept(store, "a")
    with pytest.raises(sqlite3.IntegrityError):
        accept(store, "a")
    assert accept(store, "b").is_new


def test_accepted_jobs_are_committed_with_a_full_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    connect = sqlite3.connect

    def traced(*args: object, **kwargs: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **kwargs)  # type: ignore[call-overload]
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    store = JobStore(tmp_path / "jobs.sqlite")
    statements.clear()
    accept(store, "a")
    assert statements[0] == "PRAGMA synchronous = FULL"
    assert statements[-1] == "COMMIT"
    store.close()
