"""``bundles compare`` against a service on a socket: table, JSON and plot."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from PIL import Image
from typer.testing import CliRunner

from consumers.cli import application
from consumers.cli.common import Problem
from deploy.local.process import ChildProcess
from tests import pdfs

pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a service whose jobs take 0.1 s."""
    log = tmp_path_factory.mktemp("service") / "log"
    argv = [sys.executable, "-m", "tests.bench.service", "--run-time", "0.1"]
    process = ChildProcess("service", argv, log_file=log)
    process.start()
    try:
        process.wait_ready(lambda: log.read_text().endswith("}\n"), 30)
        yield str(json.loads(log.read_text())["listening"])
    finally:
        process.kill()


@pytest.fixture
def arguments(service: str, tmp_path: Path) -> list[str]:
    config = tmp_path / "settings.toml"
    config.write_text(
        f'[providers.here]\nkind = "selfhosted"\nbase_url = "{service}/v1"\ntoken = "t"\n'
        'allow_private_downloads = true\n[policies.default]\nprovider = "here"\n'
    )
    config.chmod(0o600)
    document = tmp_path / "one.pdf"
    document.write_bytes(pdfs.pages(1))
    return ["compare", str(document), "--config", str(config), "--repeat", "3"]


def jobs(service: str) -> int:
    return int(urllib3.request("GET", f"{service}/stats").json()["jobs"])


def test_the_plot_stands_beside_the_table(arguments: list[str], tmp_path: Path) -> None:
    file = tmp_path / "compared.png"
    ran = CliRunner().invoke(application(["compare"]), [*arguments, "--plot", str(file)])
    assert ran.exit_code == 0, ran.output
    assert "end_to_end p50/p95/p99 s" in ran.output
    cells = {
        row[0]: row[1:]
        for line in ran.output.splitlines()
        if len(row := [cell.strip() for cell in line.strip("│ ").split("│")]) == 3
    }
    assert cells["polls"][0] == "-"
    assert int(cells["polls"][1]) >= 3
    assert cells["throttled"] == cells["jobs perhaps left"] == ["0", "0"]
    assert int(cells["bytes submitted"][0]) == 3 * (tmp_path / "one.pdf").stat().st_size
    assert cells["bytes left at service"] == ["0", "0"]
    with Image.open(file) as image:
        assert image.format == "PNG"
        colours = image.convert("RGB").getcolors(image.width * image.height)
    # Both ways are drawn: the first two colours of the palette are there.
    assert colours is not None
    assert {(0x1F, 0x77, 0xB4), (0xFF, 0x7F, 0x0E)} <= {colour for _, colour in colours}


def test_without_the_extra_it_says_so_before_anything_is_submitted(
    arguments: list[str], service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "consumers.cli.compare_plot", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    before = jobs(service)
    plot = ["--plot", str(tmp_path / "compared.png")]
    ran = CliRunner().invoke(application(["compare"]), [*arguments, *plot])
    assert isinstance(ran.exception, Problem)
    assert "pip install 'bundle-extractor[plot]'" in str(ran.exception)
    assert jobs(service) == before


def test_a_plot_that_cannot_be_written_is_found_before_anything_is_submitted(
    arguments: list[str], service: str, tmp_path: Path
) -> None:
    before = jobs(service)
    plot = ["--plot", str(tmp_path / "no-such-folder" / "compared.png")]
    ran = CliRunner().invoke(application(["compare"]), [*arguments, *plot])
    assert isinstance(ran.exception, Problem)
    assert "No such file or directory" in str(ran.exception)
    assert jobs(service) == before


def test_the_configured_limit_on_polls_holds_for_every_way(arguments: list[str]) -> None:
    limited = [*arguments, "--json", "--set", "providers.here.max_polls_per_second=3"]
    ran = CliRunner().invoke(application(["compare"]), limited)
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.output)
    assert "accepted" in found["note"]
    # Three documents with a poll each at least: the third waits two thirds of a second.
    assert all(way["seconds"]["end_to_end"]["p99"] >= 0.6 for way in found["ways"])
