"""What only one service does, over real sockets: other forms of a submit and of answers, results
that can be read once, images that cannot be fetched."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import SecretStr

from consumers.providers.errors import JobNotFound
from consumers.providers.protocol import JobState
from consumers.providers.regions import cuts_nothing
from consumers.providers.registry import build
from consumers.providers.settings import InfraiSettings, ProviderSettings
from tests.contract.behaviours import BEHAVIOURS, fetched, finished, submit
from tests.contract.fakes.infrai import FakeInfrai, canonical
from tests.contract.fakes.server import FakeService
from tests.contract.subjects import (
    KEY,
    NO_ENVELOPE,
    SECRET,
    Azure,
    Docling,
    Infrai,
    sources_of,
)


class BareInfrai(Infrai):
    """Its answers have no envelope, which public clients of such services have seen."""

    ruled_out: ClassVar = {
        **Infrai.ruled_out,
        "a_failed_call_inside_http_200_is_a_failure": NO_ENVELOPE,
    }

    def new_service(self) -> FakeService:
        service = FakeInfrai(token=SECRET, envelope=False)
        self.book = service.book
        return service


class JsonInfrai(Infrai):
    """Documents are sent as JSON, to one vendor."""

    def settings(self, **changes: Any) -> ProviderSettings:
        infrai = InfraiSettings(submit_format="json", vendor="acme")
        return super().settings(infrai=infrai, **changes)


@pytest.mark.parametrize("name", sorted(set(BEHAVIOURS) - set(BareInfrai.ruled_out)))
def test_bare_answers_are_read(name: str, tmp_path: Path) -> None:
    subject = BareInfrai(tmp_path)
    try:
        BEHAVIOURS[name](subject)
        assert "ok" not in json.loads(subject.service.refused(400, "x").body)
    finally:
        subject.close()


@pytest.mark.parametrize("name", sorted(set(BEHAVIOURS) - set(JsonInfrai.ruled_out)))
def test_a_document_as_json_behaves_as_in_a_form(name: str, tmp_path: Path) -> None:
    subject = JsonInfrai(tmp_path)
    try:
        BEHAVIOURS[name](subject)
    finally:
        subject.close()


def test_a_document_as_json_makes_the_same_job(tmp_path: Path) -> None:
    subject = JsonInfrai(tmp_path)
    document = subject.document()
    job_id = submit(subject, document).job_id
    assert submit(subject, document).job_id == job_id
    first, again = subject.service.seen("submit")
    body = json.loads(first.body)
    assert set(body) == {"pdf", "vendor", "idempotency_key"}
    assert body["vendor"] == "acme"
    assert body["idempotency_key"] == first.headers["idempotency-key"] == KEY
    assert base64.b64decode(body["pdf"]) == document.path.read_bytes()
    assert first.body == again.body == canonical(body)
    form = ProviderSettings(
        kind=subject.kind,
        base_url=subject.base_url,
        token=SecretStr(SECRET),
        infrai=InfraiSettings(vendor="acme"),
    )
    provider = build(form, cut_regions=cuts_nothing, environment={})
    assert submit(subject, document, provider=provider).job_id == job_id
    sent = subject.service.seen("submit")[-1]
    assert b'name="vendor"\r\n\r\nacme\r\n' in sent.body
    assert subject.jobs_started == 1
    provider.close()
    subject.close()


def test_a_document_as_json_under_two_keys_is_refused(tmp_path: Path) -> None:
    """The key in the body is the one in the header, or the service would not know which."""
    subject = JsonInfrai(tmp_path)
    submit(subject)
    (request,) = subject.service.seen("submit")
    headers = {**request.headers, "idempotency-key": "another"}
    assert subject.service.answer("submit", replace(request, headers=headers)).status == 400
    subject.close()


def test_a_docling_result_is_gone_after_it_was_fetched_and_is_read_by_the_poll_that_sees_it(
    tmp_path: Path,
) -> None:
    subject = Docling(tmp_path)
    subject.service.removes_fetched = True
    job_id, _, status = finished(subject)
    assert (status.state, status.images_listed) == (JobState.SUCCEEDED, True)
    assert len(status.images) == 6
    for image, (_, _, checksum) in zip(status.images, subject.expected(job_id), strict=True):
        assert sources_of(image) == ["data"]  # so nothing has to be read again
        assert fetched(subject, subject.provider, job_id, image) == checksum
    assert len(subject.service.seen("result")) == 1
    with pytest.raises(JobNotFound):
        subject.provider.poll(job_id)
    subject.close()


def test_an_azure_figure_without_an_id_is_missed_and_the_others_are_listed(tmp_path: Path) -> None:
    subject = Azure(tmp_path)
    subject.service.figure_without_id = True
    job_id, _, status = finished(subject)
    assert (status.state, len(status.images), len(status.problems)) == (JobState.SUCCEEDED, 6, 1)
    for image in status.images:
        fetched(subject, subject.provider, job_id, image)
    subject.close()
