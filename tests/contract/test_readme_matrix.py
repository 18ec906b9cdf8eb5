"""The README shows the matrix as it is: every behaviour of every provider, and each cell of it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.contract.behaviours import BEHAVIOURS
from tests.contract.matrix import PASSED, SKIPPED, Cell, as_markdown
from tests.contract.subjects import SUBJECTS

README = (Path(__file__).parents[2] / "README.md").read_text()


def wanted() -> list[Cell]:
    """What a run gives when nothing fails; that nothing does is `test_matrix`'s to say."""
    return [
        Cell(kind.name, name, SKIPPED, kind.ruled_out[name])
        if name in kind.ruled_out
        else Cell(kind.name, name, PASSED)
        for kind in SUBJECTS
        for name in BEHAVIOURS
    ]


def test_the_readme_shows_every_cell_and_why_it_is_ruled_out() -> None:
    (shown,) = re.findall(
        r"^\| behaviour \|.*?(?=\n\n</details>)", README, re.MULTILINE | re.DOTALL
    )
    assert shown == as_markdown(wanted())


def test_the_counts_that_the_readme_quotes_are_those_of_the_matrix() -> None:
    outcomes = [cell.outcome for cell in wanted()]
    assert re.findall(r"(\d+) cells passed, (\d+) failed, (\d+) ruled out", README) == [
        (str(outcomes.count(PASSED)), "0", str(outcomes.count(SKIPPED)))
    ]
