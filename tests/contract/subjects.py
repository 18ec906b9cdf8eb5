"""The adapters under test, each with its fake service and with what its contract rules out.

A `Subject` gives the behaviours one vocabulary: how this service is told to finish, fail or forget
a job, how it throttles, which of its operations stands for submit, poll and image.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import SecretStr

from consumers.providers.protocol import Document, Provider, RemoteImage
from consumers.providers.registry import build
from consumers.providers.settings import (
    AwsSettings,
    GoogleSettings,
    Kind,
    ProviderSettings,
)
from tests import pdfs
from tests.contract.cutting import cut_here
from tests.contract.fakes import aws, google
from tests.contract.fakes.aws import FakeAws
from tests.contract.fakes.azure import FakeAzure
from tests.contract.fakes.docling import FakeDocling
from tests.contract.fakes.google import FakeGoogle
from tests.contract.fakes.infrai import FakeInfrai
from tests.contract.fakes.jobs import Job, JobBook
from tests.contract.fakes.selfhosted import FakeSelfHosted
from tests.contract.fakes.server import FakeService, Reply, Stranger, json_reply

SECRET = "s3cr3t-t0ken-7f3a9c5e1b"
KEY = "7b0c1f6e-3a52-5d10-9f5b-0123456789ab"

NO_KEY = "the service has no idempotency key"
API_IMAGES = "images come from the API itself, not from URLs"
INLINE = "images come inside of the answer"
OWN_CUT = "images are cut locally"
NO_LOCATION = "the id comes in the body"
NO_WORDS = "the state is told by which marker exists, not by a word"
ONE_THROTTLE = "throttles are always 429 or 503"
NO_MISLEADING_CODE = "no code of its contract looks like a throttle and is none"
FREE = "nothing is billed"
ALWAYS_A_JOB = "a submit always makes a job"
NO_ENVELOPE = "its answers have no envelope"
NO_NAMES = "images have no names in its answers"
LATE_CHECK = "the document is looked at only after it was accepted"
NO_BATCH = "a job has one document and one outcome"
NO_ID_TOLD = "its answer does not name the job"


class Subject:
    """``ruled_out``: behaviours that the service's contract makes impossible, with the reason."""

    name: ClassVar[str]
    kind: ClassVar[Kind]
    document_operation: ClassVar[str] = "submit"
    """The call that carries the document; where it is not the submit, it comes before it."""
    image_operation: ClassVar[str] = "image"
    """The call that carries an image; `result`: one that carries them all."""
    ruled_out: ClassVar[Mapping[str, str]] = {}
    finds_by_key: ClassVar[bool] = False
    book: JobBook

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stranger = Stranger()
        self.service = self.new_service()
        self.stranger.start()
        self.service.start()
        self.provider = self.built()

    def new_service(self) -> FakeService:
        raise NotImplementedError

    def settings(self, **changes: Any) -> ProviderSettings:
        return ProviderSettings(
            kind=self.kind,
            base_url=self.base_url,
            token=SecretStr(SECRET),
            connect_timeout_seconds=5,
            read_timeout_seconds=changes.pop("read_timeout_seconds", 10),
            **changes,
        )

    @property
    def base_url(self) -> str:
        return self.service.origin

    def built(self, **changes: Any) -> Provider:
        return build(self.settings(**changes), cut_regions=cut_here, environment={})

    def for_many_images(self) -> Provider:
        """An adapter for a test of how it lists images, which does not look at their pixels."""
        return self.provider

    def close(self) -> None:
        self.provider.close()
        self.service.stop()
        self.stranger.stop()

    def document(self, pages: int = 3, *, content: bytes | None = None) -> Document:
        data = pdfs.pages(pages) if content is None else content
        digest = hashlib.sha256(data).hexdigest()
        path = self.folder / f"{digest[:16]}.pdf"
        path.write_bytes(data)
        return Document(path, digest, len(data), pages)

    def job(self, job_id: str) -> Job:
        return self.book.jobs[job_id]

    def finish(self, job_id: str) -> None:
        self.job(job_id).state = "succeeded"

    def fail(self, job_id: str, code: str | None = None) -> None:
        job = self.job(job_id)
        job.state, job.code = "failed", code

    def fail_the_item(self) -> None:
        """The batch succeeds, the document in it does not."""
        raise NotImplementedError

    def finish_partly(self, job_id: str) -> None:
        job = self.job(job_id)
        job.state, job.pages_done = "partial", job.pages - 1

    def vanish(self, job_id: str) -> None:
        self.book.forget(self.job(job_id).id)

    def knows(self, job_id: str) -> bool:
        """Whether the service still holds anything of the job."""
        return job_id in self.book.jobs

    @property
    def jobs_started(self) -> int:
        return len(self.book.started)

    def throttle(self, **headers: str) -> Reply:
        return json_reply({"error": {"code": "x"}}, 429, **headers)

    def overloaded(self) -> Reply:
        return Reply(503, b"<html>busy</html>", {"Content-Type": "text/html"})

    def throttle_in_4xx(self) -> Reply:
        raise NotImplementedError

    def looks_like_a_throttle(self) -> Reply:
        raise NotImplementedError

    def without_credit(self) -> Reply:
        return json_reply({"error": {"code": "INSUFFICIENT_CREDIT"}}, 402)

    def unauthorised(self) -> Reply:
        return json_reply({"error": {"code": "UNAUTHORIZED"}}, 401)

    attempt_code: ClassVar[str] = "internal"
    """A failure of a job that is not the document's fault."""

    def expected(self, job_id: str) -> list[tuple[int, int, str | None]]:
        """(page, place on the page from 0, checksum or None where the pixels are ours)."""
        return [(i.page, i.index - 1, i.sha256) for i in self.job(job_id).images]


