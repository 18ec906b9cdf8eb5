"""Prints the Python to install with: the one that runs this, or the system's where that is quicker.

    python3 deploy/quicker_python.py

A Python that was compiled without profile-guided optimisation, which version managers leave out
unless they are told, takes some 7 % more of a worker's CPU (DESIGN.md, "Cost of calls"). The builds
of distributions have it, whatever they say of how they were configured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

SYSTEM = "/usr/bin/python3"
_VERSION = "import ensurepip, sys, venv; print(*sys.version_info[:2])"


def is_optimised(configured: str) -> bool:
    """By the arguments that a build was configured with."""
    return "--enable-optimizations" in configured


def version_of(program: str) -> str | None:
    """The minor version, as `3 11`; None where it does not run or makes no virtual environments."""
    try:
        ran = subprocess.run(
            [program, "-I", "-c", _VERSION], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout.strip()


def chosen(ours: str, configured: str, system: str) -> str:
    """``system`` where it is another build of the same minor version, and ours not optimised."""
    if is_optimised(configured) or not Path(system).exists() or os.path.samefile(ours, system):
        return ours
    version = version_of(system)
    return system if version is not None and version == version_of(ours) else ours


def main(arguments: Sequence[str] = sys.argv[1:]) -> None:
    system = arguments[0] if arguments else SYSTEM
    print(chosen(sys.executable, sysconfig.get_config_var("CONFIG_ARGS") or "", system))


if __name__ == "__main__":
    main()
