"""What an adapter declares of its service is so: against the fakes, and against the numbers that
the services publish."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumers.extraction.polling import before_it_is_gone
from consumers.extraction.shards import plan_shards
from consumers.providers.errors import CallFailed, Throttled
from consumers.providers.protocol import Abilities, Provider
from consumers.providers.settings import DoclingSettings, SelfHostedSettings
from deploy.extractor.settings import Settings as ServiceSettings
from schemas.policy import Sharding
from tests.contract.behaviours import started, submit
from tests.contract.fakes.server import Reply, instead, said_in
from tests.contract.subjects import SUBJECTS, Docling, SelfHosted, Subject

MIB = 1024 * 1024
DAY_S = 24 * 3600.0
NO_LIMIT = (None, None, None)
PUBLISHED: dict[str, tuple[int | None, int | None, float | None]] = {
    "infrai": NO_LIMIT,
    "azure": (2_000, 500_000_000, DAY_S),
    "google": (500, 1_000_000_000, None),
    "aws-lambda": NO_LIMIT,
    "textract": (3_000, 500 * MIB, 7 * DAY_S),
}
"""Pages and bytes of one job, seconds that results are kept; None: not said, or ours to set."""
PUBLISHED_GETS_PER_SECOND = {"azure": 50}


@pytest.fixture(params=SUBJECTS, ids=lambda kind: str(kind.name))
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    made: Subject = request.param(tmp_path)
    yield made
    made.close()


def limits(abilities: Abilities) -> tuple[int | None, int | None, float | None]:
    return (
        abilities.max_pages_per_job,
        abilities.max_bytes_per_job,
        abilities.results_kept_seconds,
    )


def test_a_second_submit_makes_a_second_job_only_where_submits_are_not_idempotent(
    subject: Subject,
) -> None:
    submit(subject)
    submit(subject)
    idempotent = subject.provider.abilities.idempotent_submit
    assert subject.jobs_started == (1 if idempotent else 2)


def test_a_service_that_gives_hints_has_them_kept_and_one_that_gives_none_has_none_made_up(
    subject: Subject,
) -> None:
    hint = {"Retry_After": "7"} if subject.provider.abilities.gives_retry_hint else {}
    subject.service.misbehave("submit", instead(subject.throttle(**hint)))
    with pytest.raises(Throttled) as caught:
        submit(subject)
    assert caught.value.retry_after == (7.0 if hint else None)


@pytest.mark.parametrize("kind", SUBJECTS, ids=lambda kind: str(kind.name))
def test_a_service_whose_contract_has_no_hint_declares_none(
    kind: type[Subject], tmp_path: Path
) -> None:
    made = kind(tmp_path)
    assert made.provider.abilities.gives_retry_hint == (kind.name not in ("google", "textract"))
    made.close()


def patient(subject: Subject) -> Provider:
    """With long polls, where the service has them, and little patience otherwise."""
    impatient: dict[str, object] = {"read_timeout_seconds": 0.2}
    if isinstance(subject, SelfHosted):
        impatient["selfhosted"] = SelfHostedSettings(long_poll_seconds=10)
    if isinstance(subject, Docling):
        impatient["docling"] = DoclingSettings(long_poll_seconds=10)
    return subject.built(**impatient)


def test_a_late_answer_to_a_poll_is_waited_for_only_where_polls_are_long(subject: Subject) -> None:
    job_id, _ = started(subject)
    provider = patient(subject)
    operation = "list" if subject.name == "aws-lambda" else "poll"
    provider.poll(job_id)  # connections are behind us

    def late(reply: Reply) -> Reply:
        time.sleep(0.6)
        return reply

    subject.service.misbehave(operation, said_in(late))
    if subject.name in ("selfhosted", "docling"):
        assert provider.abilities.long_poll_seconds == 10
        provider.poll(job_id)
        (asked,) = {request.query.get("wait") for request in subject.service.seen("poll")}
        assert asked == "10"
    else:
        assert provider.abilities.long_poll_seconds == 0
        with pytest.raises(CallFailed) as caught:
            provider.poll(job_id)
        assert caught.value.code == "read_timeout"
        assert not any("wait" in request.query for request in subject.service.seen("poll"))
    provider.close()


def test_limits_are_those_that_the_service_publishes(subject: Subject) -> None:
    if subject.name in PUBLISHED:
        assert limits(subject.provider.abilities) == PUBLISHED[subject.name]
    elif isinstance(subject, Docling):
        kept = subject.settings().docling.results_kept_seconds
        assert limits(subject.provider.abilities) == (None, None, kept)
    else:  # no more than our own service takes with its settings as they are
        declared = subject.provider.abilities
        service = ServiceSettings(token="t")
        assert (declared.max_pages_per_job or 0) <= service.max_pages
        assert (declared.max_bytes_per_job or 0) <= service.max_upload_bytes
        assert declared.results_kept_seconds == service.retention_s


def test_polls_leave_room_for_images_within_the_published_rate(subject: Subject) -> None:
    published = PUBLISHED_GETS_PER_SECOND.get(subject.name)
    declared = subject.provider.abilities.max_polls_per_second
    assert declared == (None if published is None else published / 2)


def test_declared_limits_bound_the_jobs_and_the_waits_between_polls(subject: Subject) -> None:
    abilities = subject.provider.abilities
    pages, size, kept = limits(abilities)
    if pages is not None:
        ranges = plan_shards(pages + 1, 1, Sharding(), abilities)
        assert [last - first + 1 <= pages for first, last in ranges] == [True, True]
    if size is not None:
        assert len(plan_shards(2, size + 1, Sharding(), abilities)) == 2
    if kept is not None:
        assert before_it_is_gone(10 * kept, kept) <= kept / 2
