import random

from hypothesis import given
from hypothesis import strategies as st

from consumers.extraction.pressure.backoff import backoff_s
from consumers.extraction.pressure.budget import RetryBudget


def test_a_full_budget_lets_retries_go_at_once() -> None:
    budget = RetryBudget(capacity=3.0, left=3.0)
    assert [budget.wait_for_retry(0.0) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert budget.wait_for_retry(0.0) == 1.0


def test_retries_that_exceed_the_budget_wait_their_turn() -> None:
    budget = RetryBudget(capacity=1.0, left=0.0, per_second=2.0)
    assert [budget.wait_for_retry(0.0) for _ in range(4)] == [0.5, 1.0, 1.5, 2.0]


def test_first_attempts_earn_a_fraction_of_a_retry() -> None:
    budget = RetryBudget(left=0.0, ratio=0.2)
    for _ in range(5):
        budget.earned(0.0)
    assert budget.wait_for_retry(0.0) == 0.0


def test_a_quiet_worker_earns_with_time() -> None:
    budget = RetryBudget(left=0.0)
    budget.earned(0.0)
    assert budget.wait_for_retry(10.0) == 0.0


def test_the_budget_never_holds_more_than_its_capacity() -> None:
    budget = RetryBudget(capacity=5.0, left=0.0)
    budget.earned(0.0)
    budget.earned(1e9)
    assert budget.left == 5.0


def test_a_clock_that_stands_still_or_goes_back_takes_nothing() -> None:
    budget = RetryBudget(left=1.0)
    budget.earned(100.0)
    budget.earned(50.0)
    assert budget.left == 1.4


@given(st.lists(st.floats(0, 5), min_size=1, max_size=200))
def test_retries_stay_a_fraction_of_the_calls(gaps: list[float]) -> None:
    budget, now, begun = RetryBudget(capacity=10.0, left=10.0), 0.0, 0
    due = []
    for gap in gaps:
        now += gap
        due.append(now + budget.wait_for_retry(now))
        begun += 1
    assert budget.spent == begun
    for moment in due:
        made = sum(other <= moment + 1e-9 for other in due)
        assert made <= 10.0 + moment * budget.per_second + 1 + 1e-6


@given(st.integers(1, 10_000), st.floats(0.001, 10), st.floats(0.001, 60), st.integers())
def test_back_off_is_jittered_within_its_half_and_bounded(
    attempt: int, first: float, ceiling: float, seed: int
) -> None:
    wait = backoff_s(attempt, first_s=first, ceiling_s=ceiling, rng=random.Random(seed))
    whole = min(ceiling, first * 2.0 ** min(attempt - 1, 30))
    assert whole / 2 - 1e-9 <= wait <= whole + 1e-9


def test_back_off_doubles() -> None:
    class Top(random.Random):
        def uniform(self, a: float, b: float) -> float:
            return b

    waits = [backoff_s(n, first_s=0.5, ceiling_s=30.0, rng=Top()) for n in range(1, 9)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
