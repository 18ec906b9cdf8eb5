"""Workers that die by SIGKILL: at every boundary, at random, and under load."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from deploy.local.process import ChildProcess
from schemas.results import DOCUMENT_RESULT_TYPE
from tests.faults.boundaries import EACH_ONCE
from tests.faults.observer import Verdict, Watch, judge
from tests.faults.stage import Feeder, Servers, Stage, Supervisor, say, stage_on
from tests.faults.throughput import seconds_to_full
from tests.pipeline import wait_for

RANDOM = "random"
BUNDLES_PER_ROUND = 2
DOCUMENTS_PER_BUNDLE = 2
ROUND_S = 120.0
END_S = 180.0


def plan(rounds: int, seed: int) -> list[str]:
    """Every boundary before any comes again, then two deaths at random, and so on; shuffled."""
    cycle = [*EACH_ONCE, RANDOM, RANDOM]
    whole = [cycle[n % len(cycle)] for n in range(rounds)]
    random.Random(seed).shuffle(whole)
    return whole


def crash(
    servers: Servers, *, rounds: int, lanes: int, session_s: float, seed: int, kills: int
) -> dict[str, Any]:
    """``lanes`` pipelines side by side share the rounds: most of a round is waiting for Kafka to
    notice that a member is dead (``session_s``)."""
    places = plan(rounds, seed)
    with ThreadPoolExecutor(lanes) as pool:
        shares = [places[lane::lanes] for lane in range(lanes)]
        running = [
            pool.submit(_lane, servers, lane, share, session_s, seed)
            for lane, share in enumerate(shares)
            if share
        ]
        ended = [one.result() for one in running]
    verdicts = [verdict for verdict, _ in ended]
    recoveries = _kills_under_load(servers, kills) if kills else []
    missed = Counter(str(place) for _, places_missed in ended for place in places_missed)
    reached = Counter(str(place) for place in places) - missed
    return _summed(verdicts) | {
        "rounds": rounds,
        # Not once in the whole run: on a busy machine a job may end before its third poll.
        "boundaries_not_reached": sorted(set(missed) - set(reached)),
        "seconds_to_full_throughput": _worst(recoveries),
        "recoveries": recoveries,
    }


def _summed(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for verdict in verdicts:
        for name, number in asdict(verdict).items():
            total[name] = total.get(name, 0) + number
    return total


def _worst(recoveries: Sequence[float | None]) -> float | None:
    known = [seconds for seconds in recoveries if seconds is not None]
    return max(known) if known and len(known) == len(recoveries) else None


def _lane(
    servers: Servers, lane: int, places: Sequence[str], session_s: float, seed: int
) -> tuple[Verdict, list[str]]:
    missed = []
    chance = random.Random(seed * 1000 + lane)
    client = {
        "session.timeout.ms": str(int(session_s * 1000)),
        "heartbeat.interval.ms": str(int(session_s * 250)),
    }
    with stage_on(servers, settings_tree={"kafka": {"client": client}}) as stage:
        stage.start_service("--run-time", "1.0")
        watch = Watch(stage)
        with watch.running():
            for number, place in enumerate(places):
                stage.bundles(f"round-{number:03d}", BUNDLES_PER_ROUND, DOCUMENTS_PER_BUNDLE)
                started = time.monotonic()
                reached = die_at(stage, place, chance)
                watch.look_at_manifests()
                took = time.monotonic() - started
                say(
                    f"lane {lane} round {number + 1}/{len(places)}: {place} "
                    f"{'died' if reached else 'NOT REACHED'} after {took:.1f} s"
                )
                if not reached:
                    missed.append(place)
            worker = stage.start_worker()
            stage.wait_all_committed(END_S)
            worker.stop(40)
        watch.look_at_manifests()
        verdict = judge(stage, watch)
        assert watch.went_back == 0, "a committed offset went down"
        left = list((stage.folder / "temp").glob("worker-*"))
        assert not left, "temporary files of killed workers were left"
        return verdict, missed


def die_at(stage: Stage, place: str, chance: random.Random) -> bool:
    """A worker that dies at ``place``. False: it did not, and was killed."""
    if place == RANDOM:
        worker = stage.start_worker()
        time.sleep(chance.uniform(0.0, 4.0))
        worker.kill()
        return True
    worker = stage.start_doomed("--die-at", place, wait=False)
    return _dies(worker)


def _dies(worker: ChildProcess) -> bool:
    deadline = time.monotonic() + ROUND_S
    while worker.running and time.monotonic() < deadline:
        time.sleep(0.05)
    if worker.running:
        worker.kill()
        return False
    assert worker.returncode == -9, f"ended with {worker.returncode}\n{worker.last_lines()}"
    return True


# -- under load --------------------------------------------------------------------------------


def _kills_under_load(servers: Servers, kills: int) -> list[float | None]:
    """Seconds to full throughput of each kill: two workers, one is killed and replaced at once."""
    moments: list[tuple[float, float]] = []
    limits = {"kafka": {"in_flight_high": 5, "in_flight_low": 4}}
    with stage_on(
        servers,
        settings_tree=limits,
        topic_config={"results": {"message.timestamp.type": "LogAppendTime"}},
    ) as stage:
        stage.start_service("--run-time", "2.0")
        with Feeder(stage, backlog=60) as feeder, Supervisor(stage, 2) as supervisor:
            for number in range(kills):
                time.sleep(20)
                killed_at = time.time()
                victim = supervisor.running[number % 2]
                victim.kill()
                moments.append((killed_at - 15, killed_at))
                say(f"{victim.name} killed under load")
                time.sleep(30)
            feeder.stop()
            wait_for(lambda: stage.backlog() == 0, END_S, "the rest", stage.last_lines)
        ends = completions(stage)
        found = judge(stage)
    assert (found.lost, found.dead_letters, found.jobs_resubmitted) == (0, 0, 0), found
    return [seconds_to_full(ends, before, before[1], horizon_s=28) for before in moments]


def completions(stage: Stage) -> list[float]:
    """When the broker took each document's first result (Unix seconds)."""
    first: dict[str, float] = {}
    for result in stage.results(DOCUMENT_RESULT_TYPE):
        first.setdefault(result.identifier, result.at)
    return sorted(first.values())
