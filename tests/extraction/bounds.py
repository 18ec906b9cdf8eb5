"""What the figures of a folder have to be."""

from __future__ import annotations

from collections.abc import Mapping

AT_LEAST = {"found_ratio": 0.97, "pixels_ratio": 0.97}
AT_MOST = {"foreign_images": 0.0, "worker_deaths": 0.0}
TIMES_AT_MOST = {"total_time_ratio": 0.5, "p99_time_ratio": 0.1}
"""On the clock, of which a busy machine says little."""


def missed(figures: Mapping[str, float | int | None], *, times: bool) -> list[str]:
    """A line for each figure out of bounds; one of nothing, None, has shown nothing, so it is."""
    at_most = AT_MOST | TIMES_AT_MOST if times else AT_MOST
    lines = []
    for name, least in AT_LEAST.items():
        figure = figures[name]
        if figure is None or figure < least:
            lines.append(f"{name} is {figure}, not at least {least:g}")
    for name, most in at_most.items():
        figure = figures[name]
        if figure is None or figure > most:
            lines.append(f"{name} is {figure}, not at most {most:g}")
    return lines
