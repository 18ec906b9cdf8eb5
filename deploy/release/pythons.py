"""The Pythons of this machine that the package supports."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SUPPORTED = ("3.11", "3.12", "3.13", "3.14")


def supported() -> list[tuple[str, Path]]:
    """(version, program), one of each minor version, oldest first."""
    found: dict[str, tuple[str, Path]] = {}
    for program in _candidates():
        version = version_of(program)
        minor = ".".join(version.split(".")[:2])
        if minor in SUPPORTED:
            found.setdefault(minor, (version, program))
    return [found[minor] for minor in SUPPORTED if minor in found]


def _candidates() -> Iterator[Path]:
    yield Path(sys.executable).resolve()
    for minor in SUPPORTED:
        if (on_path := shutil.which(f"python{minor}")) is not None:
            yield Path(on_path)
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(root.glob("versions/*/bin/python3"))


def version_of(program: Path) -> str:
    """Empty where it does not run, or has no module for virtual environments."""
    code = "import ensurepip, venv, platform; print(platform.python_version())"
    try:
        ran = subprocess.run(
            [str(program), "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""
