"""What goes through the counting wrappers is counted, and otherwise untouched."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from consumers.metrics import PROVIDER_OUTCOMES, Metrics
from consumers.observed import CountedWrites, ObservedProvider, outcome_of
from consumers.providers import errors
from consumers.providers.errors import ProviderError, Throttled
from consumers.providers.protocol import Abilities, JobState, JobStatus
from sinks.objectstore import MemoryStore, PreconditionFailed


class Service:
    name = "selfhosted"
    abilities = Abilities(idempotent_submit=True)

    def poll(self, job_id: str) -> JobStatus:
        if job_id == "busy":
            raise Throttled("busy")
        return JobStatus(JobState.RUNNING, "running")


def calls(metrics: Metrics, operation: str, outcome: str) -> float | None:
    labels = {"provider": "selfhosted", "operation": operation, "outcome": outcome}
    return metrics.registry.get_sample_value("bundles_provider_calls_total", labels)


def test_calls_are_counted_by_what_the_answer_meant() -> None:
    metrics = Metrics()
    provider = ObservedProvider(Service(), metrics)  # type: ignore[arg-type]
    assert provider.poll("a").state is JobState.RUNNING
    with pytest.raises(Throttled):
        provider.poll("busy")
    assert calls(metrics, "poll", "ok") == 1
    assert calls(metrics, "poll", "throttled") == 1
    seconds = {"provider": "selfhosted", "operation": "poll"}
    assert metrics.registry.get_sample_value("bundles_provider_call_seconds_count", seconds) == 2


def test_every_kind_of_failure_has_an_outcome_of_the_contract() -> None:
    kinds = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, ProviderError) and kind is not ProviderError
    ]
    outcomes = {outcome_of(kind("code")) for kind in kinds}
    assert outcomes == set(PROVIDER_OUTCOMES) - {"ok", "error"}
    assert outcome_of(RuntimeError()) == "error"


def test_conditional_writes_are_counted_by_their_outcome() -> None:
    metrics, memory = Metrics(), MemoryStore()
    memory.ensure_bucket("b")
    store = CountedWrites(memory, "manifest", metrics)

    def count(outcome: str) -> float | None:
        labels: dict[str, Any] = {"object": "manifest", "outcome": outcome}
        return metrics.registry.get_sample_value("bundles_conditional_writes_total", labels)

    for body in (b"one", b"one", b"other"):
        store.put_if_absent("b", "k", body, content_type="text/plain")
    etag = store.head("b", "k").etag
    store.replace_if_match("b", "k", b"two", etag=etag, content_type="text/plain")
    with pytest.raises(PreconditionFailed):
        store.replace_if_match("b", "k", b"three", etag=etag, content_type="text/plain")
    counted = [count(o) for o in ("created", "identical", "conflict", "replaced", "lost_race")]
    assert counted == [1, 1, 1, 1, 1]
    assert store.get("b", "k", max_bytes=10).body == b"two"
