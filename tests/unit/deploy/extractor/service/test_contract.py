"""Hints when to ask again."""

from __future__ import annotations

import pytest

from deploy.extractor.contract import retry_headers


@pytest.mark.parametrize(
    ("seconds", "whole", "milliseconds"),
    [(0.05, "1", "50"), (1.0, "1", "1000"), (1.25, "2", "1250"), (60.0, "60", "60000")],
)
def test_a_hint_is_never_earlier_in_whole_seconds_than_it_is_exactly(
    seconds: float, whole: str, milliseconds: str
) -> None:
    assert retry_headers(seconds) == {"retry-after": whole, "retry-after-ms": milliseconds}
