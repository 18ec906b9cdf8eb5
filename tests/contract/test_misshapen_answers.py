"""Whatever a service puts into the place of any value of its answers, an adapter reads it or says
what is wrong by one of its own errors. Anything else would be a bug report in place of a retry."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from consumers.providers.errors import ProviderError
from consumers.providers.protocol import JobState, JobStatus, SubmitOptions
from tests.contract.fakes.server import Reply, instead, said_in
from tests.contract.subjects import KEY, SUBJECTS, Subject

ODDITIES: tuple[Any, ...] = (
    None, True, 1e400, "../x", "https://[x", [], [None], {}, {"code": {}},
)  # fmt: skip
READS = ("poll", "object", "images", "result", "list")


@pytest.fixture(params=SUBJECTS, ids=lambda kind: str(kind.name))
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    made: Subject = request.param(tmp_path)
    made.service.record_requests = False
    yield made
    made.close()


def misshapen(answer: Any) -> Iterator[Any]:
    """The answer with each value in it, and itself, replaced by each oddity."""
    yield from ODDITIES
    for path in paths_of(answer):
        for oddity in ODDITIES:
            changed = copy.deepcopy(answer)
            parent = changed
            for step in path[:-1]:
                parent = parent[step]
            parent[path[-1]] = oddity
            yield changed


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for step in value if isinstance(value, dict) else range(len(value)):
            yield (*path, step)
            yield from paths_of(value[step], (*path, step))


def with_body(body: bytes) -> Callable[[Reply], Reply]:
    return lambda reply: replace(reply, body=body)


def read_all(subject: Subject, job_id: str, document: Any) -> JobStatus:
    status = subject.provider.poll(job_id)
    subject.provider.find(KEY)
    if status.state is JobState.SUCCEEDED and not status.images_listed:
        images = subject.provider.images(job_id, document)
        status = replace(status, images=images)
    return status


def answers_of(subject: Subject, operation: str, read: Callable[[], object]) -> list[Any]:
    """What the service answers to ``operation`` while ``read`` runs (at most the first answer)."""
    heard: list[bytes] = []

    def listened(reply: Reply) -> Reply:
        heard.append(reply.body)
        return reply

    subject.service.misbehave(operation, said_in(listened))
    read()
    subject.service.forget_faults()
    return [json.loads(body) for body in heard if not body.startswith(b"<")]


@pytest.mark.parametrize("ended", ["succeeded", "failed"])
def test_reading_a_job_gives_a_status_or_an_error_of_ours(subject: Subject, ended: str) -> None:
    document = subject.document(1)
    job_id = subject.provider.submit(document, key=KEY, options=SubmitOptions()).job_id
    subject.job(job_id).images_per_page = 1
    subject.finish(job_id) if ended == "succeeded" else subject.fail(job_id)
    tried = 0
    for operation in READS:
        for answer in answers_of(subject, operation, lambda: read_all(subject, job_id, document)):
            for changed in misshapen(answer):
                body = json.dumps(changed).encode()
                subject.service.misbehave(operation, said_in(with_body(body)))
                try:
                    status = read_all(subject, job_id, document)
                    assert all(isinstance(image.page, int) for image in status.images)
                    assert status.pages is None or type(status.pages) is int
                except ProviderError:
                    pass
                except Exception as error:
                    pytest.fail(f"{type(error).__name__} at {operation}: {body[:300]!r}")
                subject.service.forget_faults()
                tried += 1
    assert tried > 20


def test_a_refusal_of_any_form_is_an_error_of_ours(subject: Subject) -> None:
    document = subject.document(1)
    subject.provider.submit(document, key=KEY, options=SubmitOptions())
    refusal = subject.throttle()
    for changed in misshapen(json.loads(refusal.body)):
        subject.service.misbehave(
            "submit", instead(replace(refusal, body=json.dumps(changed).encode()))
        )
        with pytest.raises(ProviderError):
            subject.provider.submit(document, key=KEY, options=SubmitOptions())
