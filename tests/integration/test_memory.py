"""A 50 MiB document through a whole worker, whose memory hardly grows by it."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pikepdf
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
SIDE = 591  # pixels: 1 MiB of RGB


def scans_that_do_not_compress() -> bytes:
    """50 MiB: a page per MiB."""
    pdf, rng = pikepdf.new(), random.Random(1)
    for _ in range(PAGES):
        image = pdf.make_stream(
            rng.randbytes(SIDE * SIDE * 3),
            Type=pikepdf.Name.XObject,
            Subtype=pikepdf.Name.Image,
            Width=SIDE,
            Height=SIDE,
            ColorSpace=pikepdf.Name.DeviceRGB,
            BitsPerComponent=8,
        )
        pdfs.add_page(pdf, b"q 595 0 0 842 0 0 cm /Scan Do Q", {"/Scan": image})
    out = io.BytesIO()
    pdf.save(out, compress_streams=False)
    return out.getvalue()


def _resident(process: psutil.Process) -> tuple[int, int]:
    """Bytes: now, and the most since `_forget_peak`."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    return int(values["VmRSS"].split()[0]) << 10, int(values["VmHWM"].split()[0]) << 10


def _forget_peak(process: psutil.Process) -> None:
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")


def test_a_50_mib_document_is_never_in_memory_as_a_whole(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=1)
    pipeline.start_fake_provider()
    worker = psutil.Process(pipeline.start_worker().pid)
    large = scans_that_do_not_compress()
    assert len(large) > 49 * MIB
    whole = pipeline.event("whole", [pipeline.upload(large)])
    cut = pipeline.event("cut", [whole["documents"][0]["segments"][0]["source"]])
    cut["documents"][0]["segments"][0]["pages"] = {"first": 2, "last": PAGES}
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

    # A sandbox process holds the pages that it copies, within its limit; the worker never does.
    extract(cut)
    extract(damaged)
    assert _resident(worker)[1] - before[worker] < 15 * MIB
