"""The README's table is about the behaviours and providers that there are."""

from __future__ import annotations

import re
from pathlib import Path

from tests.contract.behaviours import BEHAVIOURS
from tests.contract.matrix import PASSED, Cell, as_markdown
from tests.contract.subjects import SUBJECTS

README = (Path(__file__).parents[2] / "README.md").read_text()


def _first_columns(table: str) -> list[str]:
    return re.findall(r"^\| ([^|]+?) \|", table, re.MULTILINE)


def test_the_readme_shows_every_behaviour_of_every_provider() -> None:
    cells = [Cell(kind.name, name, PASSED) for kind in SUBJECTS for name in BEHAVIOURS]
    wanted = _first_columns(as_markdown(cells))
    (shown,) = re.findall(r"^\| behaviour \|.*?(?=\n\n)", README, re.MULTILINE | re.DOTALL)
    assert _first_columns(shown) == wanted
    assert shown.splitlines()[0] == as_markdown(cells).splitlines()[0]


def test_the_readme_shows_no_cell_that_failed() -> None:
    (shown,) = re.findall(r"^\| behaviour \|.*?(?=\n\n)", README, re.MULTILINE | re.DOTALL)
    rows = shown.splitlines()[2:]
    cells = [cell.strip() for row in rows for cell in row.strip("|").split("|")[1:]]
    assert len(cells) == len(SUBJECTS) * len(BEHAVIOURS)
    assert all(re.fullmatch(r"✓|\(\d+\)", cell) for cell in cells)
