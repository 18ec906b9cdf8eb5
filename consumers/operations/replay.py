"""Publishes dead-lettered records again, each original record once. See `bundles replay`.

At least once is what a crash leaves (the pipeline's effects are idempotent); the markers make it
once in every other case, whoever runs it, however often.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from confluent_kafka import KafkaException, Producer

from consumers.operations.dead_letters import DeadLetter, Filter, Original, parse_dead_letter
from consumers.operations.reading import header_text, headers_of, read_topic
from consumers.operations.replay_markers import Marker, ReplayMarkers
from consumers.operations.storage import Pace, patiently
from schemas import topics as names
from schemas.cloudevents import EventRejected, parse_event
from schemas.policy import Policy, Retries
from schemas.reasons import Reason
from schemas.topics import TopicSettings
from sinks.objectstore import ObjectNotFound, ObjectStore

MAX_RECORD_BYTES = 64 * 1024 * 1024
ACK_S = 60.0


class Outcome(StrEnum):
    REPLAYED = "replayed"
    WOULD_REPLAY = "would_replay"
    SAME_RECORD = "same_record"
    """Of a record that another dead letter of this run has (or would have) published again."""
    ALREADY = "already_replayed"
    IN_PROGRESS = "in_progress"
    """Another replay took it a moment ago and has not said how it ended."""
    LOOP = "loop"
    """Its policy's ``retries.max_replays`` is used up."""
    OTHER_TOPIC = "other_topic"
    """It did not come from ``topics.events`` of these settings."""
    VALUE_MISSING = "value_missing"
    """Its claim check is gone from the output bucket, or is not one of ours."""
    REFUSED = "refused"
    """The broker did not take it."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of one dead letter. ``count`` is the record's new ``x-replay-count``."""

    letter: DeadLetter
    outcome: Outcome
    count: int
    detail: str | None = None


