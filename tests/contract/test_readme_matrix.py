"""The README shows the matrix as it is: every behaviour of every provider, and each cell of it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.contract import live
from tests.contract.__main__ import LIVE_CHECKS
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


def shown_between(start: str, end: str) -> str:
    """The README from the one ``start`` that it has to the next ``end``."""
    assert README.count(start) == 1
    return start + README.partition(start)[2].partition(end)[0]


def test_the_readme_shows_every_cell_and_why_it_is_ruled_out() -> None:
    assert shown_between("| behaviour |", f"\n\n{LIVE_CHECKS}") == as_markdown(wanted())


def test_the_readme_shows_the_live_checks_and_the_variables_that_they_need() -> None:
    assert shown_between("| service | variables |", "\n\n</details>") == live.as_markdown(
        live.run({})
    )


def test_the_counts_that_the_readme_quotes_are_those_of_the_matrix() -> None:
    outcomes = [cell.outcome for cell in wanted()]
    assert re.findall(r"(\d+) cells passed, (\d+) failed, (\d+) ruled out", README) == [
        (str(outcomes.count(PASSED)), "0", str(outcomes.count(SKIPPED)))
    ]
