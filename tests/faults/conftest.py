"""Servers of the fault tests' own: they are stopped, killed and full of dead members' sessions."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest

from deploy.local.jars import JarsUnavailable
from deploy.local.java import JavaMissing
from deploy.local.s3 import WeedMissing
from tests.faults.stage import Servers, Stage, own_servers, stage_on


class MakeStage(Protocol):
    """A `Stage` with a service that runs; keywords are fields of `tests.pipeline.Pipeline`."""

    def __call__(self, *service: str, **fields: Any) -> Stage: ...


@pytest.fixture(scope="session")
def doomed_servers() -> Iterator[Servers]:
    with ExitStack() as stack:
        try:
            servers = stack.enter_context(own_servers())
        except (JavaMissing, JarsUnavailable, WeedMissing) as error:
            if os.environ.get("REQUIRE_REAL_KAFKA") == "1":
                pytest.fail(f"REQUIRE_REAL_KAFKA=1, but: {error}")
            pytest.skip(f"no servers of our own: {error}")
        yield servers


@pytest.fixture
def servers(doomed_servers: Servers) -> Iterator[Servers]:
    """All up at the start of each test, whatever the one before did."""
    yield doomed_servers
    assert doomed_servers.cluster is not None
    assert doomed_servers.server is not None
    if not doomed_servers.cluster.running(1):
        doomed_servers.cluster.start_again(1)
    if not doomed_servers.server.running:
        doomed_servers.server.restart()


@pytest.fixture
def make_stage(servers: Servers) -> Iterator[MakeStage]:
    with contextlib.ExitStack() as stack:

        def make(*service: str, **fields: Any) -> Stage:
            stage = stack.enter_context(stage_on(servers, **fields))
            stage.start_service(*(service or ("--run-time", "1.0")))
            return stage

        yield make
