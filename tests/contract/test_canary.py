"""Secrets and patient data planted everywhere: none of it may be in an error or a log line."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from consumers.providers.errors import ProviderError
from consumers.providers.protocol import Document, SubmitOptions
from consumers.providers.registry import build
from tests.contract.cutting import cut_here
from tests.contract.fakes.server import (
    Fault,
    Reply,
    delivered,
    instead,
    json_reply,
    lost_answer,
    said_in,
)
from tests.contract.subjects import KEY, SECRET, SUBJECTS, AwsLambda, Subject, Textract

PATIENT = "Novak_Jan_1950-02-03"
SIGNATURE = "X-Amz-Signature-9d8c7b6a"
LETTERS_ONLY = "abcdefghijklmnopqrst"
"""A secret that has the form of a word."""
CANARIES = (SECRET, SECRET[:12], PATIENT, "Novak", SIGNATURE, "AKIAFAKE", LETTERS_ONLY[:10])

POISON = {
    "error": {"code": f"x {PATIENT}", "message": PATIENT, "status": SECRET},
    "status": f"failed for {PATIENT}",
    "detail": PATIENT,
    "job_id": f"{PATIENT}/../{SECRET}",
    "name": PATIENT,
}


@pytest.fixture(params=SUBJECTS, ids=lambda kind: str(kind.name))
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    made: Subject = request.param(tmp_path)
    yield made
    made.close()


def poisoned(status: int, **headers: str) -> Reply:
    named = {"Content-Type": "application/json", **headers}
    return Reply(status, json.dumps(POISON).encode(), named)


def faults() -> Iterator[Fault]:
    for status in (200, 202, 302, 400, 401, 402, 403, 404, 409, 413, 422, 429, 500, 503):
        yield instead(
            poisoned(
                status,
                **{
                    "Retry-After": PATIENT,
                    "Location": f"http://{PATIENT}.example/{SIGNATURE}",
                    "Operation-Location": f"http://{PATIENT}.example/{SIGNATURE}",
                },
            )
        )
    broken = {"X-Broken Header": PATIENT, "Connection": "close"}  # urllib3 warns of such, with URL
    yield instead(poisoned(200, **broken))
    yield instead(Reply(200, PATIENT.encode() * 10, {"Content-Type": "text/html"}))
    yield instead(Reply(200, json.dumps(PATIENT).encode()))
    yield lost_answer()
    for how in ("short", "short-close", "reset"):
        yield delivered(how)
    yield said_in(lambda reply: replace(reply, headers={"Content-Encoding": "gzip"}))


def everything_of(error: BaseException) -> str:
    """Text, repr, attributes and the whole chain, also the part that `from None` hides."""
    parts = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        parts += [str(error), repr(error), repr(vars(error)), repr(error.args)]
        parts += traceback.format_exception_only(error)
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return "\n".join(parts)


def test_nothing_planted_is_in_an_error_or_a_log_line(
    subject: Subject, caplog: pytest.LogCaptureFixture
) -> None:
    document = named_after_a_patient(subject)
    provider = subject.built(read_timeout_seconds=2)
    job_id = provider.submit(document, key=KEY, options=SubmitOptions()).job_id
    subject.finish(job_id)
    status = provider.poll(job_id)
    images = status.images if status.images_listed else provider.images(job_id, document)
    said = [repr(status), repr(images), repr(provider), repr(subject.settings())]
    calls: dict[str, Callable[[], object]] = {
        "submit": lambda: provider.submit(document, key=KEY, options=SubmitOptions()),
        "poll": lambda: provider.poll(job_id),
        "list": lambda: provider.poll(job_id),
        "object": lambda: provider.poll(job_id),
        "upload": lambda: provider.submit(document, key=KEY, options=SubmitOptions()),
        "result": lambda: provider.images(job_id, document),
        "images": lambda: provider.images(job_id, document),
        "image": lambda: provider.fetch_image(
            job_id,
            replace(images[0], sha256=None, bytes=None),
            subject.folder / "image",
            max_bytes=10**6,
        ),
        "forget": lambda: provider.forget(job_id),
    }
    failures = 0
    with caplog.at_level(logging.DEBUG):
        for operation, call in calls.items():
            for fault in faults():
                subject.service.misbehave(operation, fault)
                try:
                    said.append(repr(call()))
                except ProviderError as error:
                    failures += 1
                    said.append(everything_of(error))
                subject.service.forget_faults()
    said += [record.getMessage() + str(record.exc_info) for record in caplog.records]
    provider.close()
    assert failures > 20
    assert leaks(said) == []


DIGITS_TOO = (PATIENT, f"{PATIENT}.pdf", SECRET, f"x.{SECRET}", SECRET[:12])
ONLY_LETTERS = (LETTERS_ONLY, f"invalid.{LETTERS_ONLY}", LETTERS_ONLY[:10].upper())
SPOKEN_BACK = [
    pytest.param(kind, secret, planted, id=f"{kind.name}-{planted}")
    for kind in SUBJECTS
    for secret, codes in ((SECRET, DIGITS_TOO), (LETTERS_ONLY, ONLY_LETTERS))
    for planted in codes
    # AWS is sent signatures, so it has no secret to repeat.
    if secret == SECRET or not issubclass(kind, AwsLambda | Textract)
]


@pytest.mark.parametrize(("kind", "secret", "planted"), SPOKEN_BACK)
def test_what_has_the_form_of_a_code_is_not_shown_for_it(
    kind: type[Subject], secret: str, planted: str, tmp_path: Path
) -> None:
    """The bare name and the bare secret as error code, status word and code of a failed job."""
    subject = kind(tmp_path)
    if hasattr(subject.service, "token"):
        subject.service.token = secret
    settings = subject.settings().model_copy(update={"token": SecretStr(secret)})
    provider = build(settings, cut_regions=cut_here, environment={})
    document = subject.document()
    job_id = provider.submit(document, key=KEY, options=SubmitOptions()).job_id
    said: list[str] = []

    def hear(call: Callable[[], object]) -> None:
        try:
            said.append(repr(call()))
        except ProviderError as error:
            said.append(everything_of(error))

    for operation, call in {
        "upload": lambda: provider.submit(document, key=KEY, options=SubmitOptions()),
        "submit": lambda: provider.submit(document, key=KEY, options=SubmitOptions()),
        "poll": lambda: provider.poll(job_id),
        "list": lambda: provider.poll(job_id),
        "images": lambda: provider.images(job_id, document),
        "forget": lambda: provider.forget(job_id),
    }.items():
        for reply in refusals(planted):
            subject.service.misbehave(operation, instead(reply))
            hear(call)
            subject.service.forget_faults()
    assert len(said) > 50
    job = subject.job(job_id)
    job.word = planted
    hear(lambda: provider.poll(job_id))
    job.word = None
    subject.fail(job_id, planted)
    hear(lambda: provider.poll(job_id))
    provider.close()
    subject.close()
    assert leaks(said) == []


def refusals(code: str) -> Iterator[Reply]:
    """Errors in all the forms that services use, with this code."""
    forms = (
        {"error": {"code": code, "type": code, "status": code}},
        {"error": {"code": "InvalidRequest", "innererror": {"code": code}}},
        {"error": code},
        {"ok": False, "data": None, "error": {"code": code}},
        {"code": code, "error_code": code, "errorCode": code},
    )
    for status in (200, 400, 403, 429, 500):
        for form in forms:
            yield json_reply(form, status)
        yield json_reply({"__type": code, "Message": "x"}, status, x_amzn_ErrorType=code)
        xml = f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>"
        yield Reply(status, xml.encode(), {"Content-Type": "application/xml"})


def test_urls_that_are_credentials_are_in_no_error_and_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    subject = SUBJECTS[0](tmp_path)
    document = subject.document()
    job_id = subject.provider.submit(document, key=KEY, options=SubmitOptions()).job_id
    subject.finish(job_id)
    image = subject.provider.poll(job_id).images[0]
    said = []
    with caplog.at_level(logging.DEBUG):
        for url in (
            f"{subject.service.origin}/files/x?{SIGNATURE}",
            f"https://127.0.0.1:1/{PATIENT}?{SIGNATURE}",
            f"https://{PATIENT}.invalid/{SIGNATURE}",
            f"ftp://a/{SIGNATURE}",
            f"https://u:{SECRET}@a.example/",
            f"http://[{SIGNATURE}",
        ):
            with pytest.raises(ProviderError) as caught:
                subject.provider.fetch_image(
                    job_id, replace(image, url=url), tmp_path / "image", max_bytes=10**6
                )
            said.append(everything_of(caught.value))
    subject.close()
    said += [record.getMessage() for record in caplog.records]
    assert leaks(said) == []


def leaks(said: list[str]) -> list[str]:
    return [line for line in said if any(canary.lower() in line.lower() for canary in CANARIES)]


def named_after_a_patient(subject: Subject) -> Document:
    document = subject.document()
    renamed = document.path.with_name(f"{PATIENT}.pdf")
    document.path.rename(renamed)
    return replace(document, path=renamed)
