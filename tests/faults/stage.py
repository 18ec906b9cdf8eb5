"""Where the fault runs happen: a pipeline on real servers, its load, its workers, and who restarts
them."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import urllib3
from confluent_kafka import KafkaException, Producer

from deploy.local.kafka import KafkaCluster
from deploy.local.process import LOOPBACK, ChildProcess, free_ports
from deploy.local.s3 import S3Server
from tests import pdfs
from tests.pipeline import TOKEN, Pipeline

PAGES = 2
IMAGES_PER_PAGE = 2
QUICK_POLLING = {
    # A schedule that learns would come to ask once: here jobs must be asked about again and again.
    "strategy": "doubling",
    "first_delay_s": 0.2,
    "multiplier": 1.5,
    "ceiling_s": 1.0,
    "floor_s": 0.1,
}


def say(text: str) -> None:
    """Progress, on stderr: stdout's last line is the result."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@dataclass
class Servers:
    """A Kafka and an S3 store. ``cluster`` and ``server`` where they are ours to stop."""

    bootstrap: str
    endpoint: str
    access_key: str
    secret_key: str
    cluster: KafkaCluster | None = None
    server: S3Server | None = None


@contextmanager
def own_servers() -> Iterator[Servers]:
    """Apache Kafka (one broker) and SeaweedFS, gone afterwards."""
    # Production sessions are long; a round of a crash run need not wait for one.
    short = {"group.min.session.timeout.ms": "1000"}
    with KafkaCluster(1, properties=short) as cluster, S3Server() as server:
        say(f"{cluster.description}; {server.description}")
        yield Servers(
            cluster.bootstrap,
            server.endpoint,
            server.access_key,
            server.secret_key,
            cluster,
            server,
        )


class Stage(Pipeline):
    """A `Pipeline` whose service can forget jobs, whose workers may be doomed, and whose documents
    are all alike: two pages, four images."""

    def start_service(self, *arguments: str) -> ChildProcess:
        """Start it, or start it again on the same port and log."""
        self.provider_kind = "selfhosted"
        if not self.provider_url:
            self.provider_url = f"http://{LOOPBACK}:{free_ports(1)[0]}"
        return self._start_provider(
            [
                *(sys.executable, "-m", "tests.faults.provider", "--token", TOKEN),
                *("--log", str(self.provider_log), "--images-per-page", str(IMAGES_PER_PAGE)),
                *arguments,
            ],
            {},
        )

    def service_fault(self, operation: str, **script: Any) -> None:
        """Script a fault of the running service, see `tests.contract.fakes.infrai.fault_of`."""
        answer = urllib3.request(
            "POST",
            f"{self.provider_url}/_control/faults",
            json=[{"operation": operation, **script}],
            timeout=10,
        )
        assert answer.status == 204

    def start_doomed(self, *arguments: str, wait: bool = True) -> ChildProcess:
        """See `tests.faults.worker` for the arguments."""
        return self.start_worker(*arguments, wait=wait, command=("tests.faults.worker",))

    def bundles(self, prefix: str, count: int, documents: int = 1) -> None:
        """Announce bundles, and return when they stand on Kafka."""
        sources = [self.upload(pdfs.pages(PAGES, seed + 1)) for seed in range(2)]
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "linger.ms": 5})
        for number in range(count):
            picked = [sources[(number + n) % len(sources)] for n in range(documents)]
            event = self.event(f"{prefix}-{number:04d}", picked)
            producer.produce(self.topics.events, json.dumps(event).encode(), event["bundle_id"])
        assert producer.flush(60) == 0

    def backlog(self) -> int:
        """Events that stand on Kafka beyond the committed offsets."""
        committed = self.committed()
        return sum(max(0, end - max(0, committed[p])) for p, end in self.ends().items())

    def metric(self, worker: ChildProcess, name: str) -> float | None:
        """The sum of a metric's samples at a worker; None when it does not answer."""
        page = self.http(worker, "/metrics")
        if page is None:
            return None
        samples = [
            float(line.rpartition(" ")[2])
            for line in page.splitlines()
            if line.split("{")[0].split(" ")[0] == name
        ]
        return sum(samples)


@contextmanager
def stage_on(servers: Servers, **fields: Any) -> Iterator[Stage]:
    """A stage in a temporary folder; workers end in order before it goes."""
    fields.setdefault("policies", {"default": {"polling": QUICK_POLLING}})
    with TemporaryDirectory(prefix="faults-") as folder:
        stage = Stage(
            bootstrap=servers.bootstrap,
            s3_endpoint=servers.endpoint,
            s3_access_key=servers.access_key,
            s3_secret_key=servers.secret_key,
            folder=Path(folder),
            **fields,
        )
        with stage:
            yield stage


class Background:
    """Calls ``turn`` again and again on a thread until the block ends. What it raises is raised at
    the end, but for ``tolerated`` errors: those are what an outage looks like."""

    def __init__(
        self,
        turn: Callable[[], None],
        pause_s: float,
        tolerated: tuple[type[BaseException], ...] = (),
    ) -> None:
        self._turn = turn
        self._pause_s = pause_s
        self._tolerated = tolerated
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stopped.wait(self._pause_s):
            try:
                self._turn()
            except self._tolerated:
                continue
            except BaseException as error:
                self._error = error
                return

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(60)

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._error is not None:
            raise self._error


class Feeder:
    """Keeps a backlog on Kafka: more than the workers can do, so that they are the limit."""

    def __init__(self, stage: Stage, backlog: int) -> None:
        self._stage = stage
        self._backlog = backlog
        self._sent = 0
        sources = [stage.upload(pdfs.pages(PAGES, seed + 1)) for seed in range(2)]
        self._sources = sources
        self._producer = Producer(
            {"bootstrap.servers": stage.bootstrap, "acks": "all", "linger.ms": 5}
        )
        self._running = Background(self._turn, 0.3, (KafkaException, TimeoutError))

    def __enter__(self) -> Feeder:
        self._turn()
        self._running.__enter__()
        return self

    def stop(self) -> None:
        """No more; what was sent stands on Kafka."""
        self._running.stop()
        assert self._producer.flush(120) == 0

    def __exit__(self, *error: object) -> None:
        self._running.__exit__(*error)

    def _turn(self) -> None:
        stage = self._stage
        missing = self._backlog - stage.backlog() - len(self._producer)
        for _ in range(max(0, missing)):
            source = self._sources[self._sent % len(self._sources)]
            event = stage.event(f"fed-{self._sent:05d}", [source])
            self._producer.produce(
                stage.topics.events, json.dumps(event).encode(), event["bundle_id"]
            )
            self._sent += 1
        self._producer.flush(5)


class Supervisor:
    """Keeps so many workers running, as an orchestrator would. A worker that ended by itself is
    counted with its exit code."""

    def __init__(self, stage: Stage, workers: int) -> None:
        self._stage = stage
        self._wanted = workers
        self.running: list[ChildProcess] = []
        self.exits: list[int] = []
        """Codes of those that ended without being told to (negative: by that signal)."""
        self._background = Background(self._turn, 0.2)

    def __enter__(self) -> Supervisor:
        for _ in range(self._wanted):
            self.running.append(self._stage.start_worker())
        self._background.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._background.__exit__(*error)

    def _turn(self) -> None:
        for number, worker in enumerate(self.running):
            code = worker.returncode
            if code is not None:
                self.exits.append(code)
                say(f"{worker.name} ended with {code}; another one starts")
                self.running[number] = self._stage.start_worker(wait=False)