def no_forget_call(reason: str) -> dict[str, str]:
    return dict.fromkeys(
        (
            "forgetting_deletes_the_job_and_twice_is_success",
            "a_redirected_deletion_is_not_followed",
        ),
        reason,
    )


class Infrai(Subject):
    name = "infrai"
    kind = Kind.INFRAI
    ruled_out: ClassVar = {
        "a_failed_document_in_a_successful_batch_is_a_failure": NO_BATCH,
        **no_forget_call("no call for it is documented"),
    }
    service: FakeInfrai

    def new_service(self) -> FakeService:
        service = FakeInfrai(token=SECRET)
        self.book = service.book
        return service

    @property
    def base_url(self) -> str:
        return self.service.base_url

    def settings(self, **changes: Any) -> ProviderSettings:
        changes.setdefault("allowed_download_hosts", ())
        return super().settings(**changes)

    def throttle(self, **headers: str) -> Reply:
        return self.service.refused(429, "RATE_LIMITED", **headers)

    def throttle_in_4xx(self) -> Reply:
        return self.service.refused(400, "RATE_LIMITED")

    def looks_like_a_throttle(self) -> Reply:
        return self.service.refused(429, "QUOTA_EXCEEDED")


class SelfHosted(Infrai):
    name = "selfhosted"
    kind = Kind.SELFHOSTED
    ruled_out: ClassVar = {
        "a_failed_document_in_a_successful_batch_is_a_failure": NO_BATCH,
        "no_credit_is_systemic": FREE,
        "a_throttle_code_that_is_none_is_told_apart": NO_MISLEADING_CODE,
        "a_result_in_the_submits_answer_is_taken": ALWAYS_A_JOB,
        "a_failed_call_inside_http_200_is_a_failure": NO_ENVELOPE,
        "images_by_a_second_call_are_listed": "a finished job lists its images",
        "inline_images_are_decoded": "images come as URLs",
    }
    attempt_code = "crashed"

    def new_service(self) -> FakeService:
        service = FakeSelfHosted(token=SECRET)
        self.book = service.book
        return service

    def finish_partly(self, job_id: str) -> None:
        job = self.job(job_id)
        job.state, job.pages_done = "succeeded", job.pages - 1


_ONLY_INFRAI: dict[str, str] = {
    "a_result_in_the_submits_answer_is_taken": ALWAYS_A_JOB,
    "a_failed_call_inside_http_200_is_a_failure": NO_ENVELOPE,
    "images_by_a_second_call_are_listed": "there is one way to get its images, tested above",
    "inline_images_are_decoded": "there is one way to get its images, tested above",
}
_NO_KEY: dict[str, str] = {
    "the_same_key_starts_one_job": NO_KEY,
    "the_same_key_with_another_document_is_terminal": NO_KEY,
}


def no_urls(reason: str) -> dict[str, str]:
    return dict.fromkeys(
        (
            "a_download_carries_no_credentials",
            "an_expired_url_is_renewed_by_reading_the_job",
            "a_download_host_that_is_not_allowed_is_refused",
            "a_download_from_a_private_address_is_refused",
        ),
        reason,
    )


def no_image_calls(reason: str) -> dict[str, str]:
    return no_urls(reason) | dict.fromkeys(
        (
            "a_short_image_is_truncated",
            "a_short_image_without_a_length_is_truncated",
            "a_changed_image_fails_its_checksum",
            "a_redirected_image_is_not_followed",
        ),
        reason,
    )


