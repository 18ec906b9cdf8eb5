"""The bill of materials (CycloneDX) of what a worker installs: the locked packages, with hashes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

LOCK = "requirements-runtime.lock"
NAME = "bundle-extractor.cdx.json"


def write(root: Path, folder: Path) -> Path:
    """:raises subprocess.CalledProcessError: the generator failed; its words are in ``stderr``."""
    folder.mkdir(exist_ok=True)
    target = folder / NAME
    program = Path(sys.executable).with_name("cyclonedx-py")
    subprocess.run(
        [
            *(str(program), "requirements", "--pyproject", str(root / "pyproject.toml")),
            *("--output-reproducible", "--validate", "--of", "JSON"),
            *("-o", str(target), str(root / LOCK)),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return target


def problems(root: Path, bill: Path) -> list[str]:
    """What the lock file has and the bill has not, as sentences."""
    locked = set(re.findall(r"(?m)^([A-Za-z0-9._-]+)==(\S+)", (root / LOCK).read_text()))
    components = json.loads(bill.read_text())["components"]
    listed = {(one["name"], one["version"]): one for one in components}
    missing = sorted(locked - set(listed))
    found = [f"bill of materials: {name} {version} is missing" for name, version in missing]
    for (name, version), one in listed.items():
        if not any(reference.get("hashes") for reference in one.get("externalReferences", [])):
            found.append(f"bill of materials: {name} {version} has no hash")
    return found
