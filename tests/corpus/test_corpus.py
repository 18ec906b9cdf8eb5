import csv
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import documents_pdfs, pdfs
from tests.corpus import fuzz
from tests.corpus.expected import NOT_A_PDF, UNREADABLE, Expected, cases

ROOT = Path(__file__).parents[2]


def corpus_folder(folder: Path, rows: list[dict[str, Any]]) -> Path:
    """A folder with a manifest; `content` of a row becomes its file."""
    columns = ["file", "pages", "pdf_header_offset", "encrypted_needs_password", "user_password"]
    with (folder / "manifest.csv").open("w", newline="") as file:
        manifest = csv.DictWriter(file, columns, extrasaction="ignore")
        manifest.writeheader()
        manifest.writerows(rows)
    for row in rows:
        if "content" in row:
            (folder / row["file"]).write_bytes(row["content"])
    return folder


def run_corpus(folder: Path) -> tuple[int, dict[str, Any], str]:
    finished = subprocess.run(
        [sys.executable, "-m", "tests.corpus", str(folder)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=170,
        check=False,
    )
    assert finished.stderr == ""
    return finished.returncode, json.loads(finished.stdout.splitlines()[-1]), finished.stdout


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"pages": "3"}, Expected(pages=3)),
        ({"pages": "3", "pdf_header_offset": "0"}, Expected(pages=3)),
        ({"pages": "3", "pdf_header_offset": "50"}, Expected(pages=3)),
        ({"pages": "3", "pdf_header_offset": "2000"}, Expected(reasons=NOT_A_PDF)),
        ({"pages": "", "pdf_header_offset": "-1"}, Expected(reasons=NOT_A_PDF)),
        ({"pages": ""}, Expected(reasons=UNREADABLE)),
        ({"pages": "0"}, Expected(reasons=frozenset({"no_pages"}))),
        (
            {"pages": "", "encrypted_needs_password": "yes"},
            Expected(reasons=frozenset({"encrypted"})),
        ),
    ],
)
def test_the_verdict_follows_from_the_manifest(
    tmp_path: Path, row: dict[str, str], expected: Expected
) -> None:
    (case,) = cases(corpus_folder(tmp_path, [{"file": "a.pdf", **row}]))
    assert case.expected == expected


def test_a_file_with_a_known_password_is_tried_without_and_with_it(tmp_path: Path) -> None:
    row = {"file": "a.pdf", "pages": "", "encrypted_needs_password": "yes", "user_password": "x"}
    assert [case.password for case in cases(corpus_folder(tmp_path, [row]))] == [None, "x"]


def test_right_verdicts_end_well_and_the_last_line_is_the_count(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"file": "good.pdf", "pages": 3, "content": pdfs.pages(3)},
        {
            "file": "locked.pdf",
            "pages": "",
            "encrypted_needs_password": "yes",
            "user_password": "secret",
            "content": pdfs.encrypted("secret"),
        },
        {"file": "empty.pdf", "pages": 0, "content": documents_pdfs.no_pages()},
        {
            "file": "a.png",
            "pages": "",
            "pdf_header_offset": -1,
            "content": pdfs.not_a_pdf("png"),
        },
    ]
    code, last, _ = run_corpus(corpus_folder(tmp_path, rows))
    assert code == 0
    assert (last["files"], last["wrong"], last["worker_deaths"]) == (4, 0, 0)
    assert (last["accepted"], last["split_failed"]) == (2, 0)
    assert 0 < last["peak_sandbox_mb"] < last["limit_sandbox_mb"]


def test_wrong_verdicts_are_named_and_end_badly(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"file": "count.pdf", "pages": 4, "content": pdfs.pages(3)},
        {"file": "readable.pdf", "pages": "", "content": pdfs.pages(1)},
        {"file": "missing.pdf", "pages": 1},
    ]
    code, last, printed = run_corpus(corpus_folder(tmp_path, rows))
    assert code == 1
    assert last["wrong"] == 3
    assert "wrong: count.pdf: 3 pages, not 4 pages" in printed


def test_every_verdict_on_the_reference_corpus_is_right() -> None:
    folder = (ROOT / os.environ.get("CORPUS_DIR", "../shared/corpus")).resolve()
    if not (folder / "manifest.csv").exists():
        pytest.skip("no reference corpus: set CORPUS_DIR to a folder with a manifest.csv")
    code, last, printed = run_corpus(folder)
    assert (code, last["wrong"], last["worker_deaths"]) == (0, 0, 0), printed
    assert last["files"] > 0


def test_mutated_files_end_as_verdicts_in_time() -> None:
    result = fuzz.run(pdf_count=120, image_count=60, seed=1)
    assert (result["hangs"], result["errors"]) == (0, 0), result


def test_the_same_seed_mutates_the_same_way() -> None:
    data = pdfs.pages(1)
    once, again, other = (fuzz.mutate(data, random.Random(seed)) for seed in (5, 5, 6))
    assert once == again != other
