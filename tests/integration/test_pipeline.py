"""The main job end to end: real Kafka, real S3, the real extraction service, a worker process."""

from __future__ import annotations

import json

import pytest

from schemas.manifest import Manifest
from schemas.results import BUNDLE_RESULT_TYPE, DOCUMENT_RESULT_TYPE
from tests import pdfs
from tests.integration.conftest import MakePipeline
from tests.pipeline import wait_for

pytestmark = pytest.mark.integration


def test_a_bundle_becomes_images_manifests_and_results(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline()
    pipeline.start_extractor()
    pipeline.start_worker()
    scan, photos = pipeline.upload(pdfs.one_page_scan(1)), pipeline.upload(pdfs.pages(3, 2))
    event = pipeline.event("bundle-1", [scan, photos], parent_bundle_id="parent-1")
    event["documents"].append(
        {
            "document_id": "cut",
            "segments": [{"source": photos, "pages": {"first": 3, "last": 3}}],
        }
    )
    event["documents"].append(
        {
            "document_id": "merged",
            "segments": [
                {"source": scan},
                {"source": photos, "pages": {"first": 2, "last": 3}},
            ],
        }
    )
    announced = pipeline.send(event)
    outcome = pipeline.client.wait(announced, timeout_s=60)

    assert outcome is not None, pipeline.last_lines()
    assert outcome["extracted"] == 4
    results = {r.data["document_id"]: r.data for r in pipeline.results(DOCUMENT_RESULT_TYPE)}
    assert {name: r["images"] for name, r in results.items()} == {
        "document-001": 1,
        "document-002": 6,
        "cut": 2,
        "merged": 5,
    }
    merged = Manifest.model_validate(pipeline.manifest(results["merged"]["manifest"]["key"]))
    assert [(i.name, i.segment, i.source_page) for i in merged.images] == [
        ("page-001-image-001", 1, 1),
        ("page-002-image-001", 2, 2),
        ("page-002-image-002", 2, 2),
        ("page-003-image-001", 2, 3),
        ("page-003-image-002", 2, 3),
    ]
    for image in merged.images:
        stored = pipeline.store.get(pipeline.output_bucket, image.key, max_bytes=2**24)
        assert len(stored.body) == image.bytes
    pipeline.wait_all_committed()
    left = [p.name for p in (pipeline.folder / "temp").glob("worker-*/*")]
    assert all(name.startswith("sandbox-") for name in left), left


def test_a_redelivered_bundle_finds_its_manifest_and_makes_no_new_job(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline()
    pipeline.start_fake_provider()
    pipeline.start_worker()
    with_checksum = pipeline.upload(pdfs.one_page_scan(1))
    without = {"key": pipeline.upload(pdfs.one_page_scan(2))["key"]}
    event = pipeline.event("bundle-1", [with_checksum, without])

    first = pipeline.client.wait(pipeline.send(event), timeout_s=60)
    jobs = len(pipeline.provider_jobs())
    second = pipeline.client.wait(pipeline.send(event), timeout_s=60)

    assert first is not None
    assert second == first
    assert jobs == len(pipeline.provider_jobs()) == 2
    bodies: dict[str, set[bytes]] = {}
    for result in pipeline.results():
        bodies.setdefault(result.identifier, set()).add(result.body)
    assert {len(different) for different in bodies.values()} == {1}


def test_a_bundle_announced_again_after_its_sources_were_cleaned_away_finds_its_manifest(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline()
    pipeline.start_fake_provider()
    pipeline.start_worker()
    source = pipeline.upload(pdfs.one_page_scan(1))
    event = pipeline.event("bundle-1", [source])

    first = pipeline.client.wait(pipeline.send(event), timeout_s=60)
    pipeline.store.delete(pipeline.input_bucket, source["key"])
    second = pipeline.client.wait(pipeline.send(event), timeout_s=60)

    assert first is not None
    assert second == first
    assert len(pipeline.provider_jobs()) == 1
    assert pipeline.dead_letters() == []


def test_results_are_cloud_events_whose_id_is_the_extraction_id(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline()
    pipeline.start_fake_provider()
    pipeline.start_worker()
    event = pipeline.event("bundle-1", [pipeline.upload(pdfs.one_page_scan(1))])
    pipeline.send_raw(json.dumps(event).encode(), headers=[("content-type", b"application/json")])
    wait_for(lambda: len(pipeline.results()) == 2, 60, "both results", pipeline.last_lines)

    document, bundle = pipeline.results()
    assert document.headers["ce_type"] == DOCUMENT_RESULT_TYPE
    assert document.identifier == document.data["extraction_id"]
    assert "traceparent" not in document.headers
    assert bundle.headers["ce_type"] == BUNDLE_RESULT_TYPE
    assert pipeline.provider_jobs()[0]["key"] == document.identifier


def test_each_transition_is_one_log_line_and_one_ledger_line_in_the_events_trace(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline()
    pipeline.start_fake_provider()
    worker = pipeline.start_worker()
    event = pipeline.event("bundle-1", [pipeline.upload(pdfs.one_page_scan(1))])
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    pipeline.send_raw(json.dumps(event).encode(), headers=[("traceparent", trace.encode())])
    pipeline.wait_all_committed()
    worker.stop(40)  # what was logged and sent is written then
    assert worker.returncode == 0

    logged = [json.loads(line) for line in worker.log_file.read_text().splitlines()]
    transitions = [line for line in logged if line["logger"] == "bundles.job"]
    ledger = pipeline.ledger()
    assert [line | {"level": "info", "logger": "bundles.job"} for line in ledger] == transitions
    happened = [line["event"] for line in ledger if line.get("document_id")]
    once = {"accepted", "validated", "submitted", "finished", "manifest_written", "ended"}
    assert {name: happened.count(name) for name in once} == dict.fromkeys(once, 1)
    (document,) = pipeline.results(DOCUMENT_RESULT_TYPE)
    of_document = [line for line in ledger if line.get("document_id")]
    assert {line["extraction_id"] for line in of_document} == {document.identifier}
    assert {line["traceparent"] for line in ledger} == {trace}
    assert {result.headers["traceparent"] for result in pipeline.results()} == {trace}
    assert [job["traceparent"] for job in pipeline.provider_jobs()] == [trace]


def test_structured_cloud_events_are_accepted(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline()
    pipeline.start_fake_provider()
    pipeline.start_worker()
    event = pipeline.event("bundle-1", [pipeline.upload(pdfs.one_page_scan(1))])
    envelope = {"specversion": "1.0", "type": "x", "source": "/up", "id": "1", "data": event}
    headers = [("Content-Type", b"Application/CloudEvents+JSON; charset=utf-8")]
    pipeline.send_raw(json.dumps(envelope).encode(), headers=headers)
    wait_for(lambda: len(pipeline.results()) == 2, 60, "both results", pipeline.last_lines)


def test_a_worker_serves_metrics_and_health(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline()
    pipeline.start_fake_provider()
    worker = pipeline.start_worker()
    event = pipeline.event("bundle-1", [pipeline.upload(pdfs.one_page_scan(1))])
    assert pipeline.client.wait(pipeline.send(event), timeout_s=60) is not None

    metrics = pipeline.http(worker, "/metrics")
    assert metrics is not None
    assert 'bundles_documents_total{outcome="extracted"} 1.0' in metrics
    for stage in ("fetch", "validate", "submit", "poll", "persist", "publish"):
        assert f'bundles_stage_outcomes_total{{outcome="succeeded",stage="{stage}"}}' in metrics
    assert pipeline.http(worker, "/live") is not None
    assert pipeline.http(worker, "/ready") is not None


def test_a_job_longer_than_the_poll_interval_keeps_its_worker_in_the_group(
    make_pipeline: MakePipeline,
) -> None:
    """The shortest interval that librdkafka takes is the session's time-out, of which 6 s is the
    least that the broker takes."""
    shortest = {"max_poll_interval": "6s", "client": {"session.timeout.ms": "6000"}}
    pipeline = make_pipeline(
        settings_tree={"kafka": shortest},
        policies={"default": {"polling": {"strategy": "doubling", "ceiling_s": 0.5}}},
    )
    pipeline.start_fake_provider("--run-time", "8")
    worker = pipeline.start_worker()
    event = pipeline.event("bundle-1", [pipeline.upload(pdfs.one_page_scan(1))])
    outcome = pipeline.client.wait(pipeline.send(event), timeout_s=60)
    pipeline.wait_all_committed()

    assert outcome is not None, pipeline.last_lines()
    assert outcome["extracted"] == 1
    assert len(pipeline.provider_jobs()) == 1
    assert pipeline.count().resubmitted == 0
    metrics = pipeline.http(worker, "/metrics")
    assert metrics is not None
    for kind in ("revoked", "lost"):
        assert f'bundles_rebalances_total{{kind="{kind}"}} 0.0' in metrics


def test_what_is_planted_in_kafka_and_s3_is_counted(make_pipeline: MakePipeline) -> None:
    """By the demo's own count, with no worker: a document nobody did, one done twice, a job that
    was submitted twice."""
    pipeline = make_pipeline(partitions=1)
    pipeline.send(pipeline.event("bundle-1", [pipeline.upload(pdfs.one_page_scan(1))]))
    record = {"extraction_id": "extraction-1", "shards": [{"submits": 2}]}
    planted = {
        "bundle-2/document-001/1/manifest.json": b"{}",
        "bundle-2/document-001/2/manifest.json": b"{}",
        "_jobs/extraction-1.json": json.dumps(record).encode(),
    }
    for key, body in planted.items():
        pipeline.store.put(pipeline.output_bucket, key, body, content_type="application/json")

    found = pipeline.count()
    assert (found.lost, found.duplicated, found.resubmitted) == (1, 1, 1)
    assert not found.clean
