from pathlib import Path

import pytest

from consumers.operations.compare import Extraction, Way, compare, documents_of, row
from consumers.providers.errors import CallFailed
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
    assert [r["polls"] for r in rows] == [3, 3]
    assert [r["cost"] for r in rows] == [1.5, None]
    assert len(set(service.keys)) == 2
    assert sorted(service.forgotten) == sorted(service.keys)


def test_what_a_service_cannot_forget_is_counted_as_left_behind(documents: list[Document]) -> None:
    way = Way("polling", Service(forgets=False), POLICY, synchronous=False)
    (found,) = compare([way], documents[:1], concurrency=1)
    assert (found["jobs_left_at_service"], found["manual_steps"]) == (1, 1)


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
    found = row(way, [], done, 2.0)
    assert found["seconds"]["provider"] == {"p50": 4.0, "p95": 4.0, "p99": 4.0}
    assert found["seconds"]["images"] == {}
    assert found["documents_per_s"] == 0.5


def test_a_file_that_is_no_pdf_is_named(tmp_path: Path) -> None:
    file = tmp_path / "not.pdf"
    file.write_bytes(b"hello")
    with pytest.raises(ValueError, match=r"not\.pdf"):
        documents_of([file])
