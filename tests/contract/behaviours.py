"""What every adapter must do, whatever its service does: one function for each behaviour.

Each is run against each `Subject` over a real socket. The numbers in comments are those of the
twelve behaviours that are known to break clients of such services.
"""

from __future__ import annotations

import base64
import gzip
import json
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from consumers.providers.errors import (
    CallFailed,
    DocumentRefused,
    ImageExpired,
    JobNotFound,
    NotAuthorized,
    ProviderError,
    ResponseUnsafe,
    ServiceUnavailable,
    SubmitUnknown,
    Throttled,
    Truncated,
)
from consumers.providers.protocol import (
    Document,
    JobState,
    JobStatus,
    Provider,
    RemoteImage,
    Submission,
    SubmitOptions,
)
from consumers.providers.retry_after import LONGEST_SECONDS
from tests.contract.fakes.infrai import FakeInfrai
from tests.contract.fakes.server import (
    Reply,
    delivered,
    instead,
    lost_answer,
    said_in,
)
from tests.contract.subjects import KEY, AwsLambda, Azure, Subject, sources_of

Behaviour = Callable[[Subject], None]
BEHAVIOURS: dict[str, Behaviour] = {}

MAX_BYTES = 10 * 1024 * 1024
HTML = Reply(200, b"<html><body>Welcome</body></html>", {"Content-Type": "text/html"})


def behaviour(function: Behaviour) -> Behaviour:
    BEHAVIOURS[function.__name__] = function
    return function


def submit(
    subject: Subject, document: Document | None = None, *, provider: Provider | None = None
) -> Submission:
    return (provider or subject.provider).submit(
        document or subject.document(), key=KEY, options=SubmitOptions()
    )


def started(subject: Subject, document: Document | None = None) -> tuple[str, Document]:
    document = document or subject.document()
    return submit(subject, document).job_id, document


def listed(
    provider: Provider, job_id: str, status: JobStatus, document: Document
) -> tuple[RemoteImage, ...]:
    return status.images if status.images_listed else provider.images(job_id, document)


def finished(subject: Subject) -> tuple[str, Document, JobStatus]:
    job_id, document = started(subject)
    subject.finish(job_id)
    return job_id, document, subject.provider.poll(job_id)


def fetched(
    subject: Subject, provider: Provider, job_id: str, image: RemoteImage, *, limit: int = MAX_BYTES
) -> str:
    destination = subject.folder / "image"
    result = provider.fetch_image(job_id, image, destination, max_bytes=limit)
    assert result.path == destination
    assert stat.S_IMODE(destination.stat().st_mode) == 0o600
    assert destination.stat().st_size == result.bytes
    return result.sha256


# The life of a job.


@behaviour
def a_job_runs_and_gives_its_images_in_order(subject: Subject) -> None:
    job_id, document = started(subject)
    assert subject.provider.poll(job_id).state is JobState.RUNNING
    subject.finish(job_id)
    status = subject.provider.poll(job_id)
    assert status.state is JobState.SUCCEEDED
    images = listed(subject.provider, job_id, status, document)
    assert all(len(sources_of(image)) == 1 for image in images)
    expected = subject.expected(job_id)
    assert [(image.page, image.order) for image in images] == [e[:2] for e in expected]
    for image, (_, _, checksum) in zip(images, expected, strict=True):
        assert fetched(subject, subject.provider, job_id, image) == checksum or checksum is None


@behaviour
def a_job_without_images_succeeds_with_none(subject: Subject) -> None:
    job_id, document = started(subject)
    subject.job(job_id).images_per_page = 0
    subject.finish(job_id)
    status = subject.provider.poll(job_id)
    assert status.state is JobState.SUCCEEDED
    assert listed(subject.provider, job_id, status, document) == ()


@behaviour
def a_running_job_stays_running_however_often_it_is_asked(subject: Subject) -> None:  # 3
    job_id, _ = started(subject)
    for _ in range(20):
        status = subject.provider.poll(job_id)
        assert (status.state, status.known) == (JobState.RUNNING, True)


@behaviour
def a_job_is_adopted_by_another_process_by_its_id_alone(subject: Subject) -> None:  # 3
    job_id, document = started(subject)
    subject.finish(job_id)
    successor = subject.built()
    try:
        status = successor.poll(job_id)
        assert len(listed(successor, job_id, status, document)) == 6
    finally:
        successor.close()


