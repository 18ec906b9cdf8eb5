"""Policy versions change exactly when the output may, and equal values are equal bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from schemas.base import Contract
from schemas.canonical import canonical_json
from schemas.job_record import JobRecord
from schemas.ledger import LedgerRecord
from schemas.manifest import Manifest
from schemas.policy import Limits, Policy, Polling, Retries, Sharding
from schemas.problems import Problem
from schemas.reasons import FROM_THE_SERVICE, RESUMABLE, RETRIABLE_AFTER_STORM, Reason
from schemas.results import BundleResult, DocumentResult, ManifestRef


def policy(**changes: Any) -> Policy:
    return Policy(**({"name": "default"} | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"polling": Polling(deadline_s=10.0)},
        {"retries": Retries(max_resubmits=0)},
        {"sharding": Sharding(max_pages_per_job=3)},
        {"forget_after_manifest": False},
        {"ordered_by_key": True},
        {"incomplete": "fail"},
    ],
)
def test_patience_makes_no_new_extraction(changes: dict[str, Any]) -> None:
    assert policy(**changes).version == policy().version


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"provider": "infrai"},
        {"soft_masks": "separate"},
        {"repeat_drawings": True},
        {"provider_options": {"dpi": "300"}},
        {"limits": Limits(max_pages=3)},
        {"limits": Limits(allowed_image_types=("image/png",))},
    ],
)
def test_what_changes_the_output_makes_a_new_extraction(changes: dict[str, Any]) -> None:
    assert policy(**changes).version != policy().version


def test_a_policy_that_says_nothing_has_the_version_that_it_always_had() -> None:
    """Another one would extract, and pay for, every document once more."""
    assert policy().version == "default-27b04d3a1328"


def test_the_version_is_safe_as_part_of_a_key() -> None:
    name, _, digest = policy(name="a-b").version.rpartition("-")
    assert name == "a-b"
    assert len(digest) == 12
    assert set(digest) <= set("0123456789abcdef")


@pytest.mark.parametrize(
    "wrong",
    [
        {"polling": {"first_delay_s": 10.0, "ceiling_s": 1.0}},
        {"polling": {"first_delay_s": 0}},
        {"retries": {"max_attempts_per_call": 0}},
        {"limits": {"max_pages": 0}},
        {"unheard_of": 1},
        {"name": "../x"},
    ],
)
def test_a_policy_that_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        policy(**wrong)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def _encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(st.dictionaries(st.text(), JSON, max_size=5).filter(_encodable))
def test_the_order_of_members_does_not_matter_and_nothing_is_lost(value: dict[str, Any]) -> None:
    written = canonical_json(value)
    assert written == canonical_json(dict(reversed(list(value.items()))))
    assert json.loads(written) == value
    assert written.endswith(b"\n")
    assert written.count(b"\n") == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_json_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json({"x": value})


class _Anything(Contract):
    text: str
    number: int
    inner: dict[str, str]


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(-(2**63), 2**63 - 1),
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])),
        st.text(st.characters(exclude_categories=["Cs"])),
    ),
)
def test_a_model_is_written_as_its_plain_value_is(
    text: str, number: int, inner: dict[str, str]
) -> None:
    model = _Anything(text=text, number=number, inner=inner)
    assert canonical_json(model) == canonical_json(model.model_dump(mode="json"))


@pytest.mark.parametrize("model", [Manifest, JobRecord, DocumentResult, BundleResult])
def test_no_model_whose_bytes_are_compared_has_fractions(model: type[BaseModel]) -> None:
    def types(schema: Any) -> Iterator[str]:
        if isinstance(schema, dict):
            yield str(schema.get("type"))
            for inner in schema.values():
                yield from types(inner)
        elif isinstance(schema, list):
            for inner in schema:
                yield from types(inner)

    found = set(types(model.model_json_schema()))
    assert "integer" in found
    assert "number" not in found


def test_absent_members_of_models_are_left_out() -> None:
    class Model(Contract):
        b: int = 1
        a: str | None = None

    assert canonical_json(Model()) == b'{"b":1}\n'
    assert canonical_json(Model(a="ä")) == '{"a":"ä","b":1}\n'.encode()


def result(**changes: Any) -> DocumentResult:
    manifest = ManifestRef(bucket="out", key="b/d/manifest.json", sha256="a" * 64)
    values: dict[str, Any] = {
        "result_id": "r",
        "extraction_id": "r",
        "bundle_id": "b",
        "operation": "received",
        "document_id": "d",
        "policy_version": "p-1",
        "provider": "remote",
        "pages": 3,
        "images": 2,
        "submits": 1,
        "extracted_at": "2026-01-01T00:00:00.000Z",
        "manifest": manifest,
    }
    return DocumentResult(**(values | changes))


def test_a_result_tells_of_problems_only_where_there_are_some() -> None:
    assert b"problems" not in canonical_json(result())
    problems = (Problem(code="undecodable", page=3, index=1), Problem(code="more", count=4))
    written = canonical_json(result(problems=problems))
    assert json.loads(written)["problems"] == [
        {"code": "undecodable", "index": 1, "page": 3},
        {"code": "more", "count": 4},
    ]


@pytest.mark.parametrize("code", ["mr_novak", "undecodable page=3", ""])
def test_a_problem_has_a_code_that_is_known(code: str) -> None:
    with pytest.raises(ValidationError):
        Problem(code=code)


def test_what_we_write_refuses_members_that_nobody_declared() -> None:
    with pytest.raises(ValidationError):
        LedgerRecord(at="x", worker="w", stage="poll", event="e", file_name="x")  # type: ignore[call-arg]


@pytest.mark.parametrize("code", ["two words", "", "x" * 65, "a/b", "ä"])
def test_codes_are_words_and_never_texts(code: str) -> None:
    with pytest.raises(ValidationError):
        LedgerRecord(at="x", worker="w", stage="poll", event="e", code=code)


def test_a_validation_error_does_not_quote_what_it_refused() -> None:
    with pytest.raises(ValidationError) as caught:
        LedgerRecord(at="x", worker="w", stage="poll", event="Max Mustermann")
    assert "Mustermann" not in str(caught.value)


@pytest.mark.parametrize("reason", list(Reason), ids=lambda reason: reason.value)
def test_every_reason_is_a_code_with_a_sentence(reason: Reason) -> None:
    assert reason.value.isidentifier()
    assert len(reason.value) <= 64
    assert reason.meaning.endswith(".")


def test_what_is_held_back_in_a_storm_is_from_the_service() -> None:
    assert RETRIABLE_AFTER_STORM < FROM_THE_SERVICE


def test_no_reason_that_costs_another_job_is_tried_again_after_a_storm() -> None:
    assert not {Reason.PROVIDER_FAILED, Reason.JOB_FORGOTTEN} & RETRIABLE_AFTER_STORM


def test_reasons_that_can_be_resumed_are_not_the_documents_fault() -> None:
    assert {Reason.DEADLINE, Reason.ATTEMPTS_EXHAUSTED, Reason.SUBMIT_UNCERTAIN} <= RESUMABLE
    assert not {Reason.NOT_A_PDF, Reason.PROVIDER_REFUSED, Reason.ENCRYPTED} & RESUMABLE
