"""The service's README is complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy import extractor
from deploy.extractor.contract import JobError, JobStatus, RequestError
from deploy.extractor.settings import Settings

README = (Path(extractor.__file__).parent / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_is_listed_with_its_default(name: str) -> None:
    (row,) = [line for line in README.splitlines() if f"| `EXTRACTOR_{name.upper()}` |" in line]
    default = Settings.model_fields[name].default
    if isinstance(default, int | float | str):
        assert row.split("|")[2].strip() == str(default).removesuffix(".0")


@pytest.mark.parametrize("code", [*JobStatus, *JobError, *RequestError])
def test_every_status_and_error_code_is_explained(code: str) -> None:
    assert f"`{code}`" in README
