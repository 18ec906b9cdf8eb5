"""`bundles metrics` says what the contract says."""

from __future__ import annotations

import json

import pytest

from consumers.cli.common import Problem
from consumers.cli.metrics import metrics
from consumers.metrics import Metrics

NAMES = [spec.name for spec in Metrics().specs]


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_every_metric_is_listed_in_every_form(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics(markdown=form == "markdown", as_json=form == "json")
    said = capsys.readouterr().out
    assert all(name in said for name in NAMES)


def test_json_has_labels_and_units(capsys: pytest.CaptureFixture[str]) -> None:
    metrics(as_json=True)
    by_name = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert by_name["bundles_documents_total"]["labels"] == ["outcome"]
    assert by_name["bundles_queue_wait_seconds"]["unit"] == "seconds"


def test_two_forms_at_once_are_refused() -> None:
    with pytest.raises(Problem):
        metrics(markdown=True, as_json=True)
