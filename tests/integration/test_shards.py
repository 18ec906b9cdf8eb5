"""Documents that are cut into several jobs: one manifest, as if it had been one job."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Mapping
from typing import Any

import pikepdf
import pytest
import urllib3
from pikepdf import Name

from consumers.extraction.timestamps import parse_rfc3339
from schemas.results import DOCUMENT_RESULT_TYPE
from tests import pdfs
from tests.integration.conftest import MakePipeline
from tests.integration.operations.commands import bundles
from tests.pipeline import Pipeline, wait_for

pytestmark = pytest.mark.integration

QUICK = {"first_delay_s": 0.1, "floor_s": 0.1, "ceiling_s": 0.5}
THREE_PAGES = {"sharding": {"max_pages_per_job": 3}, "polling": QUICK}
BOOKKEEPING = ("jobs", "submits", "extracted_at")
"""What of a manifest tells of the jobs, not of the document."""


def extracted(pipeline: Pipeline, event: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The manifests of an event by document, once it has ended well."""
    outcome = pipeline.client.wait(pipeline.send(event), timeout_s=120)
    assert outcome is not None, pipeline.last_lines()
    assert outcome["dead_lettered"] == 0, outcome
    return {
        document["document_id"]: pipeline.manifest(document["manifest_key"])
        for document in outcome["documents"]
    }


def with_a_large_page() -> bytes:
    """Six pages; the fourth has an image of 100 KiB."""
    large = io.BytesIO()
    with pikepdf.open(io.BytesIO(pdfs.pages(6))) as pdf:
        noise = random.Random(4).randbytes(100 * 1024)
        image = pdf.make_stream(noise, Type=Name.XObject, Subtype=Name.Image)
        pdf.pages[3].obj.Resources.XObject["/Large"] = image
        pdf.pages[3].contents_add(b"/Large Do")
        pdf.save(large, deterministic_id=True)
    return large.getvalue()


def document_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in manifest.items() if name not in BOOKKEEPING}


def jobs_of(manifest: Mapping[str, Any]) -> list[tuple[int, int]]:
    return [(job["first_page"], job["last_page"]) for job in manifest["jobs"]]


def image_bytes(pipeline: Pipeline, manifest: Mapping[str, Any]) -> list[bytes]:
    return [
        pipeline.store.get(pipeline.output_bucket, image["key"], max_bytes=2**24).body
        for image in manifest["images"]
    ]


def set_faults(pipeline: Pipeline, *scripts: dict[str, Any]) -> None:
    answer = urllib3.request(
        "POST", f"{pipeline.provider_url}/_control/faults", body=json.dumps(scripts)
    )
    assert answer.status == 204


def accepted_keys(pipeline: Pipeline) -> list[str]:
    return [job["key"] for job in pipeline.provider_jobs() if job["event"] == "accepted"]


@pytest.mark.parametrize(
    "sharding", [{"max_pages_per_job": 3}, {"max_bytes_per_job": "2KiB"}], ids=["pages", "bytes"]
)
def test_shards_give_the_manifest_that_one_job_gives(
    make_pipeline: MakePipeline, sharding: dict[str, Any]
) -> None:
    pages = pdfs.shared_resources(10)
    scan = pdfs.one_page_scan(1)
    found = {}
    for name, policy in {"one": {"polling": QUICK}, "shards": {"polling": QUICK}}.items():
        if name == "shards":
            policy["sharding"] = sharding
        pipeline = make_pipeline(policies={"default": policy})
        pipeline.start_extractor()
        pipeline.start_worker()
        source, other = pipeline.upload(pages), pipeline.upload(scan)
        event = pipeline.event("bundle-1", [source])
        cut = {"source": source, "pages": {"first": 4, "last": 10}}
        event["documents"] += [
            {"document_id": "split", "segments": [cut]},
            {"document_id": "merged", "segments": [{"source": other}, cut, {"source": other}]},
        ]
        manifests = extracted(pipeline, event)
        for manifest in manifests.values():  # buckets are the pipeline's own
            for segment in manifest["segments"]:
                del segment["bucket"]
        found[name] = {
            document: (manifest, image_bytes(pipeline, manifest))
            for document, manifest in manifests.items()
        }
        pipeline.workers[-1].stop(60)

    for document, (one, one_images) in found["one"].items():
        sharded, sharded_images = found["shards"][document]
        assert len(one["jobs"]) == 1
        assert len(sharded["jobs"]) > 1
        assert document_of(sharded) == document_of(one)
        assert sharded_images == one_images
    merged = found["shards"]["merged"][0]
    assert [(i["page"], i["segment"], i["source_page"]) for i in merged["images"]] == [
        (1, 1, 1),
        *((page, 2, page + 2) for page in range(2, 9)),
        (9, 3, 1),
    ]


