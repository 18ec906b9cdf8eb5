"""What is checked in is what the models say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from schemas import export
from schemas import topics as names
from schemas.cloudevents import parse_event
from schemas.reasons import Reason


def test_the_exported_schemas_are_up_to_date() -> None:
    assert export.stale() == []


def test_a_stale_export_is_noticed(tmp_path: Path) -> None:
    for name, document in export.documents().items():
        (tmp_path / name).write_text(json.dumps(document))
    (tmp_path / "old.schema.json").write_text("{}")
    assert "old.schema.json" in export.stale(tmp_path)
    assert "manifest.schema.json" in export.stale(tmp_path)


@pytest.mark.parametrize(
    "name", sorted(f"{name}.schema.json" for name in [*export.MODELS, export.DEAD_LETTER])
)
def test_each_schema_is_a_valid_json_schema(name: str) -> None:
    Draft202012Validator.check_schema(json.loads((export.FOLDER / name).read_text()))


def test_an_event_that_the_parser_takes_is_one_by_the_exported_schema() -> None:
    schema = json.loads((export.FOLDER / "bundle-event.schema.json").read_text())
    event = {
        "bundle_id": "b",
        "documents": [
            {
                "document_id": "d",
                "segments": [{"source": {"key": "a/b.pdf"}, "pages": {"first": 1, "last": 2}}],
            }
        ],
    }
    Draft202012Validator(schema).validate(event)
    parse_event(json.dumps(event).encode(), [])
    assert not Draft202012Validator(schema).is_valid({"bundle_id": "../x", "documents": []})


def test_every_reference_of_the_asyncapi_document_leads_somewhere() -> None:
    document = json.loads((export.FOLDER / "asyncapi.json").read_text())
    references = list(_references(document))
    assert len(references) >= 8
    for reference in references:
        if reference.startswith("#/"):
            found: Any = document
            for part in reference[2:].split("/"):
                found = found[part]
        else:
            assert (export.FOLDER / reference).is_file(), reference


def test_the_asyncapi_document_names_every_dead_letter_header_and_reason() -> None:
    ours = {
        value
        for name, value in vars(names).items()
        if name.startswith("DLQ_") and name != "DLQ_PREFIX"
    }
    document = json.loads((export.FOLDER / "asyncapi.json").read_text())
    message = document["channels"]["deadLetters"]["messages"]["DeadLetter"]
    assert set(message["headers"]["properties"]) == ours
    listed = message["headers"]["properties"][names.DLQ_REASON]["enum"]
    assert listed == [reason.value for reason in Reason]


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)
