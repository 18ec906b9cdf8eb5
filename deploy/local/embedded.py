"""librdkafka's built-in broker in a process of its own: the fallback without Java and jars.

It speaks enough of the protocol for producers, consumers and groups, needs no download and is
ready in a moment. It is *not* Kafka: topics appear by themselves with 4 partitions and cannot be
created, nothing is kept on disk, and a partition's log is silently cut above 5 MiB or 100,000
messages. Good for a first look; nothing that must not be lost may depend on it.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from deploy.local.process import ChildProcess

_START_TIMEOUT = 60.0
_READY = re.compile(r"^bootstrap=(\S+)$", re.MULTILINE)


class EmbeddedKafka:
    """The built-in broker as a child process; the same verbs as `KafkaCluster` where they make
    sense. There is one process for all brokers, so they cannot be killed one by one."""

    kind: Literal["embedded"] = "embedded"

    def __init__(self, brokers: int = 1, *, reason: str = "asked for") -> None:
        self._count = brokers
        self._reason = reason
        self._bootstrap = ""
        self._folder = tempfile.TemporaryDirectory(prefix="embedded-kafka-")
        self._log_file = Path(self._folder.name) / "broker.log"
        self._process = ChildProcess(
            "Embedded Kafka",
            [sys.executable, "-m", "deploy.local.embedded", "--brokers", str(brokers)],
            log_file=self._log_file,
            cwd=Path(__file__).parents[2],  # where the package `deploy` is found
        )

    @property
    def description(self) -> str:
        return (
            f"librdkafka's built-in broker, not Apache Kafka ({self._reason}): "
            "nothing is kept, topics have 4 partitions"
        )

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(range(1, self._count + 1))

    @property
    def processes(self) -> tuple[ChildProcess, ...]:
        return (self._process,)

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> Self:
        try:
            self._process.start()
            self._process.wait_ready(self._read_bootstrap, _START_TIMEOUT)
        except BaseException:
            self.close()
            raise
        return self

    def kill(self) -> None:
        """All brokers and all data are gone at once."""
        self._process.kill()

    def last_lines(self, count: int = 20) -> str:
        return self._process.last_lines(count)

    def close(self) -> None:
        self._process.kill()  # it has nothing to save
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self if self._process.running else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _read_bootstrap(self) -> bool:
        match = _READY.search(self._process.last_lines())
        if match is not None:
            self._bootstrap = match.group(1)
        return match is not None


def main() -> None:
    """The child process: hold the broker until told to end."""
    from confluent_kafka import Producer

    parser = argparse.ArgumentParser(prog="python -m deploy.local.embedded")
    parser.add_argument("--brokers", type=int, default=1)
    brokers = parser.parse_args().brokers
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    signal.signal(signal.SIGINT, lambda *_: ended.set())
    # The cluster lives inside this client, as long as the client does.
    host = Producer({"bootstrap.servers": "", "test.mock.num.brokers": brokers, "log_level": 3})
    known = host.list_topics(timeout=30).brokers.values()
    print("bootstrap=" + ",".join(f"{broker.host}:{broker.port}" for broker in known), flush=True)
    ended.wait()


if __name__ == "__main__":
    main()
