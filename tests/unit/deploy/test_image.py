"""deploy/Dockerfile and what goes into the image, read as files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
FINAL_STAGE = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
EXTRAS_OF_THE_IMAGE = ("extractor", "aws", "google", "otel")


def pinned(lock: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Name -> version, hashes."""
    found = {}
    for entry in re.split(r"\n(?=[a-z0-9])", (ROOT / lock).read_text()):
        if match := re.match(r"([a-z0-9._-]+)==(\S+)", entry):
            hashes = frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
            found[match[1]] = (match[2], hashes)
    return found


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=;~! ]", one)[0].lower() for one in requirements}


def test_it_does_not_run_as_root_and_says_so_by_number() -> None:
    users = re.findall(r"^USER (\S+)$", FINAL_STAGE, re.MULTILINE)
    assert users == ["10001:10001"]


def test_signals_reach_the_process() -> None:
    """The exec form: no shell stands between."""
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", FINAL_STAGE, re.MULTILINE)
    (command,) = re.findall(r"^CMD (.*)$", FINAL_STAGE, re.MULTILINE)
    assert entry.startswith('["')
    assert command.startswith('["')


def test_it_has_a_health_check_and_labels() -> None:
    assert "HEALTHCHECK" in FINAL_STAGE
    for label in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{label}=" in FINAL_STAGE


def test_the_base_is_chosen_by_an_argument_in_every_stage() -> None:
    assert DOCKERFILE.count("\nARG BASE_IMAGE=") == 1
    stages = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(stages) == 2
    assert set(stages) == {"${BASE_IMAGE}"}


def test_every_package_has_a_hash() -> None:
    assert all(hashes for _, hashes in pinned("requirements-runtime.lock").values())


def test_the_old_builder_can_build_it() -> None:
    """docker-compose 1.29 and Docker 20.10 by default: no mounts, no here-documents."""
    assert "--mount" not in DOCKERFILE
    assert "<<" not in DOCKERFILE
    assert "# syntax=" not in DOCKERFILE


def test_it_has_every_package_that_it_needs_and_none_of_development() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = names(project["dependencies"])
    for extra in EXTRAS_OF_THE_IMAGE:
        needed |= names(extras[extra])
    there = set(pinned("requirements-runtime.lock"))
    assert needed <= there
    assert not there & (names(extras["dev"]) - needed)
    assert not there & (names(extras["local"]) - needed)


def test_it_has_the_versions_that_the_tests_ran_with() -> None:
    tested = pinned("requirements.lock")
    for name, found in pinned("requirements-runtime.lock").items():
        # What builds our wheel is in an environment of its own when not in an image.
        if name != "setuptools":
            assert tested[name] == found, f"{name}: run `make lock`"