class Azure(Subject):
    name = "azure"
    kind = Kind.AZURE
    ruled_out: ClassVar = {
        **_ONLY_INFRAI,
        "a_failed_document_in_a_successful_batch_is_a_failure": NO_BATCH,
        **_NO_KEY,
        **no_urls(API_IMAGES),
        "a_cut_submit_answer_is_ambiguous": "the answer has no body",
        "a_throttle_code_in_a_4xx_is_a_throttle": ONE_THROTTLE,
        "a_throttle_code_that_is_none_is_told_apart": NO_MISLEADING_CODE,
        "a_changed_image_fails_its_checksum": "no checksum is told; the PNG is decoded later",
        "an_answer_about_another_job_is_refused": NO_ID_TOLD,
    }
    attempt_code = "InternalServerError"
    service: FakeAzure

    def new_service(self) -> FakeService:
        service = FakeAzure(token=SECRET)
        self.book = service.book
        return service

    def finish_partly(self, job_id: str) -> None:
        job = self.job(job_id)
        job.state, job.pages_done = "succeeded", 2

    def without_credit(self) -> Reply:
        return self.service.refused(403, "403")

    def throttle(self, **headers: str) -> Reply:
        return self.service.refused(429, "429", **headers)


class Google(Subject):
    name = "google"
    finds_by_key = True
    kind = Kind.GOOGLE
    ruled_out: ClassVar = {
        **_ONLY_INFRAI,
        **_NO_KEY,
        **no_urls(INLINE),
        "a_changed_image_fails_its_checksum": INLINE,
        "an_empty_answer_with_a_location_gives_the_id": NO_LOCATION,
        "an_id_at_another_host_is_refused": NO_LOCATION,
        "a_refused_document_is_the_documents_fault": LATE_CHECK,
        "fewer_pages_are_not_success": "the layout parser does not tell how many pages it read",
        "a_throttle_code_in_a_4xx_is_a_throttle": ONE_THROTTLE,
        "hostile_names_reach_no_path": NO_NAMES,
    }
    attempt_code = "13"
    document_operation = "upload"
    image_operation = "result"
    service: FakeGoogle

    def new_service(self) -> FakeService:
        service = FakeGoogle(token=SECRET)
        self.book = service.book
        return service

    def settings(self, **changes: Any) -> ProviderSettings:
        options = GoogleSettings(
            project=google.PROJECT,
            location=google.LOCATION,
            processor=google.PROCESSOR,
            bucket=google.BUCKET,
            storage_url=self.service.origin,
            max_result_bytes=changes.pop("max_json_bytes", 128 * 1024 * 1024),
        )
        return super().settings(google=options, **changes)

    def finish(self, job_id: str) -> None:
        self.service.finish(self.job(job_id))

    def fail_the_item(self) -> None:
        self.service.item_failure = 3

    def knows(self, job_id: str) -> bool:
        return bool(self.service.objects)

    def throttle(self, **headers: str) -> Reply:
        return self.service.refused(429, "RESOURCE_EXHAUSTED", **headers)

    def looks_like_a_throttle(self) -> Reply:
        message = "Received message larger than max (5 vs. 4)"
        return self.service.refused(429, "RESOURCE_EXHAUSTED", message)

    def without_credit(self) -> Reply:
        return self.service.refused(403, "PERMISSION_DENIED")


class _Aws(Subject):
    document_operation = "upload"
    service: FakeAws

    def new_service(self) -> FakeService:
        service = FakeAws()
        self.book = service.book
        return service

    def settings(self, **changes: Any) -> ProviderSettings:
        url = self.service.origin
        options = AwsSettings(
            region=aws.REGION,
            bucket=aws.BUCKET,
            s3_url=url,
            lambda_url=url,
            textract_url=url,
            render_dpi=36,
        )
        return super().settings(aws=options, **changes)

    def throttle(self, **headers: str) -> Reply:
        return self.service.json_error(429, "TooManyRequestsException", **headers)

    def unauthorised(self) -> Reply:
        return self.service.json_error(403, "UnrecognizedClientException")

    def without_credit(self) -> Reply:
        return self.service.json_error(403, "OptInRequired")


