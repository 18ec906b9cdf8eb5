"""Kafka, the store and the service gone at the same time, under load, and back."""

from __future__ import annotations

import pytest

from tests.faults.__main__ import problems
from tests.faults.outage import outage
from tests.faults.stage import Servers

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(400)]


def test_an_outage_of_everything_loses_nothing_and_dead_letters_nothing(servers: Servers) -> None:
    found = outage(servers, seconds=12, only=["all"], before_s=5, after_s=10)

    # How soon is measured by `python -m tests.faults outage`, on a machine that does nothing else.
    assert set(problems(found)) <= {"seconds_to_recover"}, found
    assert found["jobs"] == found["documents"]
    assert found["worker_exits"] == {}
