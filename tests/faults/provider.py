"""An extraction service as a process of its own, with the contract of the self-hosted one (it can
forget jobs) and a log of what it accepted that survives `kill -9`.

    python -m tests.faults.provider --log jobs.jsonl [--port N] [--run-time 1.0]

Prints one JSON line with its address. ``POST /_control/faults`` scripts faults at run time.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.contract.fakes.infrai import fault_of
from tests.contract.fakes.selfhosted import FakeSelfHosted
from tests.contract.fakes.server import Reply, Request


class FaultyService(FakeSelfHosted):
    """``lost_rate``: share of submits that are done and never answered."""

    def __init__(self, *, lost_rate: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self._lost_rate = lost_rate
        self._random = random.Random(1)

    def answer(self, operation: str, request: Request) -> Reply:
        reply = super().answer(operation, request)
        if operation == "submit" and self._random.random() < self._lost_rate:
            return replace(reply, delivery="reset")
        return reply


def main() -> None:
    parser = argparse.ArgumentParser(description="A stand-in for an extraction service.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--run-time", type=float, default=1.0, help="seconds a job runs")
    parser.add_argument("--run-time-per-page", type=float, default=0.0)
    parser.add_argument("--images-per-page", type=int, default=2)
    parser.add_argument("--lost-rate", type=float, default=0.0)
    parser.add_argument("--fault", action="append", default=[], help="JSON, see fault_of")
    given = parser.parse_args()
    service = FaultyService(
        lost_rate=given.lost_rate,
        token=given.token,
        port=given.port,
        run_seconds=given.run_time,
        run_seconds_per_page=given.run_time_per_page,
        images_per_page=given.images_per_page,
        log=given.log,
    )
    service.record_requests = False
    for text in given.fault:
        script = json.loads(text)
        service.misbehave(script["operation"], fault_of(script))
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    service.start()
    sys.stdout.write(json.dumps({"listening": service.base_url}) + "\n")
    sys.stdout.flush()
    stopped.wait()
    service.stop()


if __name__ == "__main__":
    main()
