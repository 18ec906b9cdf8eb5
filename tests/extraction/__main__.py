"""`python -m tests.extraction FOLDER [--json] [--check]`: how good and how fast the engine is.

FOLDER has PDFs and a manifest.csv that lists the distinct images each page draws. The last line
is JSON. Images are compared with poppler's `pdfimages`; without it only their number is. Times are
those of the engine and of a loop over pypdf's `page.images`, by turns in the same run: on the clock
in `time`, which a busy machine disturbs, and of the processors, of all threads, in `cpu`.

With `--check` it ends with 1, and names the figures, where they are not as `bounds.py` has them; of
times only with `--times`.
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

from tests.extraction import bounds, children, engines, judging, poppler
from tests.extraction.children import Outcome
from tests.extraction.engines import Answer
from tests.extraction.judging import Verdict
from tests.extraction.manifest import CorpusFile, read_manifest

_ROUNDS = 5
_PATIENCE_SECONDS = 40.0
"""For the rounds of one file. The slowest files make the p99: one run of them would not do."""
_JUDGE_SECONDS = 600.0


@dataclass(frozen=True)
class Times:
    """Seconds on the clock, and of the processors."""

    clock: float
    cpu: float


@dataclass(frozen=True)
class Result:
    """One file: its times, how our process died if it did, and the verdict on images."""

    name: str
    own: Times
    pypdf: Times
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
        result = _measure(file, arguments.seconds, arguments.rounds)
        results.append(result)
        if not arguments.json:
            _print(result)
    for result in results if arguments.json else []:
        if result.verdict and result.verdict.notes:
            _print(result)
    figures = summary(results)
    missed = bounds.missed(figures, times=arguments.times) if arguments.check else []
    for line in missed:
        print(f"missed: {line}")
    print(json.dumps(figures))
    return 1 if missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.extraction", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true", help="only what differs, then the summary")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit for an engine and file")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="of both engines on each file")
    parser.add_argument("--check", action="store_true", help="end with 1 unless images are right")
    parser.add_argument("--times", action="store_true", help="with --check: and times, too")
    arguments = parser.parse_args()
    if arguments.times and not arguments.check:
        parser.error("--times goes with --check")
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    return arguments


def _measure(file: CorpusFile, seconds: float, rounds: int) -> Result:
    with tempfile.TemporaryDirectory(prefix="extraction-") as name:
        folder = Path(name)
        own, theirs = _timed(file, folder / "own", seconds, rounds)
        answer = own[-1].value if isinstance(own[-1].value, Answer) else Answer((), ())
        verdict = _verdict(file, answer, folder / "oracle")
    return Result(
        name=file.path.name,
        own=_best_times(own),
        pypdf=_best_times(theirs),
        death=next((outcome.death for outcome in own if outcome.death), None),
        error=own[0].error,
        problems=answer.problems,
        verdict=verdict,
    )


def _timed(
    file: CorpusFile, out_dir: Path, seconds: float, rounds: int
) -> tuple[tuple[Outcome, ...], tuple[Outcome, ...]]:
    """Both engines on one file, by turns."""
    out_dir.mkdir()
    pairs: list[tuple[Outcome, Outcome]] = []
    spent = 0.0
    while len(pairs) < rounds and spent < _PATIENCE_SECONDS:
        own = children.run(engines.ours, file.path, out_dir, file.password, seconds=seconds)
        theirs = children.run(engines.pypdf_images, file.path, file.password, seconds=seconds)
        pairs.append((own, theirs))
        spent += own.seconds + theirs.seconds
    own_runs, their_runs = zip(*pairs, strict=True)
    return own_runs, their_runs


def _best_times(runs: tuple[Outcome, ...]) -> Times:
    """Of the runs that ended by themselves; of the deaths where one died."""
    counted = [run for run in runs if run.death] or runs
    return Times(min(run.seconds for run in counted), min(run.cpu_seconds for run in counted))


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
    own = np.array([(result.own.clock, result.own.cpu) for result in results])
    theirs = np.array([(result.pypdf.clock, result.pypdf.cpu) for result in results])
    own_total, own_p99 = own.sum(axis=0), np.percentile(own, 99, axis=0)
    total, p99 = theirs.sum(axis=0), np.percentile(theirs, 99, axis=0)
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
        "total_time_ratio": _ratio(own_total[0], total[0]),
        "p99_time_ratio": _ratio(own_p99[0], p99[0]),
        "total_cpu_ratio": _ratio(own_total[1], total[1]),
        "p99_cpu_ratio": _ratio(own_p99[1], p99[1]),
        "total_seconds": round(float(own_total[0]), 3),
        "p99_seconds": round(float(own_p99[0]), 3),
    }


def _ratio(part: float, whole: float) -> float | None:
    return round(float(part / whole), 4) if whole else None


def _print(result: Result) -> None:
    verdict = result.verdict
    counts = "not judged"
    if verdict is not None:
        counts = (
            f"found {verdict.found}/{verdict.expected}, right {verdict.right}/{verdict.compared}"
        )
    how = result.death or result.error or ""
    print(
        f"{result.name:45} {1000 * result.own.clock:8.1f} ms, cpu {1000 * result.own.cpu:8.1f}, "
        f"pypdf {1000 * result.pypdf.clock:8.1f} ms  {counts}  {how}"
    )
    for note in [*result.problems, *(verdict.notes if verdict else [])]:
        print(f"    {note}")


if __name__ == "__main__":
    sys.exit(main())
