"""What `bundles doctor` makes of what it finds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

from consumers.extraction.documents import signature
from consumers.extraction.sandbox import Sandbox
from consumers.operations.checks import Check, Verdict, guarded, ok
from consumers.operations.doctor import (
    check_libmagic,
    check_sandbox,
    check_secrets,
    check_store,
    check_temp,
)
from consumers.operations.doctor_kafka import _judge
from consumers.operations.doctor_providers import check_providers
from consumers.settings import Settings, load
from tests.contract.fakes.infrai import FakeInfrai
from tests.contract.fakes.server import Fault, Reply, instead
from tests.unit.sinks.lying_s3 import LyingS3

READ, WRITE = AclOperation.READ, AclOperation.WRITE


def settings(**values: object) -> Settings:
    return load(
        environment={}, overrides={name.replace("__", "."): v for name, v in values.items()}
    )


def test_a_missing_permission_that_a_worker_needs_fails_and_is_named() -> None:
    check = _judge("permissions on results", [READ], {WRITE}, {WRITE})
    assert check.verdict is Verdict.FAILED
    assert "WRITE" in check.said


def test_a_permission_that_only_operators_need_does_not_fail_a_worker() -> None:
    check = _judge("permissions on events", [READ], {READ}, {READ, WRITE})
    assert check.verdict is Verdict.OK
    assert "replay" in check.said
    assert "WRITE" in check.said


@pytest.mark.parametrize("unsaid", [None, []])
def test_brokers_that_do_not_say_what_is_allowed_are_no_failure(unsaid: list[int] | None) -> None:
    assert _judge("x", unsaid, {READ}, {READ}).verdict is Verdict.WARNING


def test_a_check_that_breaks_is_a_finding_without_the_errors_text() -> None:
    def breaks() -> Iterator[Check]:
        yield ok("another", str(int("a secret")))

    (check,) = guarded("thing", breaks)
    assert check.verdict is Verdict.FAILED
    assert "ValueError" in check.said
    assert "secret" not in check.said


def test_a_temporary_directory_open_to_others_is_a_warning(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    first = next(iter(check_temp(settings(temp__dir=str(tmp_path), temp__min_free="1MiB"))))
    assert (first.name, first.verdict) == ("temp.dir", Verdict.WARNING)
    assert "chmod" in (first.fix or "")


def test_a_temporary_directory_that_is_a_file_fails(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    (check,) = check_temp(settings(temp__dir=str(file)))
    assert check.verdict is Verdict.FAILED


def test_a_provider_that_a_policy_names_and_nobody_configured_fails() -> None:
    found = list(check_providers(settings(policies__default__provider="nobody")))
    assert [(c.name, c.verdict) for c in found] == [("providers.nobody", Verdict.FAILED)]


def test_a_secrets_directory_that_is_not_there_fails(tmp_path: Path) -> None:
    (check,) = check_secrets(settings(secrets_dir=str(tmp_path / "missing")))
    assert check.verdict is Verdict.FAILED


def test_a_check_that_breaks_says_what_to_do_too() -> None:
    (check,) = guarded("thing", lambda: iter([ok("x", str(1 // 0))]))
    assert check.fix


def a_service(token: str, *faults: Fault) -> list[Check]:
    """The findings about a service whose token is ``right``."""
    service = FakeInfrai(token="right")
    for fault in faults:
        service.misbehave("poll", fault)
    service.start()
    try:
        return list(
            check_providers(
                settings(
                    policies__default__provider="service",
                    providers__service__kind="infrai",
                    providers__service__base_url=service.base_url,
                    providers__service__token=token,
                )
            )
        )
    finally:
        service.stop()


def test_a_token_that_the_service_refuses_fails_and_is_not_shown() -> None:
    reachable, credential = a_service("a-wrong-token")
    assert reachable.verdict is Verdict.OK
    assert credential.verdict is Verdict.FAILED
    assert "providers.service.token" in (credential.fix or "")
    assert "a-wrong-token" not in f"{credential.said} {credential.fix}"


def test_a_token_that_the_service_takes_is_told_by_asking_for_a_job_that_nobody_has() -> None:
    _, credential = a_service("right")
    assert credential.verdict is Verdict.OK


@pytest.mark.parametrize(
    ("status", "verdict"), [(402, Verdict.FAILED), (500, Verdict.WARNING), (429, Verdict.WARNING)]
)
def test_what_says_nothing_of_the_token_is_told_from_what_stops_every_job(
    status: int, verdict: Verdict
) -> None:
    _, credential = a_service("right", instead(Reply(status)))
    assert credential.verdict is verdict
    assert credential.fix


def test_a_store_without_conditional_writes_fails_with_what_to_use_instead() -> None:
    with LyingS3() as server:
        server.buckets.add("output")
        server.ignores_if_none_match = True
        found = {
            check.name: check
            for check in check_store(
                settings(
                    store__endpoint=server.endpoint_url,
                    store__access_key="key",
                    store__secret_key="a-secret-key",
                    store__output_bucket="output",
                )
            )
        }
    check = found["conditional writes"]
    assert check.verdict is Verdict.FAILED
    assert "ignores If-None-Match" in check.said
    assert "store.endpoint" in (check.fix or "")
    assert found["store.output_bucket"].verdict is Verdict.OK
    assert "listing" not in found


def test_a_machine_without_libmagic_fails_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signature._libmagic.cache_clear()
    monkeypatch.setitem(sys.modules, "magic", None)  # importing it raises
    try:
        (check,) = check_libmagic(settings())
    finally:
        signature._libmagic.cache_clear()
    assert check.verdict is Verdict.FAILED
    assert "pylibmagic" in (check.fix or "")


@pytest.mark.parametrize("isolated", [True, False])
def test_a_sandbox_that_the_kernel_does_not_keep_off_the_network_is_a_warning(
    isolated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sandbox, "network_isolated", isolated)
    found = {check.name: check for check in check_sandbox(settings())}
    assert found["sandbox"].verdict is Verdict.OK
    if isolated:
        assert set(found) == {"sandbox"}
    else:
        assert found["sandbox network"].verdict is Verdict.WARNING
        assert found["sandbox network"].fix
