"""Workers under load and under trouble, so that every series exists, the errors' too."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException

from deploy.local.process import ChildProcess
from tests import pdfs
from tests.faults.stage import Background, Servers, Stage, stage_on
from tests.pipeline import wait_for

DOCUMENTS = 2
BUNDLES_A_TURN = 4
RUN_S = 3.0


@contextmanager
def loaded(servers: Servers) -> Iterator[tuple[Stage, list[ChildProcess]]]:
    """Two workers with jobs in flight all the time; done documents, dead letters, throttled and
    failed calls and a rebalance lie behind them."""
    worker = {"documents": 20, "partition_stuck_after": "300s"}
    with stage_on(servers, settings_tree={"worker": worker}) as stage:
        stage.start_service("--run-time", str(RUN_S), "--lost-rate", "0.1")
        first = stage.start_worker()
        _trouble(stage)
        numbers = itertools.count()

        def turn() -> None:
            number = next(numbers)
            stage.bundles(f"load-{number}", BUNDLES_A_TURN, DOCUMENTS)
            stage.send_raw(b"not an event", key=str(number).encode())

        with Background(turn, 1.0, (KafkaException,)):
            second = stage.start_worker()
            wait_for(
                lambda: all(
                    (stage.metric(w, "bundles_documents_total") or 0) >= 8 for w in (first, second)
                ),
                120,
                "documents to end at both workers",
                stage.last_lines,
            )
            yield stage, [first, second]


def _trouble(stage: Stage) -> None:
    stage.service_fault("submit", kind="status", status=429, headers={"Retry-After": "1"}, times=3)
    stage.service_fault("poll", kind="status", status=500, times=4)
    stage.service_fault("poll", kind="status", status=502, times=6)
    stage.service_fault("image", kind="status", status=500, times=1)
    bad = [stage.upload(pdfs.not_a_pdf("zip")), {"key": "uploads/is-not-there.pdf"}]
    for number in range(4):
        stage.send(stage.event(f"wrong-{number}", bad))
        stage.send_raw(b"not an event", key=str(number).encode())
    stage.bundles("before", 6, DOCUMENTS)
    wait_for(
        lambda: len(stage.dead_letters()) >= 12,
        120,
        "the dead letters",
        stage.last_lines,
    )
