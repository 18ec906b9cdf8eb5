"""Everything that the worker needs, on this machine, as real servers and without containers:
Kafka, an S3 store, the extraction service, and workers. What was started is stopped in reverse
order, and nothing is left behind unless a data directory was given.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import urllib3
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from deploy.local.kafka import LocalKafka, start_kafka
from deploy.local.process import ChildProcess, ServerFailed
from deploy.local.s3 import S3Server
from schemas.topics import TopicSettings
from sinks.topics import TopicsUnavailable, ensure_topics

OUTPUT_BUCKET = "bundles-output"
INPUT_BUCKET = "bundles-input"
PARTITIONS = 6
EXTRACTOR_TIMEOUT_S = 60.0
WORKER_TIMEOUT_S = 60.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StackOptions:
    """``data_dir``: kept over restarts; None: a temporary one, removed at the end.
    ``worker_settings``: further ``BUNDLES_...`` environment of the workers."""

    kafka: Literal["auto", "apache", "embedded"] = "auto"
    workers: int = 1
    data_dir: Path | None = None
    extractor: bool = True
    worker_settings: Mapping[str, str] | None = None
    extractor_settings: Mapping[str, str] | None = None


class LocalStack:
    """A context manager, or `start` and `close`. ``say`` hears one line per step.

    Everything is known to `close` before it is started: however `start` ends, `close` stops all of
    it, and may be called again.
    """

    def __init__(self, options: StackOptions, say: Say = lambda _: None) -> None:
        self.options = options
        self._say = say
        self._stack = ExitStack()
        self.workers: list[ChildProcess] = []
        self.kafka: LocalKafka
        self.s3: S3Server
        self.extractor: ChildProcess | None = None
        self.extractor_url = ""
        self.token = ""
        self.data_dir: Path

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything, in reverse order; remove what is not to be kept."""
        self._stack.close()

    # -- what callers use ----------------------------------------------------------------------

    def environment(self) -> dict[str, str]:
        """``BUNDLES_...`` variables with which any of our commands works on this stack."""
        values = {
            "BUNDLES_KAFKA__BOOTSTRAP_SERVERS": self.kafka.bootstrap,
            "BUNDLES_STORE__ENDPOINT": self.s3.endpoint,
            "BUNDLES_STORE__ACCESS_KEY": self.s3.access_key,
            "BUNDLES_STORE__SECRET_KEY": self.s3.secret_key,
            "BUNDLES_STORE__OUTPUT_BUCKET": OUTPUT_BUCKET,
            "BUNDLES_STORE__INPUT_BUCKET": INPUT_BUCKET,
        }
        if self.extractor is not None:
            provider = "BUNDLES_PROVIDERS__SELFHOSTED__"
            values[f"{provider}BASE_URL"] = f"{self.extractor_url}/v1"
            values[f"{provider}TOKEN"] = self.token
            values[f"{provider}ALLOW_PRIVATE_DOWNLOADS"] = "true"
        return values

    def addresses(self) -> dict[str, str]:
        """Where everything is, for people. Secrets are in the settings file only."""
        found = {"kafka": self.kafka.bootstrap, "s3": self.s3.endpoint}
        if self.extractor is not None:
            found["extraction service"] = self.extractor_url
        for number, worker in enumerate(self.workers):
            found[f"worker {number + 1} (metrics, status)"] = self._worker_address(worker)
        return found

    def write_settings(self, file: Path) -> None:
        """The settings as a TOML file (0600) for `bundles --config`, until `close`."""
        tree: dict[str, dict[str, str]] = {}
        for name, value in self.environment().items():
            *sections, leaf = name.removeprefix("BUNDLES_").lower().split("__")
            tree.setdefault(".".join(sections), {})[leaf] = value
        lines = []
        for section, values in tree.items():
            lines.append(f"[{section}]")
            for name, value in values.items():
                text = value if value in ("true", "false") else json.dumps(value)
                lines.append(f"{name} = {text}")
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._stack.callback(file.unlink, missing_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as out:
            out.write("\n".join(lines) + "\n")

    def start_worker(self) -> ChildProcess:
        """One more worker, ready when it has joined its group.

        :raises ServerFailed: with the worker's own last lines.
        """
        number = len(self.workers) + 1
        ready = self.data_dir / f"worker-{number}.ready"
        ready.unlink(missing_ok=True)
        worker = ChildProcess(
            f"worker {number}",
            [sys.executable, "-m", "consumers.cli", "run", "--ready-file", str(ready)],
            log_file=self.data_dir / f"worker-{number}.log",
            env={
                **_clean_environment(),
                **self.environment(),
                "BUNDLES_HTTP__PORT": "0",
                "BUNDLES_TEMP__DIR": str(self.data_dir / "temp"),
                **(self.options.worker_settings or {}),
            },
        )
        self._stack.callback(worker.stop, 30.0)
        worker.start()
        worker.wait_ready(ready.exists, WORKER_TIMEOUT_S)
        self.workers.append(worker)
        return worker

    def wait(self) -> None:
        """For ever, unless one of the processes ends.

        :raises ServerFailed: one did; with its name, exit code and last lines.
        """
        # Servers first: where one of them is gone, the worker's end is only what follows from it.
        processes = [*self.kafka.processes, *self.s3.processes, *self.workers]
        if self.extractor is not None:
            processes.append(self.extractor)
        while all(process.running for process in processes):
            time.sleep(0.5)
        ended = next(process for process in processes if not process.running)
        raise ServerFailed(
            f"{ended.name} ended with exit code {ended.returncode}. "
            f"Its last lines:\n{ended.last_lines()}"
        )

    # -- starting ------------------------------------------------------------------------------

    def start(self) -> None:
        """:raises ServerFailed: one of the servers did not start; with its own last lines."""
        options = self.options
        if options.data_dir is not None:
            self.data_dir = options.data_dir.resolve()
            self.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        else:
            self.data_dir = Path(tempfile.gettempdir(), f"bundles-local-{secrets.token_hex(8)}")
            self._stack.callback(shutil.rmtree, self.data_dir, ignore_errors=True)
            self.data_dir.mkdir(mode=0o700)
        self._say("starting Kafka")
        self.kafka = start_kafka(
            options.kafka,
            data_dir=self.data_dir / "kafka",
            progress=self._say_jars,
            on_made=self._closed_at_the_end,
        )
        self._say(f"Kafka: {self.kafka.description} at {self.kafka.bootstrap}")
        self.s3 = S3Server(data_dir=self.data_dir / "s3")
        self._closed_at_the_end(self.s3)
        self.s3.start()
        self._say(f"S3: {self.s3.description} at {self.s3.endpoint}")
        client = self.s3.client()
        for bucket in (INPUT_BUCKET, OUTPUT_BUCKET):
            if not client.bucket_exists(bucket):
                client.make_bucket(bucket)
        self._make_topics(self.kafka)
        if options.extractor:
            self._start_extractor()
        for _ in range(options.workers):
            worker = self.start_worker()
            self._say(f"{worker.name}: {self._worker_address(worker)}")

    def _closed_at_the_end(self, server: LocalKafka | S3Server) -> None:
        self._stack.callback(server.close)
        if self.options.data_dir is None:  # nothing of it is kept: an orderly stop takes seconds
            self._stack.callback(_kill, server)

    @staticmethod
    def _make_topics(kafka: LocalKafka) -> None:
        client = {"bootstrap.servers": kafka.bootstrap}
        topics = TopicSettings.model_validate({})
        try:
            if kafka.kind == "embedded":  # it makes a topic that is asked about, as it likes
                admin = AdminClient({**client})
                for name in topics.model_dump().values():
                    admin.list_topics(name, timeout=30)
            else:
                ensure_topics(client, topics, partitions=PARTITIONS)
        except (TopicsUnavailable, KafkaException) as error:
            raise ServerFailed(f"the topics cannot be made: {error}") from None

    def _say_jars(self, *progress: object) -> None:
        self._say(" ".join(str(part) for part in progress))

    def _start_extractor(self) -> None:
        self.token = self._kept_token()
        ready = self.data_dir / "extractor.ready"
        ready.unlink(missing_ok=True)
        self.extractor = ChildProcess(
            "extraction service",
            [sys.executable, "-m", "deploy.extractor", "--port", "0", "--ready-file", str(ready)],
            log_file=self.data_dir / "extractor.log",
            env={
                **_clean_environment(),
                "EXTRACTOR_TOKEN": self.token,
                "EXTRACTOR_DATA_DIR": str(self.data_dir / "extractor"),
                **(self.options.extractor_settings or {}),
            },
        )
        self._stack.callback(self.extractor.stop)
        self.extractor.start()
        self.extractor.wait_ready(ready.exists, EXTRACTOR_TIMEOUT_S)
        self.extractor_url = json.loads(ready.read_text())["listening"]
        self._say(f"extraction service: {self.extractor_url}")

    def _kept_token(self) -> str:
        """The token outlives restarts over one data directory: job URLs are signed with it."""
        file = self.data_dir / "extractor.token"
        if not file.exists():
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as out:
                out.write(secrets.token_urlsafe(32))
        return file.read_text().strip()

    def _worker_address(self, worker: ChildProcess) -> str:
        file = self.data_dir / f"{worker.name.replace(' ', '-')}.ready"
        return str(json.loads(file.read_text())["http"])

    def scrape(self, worker: ChildProcess) -> str:
        """A worker's metrics as text."""
        answer = urllib3.request("GET", f"{self._worker_address(worker)}/metrics", timeout=10)
        return answer.data.decode()


def _kill(server: LocalKafka | S3Server) -> None:
    for process in server.processes:
        process.kill()


def _clean_environment() -> dict[str, str]:
    """Settings of the caller's own worker must not leak into the stack's."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("BUNDLES_", "EXTRACTOR_"))}
