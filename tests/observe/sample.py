"""Status pages of made-up workers, so that every part of the page is there, at its widest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from prometheus_client import CollectorRegistry

from consumers.health import Check, HealthServer
from consumers.stages import CAUSES
from consumers.status_page import Health, status_page
from consumers.status_report import (
    CauseRow,
    DeadLetterRow,
    DependencyRow,
    DocumentRow,
    JobRow,
    JobStateRow,
    LimitRow,
    PartitionRow,
    PoolRow,
    ReasonRow,
    Report,
)
from schemas.reasons import Reason

TOPIC = "bundles.events.v1"
ID = "3fa85f64-5717-5562-b3fc-2c963f66af{:02d}"


def idle(now: float) -> Report:
    return Report(
        taken_at=now,
        worker="20b0a47becba",
        host="worker-7d9c5b6f4-x2x9q",
        pid=7,
        version="1.2.3",
        python="3.11.7",
        started_at=now - 90_000,
        state="running",
        group="bundle-extractor",
        intake_stopped=(),
        storm=False,
        assignments=3,
        events_in_flight=0,
        documents_in_progress=0,
        oldest_uncommitted_seconds=0.0,
    )


def busy(now: float) -> Report:
    partitions = tuple(
        PartitionRow(
            TOPIC,
            n,
            1_234_567,
            7265.0,
            1400,
            3700.0,
            9_999,
            None if n else 10**9,
            10**9,
            n / 4,
            "in_flight" if n % 2 else None,
        )
        for n in range(5)
    )
    jobs = (
        JobRow("selfhosted", "running", 7201.5, 123, 7.9),
        JobRow("aws-lambda", "waiting_for_slot", 65.0, 0, None),
    )
    documents = tuple(
        DocumentRow(
            ID.format(n) if n % 3 else None,
            "clean_up",
            CAUSES[n % len(CAUSES)],
            86_500.0,
            200_000.0,
            12,
            jobs[: n % 3],
        )
        for n in range(40)
    )
    breakers = ("closed", "open", "half_open")
    return replace(
        idle(now),
        intake_stopped=("breaker of service", "temporary disk full", "dead-letter storm"),
        storm=True,
        events_in_flight=2000,
        documents_in_progress=12_345,
        oldest_uncommitted_seconds=7265.0,
        partitions=partitions,
        causes=tuple(CauseRow(cause, 1000 + n, 86_400.0 * n) for n, cause in enumerate(CAUSES)),
        job_states=(JobStateRow("selfhosted", "waiting_for_slot", 12_345, 7201.0),),
        documents=documents,
        dependencies=tuple(
            DependencyRow(name, breakers[n % 3], 120, 4000.0 * n, 599.0 * n, 12_345, 3.0, 100.0)
            for n, name in enumerate(("store", "source", "sandbox", "selfhosted-download"))
        ),
        limits=(
            LimitRow("events", "", 2000, 2000),
            LimitRow("documents", "", 60, 64, 12_000),
            LimitRow("jobs", "a-provider-with-a-name-as-long-as-it-may", 200, 200, 12_345),
            LimitRow("temp_bytes", "", 4.2e9, 4.3e9),
        ),
        pools=(PoolRow("download", 8, 8, 12_345, 301.0),),
        reasons=tuple(ReasonRow(reason.value, 12_345, reason.meaning) for reason in Reason),
        dead_letters=tuple(
            DeadLetterRow(now - n, Reason.IMAGE_TYPE_NOT_ALLOWED.value, "clean_up", ID.format(n))
            for n in range(20)
        ),
    )


@contextmanager
def serving(state: str) -> Iterator[str]:
    """The URL of the status page of a worker that is ``busy``, ``idle`` or ``hangs``."""
    now = time.time()
    report = busy(now) if state != "idle" else idle(now)
    health = Health(live=True, ready=state == "idle", reason="", loop_age_seconds=0.1)
    if state == "busy":
        health = replace(health, reason="waiting for service, selfhosted-download")
    if state == "hangs":
        reason = "the control loop has not gone round for 75 s"
        health = Health(live=False, ready=False, reason=reason, loop_age_seconds=75.0)
        report = replace(report, taken_at=now - 75)
    server = HealthServer(
        "127.0.0.1",
        0,
        registry=CollectorRegistry(),
        live=lambda: Check(ok=True),
        ready=lambda: Check(ok=True),
        pages={"/status": lambda request: status_page(request, report, health, now=time.time())},
    )
    try:
        yield f"{server.address}/status?refresh=0"
    finally:
        server.close()
