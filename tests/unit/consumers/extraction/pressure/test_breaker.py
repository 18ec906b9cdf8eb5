from hypothesis import given
from hypothesis import strategies as st

from consumers.extraction.pressure.breaker import Breaker, BreakerState


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker()
    breaker.failed(at, decisive=True)
    return breaker


def test_it_takes_consecutive_failures_to_open() -> None:
    breaker = Breaker(threshold=3)
    for _ in range(5):
        breaker.failed(0.0)
        breaker.failed(0.0)
        breaker.succeeded()
    assert not breaker.is_open
    assert [breaker.failed(0.0) for _ in range(3)] == [False, False, True]
    assert breaker.is_open


def test_a_decisive_failure_opens_at_once() -> None:
    assert opened().is_open


def test_while_open_nobody_is_let_through_before_the_wait_is_over() -> None:
    assert opened().admit(0.4) == 0.6


def test_one_probe_at_a_time() -> None:
    breaker = opened()
    assert breaker.admit(1.0) == 0.0
    assert breaker.state(1.0) is BreakerState.HALF_OPEN
    assert breaker.admit(1.0) > 0.0


def test_a_failed_probe_waits_longer_up_to_the_ceiling() -> None:
    breaker, now, waits = opened(), 0.0, []
    for _ in range(6):
        wait = breaker.admit(now)
        waits.append(wait)
        now += wait
        assert breaker.admit(now) == 0.0
        breaker.failed(now)
    assert waits == [1.0, 2.0, 4.0, 5.0, 5.0, 5.0]


def test_the_first_success_closes_it() -> None:
    breaker = opened()
    breaker.admit(1.0)
    breaker.succeeded()
    assert breaker.state(1.0) is BreakerState.CLOSED
    assert breaker.admit(1.0) == 0.0


def test_calls_that_were_under_way_when_it_opened_do_not_lengthen_the_wait() -> None:
    breaker = opened()
    for _ in range(50):
        breaker.failed(0.1)
    assert breaker.admit(0.5) == 0.5


def test_a_probe_that_ended_without_an_answer_lets_another_one_probe() -> None:
    breaker = opened()
    breaker.admit(1.0)
    breaker.abandoned()
    assert breaker.admit(1.0) == 0.0


def test_a_probe_that_never_reports_is_not_waited_for_for_ever() -> None:
    breaker = opened()
    breaker.admit(1.0)
    assert breaker.admit(61.1) == 0.0


def test_after_an_outage_the_waits_begin_small_again() -> None:
    breaker = opened()
    for now in (1.0, 3.0, 7.0, 12.0):
        breaker.admit(now)
        breaker.failed(now)
    breaker.succeeded()
    breaker.failed(100.0, decisive=True)
    assert breaker.admit(100.0) == 1.0


@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.sampled_from(["fail", "decisive", "ok", "lost", "ask"])),
        max_size=60,
    )
)
def test_an_open_breaker_always_lets_a_probe_through_soon(
    course: list[tuple[float, str]],
) -> None:
    breaker, now = Breaker(), 0.0
    for passed, what in course:
        now += passed
        match what:
            case "fail":
                breaker.failed(now)
            case "decisive":
                breaker.failed(now, decisive=True)
            case "ok":
                breaker.succeeded()
            case "lost":
                breaker.abandoned()
            case "ask":
                assert 0.0 <= breaker.admit(now) <= breaker.ceiling_s
    deadline = now + 70.0
    while (wait := breaker.admit(now)) > 0:
        now += wait
        assert now < deadline
