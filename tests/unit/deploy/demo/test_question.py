"""When the demonstration takes `bundles trace` for answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deploy.demo.question import BOUND_S, IMAGE, judge

TRACE = {"state": "extracted", "image": {"name": IMAGE}}


def said(*traces: dict[str, Any], seconds: float = 0.1) -> str:
    return json.dumps({"traces": traces, "answered_in_s": seconds})


def test_one_trace_of_the_image_within_the_bound_is_an_answer_and_the_time_is_printed() -> None:
    answered = judge(0, said(TRACE, seconds=0.25), process_s=0.75)
    assert answered.in_time
    assert "answered in 0.25 s (the whole process 0.75 s)" in answered.line()


def test_an_answer_over_the_bound_is_late_and_says_so() -> None:
    answered = judge(0, said(TRACE, seconds=BOUND_S), process_s=2.0)
    assert not answered.in_time
    assert "OVER 1 s" in answered.line()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1, said(TRACE)),
        (0, said()),
        (0, said(TRACE, TRACE)),
        (0, said(TRACE | {"state": "running"})),
        (0, said(TRACE | {"image": None})),
        (0, said(TRACE | {"image": {"name": "page-001-image-001"}})),
    ],
)
def test_anything_else_is_no_answer(code: int, text: str) -> None:
    answered = judge(code, text, process_s=0.5)
    assert not answered.in_time
    assert "NO ANSWER" in answered.line()
