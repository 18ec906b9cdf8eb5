"""What is peculiar to the two AWS adapters, against the fake S3, Lambda and Textract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from consumers.providers.protocol import JobState, SubmitOptions
from schemas.identity import idempotency_key
from tests.contract.matrix import environment_without_accounts
from tests.contract.subjects import KEY, AwsLambda, Subject, Textract


@pytest.fixture(autouse=True)
def _no_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment_without_accounts().items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=[AwsLambda, Textract], ids=lambda kind: str(kind.name))
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    made: Subject = request.param(tmp_path)
    yield made
    made.close()


def test_a_further_job_under_the_next_generations_key_is_another_job(subject: Subject) -> None:
    document = subject.document()
    provider = subject.provider
    first, second = (
        provider.submit(
            document, key=idempotency_key(KEY, generation), options=SubmitOptions()
        ).job_id
        for generation in (1, 2)
    )
    assert first != second
    subject.finish(second)
    assert provider.poll(first).state is JobState.RUNNING
    assert provider.poll(second).state is JobState.SUCCEEDED
    if subject.finds_by_key:
        assert provider.find(idempotency_key(KEY, 2)) == second
    provider.forget(second)
    assert provider.poll(first).state is JobState.RUNNING
