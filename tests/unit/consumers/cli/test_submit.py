"""`bundles submit`: what it takes for page ranges, and what it refuses before it sends anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.cli.common import Problem
from consumers.cli.submit import parse_ranges, submit


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("1-3,4-9", [(1, 3), (4, 9)]),
        ("7", [(7, 7)]),
        (" 1-3 , 5", [(1, 3), (5, 5)]),
        ("2-2", [(2, 2)]),
        ("4-9,1-3", [(4, 9), (1, 3)]),
    ],
)
def test_page_ranges_are_inclusive_and_keep_their_order(
    text: str, ranges: list[tuple[int, int]]
) -> None:
    assert parse_ranges(text) == ranges


@pytest.mark.parametrize("text", ["0-3", "3-1", "1-", "-3", "a-b", "1,,2", "1-3;4-9", "1.5", ","])
def test_what_is_no_range_is_answered_with_how_to_write_one(text: str) -> None:
    with pytest.raises(Problem, match="write ranges as 1-3,4-9") as problem:
        parse_ranges(text)
    assert problem.value.code == 2


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    file = tmp_path / "scan.pdf"
    file.write_bytes(b"%PDF-1.4")
    return file


def test_a_file_that_is_not_there_is_named(scan: Path, tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"no such file: .*gone\.pdf$") as problem:
        submit([scan, tmp_path / "gone.pdf"])
    assert problem.value.code == 2


def test_a_split_is_of_one_file_and_no_merge(scan: Path) -> None:
    for files, merge in ([scan, scan], False), ([scan], True):
        with pytest.raises(Problem, match="--split cuts one file"):
            submit(files, split="1-2", merge=merge)
