"""Kafka, the store and the service go away under load and come back: in turn, then together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.faults.crash import completions
from tests.faults.observer import Watch, judge
from tests.faults.stage import Feeder, Servers, Stage, Supervisor, say, stage_on
from tests.faults.throughput import seconds_to_full
from tests.pipeline import wait_for

ALL = ("broker", "store", "service")
WORKERS = 2
IN_FLIGHT = 5
RUN_TIME = ("--run-time", "2.0")
END_S = 240.0


@dataclass(frozen=True, slots=True)
class Outage:
    """Unix seconds."""

    what: str
    began: float
    restored: float
    """When the last of the servers was ready again."""


def outage(
    servers: Servers,
    *,
    seconds: float,
    only: Sequence[str] = (),
    before_s: float = 15.0,
    after_s: float = 30.0,
) -> dict[str, Any]:
    """``only``: some of ``broker``, ``store``, ``service``, ``all``; empty: each of them.
    ``before_s`` of undisturbed work is what ``after_s`` of work after each outage is compared with.

    :raises SystemExit: the servers are not ours to stop.
    """
    if servers.cluster is None or servers.server is None:
        raise SystemExit("outage stops servers, so it must start its own: leave the addresses out")
    turns = [(what, (what,)) for what in ALL] + [("all", ALL)]
    chosen = [turn for turn in turns if not only or turn[0] in only]
    limits = {"kafka": {"in_flight_high": IN_FLIGHT, "in_flight_low": IN_FLIGHT - 1}}
    outages: list[Outage] = []
    with stage_on(
        servers,
        settings_tree=limits,
        topic_config={"results": {"message.timestamp.type": "LogAppendTime"}},
    ) as stage:
        stage.start_service(*RUN_TIME)
        watch = Watch(stage)
        with (
            watch.running(),
            Feeder(stage, backlog=60) as feeder,
            Supervisor(stage, WORKERS) as workers,
        ):
            time.sleep(5)
            for name, parts in chosen:
                time.sleep(before_s)
                outages.append(_one(stage, servers, name, parts, seconds))
                time.sleep(after_s)
            feeder.stop()
            wait_for(lambda: stage.backlog() == 0, END_S, "the rest", stage.last_lines)
        ends = completions(stage)
        verdict = asdict(judge(stage, watch))
    recoveries = {
        each.what: seconds_to_full(
            ends, (each.began - before_s, each.began), each.restored, horizon_s=after_s
        )
        for each in outages
    }
    known = [found for found in recoveries.values() if found is not None]
    verdict["dead_letters_caused"] = verdict.pop("dead_letters")
    return verdict | {
        "outage_seconds": seconds,
        "offsets_went_back": watch.went_back,
        "worker_exits": {str(code): n for code, n in Counter(workers.exits).items()},
        "recoveries": recoveries,
        "seconds_to_recover": max(known) if len(known) == len(recoveries) else None,
    }


def _one(stage: Stage, servers: Servers, name: str, parts: Sequence[str], seconds: float) -> Outage:
    assert servers.cluster is not None
    assert servers.server is not None
    assert stage.provider is not None
    say(f"outage of {name}")
    began = time.time()
    if "broker" in parts:
        servers.cluster.kill(1)
    if "store" in parts:
        servers.server.kill()
    if "service" in parts:
        stage.provider.kill()
    time.sleep(max(0.0, began + seconds - time.time()))
    if "service" in parts:
        stage.start_service(*RUN_TIME)
    if "store" in parts:
        servers.server.restart()
    if "broker" in parts:
        servers.cluster.start_again(1)
    restored = time.time()
    say(f"{name} is back after {restored - began:.1f} s")
    return Outage(name, began, restored)
