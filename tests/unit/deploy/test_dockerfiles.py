"""Every Dockerfile that builds from the project's root: what it copies gets past .dockerignore, and
what it runs is in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILES = sorted((ROOT / "deploy").rglob("Dockerfile"))
LAMBDA = ROOT / "deploy/aws/extract_function"


def expression(pattern: str) -> str:
    """Of one pattern of .dockerignore; `**` stands for any number of folders."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern.strip("/"))
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(wild.get(part) or re.escape(part) for part in parts)


def is_sent(path: str, ignore: str) -> bool:
    """Whether a file gets to the builder: of all lines that match it, or a folder it is in, the
    last one decides."""
    sent = True
    for line in ignore.splitlines():
        pattern = line.strip()
        if pattern and not pattern.startswith("#"):
            keeps = pattern.startswith("!")
            if re.fullmatch(f"{expression(pattern.removeprefix('!'))}(?:/.*)?", path):
                sent = keeps
    return sent


@dataclass(frozen=True)
class Build:
    """What a Dockerfile copies from the project, and the modules that its commands name."""

    copied: tuple[str, ...]
    modules: tuple[str, ...]


def read(dockerfile: Path) -> Build:
    text = dockerfile.read_text().replace("\\\n", " ")
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    commands = re.findall(r"\b(?:CMD|ENTRYPOINT) (\[.*\])$", text, re.MULTILINE)
    return Build(
        tuple(" ".join(copied).split()),
        tuple(module for command in commands if (module := module_of(json.loads(command)))),
    )


def module_of(command: list[str]) -> str | None:
    """Of `python -m MODULE`, of a script of the project, or of a function as Lambda names it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    if "-m" in command:
        return command[command.index("-m") + 1]
    if command[0] in project["scripts"]:
        return str(project["scripts"][command[0]].partition(":")[0])
    return command[0].rpartition(".")[0] or None


def sent(copied: tuple[str, ...]) -> list[Path]:
    """The files of what is copied that get to the builder."""
    ignore = (ROOT / ".dockerignore").read_text()
    files: list[Path] = []
    for name in copied:
        path = ROOT / name
        files += [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return [file for file in files if is_sent(file.relative_to(ROOT).as_posix(), ignore)]


@pytest.mark.parametrize(
    ("path", "is_there"),
    [
        ("kept/a.py", True),
        ("kept/deep/a.py", True),
        ("kept/deep/__pycache__/a.pyc", False),
        ("kept/out/a.py", False),
        ("kept/out/back/a.py", True),
        ("kept/outside/a.py", True),
        ("other/kept/a.py", False),
    ],
)
def test_the_last_line_that_matches_decides(path: str, is_there: bool) -> None:
    ignore = "# Nothing but\n*\n!kept\n\n**/__pycache__\nkept/out\n!kept/out/back\n"
    assert is_sent(path, ignore) is is_there


def test_nothing_else_gets_to_the_builder() -> None:
    ignore = (ROOT / ".dockerignore").read_text()
    for path in (
        ".git/config",
        "extractor-data/jobs.sqlite",
        "tests/pdfs.py",
        "deploy/demo/count.py",
    ):
        assert not is_sent(path, ignore)


def test_the_dockerfiles_are_found() -> None:
    assert {ROOT / "deploy/Dockerfile", LAMBDA / "Dockerfile"} <= set(DOCKERFILES)


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.name)
def test_everything_that_is_copied_gets_to_the_builder(dockerfile: Path) -> None:
    copied = read(dockerfile).copied
    assert copied
    for name in copied:
        assert sent((name,)), f"{name} is not there, or kept out by .dockerignore"


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.name)
def test_what_it_runs_can_be_imported_from_what_it_copies(dockerfile: Path, tmp_path: Path) -> None:
    build = read(dockerfile)
    assert build.modules
    for file in sent(build.copied):
        copy = tmp_path / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    for module in build.modules:
        imported = subprocess.run(
            [sys.executable, "-c", f"import {module} as module; print(module.__file__)"],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert imported.returncode == 0, imported.stderr
        assert Path(imported.stdout.strip()).is_relative_to(tmp_path)


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.name)
def test_packages_come_from_the_lock_by_their_hashes_and_the_project_without_any(
    dockerfile: Path,
) -> None:
    text = dockerfile.read_text()
    assert "requirements-runtime.lock" in read(dockerfile).copied
    installs = re.findall(r"pip install (.*?)(?: \\| &&|$)", text, re.MULTILINE)
    assert len(installs) == 2
    of_packages, of_the_project = installs
    assert re.search(r"--require-hashes -r \S*/requirements-runtime\.lock", of_packages)
    assert "--no-deps --no-build-isolation" in of_the_project


def test_the_template_of_the_function_builds_from_the_root() -> None:
    class Loader(yaml.SafeLoader):
        """CloudFormation's tags are not looked at."""

    Loader.add_multi_constructor("!", lambda loader, suffix, node: None)
    template = yaml.load((LAMBDA / "template.yaml").read_text(), Loader)
    metadata = template["Resources"]["Extract"]["Metadata"]
    context = (LAMBDA / metadata["DockerContext"]).resolve()
    assert (context, context / metadata["Dockerfile"]) == (ROOT, LAMBDA / "Dockerfile")
