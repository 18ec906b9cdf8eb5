"""Every adapter, every behaviour."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.behaviours import BEHAVIOURS
from tests.contract.subjects import SUBJECTS, Subject


@pytest.fixture(params=SUBJECTS, ids=lambda kind: str(kind.name))
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    kind: type[Subject] = request.param
    name = request.node.callspec.params["name"]
    if name in kind.ruled_out:
        pytest.skip(kind.ruled_out[name])
    made = kind(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(subject: Subject, name: str) -> None:
    BEHAVIOURS[name](subject)


@pytest.mark.parametrize("kind", SUBJECTS, ids=lambda kind: str(kind.name))
def test_what_is_ruled_out_is_a_behaviour(kind: type[Subject]) -> None:
    assert set(kind.ruled_out) <= set(BEHAVIOURS)
