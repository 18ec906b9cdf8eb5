"""Members join and leave under back-pressure: no partition is left dead, no job is repeated."""

from __future__ import annotations

import pytest

from tests.faults.__main__ import problems
from tests.faults.rebalance import rebalance
from tests.faults.stage import Servers

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_every_partition_reaches_its_end_after_members_came_and_went(
    servers: Servers, protocol: str
) -> None:
    found = rebalance(servers, changes=2, protocol=protocol)

    assert problems(found) == [], found
    assert found["jobs"] == found["documents"]
    assert (found["paused_at_end"], found["in_flight_at_end"]) == (0, 0)
