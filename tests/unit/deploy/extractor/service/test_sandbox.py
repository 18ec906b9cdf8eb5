"""How a worker's answer and end are read."""

from __future__ import annotations

import signal

import pytest

from deploy.extractor.contract import JobError
from deploy.extractor.sandbox import Extracted, Failed, StorageFull, death_of, outcome_of


def answer_with(file: str) -> dict[str, object]:
    image = {
        "page": 1,
        "index": 1,
        "file": file,
        "media_type": "image/png",
        "width": 1,
        "height": 1,
        "sha256": "",
        "bytes": 1,
        "is_mask": False,
    }
    return {"pages": 1, "images": [image], "problems": []}


@pytest.mark.parametrize("file", ["../../jobs.sqlite", "/etc/jobs.sqlite", "a/jobs.sqlite"])
def test_a_path_in_an_answer_cannot_leave_the_directory_of_its_job(file: str) -> None:
    outcome = outcome_of(answer_with(file))
    assert isinstance(outcome, Extracted)
    assert outcome.images[0].file == "jobs.sqlite"


def test_a_full_disk_is_no_failure() -> None:
    assert outcome_of({"error": "storage_full"}) == StorageFull()


@pytest.mark.parametrize(
    ("return_code", "failed"),
    [
        (-signal.SIGXCPU, Failed(JobError.TIMEOUT, "job_cpu_s")),
        (-signal.SIGSEGV, Failed(JobError.CRASHED, "SIGSEGV")),
        (3, Failed(JobError.CRASHED, "exit_3")),
    ],
)
def test_the_end_of_a_worker_names_its_reason(return_code: int, failed: Failed) -> None:
    assert death_of(return_code) == failed
