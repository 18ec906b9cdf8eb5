"""The files that a release consists of agree with each other."""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from consumers.metrics import version_of_this
from deploy.release import artefacts, sbom

ROOT = Path(__file__).parents[4]
VERSION = artefacts.version(ROOT)
METADATA = f"Metadata-Version: 2.4\nName: bundle-extractor\nVersion: {VERSION}\n"
LICENSED = METADATA + "License-Expression: MIT\n"


def test_the_installed_version_is_the_one_in_pyproject() -> None:
    assert version_of_this() == VERSION


def test_the_changelog_knows_the_version() -> None:
    sections = re.findall(r"(?m)^## \[(.+)\]$", (ROOT / "CHANGELOG.md").read_text())
    assert sections[:2] == ["Unreleased", VERSION]


def test_contributing_names_make_targets_that_exist() -> None:
    targets = set(re.findall(r"(?m)^([a-z0-9-]+):", (ROOT / "Makefile").read_text()))
    named = set(re.findall(r"make ([a-z0-9-]+)", (ROOT / "CONTRIBUTING.md").read_text()))
    assert {"install", "fast", "test"} <= named <= targets


def test_the_workflows_call_the_scripts_that_everybody_calls() -> None:
    folder = ROOT / ".github" / "workflows"
    commands = [
        step["run"]
        for file in folder.glob("*.yml")
        for job in yaml.safe_load(file.read_text())["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]
    assert "bash .ci/run" in commands
    assert "make release-check" in commands
    assert (ROOT / ".ci" / "run").is_file()


# --- that a broken artefact is noticed -----------------------------------------------------------


def wheel_of(folder: Path, names: set[str], metadata: str = LICENSED) -> Path:
    wheel = folder / "bundle_extractor-py3-none-any.whl"
    info = f"bundle_extractor-{VERSION}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in names:
            archive.writestr(name, "")
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/licenses/LICENSE", "")
    return wheel


def sdist_of(folder: Path, names: set[str]) -> Path:
    sdist = folder / "bundle_extractor.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        for name in names | {"LICENSE"}:
            archive.addfile(tarfile.TarInfo(f"bundle_extractor-{VERSION}/{name}"), io.BytesIO())
    return sdist


@pytest.fixture(scope="module")
def shipped() -> set[str]:
    try:
        names = artefacts.tracked(ROOT)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git work tree")
    return {
        name
        for name in names
        if Path(name).parts[0] in artefacts.PACKAGES
        and Path(name).name not in artefacts.NOT_SHIPPED
    }


def test_whole_artefacts_have_no_problem(tmp_path: Path, shipped: set[str]) -> None:
    assert "deploy/local/kafka-jars.txt" in shipped
    found = artefacts.problems(ROOT, wheel_of(tmp_path, shipped), sdist_of(tmp_path, shipped))
    assert found == []


def test_a_data_file_that_is_missing_is_named(tmp_path: Path, shipped: set[str]) -> None:
    without = shipped - {"deploy/local/kafka-jars.txt"}
    (said,) = artefacts.problems(ROOT, wheel_of(tmp_path, without), sdist_of(tmp_path, shipped))
    assert said.startswith("wheel: deploy/local/kafka-jars.txt is missing")


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (METADATA, "wheel: no License-Expression"),
        (LICENSED.replace(VERSION, "9.9.9"), "wheel: version is 9.9.9"),
    ],
)
def test_metadata_that_is_wrong_is_named(
    tmp_path: Path, shipped: set[str], metadata: str, said: str
) -> None:
    wheel = wheel_of(tmp_path, shipped, metadata)
    (found,) = artefacts.problems(ROOT, wheel, sdist_of(tmp_path, shipped))
    assert found.startswith(said)


def test_what_does_not_belong_into_a_wheel_is_named(tmp_path: Path, shipped: set[str]) -> None:
    wheel = wheel_of(tmp_path, shipped | {"tests/test_x.py"})
    (said,) = artefacts.problems(ROOT, wheel, sdist_of(tmp_path, shipped))
    assert said == "wheel: tests/test_x.py does not belong there"


def test_the_bill_of_materials_has_every_locked_package(tmp_path: Path) -> None:
    bill = sbom.write(ROOT, tmp_path)
    assert sbom.problems(ROOT, bill) == []

    document = json.loads(bill.read_text())
    gone = document["components"].pop()
    bill.write_text(json.dumps(document))
    (said,) = sbom.problems(ROOT, bill)
    assert gone["name"] in said
