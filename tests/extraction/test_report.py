"""The evaluation itself: it must see what is missing, wrong or foreign."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests import pdfs
from tests.extraction import bounds, children, judging, poppler
from tests.extraction.__main__ import Result, Times, summary
from tests.extraction.engines import Found
from tests.extraction.judging import Verdict

ROOT = Path(__file__).parents[2]
needs_poppler = pytest.mark.skipif(
    shutil.which("pdfimages") is None, reason="pdfimages (poppler-utils) is not installed"
)


def write_corpus(folder: Path, files: dict[str, tuple[bytes, str, str]]) -> None:
    """PDFs with their number of pages and images per page."""
    folder.mkdir()
    with (folder / "manifest.csv").open("w", newline="") as output:
        rows = csv.writer(output)
        rows.writerow(["file", "pages", "distinct_images_and_stencils_per_page", "user_password"])
        for name, (data, pages, images) in files.items():
            (folder / name).write_bytes(data)
            rows.writerow([name, pages, images, ""])


def run_evaluation(folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    finished = subprocess.run(
        [sys.executable, "-m", "tests.extraction", str(folder), "--json", *options],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=170,
        check=False,
    )
    assert finished.stderr == ""
    return finished.returncode, json.loads(finished.stdout.splitlines()[-1]), finished.stdout


def test_a_folder_is_measured_and_the_last_line_is_json(tmp_path: Path) -> None:
    files = {
        "shared.pdf": (pdfs.shared_resources(3), "3", "1:1 2:1 3:1"),
        "scan.pdf": (pdfs.one_page_scan(), "1", "1:1"),
        "text.pdf": (pdfs.text_only(), "1", ""),
        "junk.pdf": (pdfs.not_a_pdf("text"), "", ""),
    }
    write_corpus(tmp_path / "corpus", files)
    code, report, _ = run_evaluation(tmp_path / "corpus")
    assert code == 0
    assert report["files"] == 4
    assert report["expected_images"] == 4
    assert report["found_ratio"] == 1.0
    assert report["pixels_ratio"] == (1.0 if poppler.is_available() else None)
    assert (report["foreign_images"], report["extra_images"], report["worker_deaths"]) == (0, 0, 0)
    assert report["total_time_ratio"] > 0
    assert report["p99_time_ratio"] > 0
    assert report["p99_cpu_ratio"] > 0


GOOD = {
    "found_ratio": 0.97,
    "pixels_ratio": 0.97,
    "foreign_images": 0,
    "worker_deaths": 0,
    "total_time_ratio": 0.5,
    "p99_time_ratio": 0.1,
}


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        ("found_ratio", 0.9699),
        ("found_ratio", None),
        ("pixels_ratio", 0.9699),
        ("pixels_ratio", None),
        ("foreign_images", 1),
        ("worker_deaths", 1),
        ("total_time_ratio", 0.5001),
        ("p99_time_ratio", 0.1001),
        ("p99_time_ratio", None),
    ],
)
def test_each_figure_has_its_bound_and_times_only_where_they_are_asked_for(
    name: str, figure: float | None
) -> None:
    assert bounds.missed(GOOD, times=True) == []
    (line,) = bounds.missed(GOOD | {name: figure}, times=True)
    assert line.startswith(f"{name} is {figure}, not at ")
    is_time = "time" in name
    assert bounds.missed(GOOD | {name: figure}, times=False) == ([] if is_time else [line])


@needs_poppler
@pytest.mark.parametrize(("images", "code"), [("1:1", 0), ("1:2", 1)])
def test_a_check_ends_badly_where_a_figure_is_out_of_bounds_and_names_it(
    tmp_path: Path, images: str, code: int
) -> None:
    write_corpus(tmp_path / "corpus", {"scan.pdf": (pdfs.one_page_scan(), "1", images)})
    ended, report, printed = run_evaluation(tmp_path / "corpus", "--check", "--rounds", "1")
    assert ended == code
    assert ("missed: found_ratio is 0.5, not at least 0.97" in printed) == bool(code)
    assert report["found_ratio"] == (0.5 if code else 1.0)
    without_check, _, _ = run_evaluation(tmp_path / "corpus", "--rounds", "1")
    assert without_check == 0


def test_times_are_looked_at_by_a_check_only(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.extraction", str(tmp_path), "--times"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 2
    assert "--times goes with --check" in done.stderr


@needs_poppler
@pytest.mark.slow
def test_the_images_of_the_reference_corpus_are_found_and_right() -> None:
    folder = (ROOT / os.environ.get("CORPUS_DIR", "../shared/corpus")).resolve()
    if not (folder / "manifest.csv").exists():
        pytest.skip("no reference corpus: set CORPUS_DIR to a folder with a manifest.csv")
    code, report, printed = run_evaluation(folder, "--check", "--rounds", "1")
    assert code == 0, printed
    assert report["files"] > 0


def found(folder: Path, page: int, colour: tuple[int, int, int]) -> Found:
    file = folder / f"{page}-{colour}.png"
    side = pdfs.IMAGE_SIDE_PIXELS
    Image.new("RGB", (side, side), colour).save(file)
    return Found(page, file, side, side)


def judged(tmp_path: Path, images: tuple[Found, ...]) -> Verdict:
    """A document of two pages that draw one image each."""
    document = tmp_path / "document.pdf"
    document.write_bytes(pdfs.shared_resources(2))
    oracle = poppler.images(document, tmp_path / "oracle", None)
    assert oracle is not None
    return judging.judge(document, None, {1: 1, 2: 1}, images, oracle)


@needs_poppler
def test_right_images_are_right(tmp_path: Path) -> None:
    images = tuple(found(tmp_path, page, pdfs.colour_of(page, 1)) for page in (1, 2))
    verdict = judged(tmp_path, images)
    assert (verdict.found, verdict.compared, verdict.right, verdict.foreign) == (2, 2, 2, 0)


@needs_poppler
def test_an_image_of_another_page_is_foreign(tmp_path: Path) -> None:
    images = (
        found(tmp_path, 1, pdfs.colour_of(1, 1)),
        found(tmp_path, 1, pdfs.colour_of(2, 1)),
        found(tmp_path, 2, pdfs.colour_of(2, 1)),
    )
    verdict = judged(tmp_path, images)
    assert (verdict.foreign, verdict.extra) == (1, 1)


@needs_poppler
def test_wrong_pixels_and_missing_images_are_seen(tmp_path: Path) -> None:
    verdict = judged(tmp_path, (found(tmp_path, 1, (255, 255, 255)),))
    assert (verdict.found, verdict.compared, verdict.right) == (1, 2, 0)


def ends_itself() -> None:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)


def never_ends() -> None:
    while True:
        pass


def test_a_worker_that_dies_is_a_death_and_not_an_error() -> None:
    assert children.run(ends_itself, seconds=60).death == "exit code -9"
    assert children.run(never_ends, seconds=0.1).death == "timeout"
    assert children.run(int, "no number", seconds=60).error == "ValueError"


def test_time_is_on_the_clock_and_cpu_of_all_threads() -> None:
    slept = children.run(time.sleep, 0.3, seconds=60)
    assert slept.seconds >= 0.3 > slept.cpu_seconds
    worked = children.run(two_threads_at_work, seconds=60)
    assert worked.cpu_seconds > 2 * _WORK_SECONDS * 0.9


_WORK_SECONDS = 0.1


def two_threads_at_work() -> None:
    def work() -> None:
        while time.thread_time() < _WORK_SECONDS:
            pass

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_ratios_are_of_sums_and_of_percentiles() -> None:
    def result(own: float, theirs: float, death: str | None = None) -> Result:
        times = Times(own, 2 * own), Times(theirs, theirs)
        return Result("x.pdf", *times, death, None, (), Verdict(expected=2, found=1))

    report = summary([result(1.0, 4.0), result(3.0, 4.0, "timeout")])
    assert report["total_time_ratio"] == 0.5
    assert report["p99_time_ratio"] == pytest.approx(2.98 / 4, abs=0.001)
    assert report["total_cpu_ratio"] == 1.0
    assert report["p99_cpu_ratio"] == pytest.approx(2 * 2.98 / 4, abs=0.001)
    assert (report["found_ratio"], report["worker_deaths"]) == (0.5, 1)
