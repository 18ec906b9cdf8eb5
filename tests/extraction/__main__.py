"""`python -m tests.extraction FOLDER [--json]`: how good and how fast the engine is on a folder.

FOLDER has PDFs and a manifest.csv that lists the distinct images each page draws. The last line
is JSON. Images are compared with poppler's `pdfimages`; without it only their number is. Times are
processor times of the engine and of a loop over pypdf's `page.images`, by turns in the same run.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.extraction import children, engines, judging, poppler
from tests.extraction.children import Outcome
from tests.extraction.engines import Answer
from tests.extraction.judging import Verdict
from tests.extraction.manifest import CorpusFile, read_manifest

_ROUNDS = 5
_PATIENCE_SECONDS = 40.0
"""For the rounds of one file. The slowest files make the p99: one run of them would not do."""
_JUDGE_SECONDS = 600.0


@dataclass(frozen=True)
class Result:
    """One file: times in seconds, how our process died if it did, and the verdict on images."""

    name: str
    own_seconds: float
    pypdf_seconds: float
    death: str | None
    error: str | None
    problems: tuple[str, ...]
    verdict: Verdict | None


def main() -> int:
    arguments = _arguments()
    logging.disable(logging.CRITICAL)
    files = read_manifest(arguments.folder)
    if not files:
        print(f"no file of the manifest is in {arguments.folder}", file=sys.stderr)
        return 2
    if not poppler.is_available():
        print("pdfimages (poppler-utils) is not installed: pixels are not compared")
    results = []
    for file in files:
        result = _measure(file, arguments.seconds)
        results.append(result)
        if not arguments.json:
            _print(result)
    for result in results if arguments.json else []:
        if result.verdict and result.verdict.notes:
            _print(result)
    print(json.dumps(summary(results)))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.extraction", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true", help="only what differs, then the summary")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit for an engine and file")
    return parser.parse_args()


def _measure(file: CorpusFile, seconds: float) -> Result:
    with tempfile.TemporaryDirectory(prefix="extraction-") as name:
        folder = Path(name)
        own, theirs = _timed(file, folder / "own", seconds)
        answer = own.value if isinstance(own.value, Answer) else Answer((), ())
        verdict = _verdict(file, answer, folder / "oracle")
    return Result(
        name=file.path.name,
        own_seconds=own.seconds,
        pypdf_seconds=theirs.seconds,
        death=own.death,
        error=own.error,
        problems=answer.problems,
        verdict=verdict,
    )


def _timed(file: CorpusFile, out_dir: Path, seconds: float) -> tuple[Outcome, Outcome]:
    """Both engines on one file, by turns; the best time of as many runs for each."""
    out_dir.mkdir()
    pairs: list[tuple[Outcome, Outcome]] = []
    spent = 0.0
    while len(pairs) < _ROUNDS and spent < _PATIENCE_SECONDS:
        own = children.run(engines.ours, file.path, out_dir, file.password, seconds=seconds)
        theirs = children.run(engines.pypdf_images, file.path, file.password, seconds=seconds)
        pairs.append((own, theirs))
        spent += own.seconds + theirs.seconds
    own_runs, their_runs = zip(*pairs, strict=True)
    died = [outcome for outcome in own_runs if outcome.death]
    own = died[0] if died else min(own_runs, key=lambda outcome: outcome.seconds)
    return own, min(their_runs, key=lambda outcome: outcome.seconds)


def _verdict(file: CorpusFile, answer: Answer, out_dir: Path) -> Verdict | None:
    if file.images_per_page is None:
        return None
    oracle = None
    if poppler.is_available() and (file.images_per_page or answer.images):
        oracle = poppler.images(file.path, out_dir, file.password)
    if oracle is None:
        return judging.count_only(file.images_per_page, answer.images)
    judged = children.run(
        judging.judge,
        file.path,
        file.password,
        file.images_per_page,
        answer.images,
        oracle,
        seconds=_JUDGE_SECONDS,
    )
    if isinstance(judged.value, Verdict):
        return judged.value
    counted = judging.count_only(file.images_per_page, answer.images)
    counted.notes.append(f"not compared: {judged.death or judged.error}")
    return counted


def summary(results: list[Result]) -> dict[str, float | int | None]:
    """The figures of all files together; a ratio of nothing is None."""
    verdicts = [result.verdict for result in results if result.verdict is not None]
    own = np.array([result.own_seconds for result in results])
    theirs = np.array([result.pypdf_seconds for result in results])
    return {
        "files": len(results),
        "expected_images": sum(verdict.expected for verdict in verdicts),
        "found_ratio": _ratio(
            sum(verdict.found for verdict in verdicts),
            sum(verdict.expected for verdict in verdicts),
        ),
        "pixels_ratio": _ratio(
            sum(verdict.right for verdict in verdicts),
            sum(verdict.compared for verdict in verdicts),
        ),
        "pixels_compared": sum(verdict.compared for verdict in verdicts),
        "pixels_undecided": sum(verdict.undecided for verdict in verdicts),
        "poppler_outvoted": sum(verdict.outvoted for verdict in verdicts),
        "extra_images": sum(verdict.extra for verdict in verdicts),
        "foreign_images": sum(verdict.foreign for verdict in verdicts),
        "worker_deaths": sum(result.death is not None for result in results),
        "total_time_ratio": _ratio(float(own.sum()), float(theirs.sum())),
        "p99_time_ratio": _ratio(float(np.percentile(own, 99)), float(np.percentile(theirs, 99))),
        "total_seconds": round(float(own.sum()), 3),
        "p99_seconds": round(float(np.percentile(own, 99)), 3),
    }


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None


def _print(result: Result) -> None:
    verdict = result.verdict
    counts = "not judged"
    if verdict is not None:
        counts = (
            f"found {verdict.found}/{verdict.expected}, right {verdict.right}/{verdict.compared}"
        )
    how = result.death or result.error or ""
    print(
        f"{result.name:45} {1000 * result.own_seconds:8.1f} ms, pypdf "
        f"{1000 * result.pypdf_seconds:8.1f} ms  {counts}  {how}"
    )
    for note in [*result.problems, *(verdict.notes if verdict else [])]:
        print(f"    {note}")


if __name__ == "__main__":
    sys.exit(main())
