from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.extraction.pressure.gate import DEFAULT_WAIT_S, MAX_WAIT_S, Gate


def test_an_unused_gate_lets_everything_through_at_once() -> None:
    gate = Gate()
    assert [gate.admit(10.0) for _ in range(100)] == [0.0] * 100


def test_one_throttle_makes_every_call_wait() -> None:
    gate = Gate()
    gate.throttled(100.0, 5.0)
    assert gate.admit(101.0) == pytest.approx(4.0)
    assert gate.admit(101.0) >= 4.0


@pytest.mark.parametrize(
    ("told", "waited"),
    [(None, DEFAULT_WAIT_S), (0.0, 0.0), (-7.0, 0.0), (0.25, 0.25), (1e12, MAX_WAIT_S)],
)
def test_the_wait_is_what_the_service_said_within_reason(told: float | None, waited: float) -> None:
    assert Gate().throttled(0.0, told) == waited


def test_a_shorter_hint_does_not_open_a_gate_that_a_longer_one_closed() -> None:
    gate = Gate()
    gate.throttled(0.0, 60.0)
    gate.throttled(1.0, 1.0)
    assert gate.admit(2.0) >= 58.0


def test_those_who_waited_do_not_arrive_all_at_once() -> None:
    gate = Gate()
    for _ in range(6):
        gate.throttled(0.0, 10.0)
    arrivals = [1.0 + gate.admit(1.0) for _ in range(50)]
    gaps = [later - earlier for earlier, later in pairwise(arrivals)]
    assert min(gaps) > 0.05


def test_the_spacing_has_a_ceiling() -> None:
    gate = Gate()
    for _ in range(1000):
        gate.throttled(0.0, 0.0)
    assert gate.spacing_s == gate.spacing_ceiling_s


def test_successes_bring_full_speed_back() -> None:
    gate = Gate()
    for _ in range(20):
        gate.throttled(0.0, 0.0)
    for _ in range(100):
        gate.succeeded()
    assert gate.spacing_s == 0.0
    assert [gate.admit(100.0) for _ in range(3)] == [0.0] * 3


@given(
    st.lists(
        st.tuples(st.floats(0, 10), st.one_of(st.none(), st.floats(-10, 1e6)), st.booleans()),
        max_size=50,
    )
)
def test_no_wait_is_negative_and_every_throttle_is_obeyed(
    course: list[tuple[float, float | None, bool]],
) -> None:
    gate, now, closed_until = Gate(), 0.0, 0.0
    for passed, hint, throttled in course:
        now += passed
        if throttled:
            wait = gate.throttled(now, hint)
            assert 0.0 <= wait <= MAX_WAIT_S
            closed_until = max(closed_until, now + wait)
        else:
            wait = gate.admit(now)
            assert wait >= 0.0
            assert now + wait >= closed_until - 1e-6