def test_shards_run_at_the_same_time_and_under_the_limit_of_jobs(
    make_pipeline: MakePipeline,
) -> None:
    by_bytes = {"sharding": {"max_bytes_per_job": "60KiB"}, "polling": QUICK}
    pipeline = make_pipeline(
        policies={"default": THREE_PAGES, "bytes": by_bytes},
        settings_tree={"worker": {"jobs_per_provider": 2}},
    )
    # More jobs at a time than the worker may have would be refused, and told in the ledger.
    pipeline.start_fake_provider("--run-time", "1", "--slots", "2")
    pipeline.start_worker()
    event = pipeline.event("bundle-1", [pipeline.upload(pdfs.pages(12))])

    (manifest,) = extracted(pipeline, event).values()

    assert jobs_of(manifest) == [(1, 3), (4, 6), (7, 9), (10, 12)]
    first, second = sorted(parse_rfc3339(job["accepted_at"]) or 0 for job in manifest["jobs"])[:2]
    assert second - first < 1, "the second began when the first was over"
    assert "throttled" not in {line["event"] for line in pipeline.ledger()}

    # Pages of different sizes, in the same pipeline: what is too large is cut finer, and once only.
    event = pipeline.event("bundle-2", [pipeline.upload(with_a_large_page())], policy="bytes")
    (manifest,) = extracted(pipeline, event).values()
    assert jobs_of(manifest) == [(1, 3), (4, 4), (5, 5), (6, 6)]
    assert [image["page"] for image in manifest["images"]] == list(range(1, 7))
    submitted = accepted_keys(pipeline)
    assert extracted(pipeline, event) == {"document-001": manifest}
    assert accepted_keys(pipeline) == submitted


def test_a_shard_whose_job_is_lost_gets_another_and_the_others_keep_theirs(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline(policies={"default": THREE_PAGES})
    pipeline.start_fake_provider("--run-time", "0.5")
    pipeline.start_worker()
    lost = {"status": "failed", "error": {"code": "OUT_OF_WORKERS", "retryable": True}}
    answer = {"ok": True, "data": lost, "error": None, "metadata": {}}
    fault = {"operation": "poll", "status": 200, "body": json.dumps(answer)}
    set_faults(pipeline, fault | {"headers": {"Content-Type": "application/json"}})
    event = pipeline.event("bundle-1", [pipeline.upload(pdfs.pages(9))])

    (manifest,) = extracted(pipeline, event).values()

    assert sorted(job["submits"] for job in manifest["jobs"]) == [1, 1, 2]
    assert len(accepted_keys(pipeline)) == len(set(accepted_keys(pipeline))) == 4
    assert [image["page"] for image in manifest["images"]] == list(range(1, 10))


def test_a_refused_shard_fails_the_document_and_a_replay_makes_its_job_only(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline(policies={"default": THREE_PAGES})
    pipeline.start_fake_provider("--run-time", "0.5")
    pipeline.start_worker()
    refusal = {"ok": False, "data": None, "error": {"code": "NOT_A_PDF", "message": "x"}}
    set_faults(pipeline, {"operation": "submit", "status": 422, "body": json.dumps(refusal)})
    event = pipeline.event("bundle-1", [pipeline.upload(pdfs.pages(9))])
    outcome = pipeline.client.wait(pipeline.send(event), timeout_s=120)
    assert outcome is not None
    assert outcome["dead_lettered"] == 1
    (letter,) = pipeline.dead_letters()
    assert letter.reason == "provider_refused"
    before = accepted_keys(pipeline)
    assert len(before) == 2

    replayed = bundles(pipeline, "replay", "--apply", "--all")
    assert replayed.code == 0, replayed.err
    wait_for(lambda: pipeline.results(DOCUMENT_RESULT_TYPE), 60, "the result", pipeline.last_lines)

    (result,) = pipeline.results(DOCUMENT_RESULT_TYPE)
    manifest = pipeline.manifest(result.data["manifest"]["key"])
    assert [image["page"] for image in manifest["images"]] == list(range(1, 10))
    after = accepted_keys(pipeline)
    assert after[:2] == before
    assert len(after) == len(set(after)) == 3


def test_shards_of_a_killed_worker_are_resumed_and_none_is_submitted_twice(
    make_pipeline: MakePipeline,
) -> None:
    client = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1500"}
    pipeline = make_pipeline(
        policies={"default": THREE_PAGES},
        settings_tree={"kafka": {"client": client}, "worker": {"jobs_per_provider": 2}},
    )
    pipeline.start_fake_provider("--run-time", "3")
    worker = pipeline.start_worker()
    event = pipeline.event("bundle-1", [pipeline.upload(pdfs.pages(12))])
    announced = pipeline.send(event)
    # Two of the four run, the others wait for a slot.
    wait_for(lambda: len(accepted_keys(pipeline)) >= 2, 60, "two jobs", pipeline.last_lines)
    worker.kill()
    pipeline.start_worker()
    outcome = pipeline.client.wait(announced, timeout_s=120)

    assert outcome is not None, pipeline.last_lines()
    (document,) = outcome["documents"]
    manifest = pipeline.manifest(document["manifest_key"])
    assert jobs_of(manifest) == [(1, 3), (4, 6), (7, 9), (10, 12)]
    assert [job["submits"] for job in manifest["jobs"]] == [1, 1, 1, 1]
    assert [image["page"] for image in manifest["images"]] == list(range(1, 13))
    keys = accepted_keys(pipeline)
    assert len(keys) == len(set(keys)) == 4
    leftover = [p.name for p in (pipeline.folder / "temp").glob("worker-*/document-*")]
    assert leftover == []
