"""`bundles sweep` on a real S3 store."""

from __future__ import annotations

import json

import pytest

from tests import pdfs
from tests.integration.conftest import MakePipeline
from tests.integration.operations.commands import bundles
from tests.pipeline import Pipeline
from tests.unit.consumers.operations.stored import ADocument, Stored

pytestmark = pytest.mark.integration


def output_keys(pipeline: Pipeline) -> set[str]:
    return {item.key for item in pipeline.store.list(pipeline.output_bucket, "")}


def test_sweep_deletes_orphans_and_leaves_a_finished_bundle_whole(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline()
    pipeline.start_fake_provider()
    pipeline.start_worker()
    event = pipeline.event("bundle-1", [pipeline.upload(pdfs.one_page_scan(1))])
    assert pipeline.client.wait(pipeline.send(event), timeout_s=60) is not None
    whole = output_keys(pipeline)
    # As a worker leaves it that died between images and manifest, its record long gone.
    elsewhere = Stored()
    elsewhere.store = pipeline.store  # type: ignore[assignment]
    for bundle in ("bundle-0", "Bundle", "bundle-1-b", "z"):
        for item in [ADocument(elsewhere, bundle_id=bundle).image(p) for p in (1, 2)]:
            pipeline.store.put(pipeline.output_bucket, item.key, b"x", content_type="image/png")

    dry = bundles(pipeline, "sweep", "--min-age", "0s", "--json")
    assert len(output_keys(pipeline)) == len(whole) + 8
    swept = bundles(pipeline, "sweep", "--min-age", "0s", "--apply", "--json")

    assert dry.code == swept.code == 0, swept.err
    assert dry.last["deleted"] == swept.last["deleted"] == 8
    assert {line["why"] for line in swept.lines[:-1]} == {"orphan"}
    assert swept.last["resume"] is None
    assert output_keys(pipeline) == whole


def test_a_listing_that_goes_on_from_a_marker_misses_and_repeats_nothing(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline()
    elsewhere = Stored()
    for number in range(4):
        document = ADocument(elsewhere, bundle_id=f"bundle-{number}")
        for page in (1, 2):
            key = document.image(page).key
            pipeline.store.put(pipeline.output_bucket, key, b"x", content_type="image/png")
    pipeline.store.put(pipeline.output_bucket, "_probe/x", b"x", content_type="text/plain")

    arguments = ["sweep", "--min-age", "0s", "--apply", "--json", "--limit", "3"]
    first = bundles(pipeline, *arguments)
    second = bundles(pipeline, *arguments, "--start-after", first.last["resume"])
    third = bundles(pipeline, *arguments, "--start-after", second.last["resume"])

    assert [first.last["deleted"], second.last["deleted"], third.last["deleted"]] == [3, 3, 2]
    assert third.last["resume"] is None


def test_life_cycle_rules_are_printed_for_our_reserved_prefixes(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline()
    ran = bundles(pipeline, "sweep", "--lifecycle")
    rules = json.loads(ran.out)["Rules"]
    assert {rule["Filter"]["Prefix"] for rule in rules} == {
        "",
        "_probe/",
        "_dead-letters/",
        "_replays/",
    }
