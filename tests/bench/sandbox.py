"""What it costs to parse a small document in a sandbox process and not in the caller's own.

    python -m tests.bench sandbox [--calls 300] [--json]

The same inspection of the same one-page scan, in turn in this process and in a sandbox process that
is used again and again. The last line is JSON: `overhead_ms` is the median of the differences of
the pairs (wall clock) in the quietest of ten batches, because a machine with other work measures
that; `overhead_ms_of_all` is the median of all pairs, `ratio` that of the two medians of the
quietest batch. Ends with 1 when a goal (`tests.bench.goals`) was missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consumers.extraction.documents.inspect import inspect_pdf
from consumers.extraction.documents.model import Inspection, InspectionLimits
from consumers.extraction.sandbox import Sandbox
from tests import pdfs
from tests.bench.harness import last_line

LIMITS = InspectionLimits()
BATCHES = 10


@dataclass
class Batch:
    """Milliseconds of calls that were made in turn."""

    here: list[float] = field(default_factory=list)
    there: list[float] = field(default_factory=list)

    @property
    def overheads(self) -> list[float]:
        return [there - here for here, there in zip(self.here, self.there, strict=True)]


def inspected_here(path: Path) -> Inspection:
    with path.open("rb") as file:
        return inspect_pdf(file, LIMITS)


def milliseconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000


def run(calls: int) -> dict[str, Any]:
    batches = [Batch() for _ in range(BATCHES)]
    with tempfile.TemporaryDirectory() as folder, Sandbox(1) as sandbox:
        path = Path(folder) / "scan.pdf"
        path.write_bytes(pdfs.one_page_scan())
        assert sandbox.inspect(path, LIMITS) == inspected_here(path)
        for batch in [Batch(), *batches]:  # the first warms both up, and is forgotten
            for _ in range(calls // BATCHES):
                batch.here.append(milliseconds(lambda: inspected_here(path)))
                batch.there.append(milliseconds(lambda: sandbox.inspect(path, LIMITS)))
        size = path.stat().st_size
    quietest = min(batches, key=lambda batch: statistics.median(batch.overheads))
    here, there = statistics.median(quietest.here), statistics.median(quietest.there)
    every = [overhead for batch in batches for overhead in batch.overheads]
    return {
        "calls": calls,
        "document_bytes": size,
        "in_process_ms": round(here, 3),
        "in_sandbox_ms": round(there, 3),
        "ratio": round(there / here, 2),
        "overhead_ms_of_all": round(statistics.median(every), 3),
        "overhead_ms": round(statistics.median(quietest.overheads), 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench sandbox", description=__doc__)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--json", action="store_true", help="print nothing but the last line")
    parser.add_argument("--check", action="store_true", help="as without: a missed goal ends in 1")
    given = parser.parse_args()
    line = last_line("sandbox", None, run(given.calls))
    if not given.json:
        print(json.dumps(line, indent=2))
    print(json.dumps(line))
    return int(bool(line["missed"]))


if __name__ == "__main__":
    sys.exit(main())
