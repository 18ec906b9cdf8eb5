"""Runs one scenario from its first event until everything is quiet, then judges it."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from consumers.extraction.sandbox.errors import SandboxUnavailable
from consumers.metrics import Metrics
from consumers.runtime.effects import Message
from tests.simulation.agenda import Agenda
from tests.simulation.faults import Faults
from tests.simulation.kafka import Broker, Output
from tests.simulation.scenario import (
    INPUT_BUCKET,
    OUTPUT_BUCKET,
    EventPlan,
    KillPhase,
    Move,
    Scenario,
    make_document,
)
from tests.simulation.service import Service
from tests.simulation.verdicts import Judge
from tests.simulation.worker import SimWorker
from tests.store_fakes import FaultScript, FaultyStore, StoreFault

MAX_VIRTUAL_S = 6 * 3600.0
MAX_ACTIONS = 60_000
HELD_BACK_S = 1200.0


class Violated(AssertionError):
    """An invariant does not hold."""


@dataclass
class Report:
    """What a run came to. Empty ``violations``: every invariant held."""

    seed: int
    violations: list[str] = field(default_factory=list)
    virtual_s: float = 0.0
    actions: int = 0
    documents: int = 0
    extracted: int = 0
    dead_letters: int = 0
    jobs: int = 0
    kills: int = 0
    faults: int = 0


class World:
    def __init__(
        self,
        scenario: Scenario,
        *,
        metrics: Metrics,
        root: Path,
        trace: Callable[[str], None] | None = None,
        on_journal: Callable[[Message], None] = lambda message: None,
    ) -> None:
        self.scenario = scenario
        self.metrics = metrics
        self.root = root
        self.trace = trace
        self.on_journal = on_journal
        self.agenda = Agenda()
        seed = scenario.seed
        self.rng = random.Random(f"world-{seed}")
        self.faults = Faults(
            self.agenda,
            random.Random(f"faults-{seed}"),
            scenario.rates,
            scenario.faults_until,
            scenario.outages,
        )
        self.service = Service(
            self.agenda, self.faults, random.Random(f"service-{seed}"), scenario.service
        )
        self.store = self._store("store")
        self.sources = self._store("source")
        self.broker = Broker(self.agenda, [[] for _ in range(scenario.partitions)])
        self.judge = Judge(self)
        self.broker.on_output = self._output
        self.broker.before_commit = self.judge.before_commit
        self.workers: list[SimWorker] = []
        self.dead: list[SimWorker] = []
        self.owners: list[SimWorker | None] = [None] * scenario.partitions
        self.plans: dict[tuple[int, int], EventPlan] = {}
        self._names = 0
        self._steps = 0
        self._kills: dict[int, KillPhase] = {kill.step: kill.phase for kill in scenario.kills}
        self._slowness = 0.0
        self._to_append = 0
        self._violation: Violated | None = None
        self._afterwards = False

    def _store(self, name: str) -> FaultyStore:
        kinds = [(f"{name}.{fault.name}", fault) for fault in StoreFault]
        if not self.faults.scripted:
            kinds = [kind for kind in kinds if kind[0] in self.faults.rates]

        def decide(operation: str, bucket: str, key: str) -> StoreFault | None:
            if self.faults.down(name):
                return StoreFault.UNAVAILABLE_503
            return next((fault for kind, fault in kinds if self.faults.hits(kind)), None)

        store = FaultyStore(sleep=self._slow)
        store.ensure_bucket(OUTPUT_BUCKET if name == "store" else INPUT_BUCKET)
        store.script = FaultScript(decide)
        return store

    # -- running -------------------------------------------------------------------------------

    def run(self) -> None:
        """:raises Violated: an invariant does not hold."""
        scenario = self.scenario
        for _ in range(scenario.workers):
            self._join()
        for partition in range(scenario.partitions):
            self._give(partition)
        for event in scenario.events:
            self.announce(event)
        self.agenda.at(scenario.faults_until, lambda: None)
        for move in scenario.moves:
            self.agenda.at(move.at, lambda move=move: self._move(move))  # type: ignore[misc]
        self._run_until_quiet()
        # Is everything still alive? One more event on each partition must go through.
        self._afterwards = True
        rng = random.Random(f"afterwards-{scenario.seed}")
        for partition in range(scenario.partitions):
            name = f"afterwards-{partition}"
            event = EventPlan(self.agenda.now + 1.0, partition, name, (make_document(rng, name),))
            self.announce(event)
        self._run_until_quiet()
        for worker in (*self.workers, *self.dead):
            if worker.dead:
                worker.end()
        self.judge.at_the_end()

    def _run_until_quiet(self) -> None:
        while not self._quiet():
            if self.agenda.next_at is None:
                waiting = "; ".join(place for w in self.workers for place in w.waiting_places())
                self.violated(f"nothing more would ever happen, and tasks wait: {waiting}")
            self.run_one()

    def _quiet(self) -> bool:
        if self._held_back_for_good():
            return True
        return (
            not self._to_append
            and self.agenda.now >= self.faults.until
            and self.broker.all_committed
            and all(worker.idle for worker in self.workers)
        )

    def _held_back_for_good(self) -> bool:
        """What is left are documents that a storm holds back: only a success elsewhere ends it, and
        that comes with the events afterwards."""
        return (
            self.agenda.now > self.faults.until + HELD_BACK_S
            and not self._afterwards
            and any(worker.services.storm.on for worker in self.workers)
        )

    def run_one(self) -> None:
        self.agenda.run_next()
        if self._violation is not None:
            raise self._violation
        if self.agenda.ran > MAX_ACTIONS:
            self.violated(f"still busy after {MAX_ACTIONS} actions")
        if self.agenda.now > MAX_VIRTUAL_S:
            self.violated(f"not done after {MAX_VIRTUAL_S:.0f} virtual seconds")

    def violated(self, text: str) -> None:
        """:raises Violated: also once more from the main loop, should a task swallow it."""
        if self._violation is None:
            self._violation = Violated(
                f"seed {self.scenario.seed} at {self.agenda.now:.3f} s: {text}"
            )
        raise self._violation

    # -- events --------------------------------------------------------------------------------

    def announce(self, event: EventPlan, headers: tuple[tuple[str, bytes], ...] = ()) -> None:
        for document in event.documents:
            for segment in document.segments:
                if segment.source.body is not None:
                    self.sources._store(
                        "put", INPUT_BUCKET, segment.source.key, segment.source.body, ""
                    )
        self._to_append += 1

        def append() -> None:
            self._to_append -= 1
            log = self.broker.partitions[event.partition]
            self.plans[event.partition, len(log)] = event
            self.broker.append(event.partition, event.bundle_id.encode(), event.value(), headers)
            owner = self.owners[event.partition]
            for worker in self.workers:
                if worker is owner or event.partition in worker.position:
                    worker.wake()

        self.agenda.at(event.at, append)

    def _output(self, output: Output) -> None:
        self.judge.on_output(output)
        if self.trace is not None:
            self.trace(
                f"{self.agenda.now:9.3f} {output.worker:4} KAFKA {output.message.topic} "
                f"{(output.message.value or b'')[:300]!r} "
                f"{[h for h in output.message.headers if 'reason' in h[0] or 'code' in h[0]]}"
            )

    # -- members -------------------------------------------------------------------------------

    def _join(self) -> SimWorker:
        self._names += 1
        worker = SimWorker(self, f"w{self._names}")
        self.workers.append(worker)
        return worker

    def _give(self, partition: int) -> None:
        """To one of the members, under a new generation."""
        if not self.workers:
            self.owners[partition] = None
            return
        before = self.owners[partition]
        others = [worker for worker in self.workers if worker is not before] or self.workers
        worker = self.rng.choice(others)
        if partition in worker.generations:
            worker.lose(partition)
        self.broker.generation[partition] += 1
        self.owners[partition] = worker
        worker.assign(partition, self.broker.generation[partition])

    def _move(self, move: Move) -> None:
        partition = move.partition
        owner = self.owners[partition]
        if any(worker.draining for worker in self.workers):
            self.agenda.after(1.0, lambda: self._move(move))
            return
        if owner is None or owner.dead or partition not in owner.position:
            return
        match move.kind:
            case "seek":
                owner.seek(partition)
            case "bounce":
                owner.lose(partition)
                self.broker.generation[partition] += 1
                owner.assign(partition, self.broker.generation[partition])
            case "lost":
                generation = owner.generations[partition]
                self._give(partition)
                self.agenda.after(
                    self.rng.uniform(0.0, 30.0), lambda: self._tell(owner, partition, generation)
                )
            case "revoke":
                owner.revoke(partition)
                self.owners[partition] = None
                self.agenda.after(0.1, lambda: self._give(partition))

    def _tell(self, worker: SimWorker, partition: int, generation: int) -> None:
        """A zombie hears that its partition is somebody else's."""
        if worker.draining:
            self.agenda.after(1.0, lambda: self._tell(worker, partition, generation))
        elif not worker.dead and worker.generations.get(partition) == generation:
            worker.lose(partition)

    def worker_died(self, worker: SimWorker) -> None:
        self._note(f"{worker.name} KILLED")
        self.workers.remove(worker)
        self.dead.append(worker)
        self.agenda.after(self.rng.uniform(1.0, 60.0), self._replace)
        self.agenda.after(self.rng.uniform(5.0, 45.0), self._reassign)

    def _replace(self) -> None:
        self._join()
        self._reassign()

    def _reassign(self) -> None:
        for partition, owner in enumerate(self.owners):
            if owner is None or owner.dead:
                self._give(partition)

    # -- faults of calls -----------------------------------------------------------------------

    def next_step(self) -> KillPhase | None:
        """Counts a remote call or publish, and says whether its worker dies of it."""
        self._steps += 1
        return self._kills.pop(self._steps, None)

    def sandbox_trouble(self, operation: str) -> None:
        if self.faults.down("sandbox") or self.faults.hits("sandbox.unavailable"):
            raise SandboxUnavailable("processes cannot be forked")
        if self.faults.hits("sandbox.disk_full"):
            raise OSError(28, "No space left on device")

    def _slow(self, seconds: float) -> None:
        self._slowness += seconds

    def take_slowness(self) -> float:
        slowness, self._slowness = self._slowness, 0.0
        return slowness

    # -- telling -------------------------------------------------------------------------------

    def journal_line(self, worker: SimWorker, message: Message) -> None:
        if worker.dead:
            return
        self.judge.on_journal(worker, message)
        self.on_journal(message)
        if self.trace is not None:
            self.trace(f"{self.agenda.now:9.3f} {worker.name:4} {(message.value or b'').decode()}")

    def _note(self, text: str) -> None:
        if self.trace is not None:
            self.trace(f"{self.agenda.now:9.3f} {text}")

    def report(self) -> Report:
        return Report(
            seed=self.scenario.seed,
            virtual_s=round(self.agenda.now, 3),
            actions=self.agenda.ran,
            documents=sum(len(event.documents) for event in self.scenario.events),
            extracted=len(self.judge.results),
            dead_letters=len(self.judge.dead_letters),
            jobs=len(self.service.jobs),
            kills=len(self.dead),
            faults=sum(self.faults.counted.values()),
        )


class Simulator:
    """Runs scenarios one after the other in one temporary directory, with one set of metrics."""

    def __init__(self) -> None:
        shared = Path("/dev/shm")
        self._root = Path(
            tempfile.mkdtemp(prefix="simulation-", dir=shared if shared.is_dir() else None)
        )
        self.metrics = Metrics()

    def __enter__(self) -> Simulator:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    def run(
        self,
        scenario: Scenario,
        *,
        trace: Callable[[str], None] | None = None,
        on_journal: Callable[[Message], None] = lambda message: None,
        prepare: Callable[[World], None] = lambda world: None,
    ) -> World:
        """The world after it came to rest.

        :raises Violated: an invariant does not hold.
        """
        world = World(
            scenario, metrics=self.metrics, root=self._root, trace=trace, on_journal=on_journal
        )
        prepare(world)
        try:
            world.run()
        finally:
            for worker in (*world.workers, *world.dead):
                worker.end()
            for directory in self._root.glob("*"):
                if directory.is_dir():
                    shutil.rmtree(directory, ignore_errors=True)
                else:
                    directory.unlink(missing_ok=True)
        return world
