"""`make release-check`: builds wheel, sdist and bill of materials from what git has, looks into
them, and installs them on every Python here that is supported. They are left in ``dist/``.

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from deploy.release import artefacts, pythons, sbom

ROOT = Path(__file__).parent.parent.parent
DIST = ROOT / "dist"
STEP_TIMEOUT_S = 900

USES = """
import importlib.resources as resources
from consumers.settings import load
from schemas.export import documents
load(environment={})
assert resources.files("consumers").joinpath("status.html").is_file()
assert resources.files("deploy.local").joinpath("kafka-jars.txt").is_file()
names = {file.name for file in resources.files("schemas").joinpath("json").iterdir()}
assert names >= set(documents()), "schemas are missing"
"""
"""What an installed package must be able to do without its sources beside it."""


class CheckFailed(Exception):
    """The sentence says what did not work, with the tool's own last lines."""


def main() -> int:
    """The exit code: 0 when all holds."""
    parser = argparse.ArgumentParser(prog="python -m deploy.release.check")
    parser.add_argument("--no-install", action="store_true", help="build and look only")
    arguments = parser.parse_args()
    started = time.monotonic()
    problems: list[str] = []
    installed: list[str] = []
    built: list[str] = []
    try:
        with tempfile.TemporaryDirectory(prefix="release-") as folder:
            wheel, sdist = _build(Path(folder) / "source")
            bill = _bill_of_materials()
            built = [wheel.name, sdist.name, bill.name]
            problems += artefacts.problems(ROOT, wheel, sdist)
            problems += sbom.problems(ROOT, bill)
            if not arguments.no_install:
                installed = _install_everywhere(Path(folder), wheel, sdist)
    except CheckFailed as error:
        problems.append(str(error))
    for problem in problems:
        print(f"release: {problem}", file=sys.stderr)
    line = {
        "check": "release",
        "ok": not problems,
        "version": artefacts.version(ROOT),
        "built": built,
        "installed_on": installed,
        "problems": len(problems),
        "seconds": round(time.monotonic() - started, 1),
    }
    print(json.dumps(line), flush=True)
    return 1 if problems else 0


def _build(source: Path) -> tuple[Path, Path]:
    """From a copy of what git has: a file that somebody forgot to add is then missing here too."""
    artefacts.copy_tracked(ROOT, source)
    DIST.mkdir(exist_ok=True)
    for old in (*DIST.glob("*.whl"), *DIST.glob("*.tar.gz"), *DIST.glob("*.cdx.json")):
        old.unlink()
    print("release: building", flush=True)
    said = _run([sys.executable, "-m", "build", "--outdir", str(DIST), str(source)])
    if "!!" in said or "Warning" in said:
        at = max(said.find("!!"), said.find("Warning"))
        raise CheckFailed(f"the build warns:\n{said[max(0, at - 200) : at + 600]}")
    return next(DIST.glob("*.whl")), next(DIST.glob("*.tar.gz"))


def _bill_of_materials() -> Path:
    try:
        return sbom.write(ROOT, DIST)
    except subprocess.CalledProcessError as error:
        raise CheckFailed(f"the bill of materials could not be made:\n{error.stderr}") from None


def _install_everywhere(folder: Path, wheel: Path, sdist: Path) -> list[str]:
    found = pythons.supported()
    if not found:
        raise CheckFailed("no supported Python was found")
    for number, (version, python) in enumerate(found):
        print(f"release: installing the wheel on Python {version}", flush=True)
        _install(folder / f"venv-{number}", python, wheel)
    version, python = found[0]
    print(f"release: installing the sdist on Python {version}", flush=True)
    _install(folder / "venv-sdist", python, sdist)
    return [version for version, _ in found]


def _install(venv: Path, python: Path, artefact: Path) -> None:
    _run([str(python), "-m", "venv", str(venv)])
    inside = str(venv / "bin" / "python")
    pip = [inside, "-m", "pip", "--disable-pip-version-check"]
    _run([*pip, "install", "--quiet", str(artefact)])
    _run([*pip, "check"])
    elsewhere = venv.parent
    _run([inside, "-c", USES], cwd=elsewhere)
    bundles = str(venv / "bin" / "bundles")
    _run([bundles, "--help"], cwd=elsewhere)
    shown = json.loads(_run([bundles, "config", "show"], cwd=elsewhere, environment={}))
    if shown["kafka"]["group_id"] != "bundle-extractor":
        raise CheckFailed(f"{python}: `bundles config show` does not show the defaults")


def _run(
    argv: Sequence[str], *, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> str:
    """What it wrote.

    :raises CheckFailed: it failed, or took too long.
    """
    try:
        ran = subprocess.run(
            argv,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=STEP_TIMEOUT_S,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise CheckFailed(f"{_short(argv)} took longer than {STEP_TIMEOUT_S} s") from None
    if ran.returncode != 0:
        lines = "\n".join((ran.stdout + ran.stderr).splitlines()[-15:])
        raise CheckFailed(f"{_short(argv)} failed:\n{lines}")
    return ran.stdout if environment is not None else ran.stdout + ran.stderr


def _short(argv: Iterable[str]) -> str:
    return " ".join(argv)[:200]


if __name__ == "__main__":
    sys.exit(main())
