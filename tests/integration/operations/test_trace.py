"""`bundles trace` and `bundles verify` after a worker really did the work."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from schemas import topics as names
from schemas.results import DOCUMENT_RESULT_TYPE
from tests import pdfs
from tests.integration.conftest import MakePipeline
from tests.integration.operations.commands import bundles
from tests.pipeline import Pipeline

pytestmark = pytest.mark.integration


def test_every_id_leads_to_the_same_extraction_with_its_attempts_and_times(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline()
    once = {"operation": "poll", "kind": "status", "status": 500}
    pipeline.start_fake_provider("--run-time", "0.5", "--fault", json.dumps(once))
    pipeline.start_worker()
    sources = [pipeline.upload(pdfs.one_page_scan(1)), pipeline.upload(pdfs.pages(3, 2))]
    event = pipeline.event("bundle-1", sources)
    assert pipeline.client.wait(pipeline.send(event), timeout_s=60) is not None
    pipeline.wait_all_committed()
    for source in sources:  # no answer may need them
        pipeline.store.delete(pipeline.input_bucket, source["key"])
    results = {r.data["document_id"]: r.data for r in pipeline.results(DOCUMENT_RESULT_TYPE)}
    wanted = results["document-002"]["extraction_id"]
    manifest = pipeline.manifest(results["document-002"]["manifest"]["key"])
    job_id = manifest["jobs"][0]["job_id"]

    long = ("--budget", "30s", "--json")
    asked = {
        "image": bundles(pipeline, "trace", "page-002-image-001", "--bundle", "bundle-1", *long),
        "document": bundles(pipeline, "trace", "document-002", "--bundle", "bundle-1", *long),
        "extraction": bundles(pipeline, "trace", wanted, *long),
        "job": bundles(pipeline, "trace", job_id, *long),
    }

    for what, ran in asked.items():
        assert ran.code == 0, (what, ran.err)
        (trace,) = ran.last["traces"]
        assert trace["extraction_id"] == wanted, what
        assert trace["state"] == "extracted"
        assert trace["ledger_incomplete"] is None
        assert trace["sources"][0]["sha256"] == sources[1]["sha256"]
        assert trace["jobs"][0]["job_id"] == job_id
        happened = [line["event"] for line in trace["attempts"]]
        assert happened[0] in ("accepted", "fetched")
        assert {"submitted", "finished", "manifest_written", "ended"} <= set(happened)
        (run,) = trace["runs"]
        assert run["outcome"] == "extracted"
        parts = {part["what"]: part["seconds"] for part in run["timeline"]}
        assert parts["service"] >= 0.5
        assert sum(run["causes"].values()) == pytest.approx(run["seconds"], abs=0.01)
    image = asked["image"].last["traces"][0]["image"]
    assert image in manifest["images"]
    assert image["name"] == "page-002-image-001"

    both = bundles(pipeline, "trace", "bundle-1", "--budget", "30s", "--json")
    assert {t["document_id"] for t in both.last["traces"]} == set(results)
    failed = [line for line in _attempts(pipeline, results) if line["event"] == "attempt_failed"]
    assert [(line["code"], line["attempt"]) for line in failed] == [("http_500", 1)]
    for_people = bundles(
        pipeline, "trace", "page-002-image-001", "--bundle", "bundle-1", "--budget", "30s"
    )
    assert image["sha256"] in for_people.out
    drawn = [line for line in for_people.out.splitlines() if line.startswith("service ")]
    assert len(drawn) == 1
    assert "━━" in drawn[0]
    unknown = bundles(pipeline, "trace", "page-009-image-001", "--bundle", "bundle-1")
    assert unknown.code == 1
    assert "nothing is known" in unknown.err


def _attempts(pipeline: Pipeline, results: Iterable[str]) -> list[dict[str, Any]]:
    """The lines of all these documents of `bundle-1`."""
    asked = [
        bundles(pipeline, "trace", name, "--bundle", "bundle-1", "--budget", "30s", "--json")
        for name in sorted(results)
    ]
    return [line for ran in asked for line in ran.last["traces"][0]["attempts"]]


def test_what_was_refused_before_it_had_a_job_record_is_told_from_the_ledger_alone(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline()
    pipeline.start_fake_provider()
    pipeline.start_worker()
    text = pipeline.upload(b"just some text " * 100)
    gone = {"key": "gone.pdf"}
    refused = pipeline.event("refused", [text, gone])
    assert pipeline.client.wait(pipeline.send(refused), timeout_s=60) is not None
    pipeline.send(pipeline.event("lost", [gone], policy="nobody-knows-it"))
    pipeline.wait_all_committed()
    pipeline.store.delete(pipeline.input_bucket, text["key"])
    letters = {(d.headers[names.DLQ_BUNDLE_ID], d.reason): d for d in pipeline.dead_letters()}

    for document, reason, bundle in (
        ("document-001", "not_a_pdf", "refused"),
        ("document-002", "source_missing", "refused"),
        (None, "policy_unknown", "lost"),
    ):
        asked = [document, "--bundle", bundle] if document else [bundle]
        ran = bundles(pipeline, "trace", *asked, "--json")
        assert ran.code == 0, ran.err
        (trace,) = ran.last["traces"]
        assert (trace["bundle_id"], trace["document_id"]) == (bundle, document)
        assert trace["state"] == reason
        assert (trace["jobs"], trace["manifest"]) == ([], None)
        (letter,) = trace["dead_letters"]
        written = letters[bundle, reason].headers
        assert letter["id"] == written[names.DLQ_ID]
        assert letter["stage"] == written[names.DLQ_STAGE]
        place = (names.DLQ_TOPIC, names.DLQ_PARTITION, names.DLQ_OFFSET)
        assert letter["place"] == "{}/{}@{}".format(*(written[name] for name in place))
        assert trace["extraction_id"] == written.get(names.DLQ_EXTRACTION_ID)

    with_id = letters["refused", "not_a_pdf"].headers
    extraction_id = with_id[names.DLQ_EXTRACTION_ID]
    by_id = bundles(pipeline, "trace", extraction_id)
    assert by_id.code == 0, by_id.err
    assert "document-001: not_a_pdf" in by_id.out
    assert f"bundles replay --id {with_id[names.DLQ_ID]}" in by_id.out
    whole = bundles(pipeline, "trace", "refused", "--json")
    assert [t["state"] for t in whole.last["traces"]] == ["not_a_pdf", "source_missing"]

    nobodys = bundles(pipeline, "trace", f"00000000{extraction_id[8:]}")
    assert nobodys.code == 1
    assert nobodys.out.count("\n") <= 1
    assert f"nothing is known of 00000000{extraction_id[8:]}" in nobodys.err
    assert "Traceback" not in nobodys.err


def test_a_document_that_never_got_a_manifest_is_found_by_search(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline(policies={"default": {"polling": {"deadline_s": 0.5}}})
    pipeline.start_fake_provider("--run-time", "60")
    pipeline.start_worker()
    event = pipeline.event("bundle-1", [pipeline.upload(pdfs.one_page_scan(1))])
    assert pipeline.client.wait(pipeline.send(event), timeout_s=60) is not None
    pipeline.wait_all_committed()

    ran = bundles(pipeline, "trace", "document-001", "--bundle", "bundle-1", "--json")

    assert ran.code == 0, ran.err
    (trace,) = ran.last["traces"]
    assert trace["state"] == "deadline"
    assert trace["jobs"][0]["phase"] == "timed_out"


def test_verify_reads_what_the_worker_stored_and_fails_when_an_image_is_gone(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline()
    pipeline.start_fake_provider()
    pipeline.start_worker()
    event = pipeline.event("bundle-1", [pipeline.upload(pdfs.pages(2, 1))])
    outcome = pipeline.client.wait(pipeline.send(event), timeout_s=60)
    assert outcome is not None

    whole = bundles(pipeline, "verify", "bundle-1", "--json")
    assert whole.code == 0, whole.err + whole.out
    images = pipeline.manifest(outcome["documents"][0]["manifest_key"])["images"]
    assert whole.last["images"] == len(images) > 0
    pipeline.store.delete(pipeline.output_bucket, images[0]["key"])
    damaged = bundles(pipeline, "verify", "--all", "--json")
    assert damaged.code == 1
    assert damaged.lines[0]["faults"] == [{"fault": "missing", "key": images[0]["key"]}]
    assert bundles(pipeline, "verify", "no-such-bundle").code == 1
