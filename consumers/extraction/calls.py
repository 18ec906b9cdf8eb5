"""Every call to something remote goes through here: breaker, gate, pace, turn, budget, table,
metrics.

The caller sees a result, a `DocumentFailed`, or one of the errors that it said it ``handles``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from consumers.extraction.pressure.backoff import backoff_s
from consumers.extraction.retries import Classified, Verdict, classify
from consumers.extraction.scope import DocumentFailed, Scope
from consumers.extraction.services import Dependency, Services
from consumers.extraction.turns import in_turn
from consumers.runtime.effects import Sleep, Task
from schemas.policy import Retries
from schemas.reasons import Reason

ATTEMPTS_WHILE_OPEN = 20
"""With the breaker open a document does not give up after its usual attempts (nobody knows yet
whose fault it is), but after this many more: a document that alone breaks the service must not be
its probe for ever."""


def call(
    services: Services,
    scope: Scope,
    dependency: Dependency,
    operation: str,
    fn: Callable[[], Any],
    *,
    retries: Retries,
    handles: tuple[type[Exception], ...] = (),
) -> Task:
    """Task: the value of ``fn()``, run in the dependency's pool, made again as the table says.

    :raises DocumentFailed: the document's own fault, or its attempts are used up.
    """
    dependency.callers += 1
    try:
        return (yield from _repeated(services, scope, dependency, operation, fn, retries, handles))
    finally:
        dependency.callers -= 1


def _repeated(
    services: Services,
    scope: Scope,
    dependency: Dependency,
    operation: str,
    fn: Callable[[], Any],
    retries: Retries,
    handles: tuple[type[Exception], ...],
) -> Task:
    attempts = 0
    again = False
    while True:
        yield from _admission(services, scope, dependency, operation, again=again)
        again = True
        answered = False
        try:
            result = yield from in_turn(services, scope.bundle_id, dependency.pool, fn)
            answered = True
        except handles as error:
            answered = True
            classified = classify(error)
            if classified.verdict is Verdict.AMBIGUOUS:
                _count_breaker(services, scope, dependency, classified)
            else:
                succeeded(services, dependency)
            raise
        except Exception as error:
            answered = True
            attempts = yield from _failed(
                services, scope, dependency, operation, classify(error), error, attempts, retries
            )
            continue
        finally:
            if not answered:
                dependency.breaker.abandoned()
        succeeded(services, dependency)
        return result


def succeeded(services: Services, dependency: Dependency) -> None:
    if dependency.breaker.failures:
        dependency.breaker.succeeded()
        services.metrics.breaker_open.labels(dependency.name).set(0)
    dependency.gate.succeeded()


def _admission(
    services: Services, scope: Scope, dependency: Dependency, operation: str, *, again: bool
) -> Task:
    clock = services.clock
    if not again:
        dependency.budget.earned(clock.monotonic())
    while (wait := dependency.breaker.admit(clock.monotonic())) > 0:
        with scope.timeline.during("outage"):
            yield Sleep(wait * services.rng.uniform(1.0, 1.2))
    wait = dependency.gate.admit(clock.monotonic())
    if wait > 0:
        with scope.timeline.during("throttled"):
            yield Sleep(wait)
    pace = dependency.paces.get(operation)
    if pace is not None:
        # Last, or what has waited for the gate would be sent all at once. The time stays with the
        # caller's cause: nobody knows yet whether a poll that waits finds its job finished.
        wait = pace.admit(clock.monotonic())
        if wait > 0:
            yield Sleep(wait)


def _failed(
    services: Services,
    scope: Scope,
    dependency: Dependency,
    operation: str,
    classified: Classified,
    error: Exception,
    attempts: int,
    retries: Retries,
) -> Task:
    """Waits as the table says and gives the number of attempts spent, or raises."""
    now = services.clock.monotonic()
    verdict, code = classified.verdict, classified.code
    match verdict:
        case Verdict.BUG:
            raise error
        case Verdict.DOCUMENT:
            succeeded(services, dependency)
            assert classified.reason is not None
            raise DocumentFailed(classified.reason, scope.stage_name, code) from None
        case Verdict.AMBIGUOUS:
            raise error  # only a submit can be ambiguous, and it handles that itself
        case Verdict.THROTTLED:
            dependency.breaker.succeeded()
            wait = dependency.gate.throttled(now, classified.retry_after)
            services.metrics.provider_throttles.labels(dependency.name, operation).inc()
            services.metrics.provider_throttled_seconds.labels(dependency.name).inc(wait)
            scope.note("throttled", code=code, wait_s=wait)
            return attempts
        case Verdict.SYSTEMIC:
            _count_breaker(services, scope, dependency, classified)
            if dependency.breaker.is_open:
                services.metrics.retries.labels(dependency.name, verdict).inc()
            else:
                yield from pause(services, scope, dependency, 1, retries, reason=verdict)
            return attempts
    attempts += 1
    scope.failed_attempt(code, attempts)
    _count_breaker(services, scope, dependency, classified)
    if attempts >= attempts_allowed(dependency, retries):
        services.metrics.attempts_exhausted.labels(dependency.name).inc()
        reason = classified.reason or Reason.ATTEMPTS_EXHAUSTED
        raise DocumentFailed(reason, scope.stage_name, code)
    yield from pause(services, scope, dependency, attempts, retries)
    return attempts


def attempts_allowed(dependency: Dependency, retries: Retries) -> int:
    more = ATTEMPTS_WHILE_OPEN if dependency.breaker.is_open else 0
    return retries.max_attempts_per_call + more


def open_breaker(services: Services, scope: Scope, dependency: Dependency, code: str) -> None:
    """For a systemic failure that was told by the answer to a call that succeeded."""
    failure = Classified(Verdict.SYSTEMIC, code, decisive=True)
    _count_breaker(services, scope, dependency, failure)


def _count_breaker(
    services: Services, scope: Scope, dependency: Dependency, classified: Classified
) -> None:
    was_open = dependency.breaker.is_open
    dependency.breaker.failed(services.clock.monotonic(), decisive=classified.decisive)
    if dependency.breaker.is_open and not was_open:
        services.metrics.breaker_open.labels(dependency.name).set(1)
        services.metrics.breaker_opens.labels(dependency.name).inc()
        scope.note("breaker_opened", code=classified.code)


def pause(
    services: Services,
    scope: Scope,
    dependency: Dependency,
    attempt: int,
    retries: Retries,
    *,
    reason: str = Verdict.ATTEMPT,
) -> Task:
    """Task: backs off before attempt ``attempt + 1``, within the dependency's retry budget."""
    services.metrics.retries.labels(dependency.name, reason).inc()
    wait = backoff_s(
        attempt,
        first_s=retries.backoff_first_s,
        ceiling_s=retries.backoff_ceiling_s,
        rng=services.rng,
    )
    wait = max(wait, dependency.budget.wait_for_retry(services.clock.monotonic()))
    with scope.timeline.during("retry"):
        yield Sleep(wait)
