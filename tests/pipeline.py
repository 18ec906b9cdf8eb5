"""A whole pipeline to test against: topics and buckets of its own on real servers, a provider, and
workers as processes of their own. Used by the integration tests, the fault suite and benchmarks.

Everything that it says was done is read from Kafka, S3 and the provider's own log, never asked of a
worker.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import urllib3
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Record
from confluent_kafka.admin import AdminClient

from consumers.client import Announcement, BundleClient
from consumers.settings import Settings, load
from consumers.stores import open_store
from deploy.demo.count import Count, count, read_topic
from deploy.local.process import ChildProcess
from schemas import topics as names
from schemas.topics import TopicSettings
from sinks.objectstore import S3Store
from tests.servers import create_topic, unique_name

TOKEN = "fake-token"
READY_S = 90.0
COORDINATOR_TRIES = 150
COORDINATOR_MOVES = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
"""For a moment after a group is first heard of, or its coordinator has moved."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    key: bytes | None
    value: bytes
    headers: dict[str, str]

    @property
    def reason(self) -> str:
        return self.headers[names.DLQ_REASON]


@dataclass(frozen=True, slots=True)
class Published:
    """A record of the results topic."""

    headers: dict[str, str]
    body: bytes
    at: float
    """The record's timestamp, Unix seconds: the producer's, or the broker's if so configured."""

    @property
    def identifier(self) -> str:
        return self.headers[names.CE_ID]

    @property
    def data(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed


@dataclass
class Pipeline:
    """Not started: give it a Kafka, a store and a folder, then use it in a ``with``.

    ``policies``: TOML-like settings below ``policies`` (``{"default": {...}}``).
    """

    bootstrap: str
    s3_endpoint: str
    s3_access_key: str
    s3_secret_key: str = field(repr=False)
    folder: Path
    partitions: int = 4
    policies: Mapping[str, Any] = field(default_factory=dict)
    settings_tree: Mapping[str, Any] = field(default_factory=dict)
    """Further settings by section, as in the TOML file."""
    topic_config: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Per role (``events``, ``results``, ``dead_letters``, ``ledger``)."""

    def __post_init__(self) -> None:
        self._stack = ExitStack()
        self.workers: list[ChildProcess] = []
        suffix = unique_name("p")
        self.group = f"group-{suffix}"
        self.topics = TopicSettings(
            events=f"events-{suffix}",
            results=f"results-{suffix}",
            dead_letters=f"dead-letters-{suffix}",
            ledger=f"ledger-{suffix}",
        )
        self.input_bucket, self.output_bucket = f"in-{suffix}", f"out-{suffix}"
        self.provider_url = ""
        self.provider_kind = "infrai"
        self.provider: ChildProcess | None = None
        self.provider_log = self.folder / "provider-jobs.jsonl"
        self.store: S3Store
        self.client: BundleClient

    def __enter__(self) -> Self:
        for role, name in self.topics.model_dump().items():
            create_topic(
                self.bootstrap,
                name,
                self.partitions if role == "events" else 1,
                self.topic_config.get(role),
            )
        self.store = open_store(self.settings().store, threads=8)
        self._stack.callback(self.store.close)
        for bucket in (self.input_bucket, self.output_bucket):
            self.store.ensure_bucket(bucket)
        self.client = self._stack.enter_context(BundleClient(self.settings()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for worker in self.workers:
            worker.terminate()
        self._stack.close()

    # -- settings ------------------------------------------------------------------------------

    def tree(self) -> dict[str, Any]:
        """The settings of a worker, as in its TOML file."""
        provider: dict[str, Any] = {"kind": self.provider_kind, "token": TOKEN}
        if self.provider_url:
            provider["base_url"] = f"{self.provider_url}/v1"
        provider["allow_private_downloads"] = True
        policies = {name: dict(policy) for name, policy in self.policies.items()}
        for policy in [policies.setdefault("default", {}), *policies.values()]:
            policy.setdefault("provider", "service")
        tree: dict[str, Any] = {
            "kafka": {
                "bootstrap_servers": self.bootstrap,
                "group_id": self.group,
                "commit_interval": "500ms",
            },
            "topics": self.topics.model_dump(),
            "store": {
                "endpoint": self.s3_endpoint,
                "access_key": self.s3_access_key,
                "secret_key": self.s3_secret_key,
                "input_bucket": self.input_bucket,
                "output_bucket": self.output_bucket,
            },
            "temp": {"dir": str(self.folder / "temp")},
            "http": {"port": 0},
            "sandbox": {"processes": 1},
            "providers": {"service": provider},
            "policies": policies,
        }
        for section, values in self.settings_tree.items():
            tree.setdefault(section, {}).update(values)
        return tree

    def settings(self) -> Settings:
        return load(config=self._write_config(), environment={})

    def _write_config(self) -> Path:
        file = self.folder / "settings.toml"
        text = "\n".join(_toml(self.tree()))
        if not file.exists() or file.read_text() != text:
            file.touch(mode=0o600)
            file.write_text(text)
        return file

    # -- processes -----------------------------------------------------------------------------

    def start_fake_provider(self, *arguments: str) -> ChildProcess:
        """The fake with the contract of Infrai, as a process whose accepted jobs are logged."""
        self.provider_kind = "infrai"
        return self._start_provider(
            [
                *(sys.executable, "-m", "tests.contract.fakes.infrai", "--token", TOKEN),
                *("--log", str(self.provider_log), *arguments),
            ],
            {},
        )

    def start_extractor(self, **environment: str) -> ChildProcess:
        """Our own extraction service, really extracting."""
        self.provider_kind = "selfhosted"
        return self._start_provider(
            [sys.executable, "-m", "deploy.extractor"],
            {
                "EXTRACTOR_TOKEN": TOKEN,
                "EXTRACTOR_DATA_DIR": str(self.folder / "extractor"),
                "EXTRACTOR_WORKERS": "1",
                **environment,
            },
        )

    def _start_provider(self, argv: Sequence[str], environment: Mapping[str, str]) -> ChildProcess:
        port = self.provider_url.rpartition(":")[2] if self.provider_url else "0"
        log = self.folder / "provider.log"
        before = log.stat().st_size if log.exists() else 0
        provider = ChildProcess(
            "provider",
            [*argv, "--port", port],
            log_file=log,
            env={**os.environ, **environment},
        )
        provider.start()
        self._stack.callback(provider.kill)

        def listening() -> str | None:
            with log.open("rb") as opened:
                opened.seek(before)
                for line in opened:
                    if line.startswith(b'{"listening"') and line.endswith(b"\n"):
                        return str(json.loads(line)["listening"])
            return None

        provider.wait_ready(lambda: listening() is not None, READY_S)
        self.provider_url = (listening() or "").removesuffix("/v1")
        self.provider = provider
        return provider

    def start_worker(
        self,
        *arguments: str,
        wait: bool = True,
        command: Sequence[str] = ("consumers.cli", "run"),
        **environment: str,
    ) -> ChildProcess:
        """A worker as a process; with ``wait``, until it has joined its group. ``command``: a
        module and its first arguments, where it is not `bundles run`."""
        number = len(self.workers) + 1
        ready = self.folder / f"worker-{number}.ready"
        ready.unlink(missing_ok=True)
        worker = ChildProcess(
            f"worker-{number}",
            [
                *(sys.executable, "-m", *command, "--ready-file", str(ready)),
                *("--config", str(self._write_config()), *arguments),
            ],
            log_file=self.folder / f"worker-{number}.log",
            env={**os.environ, **environment},
        )
        worker.start()
        self._stack.callback(worker.kill)
        self.workers.append(worker)
        if wait:
            worker.wait_ready(ready.exists, READY_S)
            worker.wait_ready(lambda: self.http(worker, "/ready") is not None, READY_S)
        return worker

    def address(self, worker: ChildProcess) -> str:
        file = self.folder / f"{worker.name}.ready"
        return str(json.loads(file.read_text())["http"])

    def http(self, worker: ChildProcess, path: str) -> str | None:
        """The body of a page of the worker; None unless it answers 200."""
        try:
            answer = urllib3.request(
                "GET", f"{self.address(worker)}{path}", timeout=5, retries=False
            )
        except (urllib3.exceptions.HTTPError, OSError):
            return None
        return answer.data.decode() if answer.status == 200 else None

    # -- sending -------------------------------------------------------------------------------

    def upload(self, content: bytes, *, key: str | None = None) -> dict[str, Any]:
        """A source; without ``key`` under its checksum."""
        checksum = hashlib.sha256(content).hexdigest()
        key = key or f"uploads/{checksum}.pdf"
        self.store.put(
            self.input_bucket, key, content, content_type="application/pdf", sha256=checksum
        )
        return {"key": key, "sha256": checksum, "bytes": len(content)}

    def event(
        self, bundle_id: str, sources: Iterable[Mapping[str, Any]], **changes: Any
    ) -> dict[str, Any]:
        """One whole document per source."""
        return {
            "bundle_id": bundle_id,
            "documents": [
                {"document_id": f"document-{number:03d}", "segments": [{"source": dict(source)}]}
                for number, source in enumerate(sources, start=1)
            ],
            **changes,
        }

    def send(self, event: dict[str, Any]) -> Announcement:
        return self.client.send(event)

    def send_raw(
        self,
        value: bytes | None,
        *,
        key: bytes | None = b"key",
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        producer.produce(self.topics.events, value, key, headers=list(headers))
        assert producer.flush(30) == 0

    # -- what came out -------------------------------------------------------------------------

    @property
    def kafka_client(self) -> dict[str, str]:
        return {"bootstrap.servers": self.bootstrap}

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def dead_letters(self) -> list[DeadLetter]:
        return [
            DeadLetter(
                record.key(),
                record.value() or b"",
                headers_of(record),
            )
            for record in read_topic(self.kafka_client, self.topics.dead_letters)
        ]

    def results(self, event_type: str | None = None) -> list[Published]:
        found = []
        for record in read_topic(self.kafka_client, self.topics.results):
            headers = headers_of(record)
            if event_type is None or headers[names.CE_TYPE] == event_type:
                at = record.timestamp()[1] / 1000
                found.append(Published(headers, record.value() or b"", at))
        return found

    def ledger(self) -> list[dict[str, Any]]:
        return [
            json.loads(record.value() or b"{}")
            for record in read_topic(self.kafka_client, self.topics.ledger)
        ]

    def count(self) -> Count:
        return count(self.kafka_client, self.topics, self.store, self.output_bucket)

    def provider_jobs(self) -> list[dict[str, Any]]:
        """What the fake provider accepted, in order, over all its lives."""
        if not self.provider_log.exists():
            return []
        return [json.loads(line) for line in self.provider_log.read_text().splitlines()]

    def manifest(self, key: str) -> dict[str, Any]:
        body = self.store.get(self.output_bucket, key, max_bytes=2**26).body
        parsed: dict[str, Any] = json.loads(body)
        return parsed

    def committed(self) -> dict[int, int]:
        """Committed offset per partition of the events topic (-1001: none)."""
        # Asked as a consumer that never joins: the admin client's own call for it crashes the
        # process where the group does not exist yet.
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group})
        try:
            asked = [TopicPartition(self.topics.events, p) for p in range(self.partitions)]
            for _ in range(COORDINATOR_TRIES):
                try:
                    found = consumer.committed(asked, timeout=30)
                    return {tp.partition: tp.offset for tp in found}
                except KafkaException as raised:
                    if raised.args[0].code() not in COORDINATOR_MOVES:
                        raise
                time.sleep(0.2)
            raise TimeoutError("no broker says that it coordinates the group")
        finally:
            consumer.close()

    def ends(self) -> dict[int, int]:
        """End offset per partition of the events topic."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "unused"})
        try:
            return {
                p: consumer.get_watermark_offsets(
                    TopicPartition(self.topics.events, p), timeout=30
                )[1]
                for p in range(self.partitions)
            }
        finally:
            consumer.close()

    def all_committed(self) -> bool:
        """Every event's offset has been committed."""
        committed = self.committed()
        return all(committed[p] == end for p, end in self.ends().items() if end > 0)

    def wait_all_committed(self, timeout: float = 60.0) -> None:
        wait_for(self.all_committed, timeout, "every offset to be committed", self.last_lines)

    def last_lines(self) -> str:
        return "\n".join(f"--- {w.name}\n{w.last_lines(15)}" for w in self.workers)


def headers_of(record: Record) -> dict[str, str]:
    found: dict[str, Any] = dict(record.headers() or [])
    return {name: (value or b"").decode(errors="replace") for name, value in found.items()}


def wait_for(
    condition: Callable[[], Any],
    timeout: float,
    what: str,
    explain: Callable[[], str] = lambda: "",
) -> None:
    """:raises AssertionError: it did not come true in time."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout:g} s in vain for {what}\n{explain()}")
        time.sleep(0.1)


def _toml(tree: Mapping[str, Any], path: str = "") -> list[str]:
    lines = [f"[{path}]"] if path else []
    for name, value in tree.items():
        if not isinstance(value, Mapping):
            lines.append(f"{_toml_key(name)} = {json.dumps(value)}")
    for name, value in tree.items():
        if isinstance(value, Mapping):
            quoted = _toml_key(name)
            lines += _toml(value, f"{path}.{quoted}" if path else quoted)
    return lines


def _toml_key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else json.dumps(name)
