"""What a worker refuses to start with."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from consumers.app import Refused, _providers
from consumers.metrics import Metrics
from consumers.operations.checks import Verdict
from consumers.operations.doctor_providers import check_providers
from consumers.providers.regions import cuts_nothing
from consumers.runtime.exits import Exit
from consumers.settings import Settings, load
from tests.contract.fakes.infrai import FakeInfrai


@pytest.fixture
def service() -> Iterator[FakeInfrai]:
    made = FakeInfrai()
    made.start()
    yield made
    made.stop()


def settings(service: FakeInfrai, **policy: Any) -> Settings:
    policies = {f"policies.default.{name}": value for name, value in policy.items()}
    return load(
        environment={},
        overrides={
            "providers.infrai.kind": "infrai",
            "providers.infrai.base_url": service.base_url,
            "providers.infrai.token": service.token,
            "policies.default.provider": "infrai",
            "policies.patient.provider": "infrai",
            **policies,
        },
    )


def test_a_service_that_may_process_where_one_policy_forbids_it_is_refused(
    service: FakeInfrai,
) -> None:
    forbidding = settings(service, forbidden_regions=["western"])
    with ExitStack() as stack, pytest.raises(Refused) as caught:
        _providers(forbidding, Metrics(), cuts_nothing, stack)
    assert caught.value.code == Exit.CONFIG
    assert "western" in caught.value.message
    (check,) = check_providers(forbidding)
    assert check.verdict is Verdict.FAILED
    with ExitStack() as stack:
        elsewhere = settings(service, forbidden_regions=["elsewhere"])
        assert set(_providers(elsewhere, Metrics(), cuts_nothing, stack)) == {"infrai"}


def test_a_service_that_is_not_available_now_is_a_warning_only(
    service: FakeInfrai, caplog: pytest.LogCaptureFixture
) -> None:
    service.stop()
    with ExitStack() as stack, caplog.at_level(logging.WARNING):
        assert set(_providers(settings(service), Metrics(), cuts_nothing, stack)) == {"infrai"}
    assert "cannot be read" in caplog.text


def test_nobody_waits_for_a_throttled_service_longer_than_the_most_patient_job_may_take(
    service: FakeInfrai,
) -> None:
    with ExitStack() as stack:
        polling = settings(service, polling={"deadline_s": 40.0})
        providers = _providers(polling, Metrics(), cuts_nothing, stack)
        assert providers["infrai"].calls.gate.max_wait_s == 300.0  # of the other policy
    only = polling.model_copy(update={"policies": {"default": polling.policies["default"]}})
    with ExitStack() as stack:
        providers = _providers(only, Metrics(), cuts_nothing, stack)
        assert providers["infrai"].calls.gate.max_wait_s == 40.0


@pytest.mark.parametrize(
    ("kind", "given", "waits"),
    [
        ("infrai", None, [0.0, 0.0, 0.0]),
        ("infrai", 4.0, [0.0, 0.25, 0.5]),
        ("azure", None, [0.0, 0.04, 0.08]),
        ("azure", 2.0, [0.0, 0.5, 1.0]),
    ],
)
def test_polls_are_paced_as_set_or_else_as_the_service_publishes(
    kind: str, given: float | None, waits: list[float]
) -> None:
    given_here = {} if given is None else {"providers.remote.max_polls_per_second": given}
    made = load(
        environment={},
        overrides={
            "providers.remote.kind": kind,
            "providers.remote.base_url": "https://127.0.0.1:9",
            "providers.remote.token": "t",
            "policies.default.provider": "remote",
            **given_here,
        },
    )
    with ExitStack() as stack:
        services = _providers(made, Metrics(), cuts_nothing, stack)
        paces = services["remote"].calls.paces
    assert set(paces) <= {"poll"}
    pace = paces.get("poll")
    assert [pace.admit(5.0) if pace else 0.0 for _ in waits] == pytest.approx(waits)
