"""Every kind of plot is made; those of the README are there, and small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[3]

plots = pytest.importorskip("tests.bench.plots", reason="the extra [plot] is not installed")


def drawn_in(file: Path, colour: tuple[int, int, int]) -> bool:
    """As far as a thin line that is smoothed has its colour anywhere."""
    with Image.open(file) as image:
        found = image.convert("RGB").getcolors(image.width * image.height)
    assert found is not None
    return any(
        max(abs(a - b) for a, b in zip(other, colour, strict=True)) <= 50
        for _, other in found
        if isinstance(other, tuple)
    )


FIRST, SECOND, THIRD = (0x1F, 0x77, 0xB4), (0xFF, 0x7F, 0x0E), (0x2C, 0xA0, 0x2C)
"""Of the palette: the lines of the first series."""


def test_a_distribution_and_a_throughput_have_a_line_for_each_series(tmp_path: Path) -> None:
    series = {"one": [float(n) for n in range(20)], "two": [0.5 * n for n in range(40)]}
    latency = plots.cdf(series, tmp_path, "latency", "seconds", log=True)
    throughput = plots.throughput(series, tmp_path, "throughput", possible_per_s=2.0)
    for file in (latency, throughput):
        assert drawn_in(file, FIRST)
        assert drawn_in(file, SECOND)
        assert not drawn_in(file, THIRD)


def test_the_readmes_plots_are_there_and_small() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+\.png)\)", (ROOT / "README.md").read_text())
    assert shown
    for name in shown:
        file = ROOT / name
        assert file.stat().st_size < 100_000, name
        with Image.open(file) as image:
            assert image.format == "PNG"
            assert not any(
                "/" in str(value) for key, value in image.info.items() if key != "Software"
            )
