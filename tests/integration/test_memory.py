"""A 50 MiB document through a whole worker, whose memory hardly grows by it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import documents_pdfs, pdfs
from tests.integration.conftest import MakePipeline

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc"),
]

MIB = 1 << 20
PAGES = 50
SAMPLE_S = 0.01


def _resident(process: psutil.Process) -> tuple[int, int]:
    """Bytes: now, and the most since `_forget_peak`."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    return int(values["VmRSS"].split()[0]) << 10, int(values["VmHWM"].split()[0]) << 10


def _forget_peak(process: psutil.Process) -> None:
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")


@contextlib.contextmanager
def _watched(nursery: psutil.Process) -> Iterator[list[int]]:
    """The most bytes that each sandbox process had resident, as far as was seen in the block: one
    that works for long is replaced when it is done."""
    most: dict[int, int] = {}
    found: list[int] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(SAMPLE_S):
            for process in nursery.children():
                with contextlib.suppress(OSError, KeyError):  # it has just ended
                    most[process.pid] = _resident(process)[1]

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield found
    finally:
        ended.set()
        watcher.join()
        found += most.values()


def test_a_50_mib_document_is_never_in_memory_as_a_whole(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=1)
    pipeline.start_fake_provider()
    worker = psutil.Process(pipeline.start_worker().pid)
    large = documents_pdfs.scans_that_do_not_compress(PAGES)
    assert len(large) > 49 * MIB
    source = pipeline.upload(large)
    whole = pipeline.event("whole", [source])
    cut = pipeline.event("cut", [source])
    cut["documents"][0]["segments"] = [
        {"source": dict(source), "pages": {"first": 2, "last": PAGES}}
    ]
    merged = pipeline.event("merged", [source])
    merged["documents"][0]["segments"] = [
        {"source": dict(source), "pages": {"first": first, "last": last}}
        for first, last in ((26, PAGES), (1, 25))
    ]
    damaged = pipeline.event("damaged", [pipeline.upload(documents_pdfs.without_root(large))])
    del large

    def extract(event: dict[str, Any]) -> None:
        outcome = pipeline.client.wait(pipeline.send(event), timeout_s=120)
        assert outcome is not None, pipeline.last_lines()
        assert outcome["extracted"] == 1, outcome

    extract(pipeline.event("warm", [pipeline.upload(pdfs.one_page_scan(1))]))
    (nursery,) = worker.children()
    (sandbox,) = nursery.children()
    before = {process: _resident(process)[0] for process in (worker, sandbox)}
    for process in before:
        _forget_peak(process)

    extract(whole)
    grown = {process: _resident(process)[1] - before[process] for process in before}
    assert max(grown.values()) < 15 * MIB, grown

    with _watched(nursery) as peaks:
        extract(cut)
        extract(merged)
    assert max(peaks) - before[sandbox] < 15 * MIB, peaks

    # A sandbox process holds the pages that it repairs, within its limit; the worker never does.
    extract(damaged)
    assert _resident(worker)[1] - before[worker] < 15 * MIB
