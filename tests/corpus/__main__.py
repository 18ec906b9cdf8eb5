"""Check the verdict on every file of a folder against the folder's manifest.

    python -m tests.corpus FOLDER [--json]

Prints what is wrong, and as its last line JSON with at least `files`, `wrong`, `worker_deaths`
(sandbox processes that crashed) and `peak_sandbox_mb`. Every accepted file is also cut to its last
page: `split_failed` counts those where that gave no PDF of one page, `foreign_images` the images in
these cuts that the page cannot draw. Ends with 1 when a verdict is wrong, an image is foreign, a
process crashed, or a process had more memory than its limit.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from consumers.extraction.sandbox import (
    AssemblyPart,
    DocumentRejected,
    Inspection,
    InspectionLimits,
    Sandbox,
    SandboxError,
    SandboxLimits,
)
from tests.corpus.expected import Case, cases
from tests.corpus.foreign import foreign_images

LIMITS = InspectionLimits(max_bytes=1 << 30, max_pages=1_000_000)


@dataclass(frozen=True)
class Checked:
    case: Case
    verdict: str
    right: bool
    seconds: float
    split: str
    """"", "ok", or why the last page could not be cut out."""
    foreign_images: int


def check(case: Case, sandbox: Sandbox, scratch: Path) -> Checked:
    started = time.perf_counter()
    split, foreign = "", 0
    if not case.file.exists():
        return Checked(case, "the file is missing", False, 0.0, split, foreign)
    try:
        inspection = sandbox.inspect(case.file, LIMITS, case.password)
    except (DocumentRejected, SandboxError) as error:
        verdict, right = error.reason, error.reason in case.expected.reasons
    else:
        verdict = f"{inspection.pages} pages"
        right = _is_right(inspection, case)
        split, foreign = _cut_last_page(case, inspection, sandbox, scratch)
    return Checked(case, verdict, right, time.perf_counter() - started, split, foreign)


def _is_right(inspection: Inspection, case: Case) -> bool:
    if case.expected.pages is None or case.sha256 not in (None, inspection.sha256):
        return False
    if case.password is not None and case.expected.pages == 0:  # the number is not known
        return inspection.encrypted
    return inspection.pages == case.expected.pages


def _cut_last_page(
    case: Case, inspection: Inspection, sandbox: Sandbox, scratch: Path
) -> tuple[str, int]:
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        child = Path(directory) / "child.pdf"
        part = AssemblyPart(case.file, inspection.pages, inspection.pages, case.password)
        try:
            sandbox.assemble([part], child)
            pages = sandbox.inspect(child, LIMITS).pages
        except (DocumentRejected, SandboxError) as error:
            return error.reason, 0
        return ("ok" if pages == 1 else f"{pages} pages"), foreign_images(child)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true", help="print nothing but the last line")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()

    kills: collections.Counter[str] = collections.Counter()
    limits = SandboxLimits()
    started = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as scratch,
        Sandbox(
            arguments.processes, limits, on_kill=lambda reason: kills.update([reason])
        ) as sandbox,
        ThreadPoolExecutor(arguments.processes) as pool,
    ):
        checked = list(
            pool.map(
                lambda case: check(case, sandbox, Path(scratch)), list(cases(arguments.folder))
            )
        )
        peak_mb = sandbox.peak_bytes / (1 << 20)

    wrong = [result for result in checked if not result.right]
    failed_splits = [result for result in checked if result.split not in ("", "ok")]
    foreign = [result for result in checked if result.foreign_images]
    if not arguments.json:
        for result in foreign:
            print(f"foreign images: {result.case.file.name}: {result.foreign_images}")
        for result in wrong:
            print(f"wrong: {result.case.file.name}: {result.verdict}, not {result.case.expected}")
        for result in failed_splits:
            print(f"not split: {result.case.file.name}: {result.split}")
        for result in sorted(checked, key=lambda result: -result.seconds)[:5]:
            print(f"slowest: {result.case.file.name}: {result.seconds:.2f} s, {result.verdict}")
    deaths = kills["parse_crashed"]
    print(
        json.dumps(
            {
                "files": len({result.case.file for result in checked}),
                "cases": len(checked),
                "wrong": len(wrong),
                "accepted": sum(result.split != "" for result in checked),
                "split_failed": len(failed_splits),
                "foreign_images": sum(result.foreign_images for result in foreign),
                "worker_deaths": deaths,
                "killed_at_a_limit": sum(kills.values()) - deaths,
                "peak_sandbox_mb": round(peak_mb, 1),
                "limit_sandbox_mb": limits.memory_bytes >> 20,
                "seconds": round(time.perf_counter() - started, 1),
            }
        )
    )
    return int(bool(wrong or foreign or deaths or peak_mb * (1 << 20) > limits.memory_bytes))


if __name__ == "__main__":
    sys.exit(main())
