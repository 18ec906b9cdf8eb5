import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.extraction.run_times import MEMORY_JOBS, RunTimes, expected_polls


def of(*seconds: float) -> RunTimes:
    times = RunTimes()
    for one in seconds:
        times.add(one)
    return times


def test_a_quantile_is_right_to_two_percent() -> None:
    times = of(*(float(n) for n in range(1, 1001)))
    assert times.quantile(0.5) == pytest.approx(600, rel=0.2)  # the newest weigh more
    assert of(*[42.0] * 9).quantile(0.5) == pytest.approx(42, rel=0.02)


def test_within_a_bucket_a_quantile_is_between_its_bounds() -> None:
    """A quantile that jumps by a bucket would move the first poll of all jobs of a size by it."""
    times = of(*(10.0 + 0.001 * n for n in range(1000)))
    found = [times.quantile(share / 20) for share in range(1, 20)]
    assert len(set(found)) == len(found)
    assert found == sorted(found)
    assert found[9] == pytest.approx(10.5, rel=0.02)  # the newest weigh more


def test_the_oldest_are_forgotten() -> None:
    times = of(*[1.0] * 500, *[9.0] * int(5 * MEMORY_JOBS))
    assert times.quantile(0.01) == pytest.approx(9, rel=0.02)


def test_a_million_jobs_do_not_overflow_and_stay_small() -> None:
    times = of(*(1.0 + n % 7 for n in range(300_000)))
    assert len(times.shares()) == 7
    assert times.quantile(1.0) == pytest.approx(7, rel=0.02)


def test_nothing_known() -> None:
    assert RunTimes().quantile(0.5) == 0
    assert RunTimes().shares() == []


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=50))
def test_shares_rise_in_time_and_add_up_to_one(seconds: list[float]) -> None:
    shares = of(*seconds).shares()
    assert [s for s, _ in shares] == sorted(s for s, _ in shares)
    assert sum(share for _, share in shares) == pytest.approx(1)


def test_polls_are_counted_up_to_the_one_that_finds_the_job_finished() -> None:
    assert expected_polls([(1.0, 0.5), (2.5, 0.5)], iter([1.0, 2.0, 3.0])) == 2.0