@behaviour
def an_unknown_status_word_counts_as_running(subject: Subject) -> None:
    job_id, _ = started(subject)
    subject.job(job_id).word = "percolating"
    status = subject.provider.poll(job_id)
    assert (status.state, status.known) == (JobState.RUNNING, False)


@behaviour
def a_failed_job_inside_http_200_is_a_failure(subject: Subject) -> None:  # 6
    job_id, _ = started(subject)
    subject.fail(job_id)
    status = subject.provider.poll(job_id)
    assert (status.state, status.failure_kind) == (JobState.FAILED, "document")
    assert status.failure_code


@behaviour
def a_failure_that_is_not_the_documents_fault_is_an_attempt(subject: Subject) -> None:
    job_id, _ = started(subject)
    subject.fail(job_id, subject.attempt_code)
    status = subject.provider.poll(job_id)
    assert (status.state, status.failure_kind) == (JobState.FAILED, "attempt")


@behaviour
def a_failed_document_in_a_successful_batch_is_a_failure(subject: Subject) -> None:  # 6
    job_id, _ = started(subject)
    subject.finish(job_id)
    subject.fail_the_item()
    status = subject.provider.poll(job_id)
    assert (status.state, status.failure_kind) == (JobState.FAILED, "document")


@behaviour
def fewer_pages_are_not_success(subject: Subject) -> None:  # 11
    job_id, document = started(subject)
    subject.finish_partly(job_id)
    status = subject.provider.poll(job_id)
    if status.state is JobState.SUCCEEDED:
        assert status.pages is not None
        assert status.pages < document.pages
    else:
        assert (status.failure_code, status.failure_kind) == ("partial_result", "attempt")


@behaviour
def a_job_that_the_service_does_not_know_is_not_found(subject: Subject) -> None:  # 5
    job_id, _ = started(subject)
    subject.vanish(job_id)
    with pytest.raises(JobNotFound):
        subject.provider.poll(job_id)


@behaviour
def forgetting_deletes_the_job_and_twice_is_success(subject: Subject) -> None:
    job_id, _, _ = finished(subject)
    subject.provider.forget(job_id)
    assert not subject.knows(job_id)
    subject.provider.forget(job_id)


@behaviour
def a_job_is_found_by_its_key_where_the_service_can_tell(subject: Subject) -> None:  # 4
    assert subject.provider.find(KEY) is None
    job_id, _, _ = finished(subject)
    assert subject.provider.find(KEY) == (job_id if subject.finds_by_key else None)


# Submitting.


@behaviour
def nothing_is_sent_that_names_the_source(subject: Subject) -> None:
    document = subject.document()
    named = document.path.with_name("Novak-Jan-1950.pdf")
    document.path.rename(named)
    submit(subject, replace(document, path=named))
    sent = [request for _, request in subject.service.requests]
    assert sent
    for request in sent:
        said = f"{request.target} {dict(request.headers)}".encode() + request.body
        assert b"Novak" not in said
        assert str(subject.folder).encode() not in said


@behaviour
def every_call_asks_for_an_uncompressed_answer(subject: Subject) -> None:  # 10
    job_id, document, status = finished(subject)
    for image in listed(subject.provider, job_id, status, document):
        fetched(subject, subject.provider, job_id, image)
    subject.provider.forget(job_id)
    asked = [request.headers.get("accept-encoding") for _, request in subject.service.requests]
    assert set(asked) == {"identity"}


@behaviour
def the_same_key_starts_one_job(subject: Subject) -> None:  # 4
    assert submit(subject).job_id == submit(subject).job_id
    assert subject.jobs_started == 1


@behaviour
def the_same_key_with_another_document_is_terminal(subject: Subject) -> None:  # 4
    submit(subject)
    with pytest.raises(DocumentRefused) as caught:
        submit(subject, subject.document(2))
    assert caught.value.code == "idempotency_mismatch"


