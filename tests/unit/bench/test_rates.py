import pytest

from tests.bench.harness import rate_of_waves


def waves(count: int, size: int, period_s: float) -> list[float]:
    """As many jobs as there are slots end at a time, a little apart."""
    return [wave * period_s + n * 0.001 for wave in range(count) for n in range(size)]


@pytest.mark.parametrize("count", [4, 6, 7, 20])
def test_slots_that_are_always_busy_count_as_no_more_and_no_less(count: int) -> None:
    assert rate_of_waves(waves(count, 100, 10.0), 10.0) == pytest.approx(10.0, rel=0.02)


def test_slots_that_idle_half_of_the_time_count_half() -> None:
    assert rate_of_waves(waves(20, 100, 20.0), 10.0) == pytest.approx(5.0, rel=0.1)
