from __future__ import annotations

import pytest

from tests.contract.matrix import environment_without_accounts


@pytest.fixture(autouse=True)
def without_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials of a cloud are found here, wherever its client looks."""
    for name, value in environment_without_accounts().items():
        monkeypatch.setenv(name, value)