class Replay:
    def __init__(
        self,
        client: Mapping[str, str],
        topics: TopicSettings,
        store: ObjectStore,
        bucket: str,
        policies: Mapping[str, Policy],
        *,
        apply: bool,
        per_second: float = 100.0,
        on_letter: Callable[[Replayed], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._topics = dict(client), topics
        self._store, self._bucket = store, bucket
        self._policies = policies
        self._apply = apply
        self._pace = Pace(per_second)
        self._on_letter = on_letter
        self._markers = ReplayMarkers(store, bucket, clock=clock)
        self._seen: dict[Original, Outcome] = {}
        self._producer: Producer | None = None

    def run(self, wanted: Filter, *, limit: int | None = None) -> dict[Outcome, int]:
        """Every dead letter that stands now and matches; how many came to what.

        :raises TopicUnreadable: the dead-letter topic cannot be read.
        :raises StoreError: the store failed for longer than patience lasts.
        """
        counts: dict[Outcome, int] = {}
        records = 0
        for record in read_topic(self._client, self._topics.dead_letters, since=wanted.since):
            letter = parse_dead_letter(record)
            if letter is None or not wanted.matches(letter):
                continue
            replayed = self._one(letter)
            self._on_letter(replayed)
            counts[replayed.outcome] = counts.get(replayed.outcome, 0) + 1
            records += replayed.outcome in (Outcome.REPLAYED, Outcome.WOULD_REPLAY)
            if records == limit:
                break
        return counts

    def _one(self, letter: DeadLetter) -> Replayed:
        before = self._seen.get(letter.original)
        count = letter.replays + 1
        if before in (Outcome.REPLAYED, Outcome.WOULD_REPLAY):
            return Replayed(letter, Outcome.SAME_RECORD, count)
        if letter.original.topic != self._topics.events:
            self._seen[letter.original] = Outcome.OTHER_TOPIC
            return Replayed(letter, Outcome.OTHER_TOPIC, count, letter.original.topic)
        outcome, detail = self._decide(letter, count)
        self._seen[letter.original] = outcome
        return Replayed(letter, outcome, count, detail)

    def _decide(self, letter: DeadLetter, count: int) -> tuple[Outcome, str | None]:
        try:
            value = self._value(letter)
        except ObjectNotFound:
            return Outcome.VALUE_MISSING, None
        allowed = self._max_replays(letter, value)
        if count > allowed or letter.reason == Reason.REPLAY_LOOP:
            return Outcome.LOOP, f"max_replays is {allowed}"
        if not self._apply:
            return self._outlook(letter), None
        marker = self._markers.claim(letter.original, letter.identifier)
        if not marker.mine:
            settled = self._settle(marker, letter)
            if isinstance(settled, Outcome):
                return settled, None
            marker = settled
        self._pace.wait(1)
        refused = self._publish(letter, value, count)
        if refused is None:
            self._markers.published(marker)
            return Outcome.REPLAYED, None
        code, certain = refused
        if certain:
            self._markers.release(marker)
        return Outcome.REFUSED, code

    def _value(self, letter: DeadLetter) -> bytes | None:
        """:raises ObjectNotFound: the claim check leads nowhere, or not to where ours are."""
        if letter.claim_check is None:
            return letter.value
        key = f"_dead-letters/{letter.identifier}"
        if letter.claim_check != f"s3://{self._bucket}/{key}":
            raise ObjectNotFound("get", self._bucket)
        return patiently(
            lambda: self._store.get(self._bucket, key, max_bytes=MAX_RECORD_BYTES)
        ).body

    def _max_replays(self, letter: DeadLetter, value: bytes | None) -> int:
        try:
            name = parse_event(value, letter.headers).event.policy
        except EventRejected:
            return Retries().max_replays
        policy = self._policies.get(name)
        return (policy.retries if policy else Retries()).max_replays

    # -- once ------------------------------------------------------------------------------------

    def _outlook(self, letter: DeadLetter) -> Outcome:
        marker = self._markers.look(letter.original)
        if marker is None:
            return Outcome.WOULD_REPLAY
        if marker.published or self._stands(marker):
            return Outcome.ALREADY
        return Outcome.WOULD_REPLAY

    def _settle(self, marker: Marker, letter: DeadLetter) -> Marker | Outcome:
        """Somebody else's marker: finished, under way, or left open by one that died."""
        if marker.published:
            return Outcome.ALREADY
        if self._stands(marker):
            self._markers.published(marker)
            return Outcome.ALREADY
        return self._markers.take_over(marker, letter.identifier) or Outcome.IN_PROGRESS

    def _stands(self, marker: Marker) -> bool:
        """Whether the record that an open marker speaks of is on the events topic. A minute of
        difference between the clocks is allowed for."""
        return any(
            header_text(headers_of(record)).get(names.REPLAY_DEAD_LETTER_ID)
            == marker.dead_letter_id
            for record in read_topic(self._client, self._topics.events, since=marker.at - 60)
        )

    # -- publishing ------------------------------------------------------------------------------

    def _publish(
        self, letter: DeadLetter, value: bytes | None, count: int
    ) -> tuple[str, bool] | None:
        """None once it is acknowledged; else the error's code and whether it is certain that the
        record does not stand."""
        if self._producer is None:
            self._producer = Producer(
                {
                    **self._client,
                    "acks": "all",
                    "enable.idempotence": True,
                    "linger.ms": 0,
                    "message.max.bytes": MAX_RECORD_BYTES,
                    "delivery.timeout.ms": int(ACK_S * 1000),
                }
            )
        failed: list[Any] = []
        acknowledged: list[bool] = []

        def on_delivery(error: Any, _: Any) -> None:
            if error is None:
                acknowledged.append(True)
            else:
                failed.append(error)

        headers: list[Any] = [
            *letter.headers,
            (names.REPLAY_COUNT, str(count).encode()),
            (names.REPLAY_DEAD_LETTER_ID, letter.identifier.encode()),
        ]
        try:
            self._producer.produce(
                letter.original.topic,
                value,
                letter.key,
                headers=headers,
                on_delivery=on_delivery,
            )
        except KafkaException as error:
            return error.args[0].name(), True
        self._producer.flush(ACK_S + 5)
        if acknowledged:
            return None
        if failed:
            # Errors of the client's own (timed out, purged) leave it open whether it arrived.
            return failed[0].name(), failed[0].code() > 0
        return "_TIMED_OUT", False