class AwsLambda(_Aws):
    name = "aws-lambda"
    finds_by_key = True
    kind = Kind.AWS_LAMBDA
    ruled_out: ClassVar = {
        **_ONLY_INFRAI,
        "a_failed_document_in_a_successful_batch_is_a_failure": NO_BATCH,
        **no_urls(API_IMAGES),
        "an_unknown_status_word_counts_as_running": NO_WORDS,
        "a_cut_submit_answer_is_ambiguous": "the answer has no body",
        "an_empty_answer_with_a_location_gives_the_id": "the id is the key",
        "an_id_at_another_host_is_refused": "the id is the key",
        "an_empty_answer_without_an_id_is_ambiguous": "the id is the key",
        "a_refused_document_is_the_documents_fault": LATE_CHECK,
        "a_throttle_code_that_is_none_is_told_apart": NO_MISLEADING_CODE,
        "an_answer_about_another_job_is_refused": NO_ID_TOLD,
    }
    attempt_code = "crashed"

    def finish(self, job_id: str) -> None:
        self.service.finish_function(self.job(job_id))

    def fail(self, job_id: str, code: str | None = None) -> None:
        super().fail(job_id, code)
        self.service.finish_function(self.job(job_id))

    def finish_partly(self, job_id: str) -> None:
        job = self.job(job_id)
        job.pages_done = job.pages - 1
        self.finish(job_id)

    def vanish(self, job_id: str) -> None:
        self.service.objects.clear()

    def knows(self, job_id: str) -> bool:
        return bool(self.service.objects)

    def throttle_in_4xx(self) -> Reply:
        return self.service.json_error(400, "ThrottlingException")


class Textract(_Aws):
    name = "textract"
    kind = Kind.TEXTRACT
    ruled_out: ClassVar = {
        **_ONLY_INFRAI,
        "a_failed_document_in_a_successful_batch_is_a_failure": NO_BATCH,
        **no_image_calls(OWN_CUT),
        **dict.fromkeys(
            (
                "retry_after_in_seconds",
                "retry_after_as_a_fraction",
                "retry_after_as_a_date",
                "retry_after_as_a_past_date",
                "retry_after_below_zero",
                "retry_after_that_is_garbage",
                "retry_after_that_is_huge",
                "retry_after_in_milliseconds",
            ),
            "its throttles are HTTP 400 and carry no hint",
        ),
        "an_empty_answer_with_a_location_gives_the_id": NO_LOCATION,
        "an_id_at_another_host_is_refused": NO_LOCATION,
        "a_throttle_code_that_is_none_is_told_apart": NO_MISLEADING_CODE,
        "an_answer_about_another_job_is_refused": NO_ID_TOLD,
        "hostile_names_reach_no_path": NO_NAMES,
    }
    attempt_code = "INTERNAL_ERROR"

    def for_many_images(self) -> Provider:
        self.service.blocks_per_page = 1000
        return build(
            self.settings(),
            environment={},
            cut_regions=lambda _, regions, __: [b"png"] * len(regions),
        )

    def job(self, job_id: str) -> Job:
        return super().job(job_id.partition("/")[2])

    def knows(self, job_id: str) -> bool:
        return bool(self.service.objects)

    def throttle(self, **headers: str) -> Reply:
        return self.service.json_error(400, "ThrottlingException", **headers)

    def throttle_in_4xx(self) -> Reply:
        return self.service.json_error(400, "ProvisionedThroughputExceededException")

    def expected(self, job_id: str) -> list[tuple[int, int, str | None]]:
        return [(page, order, None) for page, order, _ in super().expected(job_id)]


class Docling(Subject):
    name = "docling"
    kind = Kind.DOCLING
    image_operation = "result"
    ruled_out: ClassVar = {
        **_ONLY_INFRAI,
        "a_failed_document_in_a_successful_batch_is_a_failure": NO_BATCH,
        **_NO_KEY,
        **no_urls(INLINE),
        "a_changed_image_fails_its_checksum": INLINE,
        **no_forget_call("there is no call for one task"),
        "an_empty_answer_with_a_location_gives_the_id": NO_LOCATION,
        "an_id_at_another_host_is_refused": NO_LOCATION,
        "a_refused_document_is_the_documents_fault": LATE_CHECK,
        "a_failure_that_is_not_the_documents_fault_is_an_attempt": "a failure has no code",
        "no_credit_is_systemic": FREE,
        "a_throttle_code_in_a_4xx_is_a_throttle": ONE_THROTTLE,
        "a_throttle_code_that_is_none_is_told_apart": NO_MISLEADING_CODE,
        "hostile_names_reach_no_path": NO_NAMES,
    }
    service: FakeDocling

    def new_service(self) -> FakeService:
        service = FakeDocling(token=SECRET)
        self.book = service.book
        return service

    def throttle(self, **headers: str) -> Reply:
        return json_reply({"detail": "busy"}, 503, **headers)

    def unauthorised(self) -> Reply:
        return json_reply({"detail": "Api key is required."}, 401)


SUBJECTS: tuple[type[Subject], ...] = (
    Infrai,
    SelfHosted,
    Azure,
    Google,
    AwsLambda,
    Textract,
    Docling,
)


def sources_of(image: RemoteImage) -> list[str]:
    return [name for name in ("url", "data", "ref") if getattr(image, name) is not None]
