"""The table of goals: what a last line must hold, and what is made of it."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from typing import Any

import pytest

from tests.bench import __main__ as benchmarks
from tests.bench.goals import GOALS, Goal, verdict

JUST_REACHED: dict[str, dict[str, Any]] = {
    "efficiency": {
        "efficiency": {"100x1s": 0.97, "1000x10s": 0.97},
        "times_of_peers": {"1000x10s": {"threads": 9.0}},
    },
    "polling": {"lag_p95_ratio": 0.05, "polls_per_job": 6.7, "doubling": {"polls_per_job": 6.7}},
    "cost": {
        "cpu_ms_per_document": 6.0,
        "documents_per_s": 120.0,
        "rss_mb_5000_in_flight": 300.0,
        "rss_mb_growth_10000_to_100000": 0.0,
    },
    "fairness": {"small_p95_ratio": 1.5},
    "parts": {"unexplained_share_absolute": 0.02},
    "scale": {"simulated_off_measured": 0.15},
    "shards": {"ratio": 0.25, "rss_mb": 250.0},
    "hanging": {"ratio": 1.3, "ended_otherwise": 0},
    "sandbox": {"overhead_ms": 3.0},
    "trace": {"process_s_median": 0.999, "questions": 10, "with_whole_ledger": 10},
}


def worse(line: dict[str, Any], goal: Goal) -> dict[str, Any]:
    """With the value of ``goal`` a thousandth on the wrong side."""
    changed: dict[str, Any] = json.loads(json.dumps(line))
    *path, last = goal.name.split(".")
    inner = changed
    for key in path:
        inner = inner[key]
    inner[last] += -0.001 if goal.must_be == ">=" else 0.001
    return changed


@pytest.mark.parametrize("bench", JUST_REACHED)
def test_what_is_just_reached_is_not_missed(bench: str) -> None:
    assert verdict(bench, JUST_REACHED[bench]) == {"not_measured": [], "missed": []}


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: f"{goal.bench} {goal.name}")
def test_what_is_worse_is_missed_and_told_with_its_value(goal: Goal) -> None:
    line = worse(JUST_REACHED[goal.bench], goal)
    (missed,) = verdict(goal.bench, line)["missed"]
    assert missed["name"] == goal.name
    assert missed["must_be"] == goal.must_be
    assert missed["value"] == pytest.approx(missed["goal"], abs=0.002)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: f"{goal.bench} {goal.name}")
def test_what_was_left_out_is_neither_reached_nor_missed(goal: Goal) -> None:
    found = verdict(goal.bench, {})
    assert goal.name in found["not_measured"]
    assert found["missed"] == []


def test_null_is_not_measured() -> None:
    line = {"small_p95_ratio": None}
    assert verdict("fairness", line)["not_measured"] == ["small_p95_ratio"]


def test_every_goal_belongs_to_a_benchmark() -> None:
    known = {*benchmarks.HERE, *benchmarks.ELSEWHERE}
    assert {goal.bench for goal in GOALS} <= known
    for bench in known:
        assert importlib.util.find_spec(f"tests.bench.{bench}")


@pytest.mark.parametrize(
    ("found", "argv", "code"),
    [(1.51, ["--check"], 1), (1.51, [], 0), (1.5, ["--check"], 0)],
)
def test_a_missed_goal_ends_a_checked_run_with_1(
    found: float,
    argv: list[str],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = importlib.import_module("tests.bench.fairness")
    monkeypatch.setattr(module, "run", lambda given: {"small_p95_ratio": found})
    monkeypatch.setattr(sys, "argv", ["tests.bench", "fairness", "--json", *argv])
    assert benchmarks.main() == code
    (line,) = capsys.readouterr().out.splitlines()
    said = json.loads(line)
    assert list(said)[-1] == "missed"
    assert [one["value"] for one in said["missed"]] == ([found] if found > 1.5 else [])


def test_a_run_in_a_process_of_its_own_ends_with_the_verdict() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "scale", "--documents-up-to", "10", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert json.loads(done.stdout)["missed"] == []
