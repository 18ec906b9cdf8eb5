"""Which of two builds of Python a checkout is installed with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.quicker_python import chosen
from deploy.release.pythons import version_of

ROOT = Path(__file__).resolve().parents[3]
OURS = Path(sys.executable)
PLAIN = "'--enable-shared' '--prefix=/opt'"
OPTIMISED = "'--enable-shared' '--enable-optimizations' '--with-lto'"


@pytest.fixture
def another_build(tmp_path: Path) -> Path:
    """A program that is not the same file and runs as this Python does."""
    program = tmp_path / "python3"
    program.write_text(f'#!/bin/sh\nexec "{OURS}" "$@"\n')
    program.chmod(0o755)
    return program


def test_a_build_without_optimisation_gives_way_to_the_systems(another_build: Path) -> None:
    assert chosen(OURS, PLAIN, another_build) == another_build


def test_one_with_it_stays(another_build: Path) -> None:
    assert chosen(OURS, OPTIMISED, another_build) == OURS


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("exit 1", id="does not run, or makes no virtual environments"),
        pytest.param("echo 3.10.1", id="another version"),
    ],
)
def test_one_that_cannot_stand_in_is_not_taken(tmp_path: Path, body: str) -> None:
    other = tmp_path / "python3"
    other.write_text(f"#!/bin/sh\n{body}\n")
    other.chmod(0o755)
    assert chosen(OURS, PLAIN, other) == OURS


def test_where_there_is_no_other(tmp_path: Path) -> None:
    assert chosen(OURS, PLAIN, tmp_path / "nothing") == OURS
    link = tmp_path / "python3"
    link.symlink_to(OURS)
    assert chosen(OURS, PLAIN, link) == OURS


def test_what_it_prints_can_install() -> None:
    """As the Makefile calls it: by itself, with nothing installed."""
    ran = subprocess.run(
        [OURS, "-S", "-m", "deploy.quicker_python"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (program,) = ran.stdout.splitlines()
    ours = version_of(OURS).split(".")[:2]
    assert version_of(Path(program)).split(".")[:2] == ours