@behaviour
def a_lost_submit_answer_is_ambiguous_and_the_key_heals_it(subject: Subject) -> None:  # 4
    subject.service.misbehave("submit", lost_answer())
    with pytest.raises(SubmitUnknown):
        submit(subject)
    assert subject.jobs_started == 1
    submit(subject)
    # Without a key the pipeline must know: its record says SUBMITTING, and it counts resubmits.
    expected = 1 if subject.provider.abilities.idempotent_submit else 2
    assert subject.jobs_started == expected


@behaviour
def a_submit_that_is_not_answered_in_time_is_ambiguous(subject: Subject) -> None:  # 4
    impatient = subject.built(read_timeout_seconds=0.1)
    submit(subject, provider=impatient)  # connections, look-ups and uploads are behind us

    def late(reply: Reply) -> Reply:
        time.sleep(0.5)
        return reply

    subject.service.misbehave("submit", said_in(late))
    with pytest.raises(SubmitUnknown) as caught:
        submit(subject, provider=impatient)
    assert caught.value.code == "read_timeout"
    impatient.close()


@behaviour
def a_cut_submit_answer_is_ambiguous(subject: Subject) -> None:  # 10
    for how in ("short", "short-close"):
        subject.service.misbehave("submit", delivered(how))
        with pytest.raises(SubmitUnknown):
            submit(subject)


@behaviour
def html_in_answer_to_a_submit_is_ambiguous(subject: Subject) -> None:  # 6
    subject.service.misbehave("submit", instead(HTML))
    with pytest.raises(SubmitUnknown):
        submit(subject)


@behaviour
def an_empty_answer_with_a_location_gives_the_id(subject: Subject) -> None:  # 2
    document = subject.document()

    def emptied(reply: Reply) -> Reply:
        if isinstance(subject, Azure):
            return reply
        job_id = subject.book.started[-1].id
        location = f"{subject.base_url}/pdf/job/get/{job_id}?x=1"
        return Reply(201, b"", {"Location": location})

    subject.service.misbehave("submit", said_in(emptied))
    job_id = submit(subject, document).job_id
    assert subject.provider.poll(job_id).state is JobState.RUNNING


@behaviour
def an_id_at_another_host_is_refused(subject: Subject) -> None:  # 2
    foreign = f"{subject.stranger.origin}/jobs/1"
    headers = {"Operation-Location": foreign, "Location": foreign}
    subject.service.misbehave("submit", instead(Reply(202, b"", headers)))
    with pytest.raises(ResponseUnsafe):
        submit(subject)
    assert subject.stranger.requests == []


@behaviour
def an_empty_answer_without_an_id_is_ambiguous(subject: Subject) -> None:  # 2
    for status in (201, 202, 204):
        subject.service.misbehave("submit", instead(Reply(status)))
        with pytest.raises(SubmitUnknown):
            submit(subject)


@behaviour
def a_refused_document_is_the_documents_fault(subject: Subject) -> None:
    with pytest.raises(DocumentRefused):
        submit(subject, subject.document(1, content=b"GIF89a, no document at all"))


@behaviour
def a_result_in_the_submits_answer_is_taken(subject: Subject) -> None:
    assert isinstance(subject.service, FakeInfrai)
    subject.service.synchronous = True
    submission = submit(subject)
    assert submission.status is not None
    assert submission.status.state is JobState.SUCCEEDED
    assert len(submission.status.images) == 6
    with pytest.raises(JobNotFound):  # nothing to ask for again: submitted again under its key
        subject.provider.poll(submission.job_id)


@behaviour
def a_failed_call_inside_http_200_is_a_failure(subject: Subject) -> None:  # 6
    assert isinstance(subject.service, FakeInfrai)
    for code, kind in (
        ("INSUFFICIENT_CREDIT", "systemic"),
        ("RATE_LIMITED", "throttled"),
        ("NOT_A_PDF", "document"),
        ("SOMETHING_ELSE", "attempt"),
    ):
        subject.service.misbehave("submit", instead(subject.service.refused(200, code)))
        with pytest.raises(ProviderError) as caught:
            submit(subject)
        assert (caught.value.code, caught.value.kind) == (code, kind)


REDIRECTS = (301, 302, 303, 307, 308)


