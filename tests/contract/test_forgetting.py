"""A service that does not delete at once, over real sockets, through the real tasks and threads."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from consumers import pools
from consumers.extraction import forgetting
from consumers.extraction.journal import Journal
from consumers.extraction.origin import Origin
from consumers.extraction.polling import Doubling
from consumers.extraction.scope import Scope
from consumers.extraction.services import Dependency, ProviderService, Services
from consumers.metrics import Metrics
from consumers.providers.protocol import SubmitOptions
from consumers.runtime.clock import SystemClock
from consumers.runtime.effects import Message, Outcome, Task
from consumers.runtime.limiter import Limiter
from consumers.runtime.pools import PoolSettings
from consumers.runtime.scheduler import Scheduler
from tests.contract.fakes.server import instead
from tests.contract.subjects import KEY, SelfHosted


class Rig:
    """A finished job at the fake, and what a worker has around it."""

    def __init__(self, folder: Path) -> None:
        self.subject = SelfHosted(folder)
        self.lines: list[dict[str, object]] = []
        self.metrics = Metrics()
        self.scheduler = Scheduler({pools.PROVIDER: PoolSettings(2)})
        self.provider = ProviderService(
            provider=self.subject.provider,
            slots=Limiter(1),
            schedule=Doubling(),
            calls=Dependency("selfhosted", pools.PROVIDER),
            downloads=Dependency("selfhosted-download", pools.DOWNLOAD),
        )
        clock = SystemClock()
        self.services = cast(
            Services,
            SimpleNamespace(
                metrics=self.metrics,
                rng=random.Random(1),
                beside=self._beside,
                call_places={pools.PROVIDER: Limiter(2)},
            ),
        )
        self.scope = Scope(
            clock=clock,
            metrics=self.metrics,
            journal=Journal(clock=clock, worker_id="w", topic="ledger", send=self._told),
            origin=Origin("events", 0, 0, None, "group", b"key", b"value", ()),
            bundle_id="bundle",
            document_id="document",
        )
        submitted = self.subject.provider.submit(
            self.subject.document(), key=KEY, options=SubmitOptions()
        )
        self.job_id = submitted.job_id
        self.subject.finish(self.job_id)

    def _told(self, message: Message) -> None:
        self.lines.append(json.loads(message.value or b""))

    def _beside(self, task: Task) -> None:
        self.scheduler.start(task, lambda _: None, "beside")

    def forget(self) -> None:
        """The task that a document waits for, to its end."""
        ended: list[Outcome] = []
        task = forgetting.forget_job(self.services, self.scope, self.provider, self.job_id)
        self.scheduler.start(task, ended.append, "document")
        self.step_until_none_of("document")
        assert [outcome.error for outcome in ended] == [None]

    def step_until_none_of(self, tag: str) -> None:
        deadline = time.monotonic() + 60
        while self.scheduler.count(tag):
            assert time.monotonic() < deadline
            self.scheduler.step(0.05)

    @property
    def deletions(self) -> int:
        return len(self.subject.service.seen("forget"))

    def value(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(
            f"bundles_provider_{name}_total", {"provider": "selfhosted"}
        )

    @property
    def events(self) -> list[object]:
        return [line["event"] for line in self.lines]


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr(forgetting, "FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(forgetting, "LONGEST_WAIT_S", 0.01)
    made = Rig(tmp_path)
    yield made
    made.subject.close()


def test_a_deletion_that_is_refused_once_is_made_again_without_the_document_waiting(
    rig: Rig,
) -> None:
    rig.subject.service.misbehave("forget", instead(rig.subject.overloaded()))
    rig.forget()
    assert rig.subject.knows(rig.job_id)
    rig.step_until_none_of("beside")
    assert not rig.subject.knows(rig.job_id)
    assert rig.events == ["forget_failed"]
    assert rig.deletions == 2
    assert (rig.value("forget_retries"), rig.value("forget_failures")) == (1.0, None)


def test_the_next_try_waits_as_the_service_says(rig: Rig) -> None:
    refusal = rig.subject.throttle(retry_after_ms="400")
    rig.subject.service.misbehave("forget", instead(refusal))
    rig.forget()
    (line,) = rig.lines
    assert line["wait_s"] == 0.4
    rig.step_until_none_of("beside")
    assert not rig.subject.knows(rig.job_id)


def test_a_service_that_never_deletes_is_given_up_and_counted(rig: Rig) -> None:
    rig.subject.service.misbehave("forget", instead(rig.subject.overloaded(), times=1000))
    rig.forget()
    rig.step_until_none_of("beside")
    assert rig.deletions == forgetting.ATTEMPTS
    assert rig.subject.knows(rig.job_id)
    assert rig.events == ["forget_failed"] * (forgetting.ATTEMPTS - 1) + ["forget_given_up"]
    assert rig.value("forget_failures") == 1.0
    assert rig.provider.forgetting == 0
    # The jobs of the same service are not slowed down for it.
    assert rig.provider.calls.gate.throttles == 0
    assert rig.provider.calls.breaker.failures == 0


def test_a_deletion_that_is_still_due_when_the_worker_stops_is_counted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "FIRST_WAIT_S", 600.0)
    monkeypatch.setattr(forgetting, "LONGEST_WAIT_S", 600.0)
    rig.subject.service.misbehave("forget", instead(rig.subject.overloaded()))
    rig.forget()
    rig.scheduler.step(0)
    assert rig.provider.forgetting == 1
    left = rig.scheduler.drain(["beside"], time.monotonic() + 30)
    assert left == set()
    assert rig.lines[-1]["code"] == "stopped"
    assert rig.value("forget_failures") == 1.0
    assert rig.provider.forgetting == 0


def test_there_is_a_bound_on_deletions_that_wait(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "MAX_WAITING", 0)
    rig.subject.service.misbehave("forget", instead(rig.subject.overloaded()))
    rig.forget()
    assert rig.scheduler.count("beside") == 0
    assert rig.events == ["forget_failed", "forget_given_up"]
    assert rig.value("forget_failures") == 1.0
