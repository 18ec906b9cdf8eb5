"""Each record is replayed once: several operators, one that died half-way, refusals. No worker
runs; the dead letters are ours."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from consumers.operations.dead_letters import Filter, Original
from consumers.operations.replay import Outcome, Replay
from consumers.operations.replay_markers import ReplayMarkers
from deploy.demo.count import read_topic
from schemas import topics as names
from tests.integration.conftest import MakePipeline
from tests.pipeline import Pipeline, headers_of

pytestmark = pytest.mark.integration


def dead_letter(
    pipeline: Pipeline, offset: int, changes: Mapping[str, str] | None = None, *, size: int = 0
) -> str:
    """Puts one on the topic, of a record at ``offset``; returns its id."""
    identifier = f"letter-{offset}"
    headers = {
        names.DLQ_ID: identifier,
        names.DLQ_REASON: "deadline",
        names.DLQ_STAGE: "poll",
        names.DLQ_TOPIC: pipeline.topics.events,
        names.DLQ_PARTITION: "0",
        names.DLQ_OFFSET: str(offset),
        names.DLQ_TIMESTAMP: "1750000000000",
        names.DLQ_LAST_FAILED_AT: "2026-01-31T12:00:00.000Z",
        names.DLQ_REPLAYS: "0",
        **(changes or {}),
    }
    event = {"bundle_id": f"bundle-{offset}", "documents": [], "padding": "x" * size}
    producer = Producer({"bootstrap.servers": pipeline.bootstrap, "message.max.bytes": 2**22})
    producer.produce(
        pipeline.topics.dead_letters,
        json.dumps(event).encode(),
        b"key",
        headers=[(name, value.encode()) for name, value in headers.items()],
    )
    assert producer.flush(30) == 0
    return identifier


def replay(pipeline: Pipeline, *, apply: bool = True) -> dict[Outcome, int]:
    return Replay(
        pipeline.kafka_client,
        pipeline.topics,
        pipeline.store,
        pipeline.output_bucket,
        pipeline.settings().policies,
        apply=apply,
    ).run(Filter())


def published(pipeline: Pipeline) -> Counter[str]:
    found = read_topic(pipeline.kafka_client, pipeline.topics.events)
    return Counter(headers_of(record)[names.REPLAY_DEAD_LETTER_ID] for record in found)


def original(pipeline: Pipeline, offset: int) -> Original:
    return Original(pipeline.topics.events, 0, offset, 1750000000000)


def test_two_operators_at_once_publish_each_record_once(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline()
    letters = [dead_letter(pipeline, offset) for offset in range(8)]

    with ThreadPoolExecutor(2) as threads:
        runs = list(threads.map(lambda _: replay(pipeline), range(2)))

    assert published(pipeline) == Counter(letters)
    assert sum(run.get(Outcome.REPLAYED, 0) for run in runs) == len(letters)


def test_a_replay_that_died_half_way_is_finished_by_the_next(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline()
    unsent, sent, fresh = (dead_letter(pipeline, offset) for offset in range(3))
    long_ago = ReplayMarkers(
        pipeline.store, pipeline.output_bucket, clock=lambda: time.time() - 3600
    )
    just_now = ReplayMarkers(pipeline.store, pipeline.output_bucket)
    long_ago.claim(original(pipeline, 0), unsent)
    long_ago.claim(original(pipeline, 1), sent)
    just_now.claim(original(pipeline, 2), fresh)
    pipeline.send_raw(b"{}", headers=[(names.REPLAY_DEAD_LETTER_ID, sent.encode())])

    first = replay(pipeline)
    second = replay(pipeline)

    assert first == {Outcome.REPLAYED: 1, Outcome.ALREADY: 1, Outcome.IN_PROGRESS: 1}
    assert second == {Outcome.ALREADY: 2, Outcome.IN_PROGRESS: 1}
    assert published(pipeline) == {unsent: 1, sent: 1}


def test_what_may_not_or_cannot_go_is_said_and_can_go_later(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(
        topic_config={
            "events": {"max.message.bytes": "10000"},
            "dead_letters": {"max.message.bytes": "100000"},
        }
    )
    dead_letter(pipeline, 0, size=20_000)
    dead_letter(pipeline, 1, {names.DLQ_TOPIC: "another-topic"})
    dead_letter(pipeline, 2, {names.DLQ_REPLAYS: "5"})
    dead_letter(pipeline, 3, {names.DLQ_REASON: "replay_loop"})
    dead_letter(pipeline, 4, {names.DLQ_CLAIM_CHECK: "s3://elsewhere/_dead-letters/letter-4"})

    expected = {Outcome.OTHER_TOPIC: 1, Outcome.LOOP: 2, Outcome.VALUE_MISSING: 1}
    assert replay(pipeline) == {Outcome.REFUSED: 1, **expected}
    assert not published(pipeline)
    assert replay(pipeline, apply=False) == {Outcome.WOULD_REPLAY: 1, **expected}
