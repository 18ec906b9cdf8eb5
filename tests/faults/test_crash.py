"""A worker that dies at each boundary once: nothing lost, nothing twice."""

from __future__ import annotations

import pytest

from tests.faults.__main__ import problems
from tests.faults.boundaries import BOUNDARIES, EACH_ONCE
from tests.faults.crash import crash
from tests.faults.stage import Servers

pytestmark = pytest.mark.integration

LANES = 3


def test_every_boundary_has_a_round() -> None:
    assert {place.partition(":")[0] for place in EACH_ONCE} == set(BOUNDARIES)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sigkill_at_each_boundary_loses_nothing_and_repeats_no_job(servers: Servers) -> None:
    found = crash(servers, rounds=len(EACH_ONCE), lanes=LANES, session_s=2.0, seed=1, kills=0)

    assert problems(found) == [], found
    assert found["jobs"] == found["documents"] == 4 * len(EACH_ONCE)
    assert found["orphans_swept"] >= 2 * LANES  # those that each lane's judge planted
