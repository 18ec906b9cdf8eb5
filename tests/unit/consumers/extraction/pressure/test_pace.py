from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.extraction.pressure.pace import Pace

ROUNDING_S = 1e-9


def test_calls_that_come_rarely_enough_never_wait() -> None:
    pace = Pace(4.0)
    assert [pace.admit(10.0 + n / 4) for n in range(20)] == [0.0] * 20


def test_calls_that_come_together_are_sent_one_after_the_other() -> None:
    pace = Pace(4.0)
    assert [pace.admit(10.0) for _ in range(5)] == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0])


def test_time_in_which_nobody_called_is_not_saved_up() -> None:
    pace = Pace(2.0)
    pace.admit(0.0)
    assert [pace.admit(1000.0) for _ in range(3)] == pytest.approx([0.0, 0.5, 1.0])


@given(
    st.floats(0.05, 200.0),
    st.lists(st.one_of(st.just(0.0), st.floats(0.0, 0.3), st.floats(0.0, 50.0)), max_size=80),
)
def test_no_second_has_more_than_its_share_in_whatever_way_calls_come_due(
    per_second: float, apart: list[float]
) -> None:
    pace, now = Pace(per_second), 0.0
    due: list[float] = []
    sent: list[float] = []
    for seconds in apart:
        now += seconds
        wait = pace.admit(now)
        due.append(now)
        sent.append(now + wait)
    assert all(earlier < later for earlier, later in pairwise(sent))
    for first in sent:
        in_second = sum(first <= moment < first + 1.0 - ROUNDING_S for moment in sent)
        assert in_second <= per_second + 1
    # Nobody waits longer than for those who came before and are not sent yet.
    for came, went in zip(due, sent, strict=True):
        before = sum(came <= moment < went for moment in sent)
        assert came <= went <= came + (before + 1) / per_second + ROUNDING_S
