"""What the benchmarks must reach: the only place where it says so.

A value is found in a benchmark's last line by its path, keys joined by dots. What was not measured
(a part of the run was left out, or the file has no such figure) is told apart from what was missed.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

COMPARED = {"<": operator.lt, "<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class Goal:
    bench: str
    name: str
    """Path of the value."""
    must_be: str
    """One of `COMPARED`."""
    goal: float | str
    """A number, or the path of one in the same line."""


GOALS = (
    Goal("efficiency", "efficiency.100x1s", ">=", 0.97),
    Goal("efficiency", "efficiency.1000x10s", ">=", 0.97),
    Goal("efficiency", "times_of_peers.1000x10s.threads", ">=", 9),
    Goal("polling", "lag_p95_ratio", "<=", 0.05),
    Goal("polling", "polls_per_job", "<=", "doubling.polls_per_job"),
    Goal("cost", "cpu_ms_per_document", "<=", 6.0),
    Goal("cost", "documents_per_s", ">=", 120),
    Goal("cost", "rss_mb_5000_in_flight", "<=", 300),
    # "No growth" has no margin: what memory varies by anyway shows as a miss of that size.
    Goal("cost", "rss_mb_growth_10000_to_100000", "<=", 0),
    Goal("fairness", "small_p95_ratio", "<=", 1.5),
    Goal("parts", "unexplained_share_absolute", "<=", 0.02),
    Goal("scale", "simulated_off_measured", "<=", 0.15),
    Goal("shards", "ratio", "<=", 0.25),
    Goal("shards", "rss_mb", "<=", 250),
    Goal("hanging", "ratio", "<=", 1.3),
    Goal("hanging", "ended_otherwise", "<=", 0),
    Goal("sandbox", "overhead_ms", "<=", 3.0),
    Goal("trace", "process_s_median", "<", 1.0),
    Goal("trace", "with_whole_ledger", ">=", "questions"),
)


def verdict(bench: str, line: Mapping[str, Any]) -> dict[str, Any]:
    """``missed``: the goals that were not reached; ``not_measured``: names of those of which
    ``line`` says nothing."""
    missed, unknown = [], []
    for goal in GOALS:
        if goal.bench != bench:
            continue
        value = _value(line, goal.name)
        bound = _value(line, goal.goal) if isinstance(goal.goal, str) else goal.goal
        if value is None or bound is None:
            unknown.append(goal.name)
        elif not COMPARED[goal.must_be](value, bound):
            missed.append(
                {"name": goal.name, "value": value, "must_be": goal.must_be, "goal": bound}
            )
    return {"not_measured": unknown, "missed": missed}


def _value(line: Mapping[str, Any], path: str) -> float | None:
    found: Any = line
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, int | float) else None
