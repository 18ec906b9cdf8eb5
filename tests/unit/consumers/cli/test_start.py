"""What a command imports before it does anything: that is most of what a person waits for."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

from consumers.cli import COMMANDS
from consumers.cli.sweep import sweep
from schemas.topics import TOPIC_CONFIG
from schemas.units import parse_duration


def imported_by(code: str) -> set[str]:
    """Modules that are there after ``code`` in a process of its own."""
    told = "import sys; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{told}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stdout.splitlines())


def test_help_needs_no_settings_and_no_client() -> None:
    heavy = {"pydantic", "confluent_kafka", "urllib3", "minio", "rich.console"}
    told = imported_by("from consumers.cli import application; application()")
    assert not heavy & told
    assert {f"consumers.cli.{name}" for name in COMMANDS} <= told


def test_a_trace_imports_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    """All that it ever does before it asks, and then nobody answers."""
    settings = tmp_path / "settings.toml"
    settings.write_text(
        """
        [store]
        endpoint = "http://127.0.0.1:9"
        access_key = "a"
        secret_key = "s"
        [kafka]
        bootstrap_servers = "127.0.0.1:9"
        """
    )
    arguments = [
        *("bundles", "trace", "page-001-image-001", "--bundle", "b", "--document", "d"),
        *("--json", "--config", str(settings)),
    ]
    told = imported_by(
        f"""
import contextlib, sys, time
from unittest import mock
from consumers import cli
sys.argv = {arguments!r}
with mock.patch("time.sleep"), contextlib.suppress(SystemExit):
    cli.main()
from consumers.operations import trace_report
"""
    )
    assert "sinks.objectstore.s3" in told
    heavy = {"minio", "requests", "prometheus_client", "structlog", "opentelemetry", "orjson"}
    heavy |= {
        "rich.console",
        "pypdf",
        "pikepdf",
        "numpy",
        "PIL",
        "isal",
        "botocore",
        "google",
        "pydantic_settings",
    }
    ours = {"consumers.app", "consumers.runtime", "consumers.providers.registry"}
    ours |= {f"consumers.cli.{name}" for name in COMMANDS if name != "trace"}
    assert sorted((heavy | ours) & told) == []


def test_dead_letters_are_kept_as_long_as_their_topic_keeps_them() -> None:
    """Written out in the command, which would otherwise need the models for its help."""
    written = inspect.signature(sweep).parameters["dead_letters_kept"].default
    kept_ms = int(TOPIC_CONFIG["dead_letters"]["retention.ms"])
    assert parse_duration(written) * 1000 == kept_ms
