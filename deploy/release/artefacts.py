"""What must be in a wheel and in an sdist."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

PACKAGES = ("consumers", "schemas", "sinks", "deploy")
NOT_SHIPPED = frozenset({"Dockerfile"})
"""Of no use where the package is installed: an image is built from the sources."""


def version(root: Path) -> str:
    """The one place that has it."""
    return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])


def tracked(root: Path) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


def copy_tracked(root: Path, target: Path) -> None:
    for name in tracked(root):
        file = target / name
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, file)


def problems(root: Path, wheel: Path, sdist: Path) -> list[str]:
    """As sentences; empty where all is as it must be."""
    with zipfile.ZipFile(wheel) as opened:
        in_wheel = set(opened.namelist())
        info = next(name for name in in_wheel if name.endswith(".dist-info/METADATA"))
        metadata = opened.read(info).decode()
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    return [
        *_missing(root, in_wheel, "wheel"),
        *_missing(root, in_sdist, "sdist"),
        *_licence(in_wheel, in_sdist),
        *_metadata(metadata, version(root)),
        *(f"wheel: {name} does not belong there" for name in sorted(in_wheel) if _foreign(name)),
    ]


def _missing(root: Path, present: set[str], where: str) -> Iterator[str]:
    for name in tracked(root):
        path = Path(name)
        if path.parts[0] in PACKAGES and path.name not in NOT_SHIPPED and name not in present:
            yield f"{where}: {name} is missing (see package-data in pyproject.toml)"


def _licence(in_wheel: set[str], in_sdist: set[str]) -> Iterator[str]:
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in in_wheel):
        yield "wheel: the licence is missing"
    if "LICENSE" not in in_sdist:
        yield "sdist: the licence is missing"


def _metadata(text: str, wanted: str) -> Iterator[str]:
    fields = Parser().parsestr(text)
    if fields["Version"] != wanted:
        yield f"wheel: version is {fields['Version']}, pyproject.toml says {wanted}"
    if not fields["License-Expression"]:
        yield "wheel: no License-Expression"


def _foreign(name: str) -> bool:
    first = name.partition("/")[0]
    return first not in PACKAGES and not first.endswith(".dist-info")
