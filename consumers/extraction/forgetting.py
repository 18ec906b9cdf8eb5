"""Has the service delete a job and its results, once they are durable here.

The first try is made before the event's offset may be committed, so a crash makes it again. What
fails in a passing way is tried again beside everything else: no result and no commit waits for it.
It neither closes the provider's gate nor counts for its breaker: a service that only cannot delete
is no reason to slow its jobs down.
"""

from __future__ import annotations

from functools import partial

from consumers.extraction.pressure.backoff import backoff_s
from consumers.extraction.pressure.gate import MAX_WAIT_S
from consumers.extraction.retries import Verdict, classify
from consumers.extraction.scope import Scope
from consumers.extraction.services import ProviderService, Services
from consumers.extraction.turns import in_turn
from consumers.runtime.effects import Sleep, Task

ATTEMPTS = 10
"""Of one deletion, the first included: with the waits between them about eight minutes."""
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 300.0
MAX_WAITING = 1000
"""Deletions of one service that wait for another try: each holds a few kilobytes."""

_WORTH_ANOTHER_TRY = frozenset({Verdict.THROTTLED, Verdict.ATTEMPT, Verdict.SYSTEMIC})


def forget_job(services: Services, scope: Scope, provider: ProviderService, job_id: str) -> Task:
    """Task: never fails. When it ends, the job is deleted, given up, or left to `_again`."""
    with scope.stage("clean_up"):
        wait_s = yield from _attempt(services, scope, provider, job_id, 1)
    if wait_s is None:
        return
    if provider.forgetting >= MAX_WAITING:
        _give_up(services, scope, provider, job_id, "too_many_waiting")
        return
    services.beside(_again(services, scope, provider, job_id, wait_s))


def _again(
    services: Services, scope: Scope, provider: ProviderService, job_id: str, wait_s: float
) -> Task:
    provider.forgetting += 1
    try:
        for attempt in range(2, ATTEMPTS + 1):
            yield Sleep(wait_s)
            waits = yield from _attempt(services, scope, provider, job_id, attempt)
            if waits is None:
                return
            wait_s = waits
    except GeneratorExit:  # the worker stops
        _give_up(services, scope, provider, job_id, "stopped")
        raise
    finally:
        provider.forgetting -= 1


def _attempt(
    services: Services, scope: Scope, provider: ProviderService, job_id: str, attempt: int
) -> Task:
    """Task: seconds to wait before the next try; None when there shall be none."""
    try:
        forget = partial(provider.provider.forget, job_id)
        yield from in_turn(services, scope.bundle_id, provider.calls.pool, forget)
        return None
    except Exception as error:
        failed = classify(error)
    if attempt == ATTEMPTS or failed.verdict not in _WORTH_ANOTHER_TRY:
        _give_up(services, scope, provider, job_id, failed.code)
        return None
    grown = backoff_s(attempt, first_s=FIRST_WAIT_S, ceiling_s=LONGEST_WAIT_S, rng=services.rng)
    wait_s = max(grown, min(failed.retry_after or 0.0, MAX_WAIT_S))
    services.metrics.forget_retries.labels(provider.provider.name).inc()
    scope.note(
        "forget_failed",
        stage="clean_up",
        job_id=job_id,
        attempt=attempt,
        code=failed.code,
        wait_s=wait_s,
    )
    return wait_s


def _give_up(
    services: Services, scope: Scope, provider: ProviderService, job_id: str, code: str
) -> None:
    services.metrics.forget_failures.labels(provider.provider.name).inc()
    scope.note("forget_given_up", stage="clean_up", job_id=job_id, code=code)
