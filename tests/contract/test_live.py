"""The checks against real services: listed where they cannot run, and telling where they can."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from consumers.providers.settings import Kind
from tests.contract import live
from tests.contract.fakes.selfhosted import FakeSelfHosted
from tests.contract.fakes.server import Reply, said_in


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


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("images", [], "the page has an image, none is listed"),
        ("pages", 2, "one page was sent, 2 are told"),
    ],
)
def test_a_result_that_is_not_that_of_the_page_fails(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object, reason: str
) -> None:
    def changed(reply: Reply) -> Reply:
        return replace(reply, body=json.dumps({**json.loads(reply.body), name: value}).encode())

    monkeypatch.setattr(live, "POLL_SECONDS", 0.01)
    service = FakeSelfHosted(token="fake-token", run_seconds=0.0)
    service.start()
    service.misbehave("poll", said_in(changed, times=100))
    account = {"EXTRACTOR_URL": service.base_url, "EXTRACTOR_TOKEN": "fake-token"}
    (check,) = (c for c in live.run(account) if c.outcome != live.NOT_RUN)
    assert (check.outcome, check.reason) == (live.FAILED, reason)
    service.stop()


def test_images_are_fetched_from_the_services_own_hosts_or_those_that_are_named() -> None:
    def hosts(environment: dict[str, str]) -> tuple[str, ...]:
        return live.settings_of(Kind.INFRAI, environment).allowed_download_hosts

    assert hosts({}) == ()  # the adapter's own list
    named = {"INFRAI_DOWNLOAD_HOSTS": "a.example *.b.example"}
    assert hosts(named) == ("a.example", "*.b.example")


@pytest.mark.parametrize("kind", Kind)
def test_the_table_names_the_variables_that_a_check_reads(kind: Kind) -> None:
    row = next(
        line for line in live.as_markdown(live.run({})).splitlines() if f"| {kind.value} |" in line
    )
    read: set[str] = set()

    class Noted(dict[str, str]):
        def __missing__(self, name: str) -> str:
            read.add(name)
            return "https://a.example" if name.endswith(("URL", "ENDPOINT")) else "abc"

        def get(self, name: str, default: object = None) -> Any:
            read.add(name)
            return default

    live.settings_of(kind, Noted())
    assert all(f"`{name}`" in row for name in read)