def never_followed(subject: Subject, operation: str, call: Callable[[], object]) -> None:
    """Whichever way ``operation`` is redirected, ``call`` fails and nobody else is asked."""
    for status in REDIRECTS:
        already = len(subject.service.seen(operation))
        away = Reply(status, b"", {"Location": f"{subject.stranger.origin}/steal"})
        subject.service.misbehave(operation, instead(away))
        with pytest.raises(ResponseUnsafe):
            call()
        assert len(subject.service.seen(operation)) == already + 1
    assert subject.stranger.requests == []


@behaviour
def a_redirected_submit_is_not_followed(subject: Subject) -> None:  # 9
    never_followed(subject, "submit", lambda: submit(subject))


@behaviour
def a_redirected_document_is_not_followed(subject: Subject) -> None:  # 9
    document = subject.document()
    never_followed(subject, subject.document_operation, lambda: submit(subject, document))
    content = document.path.read_bytes()
    for request in subject.service.seen(subject.document_operation):
        assert content in request.body or base64.b64encode(content) in request.body
    assert subject.jobs_started == 0


# Pressure.


def hint_of(subject: Subject, value: str, header: str = "Retry_After") -> float | None:
    subject.service.misbehave("submit", instead(subject.throttle(**{header: value})))
    with pytest.raises(Throttled) as caught:
        submit(subject)
    return caught.value.retry_after


@behaviour
def retry_after_in_seconds(subject: Subject) -> None:  # 1
    assert hint_of(subject, "7") == 7.0


@behaviour
def retry_after_as_a_fraction(subject: Subject) -> None:  # 1
    assert hint_of(subject, "1.5") == 1.5


@behaviour
def retry_after_as_a_date(subject: Subject) -> None:  # 1
    later = datetime.now(UTC) + timedelta(hours=1)
    hint = hint_of(subject, format_datetime(later, usegmt=True))
    assert hint is not None
    assert 3000 < hint <= 3600


@behaviour
def retry_after_as_a_past_date(subject: Subject) -> None:  # 1
    assert hint_of(subject, "Wed, 21 Oct 2015 07:28:00 GMT") == 0.0


@behaviour
def retry_after_below_zero(subject: Subject) -> None:  # 1
    assert hint_of(subject, "-5") == 0.0


@behaviour
def retry_after_that_is_garbage(subject: Subject) -> None:  # 1
    assert hint_of(subject, "soon") is None


@behaviour
def retry_after_that_is_huge(subject: Subject) -> None:  # 1
    assert hint_of(subject, "99999999999") == LONGEST_SECONDS


@behaviour
def retry_after_in_milliseconds(subject: Subject) -> None:  # 1
    assert hint_of(subject, "1500", "Retry_After_Ms") == 1.5
    assert hint_of(subject, "250", "x_ms_retry_after_ms") == 0.25


def polled_into(subject: Subject, reply: Reply, kind: type[ProviderError]) -> ProviderError:
    job_id, _ = started(subject)
    poll = "list" if isinstance(subject, AwsLambda) else "poll"
    subject.service.misbehave(poll, instead(reply))
    with pytest.raises(kind) as caught:
        subject.provider.poll(job_id)
    return caught.value


@behaviour
def a_throttled_poll_is_a_throttle(subject: Subject) -> None:  # 1
    reply = subject.throttle()
    if isinstance(subject, AwsLambda):
        reply = subject.service.xml_error(503, "SlowDown")
    polled_into(subject, reply, Throttled)


@behaviour
def an_overloaded_service_is_a_throttle(subject: Subject) -> None:  # 7
    subject.service.misbehave("submit", instead(subject.overloaded()))
    with pytest.raises(Throttled):
        submit(subject)


@behaviour
def a_throttle_code_in_a_4xx_is_a_throttle(subject: Subject) -> None:  # 7
    subject.service.misbehave("submit", instead(subject.throttle_in_4xx()))
    with pytest.raises(Throttled):
        submit(subject)


@behaviour
def a_throttle_code_that_is_none_is_told_apart(subject: Subject) -> None:  # 7
    subject.service.misbehave("submit", instead(subject.looks_like_a_throttle()))
    with pytest.raises(ProviderError) as caught:
        submit(subject)
    assert caught.value.kind in ("systemic", "document")


