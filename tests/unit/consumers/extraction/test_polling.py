import math
import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.extraction.polling import Doubling, Learned, clamp_delay, schedule_for
from schemas.policy import Polling
from tests.bench.poll_model import Job, Polled, mix, p95, poll, poll_together

seconds = st.floats(0, 1e6)
hints = st.one_of(st.none(), st.floats(0, 1e9))


def delays(policy: Polling, count: int) -> list[float]:
    return [Doubling().next_delay(policy, 0.0, polls, None, pages=1) for polls in range(count)]


def test_delays_double_from_the_first_to_the_ceiling() -> None:
    assert delays(Polling(), 7) == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_a_multiplier_of_one_polls_evenly() -> None:
    assert delays(Polling(first_delay_s=2.0, multiplier=1.0), 3) == [2.0, 2.0, 2.0]


def test_thousands_of_polls_do_not_overflow() -> None:
    policy = Polling(multiplier=10.0)
    assert Doubling().next_delay(policy, 0.0, 100_000, None, pages=1) == policy.ceiling_s


def test_a_hint_only_makes_the_wait_longer() -> None:
    policy = Polling()
    assert clamp_delay(2.0, 0.0, 30.0, policy) == 30.0
    assert clamp_delay(2.0, 0.0, 0.1, policy) == 2.0


def test_a_hint_is_ignored_where_the_policy_says_so() -> None:
    assert clamp_delay(2.0, 0.0, 30.0, Polling(honour_hints=False)) == 2.0


def test_a_job_is_asked_once_more_at_its_deadline_however_far_the_hint_reaches() -> None:
    assert clamp_delay(2.0, 290.0, 1e9, Polling(deadline_s=300.0)) == 10.0


def test_past_the_deadline_it_is_asked_at_once() -> None:
    assert clamp_delay(8.0, 301.0, 60.0, Polling(deadline_s=300.0)) == Polling().floor_s


@given(delay=seconds, elapsed=seconds, hint=hints)
def test_no_wait_is_below_the_floor_or_beyond_the_deadline(
    delay: float, elapsed: float, hint: float | None
) -> None:
    policy = Polling()
    waited = clamp_delay(delay, elapsed, hint, policy)
    assert waited >= policy.floor_s
    assert waited == policy.floor_s or elapsed + waited <= policy.deadline_s * (1 + 1e-9)


def test_one_schedule_serves_several_policies() -> None:
    schedule = schedule_for([])
    schedule.learn(10.0, pages=3)
    assert schedule.next_delay(Polling(), 0.0, 0, None, pages=3) == 0.5


# -- learned -----------------------------------------------------------------------------------


LONG = Polling(strategy="learned", deadline_s=3600.0)


def taught(run_s: Iterable[float], pages: int = 1) -> Learned:
    schedule = Learned()
    for seconds in run_s:
        schedule.learn(seconds, pages)
    return schedule


def lognormal(mean_s: float, sigma: float, count: int, seed: int = 7) -> list[Job]:
    rng = random.Random(seed)
    mu = math.log(mean_s) - sigma * sigma / 2
    return [Job(rng.lognormvariate(mu, sigma), 1) for _ in range(count)]


def compared(jobs: list[Job], policy: Polling = LONG) -> tuple[list[Polled], list[Polled]]:
    """(doubling, learned) after the first third, from which the learned one may learn."""
    third = len(jobs) // 3
    return poll(Doubling(), policy, jobs)[third:], poll(Learned(), policy, jobs)[third:]


def mean_polls(polled: list[Polled]) -> float:
    return sum(one.polls for one in polled) / len(polled)


def lag_share_p95(polled: list[Polled]) -> float:
    return p95(one.lag_share for one in polled)


def test_before_it_knows_a_size_it_doubles() -> None:
    schedule = taught([10.0] * 100, pages=1)
    delays = [schedule.next_delay(LONG, 0.0, polls, None, pages=30) for polls in range(6)]
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]


