"""The deployable function against the fake S3, and its results read by the adapter it serves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from consumers.providers.aws import Clients
from consumers.providers.protocol import JobState, SubmitOptions
from deploy.aws.extract_function.handler import run
from tests import pdfs
from tests.contract.matrix import environment_without_accounts
from tests.contract.subjects import KEY, AwsLambda


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsLambda]:
    for name, value in environment_without_accounts().items():
        monkeypatch.setenv(name, value)
    made = AwsLambda(tmp_path)
    yield made
    made.close()


def submitted(
    service: AwsLambda, content: bytes | None = None, options: SubmitOptions = SubmitOptions()
) -> dict[str, Any]:
    document = service.document(2, content=content)
    service.provider.submit(document, key=KEY, options=options)
    return service.service.invocations[-1]


def run_once(service: AwsLambda, event: dict[str, Any], request_id: str = "r1") -> str:
    return run(Clients(service.settings()).s3(), event, request_id=request_id)


def test_its_results_are_what_the_adapter_reads(service: AwsLambda, tmp_path: Path) -> None:
    event = submitted(service, pdfs.pages(2, images_per_page=3))
    assert run_once(service, event) == "done"
    status = service.provider.poll(KEY)
    assert (status.state, status.pages) == (JobState.SUCCEEDED, 2)
    assert [(image.page, image.order) for image in status.images] == [
        (page, order) for page in (1, 2) for order in (0, 1, 2)
    ]
    for image in status.images:
        fetched = service.provider.fetch_image(KEY, image, tmp_path / "i", max_bytes=10**6)
        assert fetched.sha256 == image.sha256


def test_a_mask_given_as_an_image_is_told_from_a_picture_of_the_page(service: AwsLambda) -> None:
    apart = SubmitOptions(soft_masks="separate")
    run_once(service, submitted(service, pdfs.with_a_soft_mask(), apart))
    assert [image.is_mask for image in service.provider.poll(KEY).images] == [False, True]
    marker = service.service.objects[f"{service.service.invocations[-1]['prefix']}_SUCCESS.json"]
    assert ["is_mask" in image for image in json.loads(marker)["images"]] == [False, True]


def test_an_event_that_is_delivered_twice_is_done_once(service: AwsLambda) -> None:
    event = submitted(service)
    run_once(service, event)
    before = dict(service.service.objects)
    assert run_once(service, event, "r2") == "done before"
    assert service.service.objects == before


@pytest.mark.parametrize(
    ("content", "code"), [(pdfs.encrypted("secret"), "encrypted"), (b"%PDF-1.4 not", "unreadable")]
)
def test_a_document_that_cannot_be_read_has_a_reason(
    service: AwsLambda, content: bytes, code: str
) -> None:
    run_once(service, submitted(service, content))
    status = service.provider.poll(KEY)
    assert (status.state, status.failure_code) == (JobState.FAILED, code)
    assert status.failure_kind == "document"


def test_a_second_run_waits_while_the_first_may_be_at_work(
    service: AwsLambda, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = submitted(service)
    monkeypatch.setattr("deploy.aws.extract_function.handler.extract", _dies)
    with pytest.raises(_Killed):
        run_once(service, event, "r1")
    monkeypatch.undo()
    assert run_once(service, event, "r2") == "another run has it"
    assert service.provider.poll(KEY).state is JobState.RUNNING


def test_a_document_that_ends_every_run_is_given_up(
    service: AwsLambda, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = submitted(service)
    monkeypatch.setattr("deploy.aws.extract_function.handler.extract", _dies)
    for _ in range(2):
        with pytest.raises(_Killed):
            run_once(service, event, "r1")
    assert run_once(service, event, "r1") == "given up"
    status = service.provider.poll(KEY)
    assert (status.failure_code, status.failure_kind) == ("crashed", "attempt")


def test_what_a_run_that_died_left_behind_is_no_result(service: AwsLambda) -> None:
    event = submitted(service)
    left = "images/page-009-image-001.png"
    service.service.put(event["prefix"] + left, b"half an image")
    assert service.provider.poll(KEY).state is JobState.RUNNING
    run_once(service, event)
    status = service.provider.poll(KEY)
    assert status.state is JobState.SUCCEEDED
    assert left not in {image.ref for image in status.images}
    service.provider.forget(KEY)
    assert service.service.objects == {}


def test_an_input_that_is_not_the_announced_one_is_not_extracted(service: AwsLambda) -> None:
    event = submitted(service)
    assert run_once(service, event | {"sha256": "0" * 64}) == "input changed"
    assert service.provider.poll(KEY).state is JobState.FAILED


class _Killed(BaseException):
    """What a process that is killed looks like from outside: nothing after this is done."""


def _dies(*_: object) -> None:
    raise _Killed