@behaviour
def no_credit_is_systemic(subject: Subject) -> None:
    subject.service.misbehave("submit", instead(subject.without_credit()))
    with pytest.raises(ProviderError) as caught:
        submit(subject)
    assert caught.value.kind == "systemic"


@behaviour
def a_wrong_credential_is_systemic(subject: Subject) -> None:
    subject.service.misbehave("submit", instead(subject.unauthorised()))
    with pytest.raises(NotAuthorized):
        submit(subject)
    reply = subject.unauthorised()
    if isinstance(subject, AwsLambda):
        reply = subject.service.xml_error(403, "AccessDenied")
    polled_into(subject, reply, NotAuthorized)


@behaviour
def a_service_that_is_not_there_is_systemic(subject: Subject) -> None:
    job_id, document = started(subject)
    subject.provider.close()
    subject.service.stop()
    for call in (
        lambda: submit(subject, document),
        lambda: subject.provider.poll(job_id),
    ):
        with pytest.raises(ServiceUnavailable):
            call()


@behaviour
def a_server_error_on_poll_costs_an_attempt(subject: Subject) -> None:
    polled_into(subject, Reply(500, b"oops"), CallFailed)


@behaviour
def a_server_error_on_submit_is_ambiguous(subject: Subject) -> None:  # 4
    for status in (500, 502, 504):
        subject.service.misbehave("submit", instead(Reply(status, b"<html>oops</html>")))
        with pytest.raises(SubmitUnknown):
            submit(subject)


# Broken answers.


@behaviour
def html_in_answer_to_a_poll_costs_an_attempt(subject: Subject) -> None:  # 6
    polled_into(subject, HTML, CallFailed)


@behaviour
def a_redirected_poll_is_not_followed(subject: Subject) -> None:  # 9
    job_id, _ = started(subject)
    poll = "list" if isinstance(subject, AwsLambda) else "poll"
    never_followed(subject, poll, lambda: subject.provider.poll(job_id))


@behaviour
def a_redirected_deletion_is_not_followed(subject: Subject) -> None:  # 9
    job_id, _, _ = finished(subject)
    never_followed(subject, "forget", lambda: subject.provider.forget(job_id))
    assert subject.knows(job_id)


@behaviour
def a_cut_poll_answer_costs_an_attempt(subject: Subject) -> None:  # 10
    job_id, _ = started(subject)
    poll = "list" if isinstance(subject, AwsLambda) else "poll"
    for how in ("short", "short-close", "reset"):
        subject.service.misbehave(poll, delivered(how))
        with pytest.raises(CallFailed):
            subject.provider.poll(job_id)


