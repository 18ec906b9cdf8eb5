"""Prints the Python to install with: the one that runs this, or the system's where that is quicker.

    python3 -m deploy.quicker_python

A Python that was compiled without profile-guided optimisation, which version managers leave out
unless they are told, takes some 7 % more of a worker's CPU (DESIGN.md, "Cost of calls"). The builds
of distributions have it, whatever they say of how they were configured.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

from deploy.release.pythons import version_of

SYSTEM = Path("/usr/bin/python3")


def chosen(ours: Path, configured: str, system: Path) -> Path:
    """``system`` where it is another build of the same minor version, and ours not optimised, by
    the arguments that it was ``configured`` with."""
    if "--enable-optimizations" in configured or not system.exists() or ours.samefile(system):
        return ours
    here, there = (version_of(program).split(".")[:2] for program in (ours, system))
    return system if here == there != [""] else ours


if __name__ == "__main__":
    print(chosen(Path(sys.executable), sysconfig.get_config_var("CONFIG_ARGS") or "", SYSTEM))
