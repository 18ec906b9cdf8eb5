"""The command as a whole: what it says of itself, and of what was mistyped."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from consumers.metrics import version_of_this


def bundles(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("BUNDLES_")}
    return subprocess.run(
        [sys.executable, "-m", "consumers.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["submit", "--nonsense"], "--nonsense"),
        (["nonsense"], "nonsense"),
        (["run", "--set", "x"], "--set x: write it as name=value"),
        (["config", "show", "-s", "kafka.group=x"], "did you mean kafka.group_id?"),
    ],
)
def test_what_is_mistyped_is_answered_with_a_sentence(arguments: list[str], said: str) -> None:
    ran = bundles(*arguments)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_it_tells_its_version() -> None:
    ran = bundles("--version")
    assert (ran.returncode, ran.stdout) == (0, f"bundle-extractor {version_of_this()}\n")


def test_settings_are_shown_with_units() -> None:
    ran = bundles("config", "show", "-s", "worker.grace=90s", "-s", "store.secret_key=canary")
    assert ran.returncode == 0
    assert '"grace": "90s"' in ran.stdout
    assert '"quota": "4GiB"' in ran.stdout
    assert "canary" not in ran.stdout + ran.stderr
