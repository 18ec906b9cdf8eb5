"""What of the end-to-end time the causes leave unexplained."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.goals import verdict
from tests.bench.parts import compared


def ended(bundle: str, **causes: float) -> dict[str, Any]:
    return {"bundle_id": bundle, "causes": causes, "seconds": sum(causes.values())}


SENT = {"a": 0.0, "b": 0.0}


def test_too_much_of_one_document_and_too_little_of_another_do_not_cancel() -> None:
    lines = [ended("a", provider=10.5), ended("b", provider=9.5)]
    found = compared(lines, SENT, {"a": 10.0, "b": 10.0})
    assert found["unexplained_share"] == 0.0
    assert found["unexplained_share_absolute"] == 0.05
    (missed,) = verdict("parts", found)["missed"]
    assert (missed["value"], missed["goal"]) == (0.05, 0.02)


def test_differences_of_one_sign_count_once_and_cleaning_up_comes_after_the_result() -> None:
    lines = [
        ended("a", provider=9.0, publish=0.9, clean_up=5.0),
        ended("b", provider=9.9, clean_up=5.0),
    ]
    found = compared(lines, SENT, {"a": 10.0, "b": 10.0})
    assert found["unexplained_share"] == found["unexplained_share_absolute"] == 0.01
    assert found["causes_share"]["provider"] == pytest.approx(18.9 / 20)
    assert verdict("parts", found)["missed"] == []
