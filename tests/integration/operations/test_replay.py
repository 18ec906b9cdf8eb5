"""`bundles replay` against real Kafka and S3."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deploy.demo.count import read_topic
from schemas import topics as names
from schemas.results import DOCUMENT_RESULT_TYPE
from tests import pdfs
from tests.integration.conftest import MakePipeline
from tests.integration.operations.commands import bundles
from tests.pipeline import Pipeline, headers_of, wait_for

pytestmark = pytest.mark.integration


def events(pipeline: Pipeline) -> list[Any]:
    return list(read_topic(pipeline.kafka_client, pipeline.topics.events))


def test_a_replayed_timeout_goes_on_with_its_job_and_makes_no_other(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline(policies={"default": {"polling": {"deadline_s": 2}}})
    pipeline.start_fake_provider("--run-time", "8")
    pipeline.start_worker()
    event = pipeline.event("bundle-1", [pipeline.upload(pdfs.one_page_scan(1))])
    first = pipeline.client.wait(pipeline.send(event), timeout_s=60)
    assert first is not None
    assert first["documents"][0]["reason"] == "deadline"

    replayed = 0
    while not pipeline.results(DOCUMENT_RESULT_TYPE):
        # The job runs on for longer than one more deadline, so it may take several.
        ran = bundles(pipeline, "replay", "--reason", "deadline", "--apply", "--json")
        assert ran.code == 0, ran.err
        replayed += ran.last["replayed"]
        assert ran.last["loop"] == 0
        wait_for(
            lambda: (
                len(pipeline.dead_letters()) == replayed + 1  # noqa: B023
                or pipeline.results(DOCUMENT_RESULT_TYPE)
            ),
            60,
            "the replayed event to end",
            pipeline.last_lines,
        )

    assert len(pipeline.provider_jobs()) == 1
    record = read_record(pipeline)
    assert record["shards"][0]["generation"] == 1
    assert record["shards"][0]["submits"] == 1
    assert record["replays"] == replayed >= 1


def read_record(pipeline: Pipeline) -> dict[str, Any]:
    (listed,) = pipeline.store.list(pipeline.output_bucket, "_jobs/")
    found = pipeline.store.get(pipeline.output_bucket, listed.key, max_bytes=2**20)
    record: dict[str, Any] = json.loads(found.body)
    return record


def test_a_record_with_several_dead_letters_is_published_once_with_its_bytes_and_headers(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline(policies={"default": {"retries": {"max_replays": 2}}})
    pipeline.start_fake_provider()
    pipeline.start_worker()
    event = pipeline.event("bundle-1", [{"key": "missing/1.pdf"}, {"key": "missing/2.pdf"}])
    value = json.dumps(event, indent=1).encode()
    given: list[tuple[str, bytes | None]] = [
        ("content-type", b"application/json"),
        ("twice", b"1"),
        ("twice", b"2"),
    ]
    pipeline.send_raw(value, key=b"the key", headers=given)
    wait_for(lambda: len(pipeline.dead_letters()) == 2, 60, "dead letters", pipeline.last_lines)

    listed = bundles(pipeline, "replay", "--json")
    assert len(events(pipeline)) == 1
    assert [line["outcome"] for line in listed.lines[:-1]] == ["would_replay", "same_record"]
    assert bundles(pipeline, "replay", "--apply").code == 2  # no filter
    assert bundles(pipeline, "replay", "--bundle", "other", "--apply", "--json").lines == [
        {"applied": True} | dict.fromkeys(set(listed.last) - {"applied"}, 0)
    ]

    applied = bundles(pipeline, "replay", "--document", "document-002", "--apply", "--json")
    assert applied.last["replayed"] == 1, applied.err
    wait_for(lambda: len(pipeline.dead_letters()) == 4, 60, "two more", pipeline.last_lines)
    _, again = events(pipeline)
    assert (again.value(), again.key()) == (value, b"the key")
    assert again.headers()[: len(given)] == given
    added = headers_of(again)
    assert added[names.REPLAY_COUNT] == "1"
    assert added[names.REPLAY_DEAD_LETTER_ID] == applied.lines[0]["dead_letter_id"]

    # The first record's letters are done with; the second's may go once more, and then no more.
    outcomes = []
    for expected in (6, 6):
        ran = bundles(pipeline, "replay", "--stage", "fetch", "--apply", "--json")
        outcomes.append([line["outcome"] for line in ran.lines[:-1]])
        wait_for(
            lambda: len(pipeline.dead_letters()) == expected,  # noqa: B023
            60,
            "the replayed event to end",
            pipeline.last_lines,
        )
    assert outcomes[0] == ["already_replayed"] * 2 + ["replayed", "same_record"]
    assert outcomes[1] == ["already_replayed"] * 4 + ["loop"] * 2
    assert len(events(pipeline)) == 3


def test_a_value_that_had_moved_to_the_store_comes_back_as_it_was(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline(topic_config={"dead_letters": {"max.message.bytes": "20000"}})
    pipeline.start_fake_provider()
    pipeline.start_worker()
    source = pipeline.upload(pdfs.one_page_scan(1), key="late.pdf")
    pipeline.store.delete(pipeline.input_bucket, "late.pdf")
    event = pipeline.event("bundle-1", [{"key": source["key"]}], padding="x" * 40_000)
    value = json.dumps(
        {"specversion": "1.0", "type": "t", "source": "/s", "id": "1", "data": event}
    ).encode()
    pipeline.send_raw(value, headers=[("content-type", b"application/cloudevents+json")])
    wait_for(lambda: pipeline.dead_letters(), 60, "the dead letter", pipeline.last_lines)
    assert pipeline.dead_letters()[0].value == b""
    pipeline.upload(pdfs.one_page_scan(1), key="late.pdf")

    ran = bundles(pipeline, "replay", "--bundle", "bundle-1", "--apply", "--json")

    assert ran.last["replayed"] == 1, ran.err
    wait_for(lambda: pipeline.results(DOCUMENT_RESULT_TYPE), 60, "the result", pipeline.last_lines)
    assert events(pipeline)[1].value() == value
