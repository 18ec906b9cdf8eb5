"""Options of a submit."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from deploy.extractor.contract import ApiError
from deploy.extractor.engine import model
from deploy.extractor.options import SoftMasks, parse_options


def test_form_text_and_json_values_of_the_same_meaning_are_the_same_options() -> None:
    form = parse_options({"first_page": "2", "last_page": "4", "repeat_drawings": "true"})
    members = parse_options({"last_page": 4, "first_page": 2, "repeat_drawings": True})
    assert form.for_engine() == members.for_engine()
    assert json.loads(form.for_engine())["page_range"] == [2, 4]


def test_defaults_spelled_out_are_the_same_options_as_none_given() -> None:
    spelled_out = parse_options({"soft_masks": "composite", "repeat_drawings": "0"})
    assert spelled_out.for_engine() == parse_options({}).for_engine()


def test_fields_of_other_services_are_ignored() -> None:
    assert parse_options({"idempotency_key": "x"}).for_engine() == parse_options({}).for_engine()


def test_the_soft_mask_choices_are_those_of_the_engine() -> None:
    assert get_args(SoftMasks) == get_args(model.SoftMasks)


def test_a_refused_value_is_not_repeated() -> None:
    with pytest.raises(ApiError) as refused:
        parse_options({"soft_masks": "Jane Doe"})
    assert refused.value.which == "soft_masks"
    assert "Jane" not in json.dumps(refused.value.body())
