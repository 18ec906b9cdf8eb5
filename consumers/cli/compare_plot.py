"""What ``bundles compare`` found as a PNG. Needs matplotlib (extra ``[plot]``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

PERCENTILES = ("p50", "p95", "p99")


def draw(rows: Sequence[Mapping[str, Any]], note: str, file: Path) -> None:
    """One panel per percentile; in each, seconds by cause (logarithmic), a bar per way.

    :raises OSError: the file cannot be written.
    """
    causes = list(rows[0]["seconds"])
    figure = Figure(figsize=(11, 4.5))
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(PERCENTILES), sharey=True)
    width = 0.8 / len(rows)
    for panel, percentile in zip(panels, PERCENTILES, strict=True):
        for number, row in enumerate(rows):
            places = [at + (number - (len(rows) - 1) / 2) * width for at in range(len(causes))]
            heights = [row["seconds"][cause].get(percentile, 0.0) for cause in causes]
            panel.bar(places, heights, width, label=row["way"])
        panel.set_yscale("log")
        panel.set_title(percentile)
        panel.set_xticks(range(len(causes)), [c.replace("_", "\n") for c in causes], fontsize=8)
        panel.grid(axis="y", alpha=0.3)
    panels[0].set_ylabel("seconds")
    panels[0].legend(fontsize=8)
    figure.text(0.5, 0.01, note, ha="center", fontsize=7)
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.savefig(file, dpi=110, format="png")
