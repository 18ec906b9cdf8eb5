"""Exports the contracts to ``schemas/json``: JSON Schemas and an AsyncAPI 3 document.

``python -m schemas.export`` writes them, ``--check`` says whether they are up to date.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from schemas import topics as names
from schemas.base import Contract
from schemas.descriptions import descriptions_of
from schemas.events import EVENT_TYPE, BundleEvent
from schemas.job_record import JobRecord
from schemas.ledger import LedgerRecord
from schemas.manifest import Manifest
from schemas.policy import Policy
from schemas.reasons import Reason
from schemas.results import (
    BUNDLE_RESULT_TYPE,
    DOCUMENT_RESULT_TYPE,
    BundleResult,
    DocumentResult,
)
from schemas.topics import TopicSettings

FOLDER = Path(__file__).parent / "json"
MODELS: dict[str, type[BaseModel]] = {
    "bundle-event": BundleEvent,
    "document-result": DocumentResult,
    "bundle-result": BundleResult,
    "manifest": Manifest,
    "job-record": JobRecord,
    "ledger-record": LedgerRecord,
    "policy": Policy,
}

DEAD_LETTER = "dead-letter-headers"
DEAD_LETTER_HEADERS: dict[str, tuple[bool, str]] = {
    names.DLQ_VERSION: (True, "Version of these headers: 1."),
    names.DLQ_ID: (True, "Equal for every redelivery of one failure: drop duplicates by it."),
    names.DLQ_REASON: (True, "A code of the list of reasons."),
    names.DLQ_STAGE: (True, "The stage in which it failed."),
    names.DLQ_CODE: (False, "A bounded word that says more, e.g. the service's error code."),
    names.DLQ_ATTEMPTS: (True, "Failed attempts of any call."),
    names.DLQ_TOPIC: (True, "Where the original record stands."),
    names.DLQ_PARTITION: (True, "Its partition."),
    names.DLQ_OFFSET: (True, "Its offset."),
    names.DLQ_TIMESTAMP: (False, "Its timestamp, milliseconds since 1970."),
    names.DLQ_GROUP: (True, "The consumer group that gave it up."),
    names.DLQ_FIRST_FAILED_AT: (True, "RFC 3339 UTC."),
    names.DLQ_LAST_FAILED_AT: (True, "RFC 3339 UTC."),
    names.DLQ_REPLAYS: (True, "How often it had been replayed."),
    names.DLQ_BUNDLE_ID: (False, "Where the event could be read."),
    names.DLQ_DOCUMENT_ID: (False, "The document that failed."),
    names.DLQ_EXTRACTION_ID: (False, "Where the document got as far as having one."),
    names.DLQ_CLAIM_CHECK: (False, "Where the original value is kept when it was too large."),
}


def documents() -> dict[str, dict[str, Any]]:
    """Every exported file by its name."""
    exported = {f"{name}.schema.json": _schema(name, model) for name, model in MODELS.items()}
    exported[f"{DEAD_LETTER}.schema.json"] = _json_schema(DEAD_LETTER, _dead_letter_headers())
    exported["asyncapi.json"] = asyncapi()
    return exported


class _Described(GenerateJsonSchema):
    """With the text below each field of ours as its description."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        if issubclass(schema["cls"], Contract):
            for name, text in descriptions_of(schema["cls"]).items():
                made["properties"][name]["description"] = text
        return made


