"""One simulator a test module: a temporary directory and a set of metrics that its runs share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.world import Simulator


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    logging.disable(logging.ERROR)
    try:
        with Simulator() as made:
            yield made
    finally:
        logging.disable(logging.NOTSET)
