"""A worker's threads keep to one core, the processes that parse documents do not."""

from __future__ import annotations

import os

import psutil
import pytest

from tests import pdfs
from tests.integration.conftest import MakePipeline

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
        reason="one core leaves no choice",
    ),
]


def _cores_of_threads(process: psutil.Process) -> set[frozenset[int]]:
    return {frozenset(os.sched_getaffinity(thread.id)) for thread in process.threads()}


@pytest.mark.parametrize("kept", [True, False])
def test_the_worker_keeps_to_one_core_and_the_parsers_have_all(
    make_pipeline: MakePipeline, kept: bool
) -> None:
    every = frozenset(os.sched_getaffinity(0))
    pipeline = make_pipeline(partitions=1, settings_tree={"worker": {"one_core": kept}})
    pipeline.start_fake_provider()
    worker = psutil.Process(pipeline.start_worker().pid)
    event = pipeline.event("one", [pipeline.upload(pdfs.one_page_scan(1))])
    outcome = pipeline.client.wait(pipeline.send(event), timeout_s=120)
    assert outcome is not None, pipeline.last_lines()
    cores = _cores_of_threads(worker)
    if kept:
        assert len(cores) == 1
        assert len(cores.pop()) == 1
    else:
        assert cores == {every}
    assert {os.sched_getscheduler(thread.id) for thread in worker.threads()} == {os.SCHED_BATCH}
    parsers = worker.children(recursive=True)
    assert parsers
    assert set().union(*map(_cores_of_threads, parsers)) == {every}
