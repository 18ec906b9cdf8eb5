"""Produces records and says of each whether the broker holds it.

The client's own threads send; delivery reports are served from `Publisher.poll`, on the control
thread, so nothing here is locked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from consumers.runtime.client import LOGGER
from consumers.runtime.effects import Message, PublishRefused
from consumers.runtime.observer import NullObserver, Observer
from consumers.runtime.settings import RuntimeSettings

# Sending the same bytes again cannot help.
_TOO_LARGE = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_MSG_SIZE,
}

OnDelivery = Callable[[PublishRefused | None], None]


def producer_config(settings: RuntimeSettings) -> dict[str, Any]:
    """librdkafka properties of the producer.

    A record is given up before a partition must be: a task that waits for a broker that is gone
    hears of it while it can still end in order.
    """
    timeout = max(1000, int(settings.revoke_deadline * 800))
    return {
        "bootstrap.servers": settings.bootstrap_servers,
        "acks": "all",
        "enable.idempotence": True,
        "delivery.timeout.ms": timeout,
        "linger.ms": 15,
        "logger": LOGGER,
        "queue.buffering.max.kbytes": 64 * 1024,
        **settings.client,
        **settings.producer,
    }


class Publisher:
    """Wraps a producer: acknowledged publishing for tasks, fire-and-forget for records whose loss
    costs nothing but history. All methods belong to the control thread.

    A broker refuses a whole batch when the batch, or one record in it, is above its limit. So what
    was refused as too large is sent once more in a batch of its own, and only the answer to that
    counts: a large record never condemns its neighbours.
    """

    def __init__(
        self,
        settings: RuntimeSettings,
        observer: Observer | None = None,
        make_producer: Callable[[dict[str, Any]], Producer] = Producer,
    ) -> None:
        self._observer: Observer = observer if observer is not None else NullObserver()
        self._fatal: str | None = None
        self._config = {**producer_config(settings), "error_cb": self._on_error}
        self._make_producer = make_producer
        self._batching = make_producer(self._config)
        self._single: Producer | None = None
        # What the client's full queue did not take, oldest first.
        self._backlog: deque[tuple[Message, OnDelivery]] = deque()
        # Refusals that the client raised at once; told from `poll`, never from inside `publish`.
        self._refusals: deque[tuple[OnDelivery, PublishRefused]] = deque()
        self._outstanding = 0

    @property
    def outstanding(self) -> int:
        """Records that tasks wait for and whose fate is not yet known."""
        return self._outstanding

    @property
    def fatal(self) -> str | None:
        """The error after which this producer accepts nothing more; None while it is sound."""
        return self._fatal

    def publish(self, message: Message, on_delivery: OnDelivery) -> None:
        """Send ``message``; ``on_delivery`` hears from a later `poll` whether it is durable."""
        self._outstanding += 1

        def report(refused: PublishRefused | None) -> None:
            self._outstanding -= 1
            if refused is not None:
                self._observer.publish_refused(message.topic, refused.code)
            on_delivery(refused)

        if self._backlog or not self._batched(message, report):
            self._backlog.append((message, report))

    def send(self, message: Message) -> None:
        """Send ``message`` and only count it if it is lost."""

        def report(refused: PublishRefused | None) -> None:
            if refused is not None:
                self._observer.send_failed(message.topic, refused.code)

        if self._backlog or not self._batched(message, report):
            self._observer.send_failed(message.topic, "_QUEUE_FULL")

    def _batched(self, message: Message, report: OnDelivery) -> bool:
        """False: the client's queue is full."""

        def on_delivery(error: KafkaError | None, _: Any) -> None:
            if error is not None and error.code() in _TOO_LARGE:
                self._alone(message, report)
            else:
                report(None if error is None else _refused(error))

        return self._produce(self._batching, message, on_delivery, report)

    def _alone(self, message: Message, report: OnDelivery) -> None:
        def on_delivery(error: KafkaError | None, _: Any) -> None:
            report(None if error is None else _refused(error))

        if self._single is None:
            self._single = self._make_producer({**self._config, "batch.num.messages": 1})
        if not self._produce(self._single, message, on_delivery, report):
            self._refusals.append((report, PublishRefused("_QUEUE_FULL")))

    def _produce(
        self,
        producer: Producer,
        message: Message,
        on_delivery: Callable[[KafkaError | None, Any], None],
        report: OnDelivery,
    ) -> bool:
        try:
            producer.produce(
                message.topic,
                key=message.key,
                value=message.value,
                headers=[
                    (name, value.encode() if isinstance(value, str) else value)
                    for name, value in message.headers
                ],
                on_delivery=on_delivery,
            )
        except BufferError:
            return False
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            if error.fatal():
                self._fatal = error.name()
            self._refusals.append((report, _refused(error)))
        return True

    def poll(self) -> None:
        """Serve delivery reports and retry what the client had no room for. Does not block."""
        self._batching.poll(0)
        if self._single is not None:
            self._single.poll(0)
        while self._backlog and self._batched(*self._backlog[0]):
            self._backlog.popleft()
        while self._refusals:
            report, refused = self._refusals.popleft()
            report(refused)

    def flush(self, seconds: float) -> int:
        """Wait up to ``seconds`` for everything that was sent. Gives how many records are left."""
        self.poll()
        left = int(self._batching.flush(max(0.0, seconds))) + len(self._backlog)
        if self._single is not None:
            left += int(self._single.flush(max(0.0, seconds)))
        return left

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error.name()
        self._observer.client_error(error.name())


def _refused(error: KafkaError) -> PublishRefused:
    return PublishRefused(error.name(), too_large=error.code() in _TOO_LARGE)
