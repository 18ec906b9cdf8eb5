"""Kafka as a worker meets it: partitions, generations, commits, acknowledged records.

The broker checks what must hold at every commit, at the moment it is made.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from consumers.runtime.effects import Message, PublishRefused
from tests.simulation.agenda import EPOCH, Agenda
from tests.simulation.faults import Faults

EVENTS = "bundles.events.v1"
GROUP = "extractors"


@dataclass(frozen=True, slots=True)
class SimRecord:
    """One record of the events topic; what `consumers.runtime.dispatch` reads of a client's."""

    partition_number: int
    offset_number: int
    appended_at: float
    key_bytes: bytes
    value_bytes: bytes
    header_list: tuple[tuple[str, bytes], ...] = ()

    def topic(self) -> str:
        return EVENTS

    def partition(self) -> int:
        return self.partition_number

    def offset(self) -> int:
        return self.offset_number

    def timestamp(self) -> tuple[int, int]:
        return 1, round((EPOCH + self.appended_at) * 1000)

    def key(self) -> bytes:
        return self.key_bytes

    def value(self) -> bytes:
        return self.value_bytes

    def headers(self) -> list[tuple[str, bytes]]:
        return list(self.header_list)


@dataclass(frozen=True, slots=True)
class Output:
    """A record that the broker holds."""

    message: Message
    at: float
    worker: str

    def header(self, name: str) -> str | None:
        for key, value in reversed(self.message.headers):
            if key == name:
                return value if isinstance(value, str) else value.decode()
        return None


@dataclass
class Broker:
    agenda: Agenda
    partitions: list[list[SimRecord]]
    committed: list[int] = field(default_factory=list)
    metadata: list[str] = field(default_factory=list)
    generation: list[int] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    on_output: Callable[[Output], None] = lambda output: None
    before_commit: Callable[[int, int, int], None] = lambda partition, before, offset: None
    max_output_bytes: int = 4096

    def __post_init__(self) -> None:
        count = len(self.partitions)
        self.committed = [0] * count
        self.metadata = [""] * count
        self.generation = [0] * count

    def append(
        self, partition: int, key: bytes, value: bytes, headers: tuple[tuple[str, bytes], ...] = ()
    ) -> None:
        log = self.partitions[partition]
        log.append(SimRecord(partition, len(log), self.agenda.now, key, value, headers))

    @property
    def all_committed(self) -> bool:
        return all(c >= len(log) for c, log in zip(self.committed, self.partitions, strict=True))

    def commit(self, partition: int, generation: int, offset: int, metadata: str) -> bool:
        """False: fenced, the member's generation is over."""
        if generation != self.generation[partition]:
            return False
        self.before_commit(partition, self.committed[partition], offset)
        self.committed[partition] = offset
        self.metadata[partition] = metadata
        return True

    def take(self, output: Output) -> bool:
        """False: the record is too large."""
        message = output.message
        size = len(message.value or b"") + sum(len(n) + len(v) for n, v in message.headers)
        if size > self.max_output_bytes and message.value:
            return False
        self.outputs.append(output)
        self.on_output(output)
        return True


class SimPublisher:
    """`consumers.runtime.scheduler.DeliveryQueue`: each record arrives, or is refused, later."""

    def __init__(
        self,
        broker: Broker,
        faults: Faults,
        rng: random.Random,
        worker: str,
        *,
        step: Callable[[], bool],
        wake: Callable[[], None],
    ) -> None:
        """
        :param step: called as a record reaches the broker; False: its worker is dead by then, and
            so is the record.
        """
        self._broker = broker
        self._faults = faults
        self._rng = rng
        self._worker = worker
        self._step = step
        self._wake = wake
        self._reports: deque[tuple[Callable[[PublishRefused | None], None], str | None]] = deque()
        self.outstanding = 0

    def publish(
        self, message: Message, on_delivery: Callable[[PublishRefused | None], None]
    ) -> None:
        self.outstanding += 1
        agenda = self._broker.agenda

        def arrive() -> None:
            if not self._step():
                return
            refusal, delay = self._arrived(message)
            agenda.after(delay, lambda: report(refusal))

        def report(refusal: str | None) -> None:
            self._reports.append((on_delivery, refusal))
            self._wake()

        agenda.after(self._rng.uniform(0.001, 0.02), arrive)

    def _arrived(self, message: Message) -> tuple[str | None, float]:
        """What the client is told, and after how long."""
        output = Output(message, self._broker.agenda.now, self._worker)
        if self._faults.down("broker") or self._faults.hits("publish.refused"):
            return "_MSG_TIMED_OUT", self._rng.uniform(0.5, 4.0)
        if not self._broker.take(output):
            return "MSG_SIZE_TOO_LARGE", 0.005
        if self._faults.hits("publish.stored_but_refused"):
            return "REQUEST_TIMED_OUT", 2.0
        return None, self._rng.uniform(0.001, 0.02)

    def poll(self) -> None:
        while self._reports:
            on_delivery, code = self._reports.popleft()
            self.outstanding -= 1
            on_delivery(
                None
                if code is None
                else PublishRefused(code, too_large=code == "MSG_SIZE_TOO_LARGE")
            )
