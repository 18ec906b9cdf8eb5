from hypothesis import given
from hypothesis import strategies as st

from consumers.extraction.timeline import Timeline
from consumers.stages import CAUSES
from tests.unit.consumers.runtime.fakes import FakeClock


def test_a_document_starts_in_the_queue_with_what_it_waited_before() -> None:
    clock = FakeClock()
    timeline = Timeline(clock, waited_s=12.5)
    clock.advance(1.5)
    timeline.enter("fetch")
    assert timeline.seconds["queue"] == 14.0


def test_a_clock_that_is_behind_the_events_counts_no_negative_wait() -> None:
    assert Timeline(FakeClock(), waited_s=-3.0).seconds == {"queue": 0.0}


def test_a_cause_inside_another_takes_its_time_away() -> None:
    clock = FakeClock()
    timeline = Timeline(clock, waited_s=0.0)
    with timeline.during("submit"):
        clock.advance(1.0)
        with timeline.during("throttled"):
            clock.advance(5.0)
        clock.advance(2.0)
    timeline.total()
    assert timeline.seconds["submit"] == 3.0
    assert timeline.seconds["throttled"] == 5.0


def test_an_exception_ends_its_cause() -> None:
    timeline = Timeline(FakeClock(), waited_s=0.0)
    try:
        with timeline.during("fetch"):
            raise KeyError
    except KeyError:
        pass
    assert timeline.cause == "queue"


def test_no_more_is_moved_than_there_is() -> None:
    clock = FakeClock()
    timeline = Timeline(clock, waited_s=0.0)
    with timeline.during("provider"):
        clock.advance(4.0)
    timeline.move(10.0, "provider", "poll_lag")
    assert timeline.seconds["provider"] == 0.0
    assert timeline.seconds["poll_lag"] == 4.0
    timeline.move(-1.0, "poll_lag", "provider")
    assert timeline.seconds["poll_lag"] == 4.0


steps = st.lists(
    st.tuples(
        st.sampled_from(CAUSES), st.floats(0, 1000), st.sampled_from(CAUSES), st.floats(0, 100)
    ),
    max_size=30,
)


@given(st.floats(0, 1e5), steps)
def test_the_causes_add_up_to_the_time_that_passed(
    waited: float, course: list[tuple[str, float, str, float]]
) -> None:
    clock = FakeClock()
    begun = clock.now
    timeline = Timeline(clock, waited_s=waited)
    for cause, seconds, target, moved in course:
        timeline.enter(cause)
        clock.advance(seconds)
        timeline.move(moved, cause, target)
    passed = waited + clock.now - begun
    assert abs(timeline.total() - passed) <= 1e-6 * max(1.0, passed)
    assert all(value >= 0 for value in timeline.seconds.values())
