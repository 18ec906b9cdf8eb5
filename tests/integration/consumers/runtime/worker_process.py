"""A worker as a process of its own, to be killed, stopped and hung by tests.

``python -m ...worker_process '{"settings": {...}, "mode": "..."}'``

Writes one line per thing that happens: ``owned N``, ``got PARTITION OFFSET``,
``settled COUNT``, ``committed PARTITION OFFSET``, ``uncommitted PARTITION COMMITTED PENDING``.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from consumers.runtime.control import Worker
from consumers.runtime.delivery import Delivery
from consumers.runtime.effects import Perform, Sleep, Task
from consumers.runtime.observer import NullObserver
from consumers.runtime.offsets import Partition
from consumers.runtime.pools import PoolSettings
from consumers.runtime.scheduler import Scheduler
from consumers.runtime.settings import RuntimeSettings
from consumers.runtime.signals import stop_on_signals


def say(*words: object) -> None:
    print(*words, flush=True)


class Teller(NullObserver):
    def __init__(self) -> None:
        self.count = 0

    def partition_assigned(self, partition: Partition, epoch: int, offset: int) -> None:
        say("owned", partition.number)

    def settled(self, partition: Partition) -> None:
        self.count += 1
        say("settled", self.count)

    def committed(self, partition: Partition, offset: int) -> None:
        say("committed", partition.number, offset)

    def uncommitted(self, partition: Partition, committed: int | None, pending: int) -> None:
        say("uncommitted", partition.number, committed, pending)


def hang_here() -> None:
    time.sleep(600)


def work(mode: str, delivery: Delivery) -> Task:
    say("got", delivery.partition, delivery.offset)
    match mode.split(":"):
        case ["sleep", seconds]:
            yield Sleep(float(seconds))
        case ["first_is_slow"]:
            yield Sleep(1000 if delivery.offset == 0 else 0)
        case ["call", seconds]:
            yield Perform("io", lambda: time.sleep(float(seconds)))
        case ["hang_the_loop"]:
            hang_here()
        case _:
            raise ValueError(mode)


def main() -> int:
    given: dict[str, Any] = json.loads(sys.argv[1])
    given["settings"]["topics"] = tuple(given["settings"]["topics"])
    settings = RuntimeSettings(**given["settings"])
    worker = Worker(
        settings,
        lambda delivery: work(given["mode"], delivery),
        Scheduler({"io": PoolSettings(4)}),
        observer=Teller(),
    )
    stop_on_signals(worker.stop)
    return worker.run()


if __name__ == "__main__":
    sys.exit(main())
