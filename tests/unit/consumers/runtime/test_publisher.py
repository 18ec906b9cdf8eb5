"""The publisher: what is acknowledged, refused, retried and counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from consumers.runtime.effects import Message, PublishRefused
from consumers.runtime.observer import NullObserver
from consumers.runtime.publisher import Publisher, producer_config
from consumers.runtime.settings import RuntimeSettings

SETTINGS = RuntimeSettings(bootstrap_servers="b", group_id="g", topics=("t",))
MESSAGE = Message("results", b"k", b"v", [("reason", "too_big"), ("raw", b"\xff")])


class FakeProducer:
    """Keeps what it is given until the test answers."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.full = False
        self.raises: KafkaError | None = None
        self.sent: list[dict[str, Any]] = []
        self.waiting: list[Callable[[KafkaError | None, Any], None]] = []
        self.answers: list[KafkaError | None] = []

    def produce(self, topic: str, *, on_delivery: Any, **record: Any) -> None:
        if self.full:
            raise BufferError
        if self.raises is not None:
            raise KafkaException(self.raises)
        self.sent.append({"topic": topic, **record})
        self.waiting.append(on_delivery)

    def poll(self, timeout: float) -> int:
        while self.answers and self.waiting:
            self.waiting.pop(0)(self.answers.pop(0), None)
        return 0

    def flush(self, timeout: float) -> int:
        self.poll(0)
        return len(self.waiting)


class Heard(NullObserver):
    def __init__(self) -> None:
        self.refused: list[str] = []
        self.lost: list[str] = []

    def publish_refused(self, topic: str, code: str) -> None:
        self.refused.append(code)

    def send_failed(self, topic: str, code: str) -> None:
        self.lost.append(code)


class Rig:
    def __init__(self) -> None:
        self.producers: list[FakeProducer] = []
        self.heard = Heard()
        self.results: list[PublishRefused | None] = []

        def make(config: dict[str, Any]) -> Producer:
            self.producers.append(FakeProducer(config))
            return cast("Producer", self.producers[-1])

        self.publisher = Publisher(SETTINGS, self.heard, make)

    @property
    def producer(self) -> FakeProducer:
        return self.producers[0]

    def publish(self) -> None:
        self.publisher.publish(MESSAGE, self.results.append)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_record_is_sent_as_given_and_its_acknowledgement_told_once(rig: Rig) -> None:
    rig.publish()
    assert rig.producer.sent == [
        {
            "topic": "results",
            "key": b"k",
            "value": b"v",
            "headers": [("reason", b"too_big"), ("raw", b"\xff")],
        }
    ]
    assert (rig.results, rig.publisher.outstanding) == ([], 1)
    rig.producer.answers.append(None)
    rig.publisher.poll()
    rig.publisher.poll()
    assert (rig.results, rig.publisher.outstanding) == ([None], 0)


def test_a_refusal_says_its_code(rig: Rig) -> None:
    rig.publish()
    rig.producer.answers.append(KafkaError(KafkaError._MSG_TIMED_OUT))
    rig.publisher.poll()
    [refused] = rig.results
    assert refused is not None
    assert (refused.code, refused.too_large) == ("_MSG_TIMED_OUT", False)
    assert rig.heard.refused == ["_MSG_TIMED_OUT"]


def test_a_record_refused_in_a_batch_that_was_too_large_is_sent_again_alone(rig: Rig) -> None:
    rig.publish()
    rig.producer.answers.append(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    rig.publisher.poll()
    assert rig.results == []
    single = rig.producers[1]
    assert single.config["batch.num.messages"] == 1
    assert single.sent == rig.producer.sent
    single.answers.append(None)
    rig.publisher.poll()
    assert rig.results == [None]


def test_a_record_that_is_too_large_by_itself_is_told_so(rig: Rig) -> None:
    rig.publish()
    rig.producer.answers.append(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    rig.publisher.poll()
    rig.producers[1].answers.append(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    rig.publisher.poll()
    [refused] = rig.results
    assert refused is not None
    assert refused.too_large


def test_what_the_client_refuses_at_once_is_told_from_the_next_poll(rig: Rig) -> None:
    rig.producer.raises = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    rig.publish()
    assert rig.results == []
    rig.publisher.poll()
    [refused] = rig.results
    assert refused is not None
    assert refused.too_large
    assert len(rig.producers) == 1  # its own size is known: alone it is no smaller


def test_what_a_full_client_does_not_take_goes_out_later_in_order(rig: Rig) -> None:
    rig.producer.full = True
    for number in range(3):
        rig.publisher.publish(Message("t", b"%d" % number, None), rig.results.append)
    rig.publisher.poll()
    assert rig.producer.sent == []
    rig.producer.full = False
    rig.publisher.poll()
    assert [record["key"] for record in rig.producer.sent] == [b"0", b"1", b"2"]
    assert rig.publisher.outstanding == 3


def test_fire_and_forget_loses_nothing_silently(rig: Rig) -> None:
    rig.publisher.send(MESSAGE)
    assert rig.publisher.outstanding == 0  # nobody waits for it
    rig.producer.answers.append(KafkaError(KafkaError._MSG_TIMED_OUT))
    rig.publisher.poll()
    rig.producer.full = True
    rig.publisher.send(MESSAGE)
    assert rig.heard.lost == ["_MSG_TIMED_OUT", "_QUEUE_FULL"]


def test_a_fatal_error_is_remembered(rig: Rig) -> None:
    assert rig.publisher.fatal is None
    rig.producer.config["error_cb"](KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "", True))
    assert rig.publisher.fatal == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_flush_says_how_many_are_left(rig: Rig) -> None:
    rig.publish()
    rig.publish()
    rig.producer.answers.append(None)
    assert rig.publisher.flush(0) == 1


def test_the_defaults_wait_for_all_replicas_and_give_up_before_a_revoke_does() -> None:
    config = producer_config(SETTINGS)
    assert config["acks"] == "all"
    assert config["enable.idempotence"] is True
    assert config["delivery.timeout.ms"] < SETTINGS.revoke_deadline * 1000