def test_a_job_whose_end_is_known_is_asked_about_then_and_hardly_before() -> None:
    schedule = taught([5.0] * 200)
    assert schedule.next_delay(LONG, 0.0, 0, None, pages=1) == pytest.approx(5.0, rel=0.05)


def test_no_delay_is_beyond_the_ceiling_however_late_the_end_is_known_to_be() -> None:
    schedule = taught([500.0] * 200)
    assert schedule.next_delay(LONG, 0.0, 0, None, pages=1) == LONG.ceiling_s


def test_a_wait_that_ended_a_moment_early_does_not_cost_a_poll() -> None:
    schedule = taught([5.0 + 0.01 * n for n in range(200)])
    first = schedule.next_delay(LONG, 0.0, 0, None, pages=1)
    asked_early = schedule.next_delay(LONG, first - 0.001, 1, None, pages=1)
    assert asked_early == pytest.approx(
        schedule.next_delay(LONG, first + 0.001, 1, None, pages=1), rel=0.01
    )


def test_where_the_size_tells_the_run_time_the_lag_is_small_and_the_polls_are_no_more() -> None:
    doubling, learned = compared(list(mix(3000, per_page_s=4.0, sigma=0.1)))
    assert lag_share_p95(learned) <= 0.05
    assert mean_polls(learned) <= mean_polls(doubling)


