from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.extractor.running import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service with the engine of the tests, shared by the tests of a module."""
    with Service(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Path]:
    """A file whose appearance ends a `hold` job; made at the end, so that none is left behind."""
    path = tmp_path / "release"
    yield path
    path.touch()
