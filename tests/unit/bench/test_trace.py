"""What the measurement of `bundles trace` takes for a failure."""

import pytest

from tests.bench.trace import BOUND_S, as_promised

GOOD = {"questions": 10, "with_whole_ledger": 10, "process_s_median": BOUND_S / 2}


def test_complete_answers_within_the_bound_are_as_promised() -> None:
    assert as_promised(GOOD)


@pytest.mark.parametrize("worse", [{"with_whole_ledger": 9}, {"process_s_median": BOUND_S}])
def test_an_incomplete_answer_or_a_slow_one_is_not(worse: dict[str, float]) -> None:
    assert not as_promised(GOOD | worse)