@pytest.mark.parametrize(
    ("begun_s", "late_s"), [(0.01, 0.03), (0.5, 0.005)], ids=["far-service", "busy-worker"]
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_default_keeps_lag_and_polls_with_jobs_side_by_side_and_answers_that_take_time(
    seed: int, begun_s: float, late_s: float
) -> None:
    """What `tests.bench polling` measures on servers, here in virtual time."""
    policy = Polling(deadline_s=900.0)
    jobs = list(mix(4000, per_page_s=2.0, sigma=0.1, seed=seed))
    found = {}
    for name, schedule in (("default", schedule_for([])), ("doubling", Doubling())):
        for part in (jobs[:2000], jobs[2000:]):
            found[name] = poll_together(
                schedule, policy, part, per_s=100, begun_s=begun_s, late_s=late_s, seed=seed
            )
    assert lag_share_p95(found["default"]) <= 0.05
    assert mean_polls(found["default"]) <= mean_polls(found["doubling"])


def test_where_run_times_are_known_well_polls_are_saved_and_not_spent_on_a_smaller_lag() -> None:
    rng, found = random.Random(1), []
    jobs = [Job(20.0 * rng.lognormvariate(0, 0.02), 1) for _ in range(6000)]
    for schedule in (Learned(), Doubling()):
        polled = poll_together(schedule, LONG, jobs, per_s=100, begun_s=0.02, late_s=0.03)
        found.append(polled[-2000:])
    learned, doubling = found
    assert mean_polls(learned) <= 0.7 * mean_polls(doubling)
    assert lag_share_p95(learned) <= 0.04


def test_a_worker_that_begins_to_wait_late_makes_no_more_polls_than_doubling_there() -> None:
    jobs, found = list(mix(3000, per_page_s=2.0, sigma=0.1, seed=1)), []
    for schedule in (Learned(), Doubling()):
        for part in (jobs[:1500], jobs[1500:]):
            polled = poll_together(schedule, LONG, part, per_s=100, begun_s=1.0, late_s=0.005)
        found.append(mean_polls(polled))
    learned, doubling = found
    assert learned <= doubling


def test_what_polls_come_late_is_taken_off_the_wait() -> None:
    schedule, punctual = taught([50.0] * 200), taught([50.0] * 200)
    for _ in range(200):
        schedule.asked(0.2)
    assert punctual.next_delay(LONG, 52.0, 9, None, 1) - schedule.next_delay(
        LONG, 52.0, 9, None, 1
    ) == pytest.approx(0.2, rel=0.01)


def test_an_outage_does_not_make_it_poll_without_a_pause() -> None:
    schedule = taught([50.0] * 200)
    before = schedule.next_delay(LONG, 60.0, 9, None, 1)
    schedule.asked(600.0)
    assert schedule.next_delay(LONG, 60.0, 9, None, 1) >= before - 0.1


@pytest.mark.parametrize("mean_s", [18.5 + 0.25 * n for n in range(8)])
def test_no_poll_is_made_a_moment_after_one_that_was_due_anyway(mean_s: float) -> None:
    """The first that matters may lie shortly behind a multiple of the ceiling, 16 s here."""
    schedule = taught(job.run_s for job in lognormal(mean_s, 0.1, 400))
    assert schedule.next_delay(LONG, 8.0, 1, None, pages=1) == 8.0
    assert schedule.next_delay(LONG, 16.0, 2, None, pages=1) > 0.02 * 16.0


@pytest.mark.parametrize(("mean_s", "sigma"), [(2, 0.5), (20, 1.0), (60, 0.25), (60, 1.0)])
def test_whatever_the_spread_it_beats_doubling_with_no_more_polls(
    mean_s: float, sigma: float
) -> None:
    doubling, learned = compared(lognormal(mean_s, sigma, 3000))
    assert lag_share_p95(learned) < lag_share_p95(doubling)
    assert mean_polls(learned) <= mean_polls(doubling)


def test_a_tail_of_jobs_a_hundred_times_as_long_costs_no_more_polls() -> None:
    rng = random.Random(3)
    jobs = [Job(min(2.0 * rng.paretovariate(1.1), 2000.0), 1) for _ in range(3000)]
    doubling, learned = compared(jobs)
    assert mean_polls(learned) <= mean_polls(doubling)
    assert lag_share_p95(learned) < lag_share_p95(doubling)


def test_a_service_that_became_slower_is_followed() -> None:
    fast, slow = lognormal(5, 0.2, 2000), lognormal(50, 0.2, 6000)
    schedule = Learned()
    poll(schedule, LONG, fast)
    settled = poll(schedule, LONG, slow)[4000:]
    assert mean_polls(settled) <= mean_polls(poll(Doubling(), LONG, slow)[4000:])
    assert lag_share_p95(settled) <= 0.1


def test_a_size_is_not_polled_as_another() -> None:
    schedule = taught([2.0] * 100, pages=1)
    for _ in range(100):
        schedule.learn(7.0, 40)
    assert schedule.next_delay(LONG, 0.0, 0, None, pages=40) > 6.0
    assert schedule.next_delay(LONG, 0.0, 0, None, pages=1) < 3.0


def test_run_times_of_days_are_planned_in_bounded_work() -> None:
    schedule = taught([86_400.0 * n for n in range(1, 300)])
    assert schedule.next_delay(LONG, 86_400.0, 9, None, pages=1) == LONG.floor_s


@given(
    run_s=st.lists(st.floats(0, 1e5), max_size=120),
    elapsed=st.floats(0, 1e4),
    polls=st.integers(0, 1000),
    hint=hints,
    pages=st.integers(0, 5000),
)
@settings(max_examples=60, deadline=None)
def test_whatever_was_learned_no_wait_is_below_the_floor_above_the_ceiling_or_beyond_the_deadline(
    run_s: list[float], elapsed: float, polls: int, hint: float | None, pages: int
) -> None:
    policy = Polling(strategy="learned")
    waited = taught(run_s, pages).next_delay(policy, elapsed, polls, hint, pages)
    assert waited >= policy.floor_s
    assert waited <= max(policy.ceiling_s, hint or 0.0)
    assert waited == policy.floor_s or elapsed + waited <= policy.deadline_s * (1 + 1e-9)


def test_the_policy_says_which_strategy_is_used() -> None:
    schedule = schedule_for([])
    for _ in range(200):
        schedule.learn(5.0, pages=1)
    assert schedule.next_delay(Polling(strategy="doubling"), 0.0, 0, None, pages=1) == 0.5
    assert schedule.next_delay(Polling(strategy="learned"), 0.0, 0, None, pages=1) > 4.0
