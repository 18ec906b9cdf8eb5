"""Members join and leave while every partition has work and back-pressure holds it back."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict
from typing import Any

from deploy.local.process import ChildProcess
from tests.faults.observer import Watch, judge
from tests.faults.stage import Feeder, Servers, Stage, say, stage_on
from tests.pipeline import wait_for

PARTITIONS = 8
STEADY = 2
"""Members that stay from the start to the end."""
BACKLOG = 40
IN_FLIGHT = 5
"""Events of one member before it pauses: the backlog keeps all of them there."""
END_S = 240.0


def rebalance(servers: Servers, *, changes: int, protocol: str) -> dict[str, Any]:
    limits = {
        "group_protocol": protocol,
        "in_flight_high": IN_FLIGHT,
        "in_flight_low": IN_FLIGHT - 2,
    }
    with stage_on(servers, partitions=PARTITIONS, settings_tree={"kafka": limits}) as stage:
        stage.start_service("--run-time", "1.5")
        watch = Watch(stage)
        with watch.running(), Feeder(stage, BACKLOG) as feeder:
            steady = [stage.start_worker() for _ in range(STEADY)]
            codes = _come_and_go(stage, changes)
            feeder.stop()
            last_change = time.monotonic()
            left = stage.backlog()
            say(f"the last change is over, {left} events are left")
            wait_for(
                lambda: stage.backlog() == 0, END_S, "every partition to end", stage.last_lines
            )
            seconds = time.monotonic() - last_change
            paused, in_flight = _at_rest(stage, steady)
            stopped = Counter(_stopped(worker) for worker in steady)
        verdict = asdict(judge(stage, watch))
    return verdict | {
        "changes": changes,
        "group_protocol": protocol,
        "offsets_went_back": watch.went_back,
        "left_at_last_change": left,
        "seconds_to_end": round(seconds, 1),
        "paused_at_end": paused,
        "in_flight_at_end": in_flight,
        "exit_codes": {str(code): count for code, count in (codes + stopped).items()},
    }


def _come_and_go(stage: Stage, changes: int) -> Counter[int]:
    """One member more, one member less, ...; exit codes of those that left."""
    codes: Counter[int] = Counter()
    guests: list[ChildProcess] = []
    for change in range(changes):
        if change % 2 == 0:
            guests.append(stage.start_worker())
            say(f"change {change + 1}/{changes}: {guests[-1].name} joined")
        else:
            guest = guests.pop()
            codes[_stopped(guest)] += 1
            say(f"change {change + 1}/{changes}: {guest.name} left")
        time.sleep(1.0)
    for guest in guests:
        codes[_stopped(guest)] += 1
    return codes


def _stopped(worker: ChildProcess) -> int:
    worker.stop(40)
    assert worker.returncode is not None
    return worker.returncode


def _at_rest(stage: Stage, workers: list[ChildProcess]) -> tuple[float, float]:
    """(paused partitions, events in flight) of all members once nothing is left to do."""

    def total(name: str) -> float:
        found = [stage.metric(worker, name) for worker in workers]
        assert None not in found, "a member does not answer"
        return sum(value for value in found if value is not None)

    def now() -> tuple[float, float]:
        return total("bundles_partitions_paused"), total("bundles_events_in_flight")

    deadline = time.monotonic() + 10  # gauges are a second old
    while now() != (0, 0) and time.monotonic() < deadline:
        time.sleep(0.2)
    return now()
