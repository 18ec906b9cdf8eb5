"""PNG files of what was measured. Needs matplotlib (extra `bench`)."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WINDOW_S = 5


def cdf(
    series: Mapping[str, Sequence[float]], folder: Path, name: str, label: str, *, log: bool = False
) -> Path:
    """One rising line per series."""
    figure, axes = plt.subplots(figsize=(9, 4))
    for title, values in series.items():
        ordered = sorted(values)
        shares = [(n + 1) / len(ordered) for n in range(len(ordered))]
        axes.step(ordered, shares, where="post", label=title)
    if log:
        axes.set_xscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel("share of documents")
    return _save(figure, axes, folder, name)


def throughput(
    times: Mapping[str, Sequence[float]], folder: Path, name: str, *, possible_per_s: float
) -> Path:
    """Completed per second, as the mean over windows of five seconds: jobs end in waves."""
    figure, axes = plt.subplots(figsize=(9, 4))
    for title, values in times.items():
        first, last = min(values), max(values)
        starts = range(max(1, int(last - first) - WINDOW_S + 1))
        counts = [sum(s <= value - first < s + WINDOW_S for value in values) for s in starts]
        middles = [s + WINDOW_S / 2 for s in starts]
        axes.plot(middles, [count / WINDOW_S for count in counts], label=title)
    axes.axhline(possible_per_s, linestyle="--", color="grey", label="the service's capacity")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds since the first completion")
    axes.set_ylabel("documents/s")
    return _save(figure, axes, folder, name)


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]],
    folder: Path,
    name: str,
    x_label: str,
    y_label: str,
    *,
    bounds: Mapping[str, Sequence[tuple[float, float]]],
    notes: Sequence[str],
) -> Path:
    """On logarithmic axes; ``bounds`` are dashed and named at their ends, ``notes`` stand below."""
    figure, axes = plt.subplots(figsize=(11, 7))
    for title, points in series.items():
        axes.loglog(*zip(*points, strict=True), marker="o", label=title)
    for title, points in bounds.items():
        axes.loglog(*zip(*points, strict=True), "--", color="grey", linewidth=1)
        axes.annotate(title, points[-1], xytext=(4, 0), textcoords="offset points", fontsize=7)
    ticks = [x for x, _ in next(iter(series.values()))]
    axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axes.set_xlim(right=2.5 * max(ticks))  # room for the names
    axes.minorticks_off()
    axes.set_xlabel("\n".join([x_label, "", *(textwrap.fill(f"• {n}", 110) for n in notes)]))
    axes.xaxis.label.set(fontsize=8, multialignment="left")
    axes.set_ylabel(y_label)
    return _save(figure, axes, folder, name)


def _save(figure: Figure, axes: Axes, folder: Path, name: str) -> Path:
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=8)
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.png"
    figure.savefig(file, dpi=80, pil_kwargs={"optimize": True})
    plt.close(figure)
    return file
