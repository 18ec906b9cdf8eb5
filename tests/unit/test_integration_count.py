"""A run in which integration tests were skipped must be able to fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_TESTS = """
import pytest

@pytest.mark.integration
def test_one():
    pass

@pytest.mark.integration
def test_two():
    pass

@pytest.mark.integration
def test_without_a_server():
    pytest.skip("no server")

def test_of_another_kind():
    pass
"""


def _run(
    tmp_path: Path, minimum: str, tests: str = _TESTS, processes: int = 0
) -> subprocess.CompletedProcess[str]:
    folder = tmp_path / "integration"  # a folder's name must not count as the mark
    folder.mkdir()
    (folder / "test_them.py").write_text(tests)
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.integration_count", str(folder)),
            *("-c", "/dev/null", "-p", "no:cacheprovider", "-q"),
            *(f"--numprocesses={processes}", f"--rootdir={tmp_path}"),
        ],
        env={**os.environ, "MIN_INTEGRATION_TESTS": minimum},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("processes", [0, 2])
def test_enough_integration_tests_let_the_run_pass(tmp_path: Path, processes: int) -> None:
    done = _run(tmp_path, "2", processes=processes)
    assert done.returncode == 0, done.stdout
    assert "integration tests that ran: 2" in done.stdout


@pytest.mark.parametrize("processes", [0, 2])
def test_too_few_fail_the_run_and_skipped_ones_do_not_count(tmp_path: Path, processes: int) -> None:
    done = _run(tmp_path, "3", processes=processes)
    assert done.returncode == 1
    assert "2 integration tests ran, MIN_INTEGRATION_TESTS=3" in done.stdout


def test_a_run_that_found_no_test_at_all_fails_too(tmp_path: Path) -> None:
    assert _run(tmp_path, "1", tests="").returncode == 1


@pytest.mark.parametrize("minimum", ["many", "1.5"])
def test_a_minimum_that_is_no_number_is_named(tmp_path: Path, minimum: str) -> None:
    done = _run(tmp_path, minimum)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "MIN_INTEGRATION_TESTS must be a number" in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("environment", "minimum"),
    [
        ({}, ""),
        ({"REQUIRE_REAL_KAFKA": "1"}, "210"),
        ({"REQUIRE_REAL_KAFKA": "1", "MIN_INTEGRATION_TESTS": "7"}, "7"),
    ],
)
def test_make_test_asks_for_a_minimum_where_real_kafka_is_required(
    environment: dict[str, str], minimum: str
) -> None:
    ours = ("REQUIRE_REAL_KAFKA", "MIN_INTEGRATION_TESTS", "VENV", "MAKEFLAGS", "MAKELEVEL")
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    printed = subprocess.run(
        ["make", "--dry-run", "test"],
        env={**clean, **environment},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert f"MIN_INTEGRATION_TESTS={minimum} .venv/bin/pytest" in printed