@behaviour
def a_cut_compressed_answer_costs_an_attempt(subject: Subject) -> None:  # 10
    job_id, _ = started(subject)

    def compressed(reply: Reply) -> Reply:
        body = gzip.compress(reply.body + b" " * 5000)
        headers = {**reply.headers, "Content-Encoding": "gzip"}
        return replace(reply, body=body[: len(body) // 2], headers=headers)

    poll = "list" if isinstance(subject, AwsLambda) else "poll"
    subject.service.misbehave(poll, said_in(compressed))
    with pytest.raises(CallFailed) as caught:
        subject.provider.poll(job_id)
    assert caught.value.code == "content_encoding"


@behaviour
def a_dripping_answer_ends(subject: Subject) -> None:
    job_id, _ = started(subject)
    hurried = subject.built(total_timeout_seconds=0.2)
    poll = "list" if isinstance(subject, AwsLambda) else "poll"
    subject.service.misbehave(poll, delivered("drip"))
    with pytest.raises(CallFailed) as caught:
        hurried.poll(job_id)
    assert caught.value.code == "answer_too_slow"
    hurried.close()


@behaviour
def an_answer_over_the_limit_is_not_read(subject: Subject) -> None:
    job_id, document = started(subject)
    subject.finish(job_id)

    def padded(reply: Reply) -> Reply:
        return replace(reply, body=reply.body + b" " * 9 * 1024 * 1024)

    for operation in ("poll", "images", "object"):
        subject.service.misbehave(operation, said_in(padded))
    small = subject.built(**_small_answers(subject))

    def read_all() -> None:
        listed(small, job_id, small.poll(job_id), document)

    with pytest.raises(CallFailed) as caught:
        read_all()
    assert caught.value.code == "answer_too_large"
    small.close()


def _small_answers(subject: Subject) -> dict[str, Any]:
    limit = 1024 * 1024
    if subject.name in ("azure", "docling"):
        group = getattr(subject.settings(), subject.name)
        return {subject.name: group.model_copy(update={"max_result_bytes": limit})}
    return {"max_json_bytes": limit}


@behaviour
def an_answer_about_another_job_is_refused(subject: Subject) -> None:
    job_id, _ = started(subject)
    subject.finish(job_id)

    def swapped(reply: Reply) -> Reply:
        last = job_id.rpartition("/")[2]
        return replace(reply, body=reply.body.replace(last.encode(), b"9999"))

    subject.service.misbehave("poll", said_in(swapped))
    with pytest.raises(CallFailed) as caught:
        subject.provider.poll(job_id)
    assert caught.value.code == "answer_of_another_job"


# Images.


def an_image(subject: Subject) -> tuple[str, RemoteImage]:
    job_id, document, status = finished(subject)
    return job_id, listed(subject.provider, job_id, status, document)[0]


def nothing_left(subject: Subject) -> bool:
    return not (subject.folder / "image").exists()


@behaviour
def a_download_carries_no_credentials(subject: Subject) -> None:  # 8
    job_id, image = an_image(subject)
    fetched(subject, subject.provider, job_id, image)
    (request,) = subject.service.seen("image")
    assert not {"authorization", "x-api-key", "idempotency-key", "cookie"} & set(request.headers)


@behaviour
def an_expired_url_is_renewed_by_reading_the_job(subject: Subject) -> None:  # 8
    assert isinstance(subject.service, FakeInfrai)
    job_id, image = an_image(subject)
    subject.service.url_generation += 1
    with pytest.raises(ImageExpired):
        fetched(subject, subject.provider, job_id, image)
    assert nothing_left(subject)
    fresh = subject.provider.poll(job_id).images[0]
    fetched(subject, subject.provider, job_id, fresh)


@behaviour
def a_download_host_that_is_not_allowed_is_refused(subject: Subject) -> None:  # 8
    job_id, image = an_image(subject)
    provider = subject.built(allow_private_downloads=True, allowed_download_hosts=("a.example",))
    with pytest.raises(ResponseUnsafe) as caught:
        fetched(subject, provider, job_id, replace(image, url=f"{subject.stranger.origin}/x.png"))
    assert caught.value.code == "download_host_not_allowed"
    assert subject.stranger.requests == []
    provider.close()


@behaviour
def a_download_from_a_private_address_is_refused(subject: Subject) -> None:  # 8
    job_id, image = an_image(subject)
    provider = subject.built(allowed_download_hosts=("*",))
    for host in ("127.0.0.1", "localhost", "10.0.0.1", "169.254.169.254", "[::1]", "0.0.0.0"):
        with pytest.raises(ResponseUnsafe) as caught:
            fetched(subject, provider, job_id, replace(image, url=f"https://{host}/x.png"))
        assert caught.value.code == "download_address_private"
    for url in ("file:///etc/passwd", "ftp://a.example/x", "http://a@b.example/", "https://"):
        with pytest.raises(ResponseUnsafe):
            fetched(subject, provider, job_id, replace(image, url=url))
    provider.close()


@behaviour
def a_redirected_image_is_not_followed(subject: Subject) -> None:  # 8, 9
    if subject.image_operation == "result":
        job_id, document = started(subject)
        subject.finish(job_id)

        def read() -> object:
            return listed(subject.provider, job_id, subject.provider.poll(job_id), document)
    else:
        job_id, image = an_image(subject)

        def read() -> object:
            return fetched(subject, subject.provider, job_id, image)

    never_followed(subject, subject.image_operation, read)
    assert nothing_left(subject)


def a_cut_result_costs_an_attempt(subject: Subject, how: str) -> None:
    """Where images come inside of an answer, it is that answer that can be cut off."""
    job_id, document = started(subject)
    subject.finish(job_id)
    subject.service.misbehave("result", delivered(how))
    with pytest.raises(CallFailed):
        listed(subject.provider, job_id, subject.provider.poll(job_id), document)
    assert listed(subject.provider, job_id, subject.provider.poll(job_id), document)


@behaviour
def a_short_image_is_truncated(subject: Subject) -> None:  # 10
    if subject.image_operation == "result":
        a_cut_result_costs_an_attempt(subject, "short")
        return
    job_id, image = an_image(subject)
    subject.service.misbehave("image", delivered("short"))
    with pytest.raises(Truncated):
        fetched(subject, subject.provider, job_id, image)
    assert nothing_left(subject)


@behaviour
def a_short_image_without_a_length_is_truncated(subject: Subject) -> None:  # 10
    if subject.image_operation == "result":
        a_cut_result_costs_an_attempt(subject, "short-close")
        return
    job_id, image = an_image(subject)
    subject.service.misbehave("image", delivered("short-close"))
    with pytest.raises(Truncated):
        fetched(subject, subject.provider, job_id, image)
    assert nothing_left(subject)


@behaviour
def a_changed_image_fails_its_checksum(subject: Subject) -> None:  # 10
    job_id, image = an_image(subject)

    def changed(reply: Reply) -> Reply:
        return replace(reply, body=reply.body[:-1] + b"?")

    subject.service.misbehave("image", said_in(changed))
    with pytest.raises(Truncated) as caught:
        fetched(subject, subject.provider, job_id, image)
    assert caught.value.code == "checksum_mismatch"
    assert nothing_left(subject)


@behaviour
def an_image_over_its_limit_is_refused(subject: Subject) -> None:  # 12
    job_id, image = an_image(subject)
    with pytest.raises(DocumentRefused) as caught:
        fetched(subject, subject.provider, job_id, image, limit=10)
    assert caught.value.code == "image_too_large"
    assert nothing_left(subject)


@behaviour
def images_are_the_same_from_one_poll_to_the_next(subject: Subject) -> None:  # 12
    if isinstance(subject.service, FakeInfrai):
        subject.service.shuffle_images = True
    job_id, document, first = finished(subject)
    second = subject.provider.poll(job_id)
    assert listed(subject.provider, job_id, first, document) == listed(
        subject.provider, job_id, second, document
    )


@behaviour
def hostile_names_reach_no_path(subject: Subject) -> None:  # 12
    job_id, document = started(subject)
    subject.finish(job_id)

    def renamed(reply: Reply) -> Reply:
        body = json.loads(reply.body)
        if isinstance(subject, Azure):
            body["analyzeResult"]["figures"][0]["id"] = "../../figures"
        elif isinstance(subject, AwsLambda):
            body["images"][0]["name"] = "../../other-patient/image.png"
        else:
            body.get("data", body)["images"][0]["id"] = "../../x"
        return replace(reply, body=json.dumps(body).encode())

    subject.service.misbehave(
        "object" if isinstance(subject, AwsLambda) else "poll", said_in(renamed)
    )
    if isinstance(subject, AwsLambda):
        with pytest.raises(CallFailed) as caught:
            subject.provider.poll(job_id)
        assert caught.value.code == "images_unreadable"
        return
    status = subject.provider.poll(job_id)
    images = listed(subject.provider, job_id, status, document)
    assert not any(".." in (image.ref or "") for image in images)
    # One that cannot be named is missed, and said so.
    assert len(images) + len(status.problems) == 6


@behaviour
def ten_thousand_images_are_listed(subject: Subject) -> None:  # 12
    provider = subject.for_many_images()
    job_id, document = started(subject, subject.document(2))
    subject.job(job_id).images_per_page = 5000
    subject.finish(job_id)
    status = provider.poll(job_id)
    images = listed(provider, job_id, status, document)
    assert [(image.page, image.order) for image in images] == [
        (page, order) for page in (1, 2) for order in range(5000)
    ]


@behaviour
def inline_images_are_decoded(subject: Subject) -> None:
    assert isinstance(subject.service, FakeInfrai)
    subject.service.images = "inline"
    a_job_runs_and_gives_its_images_in_order(subject)


@behaviour
def images_by_a_second_call_are_listed(subject: Subject) -> None:
    assert isinstance(subject.service, FakeInfrai)
    subject.service.images = "second-call"
    a_job_runs_and_gives_its_images_in_order(subject)
