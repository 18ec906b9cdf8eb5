"""What is peculiar to the two AWS adapters, against the fake S3, Lambda and Textract."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from botocore.awsrequest import AWSRequest

from consumers.providers.aws import CODES
from consumers.providers.aws_transport import BoundedSender
from consumers.providers.errors import CallFailed, JobNotFound, ServiceUnavailable
from consumers.providers.failures import SUBMIT, failure
from consumers.providers.protocol import JobState, SubmitOptions
from consumers.providers.transport import Limits
from schemas.identity import idempotency_key
from tests.contract.fakes.server import Reply, Stranger, delivered, said_in
from tests.contract.matrix import environment_without_accounts
from tests.contract.subjects import KEY, AwsLambda, Google, Subject, Textract


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


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "ThrottlingException", "throttled"),
        (400, "ProvisionedThroughputExceededException", "throttled"),
        (400, "LimitExceededException", "throttled"),
        (400, "IdempotentParameterMismatchException", "document"),
        (400, "BadDocumentException", "document"),
        # The document was put there by the call before: its region or a permission is wrong.
        (400, "InvalidS3ObjectException", "systemic"),
        (400, "InvalidKMSKeyException", "systemic"),
        (502, "KMSDisabledException", "systemic"),
        # The function is being deployed.
        (409, "ResourceConflictException", "systemic"),
        (502, "ResourceNotReadyException", "systemic"),
        (404, "ResourceNotFoundException", "systemic"),
    ],
)
def test_a_code_decides_whose_fault_a_refused_submit_is(status: int, code: str, kind: str) -> None:
    assert failure(status, code, operation=SUBMIT, codes=CODES).kind == kind


def test_a_figure_whose_page_is_not_told_is_put_on_no_page_by_guess(tmp_path: Path) -> None:
    subject = Textract(tmp_path)
    document = subject.document(2)
    job_id = subject.provider.submit(document, key=KEY, options=SubmitOptions()).job_id
    subject.finish(job_id)

    def without_pages(reply: Reply) -> Reply:
        body = json.loads(reply.body)
        for block in body["Blocks"]:
            del block["Page"]
        return replace(reply, body=json.dumps(body).encode())

    subject.service.misbehave("images", said_in(without_pages, times=2))
    with pytest.raises(CallFailed) as caught:
        subject.provider.images(job_id, document)
    assert caught.value.code == "page_not_told"
    one_page = replace(document, pages=1)  # as far as the adapter can tell
    assert {image.page for image in subject.provider.images(job_id, one_page)} == {1}
    subject.close()


def test_an_object_that_drips_or_is_compressed_is_not_read_on(tmp_path: Path) -> None:
    subject = AwsLambda(tmp_path)
    job_id = subject.provider.submit(subject.document(), key=KEY, options=SubmitOptions()).job_id
    subject.finish(job_id)
    hurried = subject.built(total_timeout_seconds=0.1)
    compressed = said_in(lambda reply: replace(reply, headers={"Content-Encoding": "gzip"}))
    for fault, code in ((delivered("drip"), "answer_too_slow"), (compressed, "content_encoding")):
        subject.service.misbehave("object", fault)
        with pytest.raises(CallFailed) as caught:
            hurried.poll(job_id)
        assert (caught.value.code, caught.value.operation) == (code, "poll")
    assert len(hurried.poll(job_id).images) == 6
    hurried.close()
    subject.close()


def test_an_event_that_lambda_has_given_up_is_a_job_that_is_not_there(tmp_path: Path) -> None:
    subject = AwsLambda(tmp_path)
    job_id = subject.provider.submit(subject.document(), key=KEY, options=SubmitOptions()).job_id
    subject.service.stored_before = timedelta(hours=5)
    assert subject.provider.poll(job_id).provider_status == "queued"
    subject.service.stored_before = timedelta(hours=7)
    with pytest.raises(JobNotFound) as caught:
        subject.provider.poll(job_id)
    assert caught.value.code == "event_lost"
    subject.finish(job_id)
    assert subject.provider.poll(job_id).state is JobState.SUCCEEDED
    subject.close()


@pytest.mark.parametrize(
    "left_out", ["Key", "LastModified", "NextContinuationToken", "IsTruncated"]
)
def test_a_listing_without_what_it_must_tell_is_none(tmp_path: Path, left_out: str) -> None:
    subject = AwsLambda(tmp_path)
    job_id = subject.provider.submit(subject.document(), key=KEY, options=SubmitOptions()).job_id
    subject.finish(job_id)
    without = re.compile(rf"<{left_out}>.*?</{left_out}>".encode())
    spoiled = said_in(lambda reply: replace(reply, body=without.sub(b"", reply.body)))
    subject.service.misbehave("list", spoiled)
    with pytest.raises(CallFailed):
        subject.provider.forget(job_id)
    subject.close()


@pytest.mark.parametrize("kind", [AwsLambda, Google])
def test_a_listing_that_repeats_itself_ends(tmp_path: Path, kind: type[Subject]) -> None:
    subject = kind(tmp_path)
    job_id = subject.provider.submit(subject.document(), key=KEY, options=SubmitOptions()).job_id
    subject.finish(job_id)
    first: list[bytes] = []

    def repeated(reply: Reply) -> Reply:
        first.append(reply.body)
        return replace(reply, body=first[0])

    subject.service.misbehave("list", said_in(repeated, times=5))
    with pytest.raises(CallFailed) as caught:
        subject.provider.forget(job_id)
    assert caught.value.code == "pages_repeat"
    subject.close()


def test_botocore_is_not_followed_to_another_host() -> None:
    """It sends a request again, document and all, to whichever region an answer names."""
    own, other = Stranger(), Stranger()
    own.start()
    other.start()
    sender = BoundedSender(Limits(), connections=1, ca_file=None)
    for _ in range(2):
        assert sender(AWSRequest("PUT", f"{own.origin}/x", data=b"%PDF").prepare()).status_code
    with pytest.raises(ServiceUnavailable) as caught:
        sender(AWSRequest("PUT", f"{other.origin}/x", data=b"%PDF").prepare())
    assert caught.value.code == "another_region"
    assert other.requests == []
    sender.close()
    own.stop()
    other.stop()
