"""One worker process of the simulation: the real tasks, scheduler, dispatcher and offset ledger.

What stands in for the rest of `consumers.app` and `consumers.runtime.control` follows it step by
step: take records while the intake allows it, run tasks, commit once a second.
"""

from __future__ import annotations

import os
import random
from functools import partial
from typing import TYPE_CHECKING, Any

from consumers import pools
from consumers.extraction.bundle import process_event
from consumers.extraction.journal import Journal
from consumers.extraction.origin import Origin
from consumers.extraction.polling import Doubling
from consumers.extraction.pressure.pace import Pace
from consumers.extraction.pressure.storm import DeadLetterStorm
from consumers.extraction.services import Dependency, ProviderService, Services, held_up
from consumers.extraction.turns import CALLS_PER_THREAD
from consumers.extraction.workspace import Workspace, sweep
from consumers.runtime.delivery import Delivery
from consumers.runtime.dispatch import Dispatcher
from consumers.runtime.effects import Task
from consumers.runtime.limiter import Limiter
from consumers.runtime.observer import NullObserver
from consumers.runtime.offsets import Commit, OffsetLedger, Partition
from consumers.runtime.pools import Job
from schemas.topics import TopicSettings
from sinks.images import ImageStore
from sinks.job_records import JobRecordStore
from sinks.manifests import ManifestStore
from tests.simulation.agenda import WorkerClock
from tests.simulation.documents import SimSandbox
from tests.simulation.driving import SimScheduler
from tests.simulation.kafka import EVENTS, GROUP, SimPublisher
from tests.simulation.scenario import INPUT_BUCKET, OUTPUT_BUCKET
from tests.simulation.service import PROVIDER, SimProvider

if TYPE_CHECKING:
    from tests.simulation.world import World

COMMIT_INTERVAL_S = 1.0
INTAKE_CHECK_S = 0.5
IN_FLIGHT_HIGH = 50
REVOKE_DEADLINE_S = 5.0
COMMIT_LATENCY_S = 0.01
POOLS = (pools.STORE, pools.SOURCE, pools.PROVIDER, pools.DOWNLOAD, pools.PARSE)
SOME_THREADS = 4
"""What calls take turns by where their number is not bounded."""
IDLE_S = 2.0
"""Short, so that copies of documents that rest expire in many runs, and are fetched again."""


class _Died(Exception):
    """The process ended in the middle of what it was doing."""


