"""The checks against real services: listed where they cannot run, and telling where they can."""

from __future__ import annotations

import pytest

from consumers.providers.settings import Kind
from tests.contract import live
from tests.contract.fakes.selfhosted import FakeSelfHosted


def test_without_accounts_every_service_is_listed_as_not_run_with_what_it_needs() -> None:
    checks = live.run({})
    assert [check.provider for check in checks] == [kind.value for kind in Kind]
    assert {check.outcome for check in checks} == {live.NOT_RUN}
    assert all(check.reason.startswith("needs ") for check in checks)


@pytest.mark.parametrize(
    ("token", "outcome"), [("fake-token", live.PASSED), ("another", live.FAILED)]
)
def test_with_an_account_the_service_is_asked(
    monkeypatch: pytest.MonkeyPatch, token: str, outcome: str
) -> None:
    monkeypatch.setattr(live, "POLL_SECONDS", 0.01)
    service = FakeSelfHosted(token="fake-token", run_seconds=0.05)
    service.start()
    account = {"EXTRACTOR_URL": service.base_url, "EXTRACTOR_TOKEN": token}
    (check,) = (c for c in live.run(account) if c.outcome != live.NOT_RUN)
    assert (check.provider, check.outcome) == ("selfhosted", outcome)
    assert token not in check.reason
    assert bool(service.book.started) is (outcome == live.PASSED)
    assert service.book.jobs == {}, "it cleans up"
    service.stop()
