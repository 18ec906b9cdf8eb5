from hypothesis import given
from hypothesis import strategies as st

from consumers.extraction.polling import Doubling, clamp_delay, schedule_for
from schemas.policy import Polling

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