class SimWorker:
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.dead = False
        self.draining = False
        self.generations: dict[int, int] = {}
        self.position: dict[int, int] = {}
        self.rng = random.Random(f"{world.scenario.seed}-{name}")
        skew = self.rng.uniform(-5.0, 5.0) if world.scenario.skewed_clocks else 0.0
        self.clock = WorkerClock(world.agenda, skew)
        self.publisher = SimPublisher(
            world.broker,
            world.faults,
            self.rng,
            name,
            step=self._publishing_step,
            wake=self.wake,
        )
        self.scheduler = SimScheduler(
            self.clock,
            self.publisher,
            self._begin,
            self._let_others_run,
            world.scenario.pool_threads,
        )
        self.ledger = OffsetLedger()
        self.dispatcher = Dispatcher(
            ledger=self.ledger,
            scheduler=self.scheduler,
            handler=self._handle,
            on_task_error=None,
            observer=NullObserver(),
            clock=self.clock,
            fail=lambda code, message: world.violated(f"{name} would stop: {message}"),
            end_of=lambda partition: len(world.broker.partitions[partition.number]),
        )
        sweep(world.root)
        self.workspace = Workspace(
            world.root,
            quota_bytes=world.scenario.temp_quota_bytes,
            clock=self.clock.monotonic,
            idle_seconds=IDLE_S,
        )
        self.services = self._services()
        self._busy = False
        self._calls: dict[Job, None] = {}
        self._next_commit = 0.0
        self._commits_outstanding = 0
        self._wakes_at: float | None = None

    def _services(self) -> Services:
        world, scenario = self.world, self.world.scenario
        sandbox = SimSandbox(world.sandbox_trouble)
        polls, threads = scenario.max_polls_per_second, scenario.pool_threads or SOME_THREADS
        return Services(
            clock=self.clock,
            rng=self.rng,
            metrics=world.metrics,
            journal=Journal(
                clock=self.clock,
                worker_id=self.name,
                topic="bundles.ledger.v1",
                send=partial(world.journal_line, self),
            ),
            worker_id=self.name,
            policies={"default": scenario.policy},
            providers={
                PROVIDER: ProviderService(
                    provider=SimProvider(world.service),
                    slots=Limiter(scenario.job_slots),
                    schedule=Doubling(),
                    calls=Dependency(
                        PROVIDER, pools.PROVIDER, paces={"poll": Pace(polls)} if polls else {}
                    ),
                    downloads=Dependency(f"{PROVIDER}-downloads", pools.DOWNLOAD),
                )
            },
            secrets={},
            topics=TopicSettings(),
            store=world.store,
            output=Dependency("store", pools.STORE),
            input=Dependency("source", pools.SOURCE),
            sources=world.sources,
            input_bucket=INPUT_BUCKET,
            readable_buckets=frozenset({INPUT_BUCKET}),
            output_bucket=OUTPUT_BUCKET,
            records=JobRecordStore(world.store, OUTPUT_BUCKET),
            manifests=ManifestStore(world.store, OUTPUT_BUCKET),
            images=ImageStore(world.store, OUTPUT_BUCKET),
            sandbox=sandbox,  # type: ignore[arg-type]
            parser=Dependency("sandbox", pools.PARSE),
            workspace=self.workspace,
            documents=Limiter(scenario.local_documents),
            call_places={name: Limiter(CALLS_PER_THREAD * threads) for name in POOLS},
            storm=DeadLetterStorm(threshold=scenario.storm_threshold),
            beside=self._beside,
        )

    # -- the control loop --------------------------------------------------------------------

    def wake(self) -> None:
        """One round of the control loop, as far as it gets without time passing."""
        if self.dead or self._busy:
            return
        self._busy = True
        try:
            waiting = self._take_records()
            while self.scheduler.step(0):
                pass
            self._commit_due()
        finally:
            self._busy = False
        self._plan_next_wake(waiting)

    def _take_records(self) -> bool:
        """True when there are records that the intake does not allow yet."""
        for partition in sorted(self.position):
            log = self.world.broker.partitions[partition]
            while self.position[partition] < len(log):
                if self.dispatcher.in_flight >= IN_FLIGHT_HIGH or not self._intake_allowed():
                    return True
                record = log[self.position[partition]]
                self.position[partition] += 1
                self.dispatcher.take(record)  # type: ignore[arg-type]
        return False

    def _intake_allowed(self) -> bool:
        services = self.services
        self.workspace.remove_expired()
        if held_up(services.dependencies()):
            return False
        return services.storm.admits(self.clock.monotonic())

    def _handle(self, delivery: Delivery) -> Task:
        return process_event(
            self.services,
            Origin(
                topic=delivery.topic,
                partition=delivery.partition,
                offset=delivery.offset,
                timestamp_ms=delivery.timestamp_ms,
                group=GROUP,
                key=delivery.key,
                value=delivery.value,
                headers=delivery.headers,
                maybe_seen=delivery.maybe_seen,
            ),
        )

    def _beside(self, task: Task) -> None:
        self.scheduler.start(task, lambda _: None, "beside")

    def _plan_next_wake(self, records_waiting: bool) -> None:
        now = self.world.agenda.now
        moments = []
        if self.scheduler.next_timer is not None:
            moments.append(self.scheduler.next_timer)
        if records_waiting:
            moments.append(now + INTAKE_CHECK_S)
        if not self._commits_outstanding and self._uncommitted():
            moments.append(max(self._next_commit, now))
        if not moments:
            return
        at = min(moments)
        if self._wakes_at is None or self._wakes_at <= now or at < self._wakes_at:
            self._wakes_at = at
            self.world.agenda.at(at, self._timer)

    def _timer(self) -> None:
        if self._wakes_at is not None and self._wakes_at <= self.world.agenda.now:
            self._wakes_at = None
        self.wake()

    def _let_others_run(self) -> None:
        """The rest of the world while this worker drains."""
        self.world.run_one()
        if self.dead:
            raise _Died

    # -- calls -----------------------------------------------------------------------------------

    def _begin(self, job: Job) -> None:
        self._calls[job] = None
        self.world.agenda.after(self._latency(), partial(self._effect, job))

    def _latency(self) -> float:
        return self.rng.choice((0.001, 0.01, self.rng.uniform(0.0, 2.0)))

    def _effect(self, job: Job) -> None:
        """The call does what it does, at one moment."""
        if self.dead:
            if self.rng.random() < 0.5:  # it was on its way when its worker died
                job.run(self.clock)
            return
        phase = self.world.next_step()
        if phase == "before":
            self.die()
            return
        job.run(self.clock)
        if isinstance(job.error, AssertionError):
            raise job.error
        slowness = self.world.take_slowness()
        if phase == "after":
            self.die()
            return
        self.world.agenda.after(self._latency() + slowness, partial(self._answer, job))

    def _answer(self, job: Job) -> None:
        if not self.dead:
            self._calls.pop(job)
            self.scheduler.answered(job)
            self.wake()

    def _publishing_step(self) -> bool:
        if self.dead:
            return self.rng.random() < 0.5
        phase = self.world.next_step()
        if phase is not None:
            self.die()
        return phase != "before"

    # -- partitions ------------------------------------------------------------------------------

    def assign(self, partition: int, generation: int) -> None:
        broker = self.world.broker
        offset, metadata = broker.committed[partition], broker.metadata[partition]
        self.ledger.assigned(Partition(EVENTS, partition), offset, metadata=metadata or None)
        self.generations[partition] = generation
        self.position[partition] = offset
        self.wake()

    def seek(self, partition: int) -> None:
        """Read again from the committed offset, in the same epoch."""
        self.position[partition] = self.world.broker.committed[partition]
        self.wake()

    def revoke(self, partition: int) -> None:
        """Give up in order: drain, fence, last commit."""
        name = Partition(EVENTS, partition)
        tag = (name, self.ledger.epoch(name))
        self.position.pop(partition)
        self._busy = self.draining = True
        try:
            left = self.scheduler.drain([tag], self.clock.monotonic() + REVOKE_DEADLINE_S)
            final = self.ledger.revoked(name)
            for unfinished in left:
                self.scheduler.cancel(unfinished)
            while self.scheduler.step(0):
                pass
            if final is not None:
                self._send(final)
        except _Died:
            return
        finally:
            self._busy = self.draining = False
        self.generations.pop(partition)
        self.wake()

    def lose(self, partition: int) -> None:
        """Somebody else has it already."""
        name = Partition(EVENTS, partition)
        tag = (name, self.ledger.epoch(name))
        self.ledger.lost(name)
        self.scheduler.cancel(tag)
        self.position.pop(partition, None)
        self.generations.pop(partition, None)
        self.wake()

    # -- commits ---------------------------------------------------------------------------------

    def _uncommitted(self) -> bool:
        for partition in self.position:
            view = self.ledger.view(Partition(EVENTS, partition))
            if view is not None and view.committed != view.position:
                return True
        return False

    def _commit_due(self) -> None:
        now = self.world.agenda.now
        if now < self._next_commit or self._commits_outstanding:
            return
        self._next_commit = now + COMMIT_INTERVAL_S
        commits = self.ledger.due()
        for commit in commits:
            self._send(commit)

    def _send(self, commit: Commit) -> None:
        partition = commit.partition.number
        generation = self.generations[partition]
        self._commits_outstanding += 1

        def arrive() -> None:
            faults = self.world.faults
            if faults.down("broker") or faults.hits("commit.refused"):
                accepted = False
            else:
                accepted = self.world.broker.commit(
                    partition, generation, commit.offset, commit.metadata
                ) and not faults.hits("commit.answer_lost")
            self.world.agenda.after(COMMIT_LATENCY_S, partial(answered, accepted))

        def answered(accepted: bool) -> None:
            if self.dead:
                return
            self._commits_outstanding -= 1
            if accepted:
                self.ledger.acknowledged(commit.partition, commit.offset)
            else:
                self.ledger.refused(commit.partition)
                self._next_commit = self.world.agenda.now + COMMIT_INTERVAL_S
            self.wake()

        self.world.agenda.after(COMMIT_LATENCY_S, arrive)

    # -- the end ---------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        return not self.scheduler.running and not self._commits_outstanding

    def waiting_places(self) -> list[str]:
        """Where in the code each unfinished task stands, outermost call first."""
        places = []
        for runs in self.scheduler._roots.values():
            for root in runs:
                for run in (root, *root.children):
                    frames: list[str] = []
                    task: Any = run.task
                    while task is not None and task.gi_frame is not None:
                        frames.append(f"{task.gi_code.co_name}:{task.gi_frame.f_lineno}")
                        task = task.gi_yieldfrom
                    places.append(f"{self.name} {run.state.name} {' > '.join(frames)}")
        return places

    def die(self) -> None:
        """SIGKILL: nothing of what it was doing is finished or cleaned up."""
        self.dead = True
        descriptor, self.workspace._lock_descriptor = self.workspace._lock_descriptor, -1
        os.close(descriptor)
        self.world.worker_died(self)

    def end(self) -> None:
        """Close what a dead worker's tasks hold, so that this process does not leak them; nothing
        of it can be seen from outside."""
        for tag in self.scheduler.tags():
            self.scheduler.cancel(tag)
        while self.scheduler.step(0) or self._calls:
            calls, self._calls = self._calls, {}
            for job in calls:
                self.scheduler.answered(job)
        self.workspace.close()
