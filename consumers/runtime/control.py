"""The control loop: one thread that owns the Kafka consumer and everything that changes.

It takes records from the client, starts a task for each, drives the tasks, commits what is done,
and pauses or resumes partitions. Nothing in it waits longer than a few milliseconds, except where a
rebalance or the shutdown waits for calls in progress, inside a deadline.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import Message as Record

from consumers.runtime.activity import ActivityTimer
from consumers.runtime.client import consumer_config, verdict, watermarks
from consumers.runtime.committer import Committer
from consumers.runtime.dispatch import Dispatcher, Handler, OnTaskError
from consumers.runtime.exits import Exit, Failure
from consumers.runtime.intake import Pauses
from consumers.runtime.observer import NullObserver, Observer
from consumers.runtime.offsets import OffsetLedger, Partition
from consumers.runtime.publisher import Publisher
from consumers.runtime.rebalance import Rebalance
from consumers.runtime.scheduler import Scheduler
from consumers.runtime.settings import RuntimeSettings
from consumers.runtime.status import PartitionReader, State, WorkerStatus
from consumers.runtime.unstick import Unsticker
from consumers.runtime.watchdog import LoopWatchdog, ends_within

__all__ = ["Failure", "Worker"]

# Seconds between two looks at what needs no quicker one: watchdogs, ownership, status.
_UPKEEP_INTERVAL = 1.0

# Shares of the grace period, from its start: the rest is for what no deadline here bounds.
_DRAIN_UNTIL = 0.45
_COMMIT_UNTIL = 0.65
_CLOSE_UNTIL = 0.8


class Worker:
    """Consumes until told to stop. `run`, on one thread, does everything; `stop`, `snapshot` and
    `loop_age` may be called from any."""

    def __init__(
        self,
        settings: RuntimeSettings,
        handler: Handler,
        scheduler: Scheduler,
        publisher: Publisher | None = None,
        intake_allowed: Callable[[], bool] = lambda: True,
        observer: Observer | None = None,
        on_task_error: OnTaskError | None = None,
        make_consumer: Callable[[dict[str, Any]], Consumer] = Consumer,
        loop_watchdog: LoopWatchdog | None = None,
    ) -> None:
        """
        :param handler: makes the task of a record; when the task returns, the record is done.
        :param publisher: the one that ``scheduler`` was given.
        :param intake_allowed: asked on every turn; False pauses all partitions.
        :param on_task_error: see `OnTaskError`; without it a task that raises ends the worker.
        """
        self._settings = settings
        self._scheduler = scheduler
        self._publisher = publisher
        self._intake_allowed = intake_allowed
        self._observer: Observer = observer if observer is not None else NullObserver()
        self._make_consumer = make_consumer
        self._clock = scheduler.clock
        self._watchdog = loop_watchdog or LoopWatchdog(settings.loop_stuck_after)
        self._ledger = OffsetLedger(settings.window, settings.metadata_limit)
        self._committer = Committer(self._ledger, self._observer, self._clock)
        self._pauses = Pauses(settings, self._ledger, self._observer)
        self._dispatcher = Dispatcher(
            ledger=self._ledger,
            scheduler=scheduler,
            handler=handler,
            on_task_error=on_task_error,
            observer=self._observer,
            clock=self._clock,
            fail=self._fail,
            end_of=self._end_of,
        )
        self._rebalance = Rebalance(
            settings=settings,
            ledger=self._ledger,
            scheduler=scheduler,
            committer=self._committer,
            observer=self._observer,
            clock=self._clock,
            fail=self._fail,
            beat=self._watchdog.beat,
            entered=lambda: self._activity.lap("poll"),
            left=lambda: self._activity.lap("rebalance"),
            assigned=self._on_assigned,
            gone=self._on_gone,
        )
        self._unsticker = Unsticker(
            settings, self._ledger, self._pauses, self._observer, self._fail
        )
        self._partitions = PartitionReader(
            self._ledger, self._dispatcher, self._pauses, self._unsticker, self._clock
        )
        self._activity = ActivityTimer(self._clock, self._observer)
        self._consumer: Consumer | None = None
        self._stop_wanted = False
        self._failure: Failure | None = None
        self._state: State = "starting"
        self._next_commit = 0.0
        self._next_upkeep = 0.0
        self._status = self._take_status()

    # -- for other threads -----------------------------------------------------------------------

    def stop(self) -> None:
        """End `run` in order. Safe in a signal handler and in any thread."""
        self._stop_wanted = True
        self._scheduler.wake()

    def snapshot(self) -> WorkerStatus:
        """The status as of about a second ago."""
        return self._status

    @property
    def loop_age(self) -> float:
        """Seconds since the loop's last sign of life; beyond ``loop_stuck_after`` it hangs."""
        return self._watchdog.age

    @property
    def failure(self) -> Failure | None:
        """Why `run` stopped without being told to."""
        return self._failure

    # -- the loop --------------------------------------------------------------------------------

    def run(self) -> Exit:
        """Consume until `stop`, or until something must end the process; then drain, commit, leave
        the group, and say how it went. Ends within ``grace`` seconds of `stop`."""
        try:
            consumer = self._make_consumer(self._config())
        except KafkaException as raised:
            self._fail(
                Exit.CONFIG, f"the Kafka client refused its settings: {raised.args[0].str()}"
            )
            return Exit.CONFIG
        self._consumer = consumer
        self._watchdog.start()
        try:
            consumer.subscribe(
                list(self._settings.topics),
                on_assign=self._rebalance.on_assign,
                on_revoke=self._rebalance.on_revoke,
                on_lost=self._rebalance.on_lost,
            )
            self._state = "running"
            while not self._stop_wanted:
                self._turn(consumer)
        except Exception as raised:
            traceback.print_exc()
            self._fail(Exit.LOOP_FAILED, f"the control loop raised {type(raised).__name__}")
        return self._shut_down(consumer)

    def _config(self) -> dict[str, Any]:
        return {
            **consumer_config(self._settings),
            "on_commit": self._committer.on_commit,
            "error_cb": self._on_client_error,
        }

    def _turn(self, consumer: Consumer) -> None:
        self._watchdog.beat()
        busy = self._take_records(consumer)
        self._activity.lap("poll")
        waited = self._scheduler.waited
        self._scheduler.step(0 if busy else self._settings.idle_wait)
        self._activity.lap("tasks", of_which_waited=self._scheduler.waited - waited)
        now = self._clock.monotonic()
        if now >= self._next_commit:
            self._next_commit = now + self._settings.commit_interval
            self._committer.send_due(consumer)
            self._activity.lap("commit")
        self._pauses.decide(self._dispatcher.in_flight, self._intake_allowed())
        self._pauses.update(consumer)
        if now >= self._next_upkeep:
            self._next_upkeep = now + _UPKEEP_INTERVAL
            self._upkeep(consumer, now)
        self._activity.lap("upkeep")

    def _take_records(self, consumer: Consumer) -> bool:
        """Take what the client has, up to a burst. Rebalances happen in here."""
        for count in range(self._settings.poll_burst):
            record = consumer.poll(0)
            if self._stop_wanted or record is None:
                return count > 0
            if record.error() is not None:
                self._on_error_record(record)
                continue
            partition = self._dispatcher.take(record)
            if self._dispatcher.in_flight >= self._settings.in_flight_high or (
                partition is not None and self._ledger.fullness(partition) >= 1.0
            ):
                return True  # pause first
        return True

    def _upkeep(self, consumer: Consumer, now: float) -> None:
        if self._publisher is not None and self._publisher.fatal is not None:
            self._fail(Exit.FENCED, f"the producer failed for good: {self._publisher.fatal}")
        self._check_ownership(consumer)
        self._unsticker.look(consumer, now)
        self._status = self._take_status()
        self._activity.flush()

    def _check_ownership(self, consumer: Consumer) -> None:
        # A client may lose partitions without a callback (a known bug: an expired session meets a
        # rebalance). Committing for them would set their new owner back.
        held = {Partition(p.topic, p.partition) for p in consumer.assignment()}
        missing = [p for p in self._ledger.owned() if p not in held]
        if missing:
            self._rebalance.forget(missing)

    def _end_of(self, partition: Partition) -> int | None:
        assert self._consumer is not None
        known = watermarks(self._consumer, partition)
        return known[1] if known else None

    def _on_assigned(self, partitions: Sequence[Partition]) -> None:
        assert self._consumer is not None
        self._pauses.decide(self._dispatcher.in_flight, self._intake_allowed())
        self._pauses.assigned(self._consumer, partitions)

    def _on_gone(self, partitions: Sequence[Partition]) -> None:
        self._pauses.gone(partitions)
        self._unsticker.gone(partitions)

    # -- what goes wrong -------------------------------------------------------------------------

    def _fail(self, code: Exit, message: str) -> None:
        """Stop, for a reason. The first one counts."""
        if self._failure is None:
            self._failure = Failure(code, message)
        self._stop_wanted = True

    def _on_error_record(self, record: Record) -> None:
        error, topic, number = record.error(), record.topic(), record.partition()
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            if topic is not None and number is not None:
                self._unsticker.end_seen(Partition(topic, number), record.offset() or 0)
            return
        where = f"{topic}[{number}]" if topic is not None else "the cluster"
        self._on_client_error(error, where)

    def _on_client_error(self, error: KafkaError, where: str = "the cluster") -> None:
        self._observer.client_error(error.name())
        failure = verdict(error, where, assigned_before=self._rebalance.count > 0)
        if failure is not None:
            self._fail(failure.code, failure.message)

    # -- shutdown --------------------------------------------------------------------------------

    def _shut_down(self, consumer: Consumer) -> Exit:
        started = self._clock.monotonic()
        grace = self._settings.grace
        self._state = "stopping"
        failed = self._failure
        code = failed.code if failed is not None else Exit.UNCOMMITTED
        with ends_within(_CLOSE_UNTIL * grace, code, "the shutdown"):
            try:
                self._observer.stopping(failed.message if failed is not None else "told to stop")
                orderly = self._drain_and_commit(consumer, started)
            except Exception:
                traceback.print_exc()
                orderly = False
                code = self._failure.code if self._failure is not None else Exit.LOOP_FAILED
            consumer.close()
        self._watchdog.stop()
        self._state = "stopped"
        self._consumer = None
        self._status = self._take_status()
        if self._failure is not None:
            return self._failure.code
        return Exit.OK if orderly else code

    def _drain_and_commit(self, consumer: Consumer, started: float) -> bool:
        """True: everything reached a safe place and the broker has all that is done."""
        grace = self._settings.grace
        held = consumer.assignment()
        if held:
            consumer.pause(held)
        left = self._scheduler.drain(
            self._scheduler.tags(), started + _DRAIN_UNTIL * grace, self._watchdog.beat
        )
        for tag in left:
            self._scheduler.cancel(tag)
        self._rebalance.drained = True
        self._check_ownership(consumer)
        # Taken now: while the answer is awaited, a session may expire and take the partitions.
        views = {p: view for p in self._ledger.owned() if (view := self._ledger.view(p))}
        self._committer.send(consumer, self._ledger.due())
        while self._committer.outstanding and (
            self._clock.monotonic() < started + _COMMIT_UNTIL * grace
        ):
            self._watchdog.beat()
            consumer.poll(0.02)
        if self._publisher is not None:
            self._publisher.flush(min(1.0, 0.05 * grace))
        committed = True
        for partition, view in views.items():
            known = (view.committed, self._committer.acknowledged(partition))
            current = max((offset for offset in known if offset is not None), default=None)
            committed &= current == view.position
            if current != view.position or view.pending:
                self._observer.uncommitted(partition, current, view.pending)
        return committed and not left

    # -- status ----------------------------------------------------------------------------------

    def _take_status(self) -> WorkerStatus:
        return WorkerStatus(
            taken_at=self._clock.time(),
            state=self._state,
            partitions=self._partitions.read(self._consumer),
            in_flight=self._dispatcher.in_flight,
            sleeping=self._scheduler.waiting_for_time,
            publishing=self._publisher.outstanding if self._publisher is not None else 0,
            commits_outstanding=self._committer.outstanding,
            intake_stopped=self._pauses.common,
            pools=self._scheduler.pool_stats(),
            assignments=self._rebalance.count,
        )
