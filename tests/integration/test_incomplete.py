"""Documents of which the self-hosted service cannot give every image."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas import topics as names
from schemas.results import DOCUMENT_RESULT_TYPE
from tests import pdfs
from tests.integration.conftest import MakePipeline
from tests.integration.operations.commands import bundles

pytestmark = pytest.mark.integration

POLLING = {"first_delay_s": 0.1, "floor_s": 0.1, "ceiling_s": 0.5}
MISSING = [
    {"code": "undecodable", "index": 2, "page": 2},
    {"code": "undecodable", "index": 2, "page": 5},
]


def test_an_image_that_nobody_can_decode_is_told_of_or_ends_its_document(
    make_pipeline: MakePipeline,
) -> None:
    policies: dict[str, Any] = {
        "default": {"polling": POLLING, "sharding": {"max_pages_per_job": 3}},
        "strict": {"polling": POLLING, "incomplete": "fail"},
    }
    pipeline = make_pipeline(policies=policies)
    pipeline.start_extractor()
    pipeline.start_worker()
    source = pipeline.upload(pdfs.with_undecodable_images(6, damaged=(2, 5)))

    outcome = pipeline.client.wait(pipeline.send(pipeline.event("b", [source])), timeout_s=120)
    assert outcome is not None, pipeline.last_lines()
    (document,) = outcome["documents"]
    manifest = pipeline.manifest(document["manifest_key"])
    assert [(job["first_page"], job["last_page"]) for job in manifest["jobs"]] == [(1, 3), (4, 6)]
    assert [image["page"] for image in manifest["images"]] == [1, 2, 3, 4, 5, 6]
    assert manifest["problems"] == MISSING
    (result,) = pipeline.results(DOCUMENT_RESULT_TYPE)
    assert json.loads(result.body)["problems"] == MISSING
    (trace,) = bundles(pipeline, "trace", "b", "--json").last["traces"]
    assert trace["manifest"]["problems"] == MISSING
    assert bundles(pipeline, "verify", "b", "--json").last["problems"] == 2

    event = pipeline.event("strict", [source], policy="strict")
    outcome = pipeline.client.wait(pipeline.send(event), timeout_s=120)
    assert outcome is not None, pipeline.last_lines()
    assert outcome["dead_lettered"] == 1
    (letter,) = pipeline.dead_letters()
    said = letter.headers[names.DLQ_REASON], letter.headers[names.DLQ_CODE]
    assert said == ("provider_incomplete", "undecodable")