def _schema(name: str, model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(schema_generator=_Described, mode="validation")
    return _json_schema(name, schema)


def _json_schema(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:bundle-extractor:schema:{name}:1",
        **schema,
    }


def asyncapi() -> dict[str, Any]:
    topics = TopicSettings.model_validate({})
    events = _cloud_event("BundleEvent", EVENT_TYPE, "bundle-event")
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Bundle extractor",
            "version": "1.0.0",
            "description": "Bundles of scanned documents in; results, dead letters and a ledger "
            "out. Delivery is at least once: consumers drop duplicates by id.",
        },
        "defaultContentType": names.JSON_CONTENT_TYPE,
        "channels": {
            "events": _channel(topics.events, {"BundleEvent": events}),
            "results": _channel(
                topics.results,
                {
                    "DocumentResult": _cloud_event(
                        "DocumentResult", DOCUMENT_RESULT_TYPE, "document-result"
                    ),
                    "BundleResult": _cloud_event(
                        "BundleResult", BUNDLE_RESULT_TYPE, "bundle-result"
                    ),
                },
            ),
            "deadLetters": _channel(topics.dead_letters, {"DeadLetter": _dead_letter()}),
            "ledger": _channel(
                topics.ledger,
                {
                    "LedgerRecord": {
                        "name": "LedgerRecord",
                        "payload": {"$ref": "./ledger-record.schema.json"},
                        "bindings": {"kafka": {"key": _text("Extraction id, or bundle id.")}},
                    }
                },
            ),
        },
        "operations": {
            "receiveEvents": _operation("receive", "events"),
            "sendResults": _operation("send", "results"),
            "sendDeadLetters": _operation("send", "deadLetters"),
            "sendLedger": _operation("send", "ledger"),
        },
    }


def _channel(address: str, messages: dict[str, Any]) -> dict[str, Any]:
    return {
        "address": address,
        "messages": messages,
        "bindings": {"kafka": {"topic": address, "bindingVersion": "0.5.0"}},
    }


def _operation(action: str, channel: str) -> dict[str, Any]:
    return {"action": action, "channel": {"$ref": f"#/channels/{channel}"}}


def _cloud_event(name: str, event_type: str, schema: str) -> dict[str, Any]:
    headers = {
        names.CE_SPECVERSION: _text("1.0"),
        names.CE_TYPE: _text(event_type),
        names.CE_SOURCE: _text("Who sent it."),
        names.CE_ID: _text("Unique per source: drop duplicates by (ce_source, ce_id)."),
    }
    return {
        "name": name,
        "title": f"{name} as a CloudEvent (binary or structured mode)",
        "contentType": names.JSON_CONTENT_TYPE,
        "headers": {"type": "object", "properties": headers},
        "payload": {"$ref": f"./{schema}.schema.json"},
        "bindings": {"kafka": {"key": _text("Bundle id."), "bindingVersion": "0.5.0"}},
    }


def _dead_letter_headers() -> dict[str, Any]:
    properties = {name: _text(meaning) for name, (_, meaning) in DEAD_LETTER_HEADERS.items()}
    properties[names.DLQ_REASON]["enum"] = [reason.value for reason in Reason]
    return {
        "title": "DeadLetterHeaders",
        "description": "UTF-8 text, beside the headers of the original record.",
        "type": "object",
        "required": [name for name, (required, _) in DEAD_LETTER_HEADERS.items() if required],
        "properties": properties,
    }


def _dead_letter() -> dict[str, Any]:
    return {
        "name": "DeadLetter",
        "title": "The original bytes untouched, and why they could not be processed",
        "headers": _dead_letter_headers(),
        "payload": {"description": "The original value, whatever it was."},
        "bindings": {"kafka": {"key": _text("As received."), "bindingVersion": "0.5.0"}},
    }


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def stale(folder: Path = FOLDER) -> list[str]:
    """Names of files that are missing, differ, or should not be there."""
    wanted = documents()
    present = {path.name for path in folder.glob("*.json")}
    wrong = [
        name
        for name, document in wanted.items()
        if name not in present or (folder / name).read_text() != _dump(document)
    ]
    return sorted([*wrong, *(present - set(wanted))])


def _dump(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m schemas.export", description=__doc__)
    parser.add_argument("--check", action="store_true", help="Write nothing; exit 1 when stale.")
    if parser.parse_args().check:
        if wrong := stale():
            print(f"stale: {', '.join(wrong)}; run python -m schemas.export", file=sys.stderr)
        return 1 if wrong else 0
    FOLDER.mkdir(exist_ok=True)
    for name in stale():
        (FOLDER / name).unlink(missing_ok=True)
    for name, document in documents().items():
        (FOLDER / name).write_text(_dump(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
