"""What `bundles doctor` makes of what it finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

from consumers.extraction.sandbox import Sandbox
from consumers.operations.checks import Check, Verdict, guarded, ok
from consumers.operations.doctor import (
    check_providers,
    check_sandbox,
    check_secrets,
    check_temp,
)
from consumers.operations.doctor_kafka import _judge
from consumers.settings import Settings, load

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
