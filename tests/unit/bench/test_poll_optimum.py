"""The bound on poll lag: what schedules reach, they may not be better than it."""

from __future__ import annotations

import pytest

from consumers.extraction.polling import Doubling, Learned, PollSchedule
from schemas.policy import Polling
from tests.bench.poll_model import Job, p95, poll
from tests.bench.poll_optimum import Size, least_lag_ratio, least_polls
from tests.bench.polling import hard, modelled

POLICY = Polling(deadline_s=100_000.0)
WIDE = Size(12.0, 1.0)


def test_a_job_whose_end_is_known_costs_one_poll_and_no_lag() -> None:
    known = Size(5.0, 0.001)
    assert least_polls([known], 0.05, POLICY) == pytest.approx(1.0, abs=0.1)
    assert least_lag_ratio([known], 2.0, POLICY) < 0.02


def test_a_known_end_beyond_the_ceiling_costs_the_polls_until_then() -> None:
    assert least_polls([Size(20.0, 0.001)], 0.05, POLICY) == pytest.approx(3.0, abs=0.1)


def test_a_smaller_lag_and_a_wider_spread_cost_more_polls() -> None:
    fine, coarse = (least_polls([WIDE], ratio, POLICY) for ratio in (0.2, 0.8))
    narrow = least_polls([Size(12.0, 0.3)], 0.2, POLICY)
    assert fine > coarse > 1.0
    assert fine > narrow


@pytest.mark.parametrize("schedule", [Learned(), Doubling()], ids=["learned", "doubling"])
def test_no_schedule_is_better_than_the_bound_for_the_polls_that_it_makes(
    schedule: PollSchedule,
) -> None:
    polled = poll(schedule, POLICY, hard(WIDE, seed=1))[2000:]
    polls = sum(one.polls for one in polled) / len(polled)
    assert p95(one.lag_share for one in polled) >= 0.97 * least_lag_ratio([WIDE], polls, POLICY)


def test_what_is_learned_comes_near_the_bound_and_doubling_does_not() -> None:
    """One size, log-normal of shape 1: nothing but the distribution can be known."""
    found = modelled(hard(WIDE, seed=1), 2000, [WIDE])
    best = found["lag_p95_ratio_at_best"]
    assert found["learned"]["lag_p95_ratio"] <= 1.2 * best
    assert found["doubling"]["lag_p95_ratio"] > 2 * best


def test_jobs_of_the_model_are_of_the_size() -> None:
    jobs: list[Job] = sorted(hard(WIDE, seed=1), key=lambda job: job.run_s)
    assert jobs[len(jobs) // 2].run_s == pytest.approx(WIDE.median_s, rel=0.1)
