"""What a command imports before it does anything: that is most of what a person waits for."""

from __future__ import annotations

import inspect
import subprocess
import sys

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
    assert not heavy & imported_by("import consumers.cli")


def test_dead_letters_are_kept_as_long_as_their_topic_keeps_them() -> None:
    """Written out in the command, which would otherwise need the models for its help."""
    written = inspect.signature(sweep).parameters["dead_letters_kept"].default
    kept_ms = int(TOPIC_CONFIG["dead_letters"]["retention.ms"])
    assert parse_duration(written) * 1000 == kept_ms
