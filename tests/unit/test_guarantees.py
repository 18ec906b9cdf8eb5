"""GUARANTEES.md names only tests and metrics that exist, and every row names some."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from consumers.metrics import Metrics

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "GUARANTEES.md").read_text(encoding="utf-8")
TEST = re.compile(r"`(tests/[^`]+)`")
METRIC = re.compile(r"`(bundles_[a-z_]+)`")


def rows() -> list[list[str]]:
    """The cells of every row of every table, headings left out."""
    found = []
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        heading = set(line) <= set("|- ") or cells[-1] in ("Tests", "Proved by")
        if line.startswith("|") and not heading:
            found.append(cells)
    return found


ROWS = rows()


def missing(name: str) -> str | None:
    """What is wrong with the name of a test, a module or a folder; None when it exists."""
    path, _, function = name.partition("::")
    file = ROOT / path
    if not file.exists():
        return f"no file {path}"
    if not function:
        return None
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes: list[ast.stmt] = tree.body
    for part in function.split("::"):
        wanted = (ast.FunctionDef, ast.ClassDef)
        inner = [node for node in nodes if isinstance(node, wanted) and node.name == part]
        if not inner:
            return f"no {part} in {path}"
        nodes = inner[0].body
    return None


@pytest.mark.parametrize("name", sorted(set(TEST.findall(TEXT))))
def test_every_named_test_exists(name: str) -> None:
    assert missing(name) is None


@pytest.mark.parametrize("name", sorted(set(METRIC.findall(TEXT))))
def test_every_named_metric_is_in_the_contract(name: str) -> None:
    assert name in {spec.name for spec in Metrics().specs}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:50])
def test_every_row_names_a_test(row: list[str]) -> None:
    assert TEST.findall(row[-1])


def test_every_row_of_the_matrix_names_a_metric_and_what_is_redelivered() -> None:
    matrix = [row for row in ROWS if not row[0].isdigit()]
    assert len(matrix) > 30
    assert not [row[0] for row in matrix if len(row) != 5 or not METRIC.findall(row[3])]
    assert not [row[0] for row in matrix if not row[2]]


def test_there_are_eight_guarantees() -> None:
    assert [row[0] for row in ROWS if row[0].isdigit()] == [str(n) for n in range(1, 9)]


@pytest.mark.parametrize(
    "name",
    [
        "tests/unit/no_such_file.py",
        "tests/unit/test_guarantees.py::test_that_nobody_wrote",
        "tests/unit/test_guarantees.py::missing::inner",
    ],
)
def test_a_name_that_does_not_exist_is_found(name: str) -> None:
    assert missing(name) is not None
