"""Puts a worker together: settings in, running parts out. The one place that knows them all."""

from __future__ import annotations

import logging
import random
import secrets
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from consumers import pools
from consumers.extraction.bundle import process_event
from consumers.extraction.journal import Journal
from consumers.extraction.origin import Origin
from consumers.extraction.polling import schedule_for
from consumers.extraction.pressure.budget import RetryBudget
from consumers.extraction.pressure.storm import DeadLetterStorm
from consumers.extraction.sandbox import Sandbox, SandboxLimits
from consumers.extraction.services import Dependency, ProviderService, Services
from consumers.extraction.workspace import Workspace, sweep
from consumers.health import Check, HealthServer
from consumers.metrics import Metrics
from consumers.observing import RuntimeObserver
from consumers.providers.registry import SettingsInvalid, build, problems_at_start
from consumers.runtime.clock import SystemClock
from consumers.runtime.control import Worker
from consumers.runtime.delivery import Delivery
from consumers.runtime.effects import Task
from consumers.runtime.exits import Exit
from consumers.runtime.limiter import Limiter
from consumers.runtime.pools import PoolSettings
from consumers.runtime.publisher import Publisher
from consumers.runtime.scheduler import Scheduler
from consumers.runtime.settings import RuntimeSettings, SettingError
from consumers.settings import Settings, SettingsError, read_secret
from consumers.stores import open_store
from schemas.policy import Policy
from sinks.images import ImageStore
from sinks.job_records import JobRecordStore
from sinks.manifests import ManifestStore
from sinks.objectstore import StoreError
from sinks.objectstore.probe import UnsafeStore, probe

log = logging.getLogger("bundles")

ROOM_CHECK_S = 0.5
PUBLISH_TROUBLE_S = 60.0
"""So long a topic may refuse every record before the worker says that it is not ready."""


@dataclass(frozen=True, slots=True)
class Refused(Exception):
    """The worker cannot start; ``message`` says why and what to do."""

    code: Exit
    message: str


def run(settings: Settings, *, on_ready: Callable[[str], None] = lambda _: None) -> int:
    """Run a worker until SIGTERM or SIGINT; gives the process's exit code.

    ``on_ready`` is told the address of the HTTP side.

    :raises Refused: a setting or something that the worker needs is wrong.
    """
    with ExitStack() as stack:
        application = Application(settings, stack)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: application.worker.stop())
        on_ready(application.health.address)
        code = application.worker.run()
        failure = application.worker.failure
        if failure is not None:
            log.error("stopped: %s", failure.message)
        return int(code)


class Application:
    """A built worker. Everything that must be closed is on ``stack``."""

    def __init__(self, settings: Settings, stack: ExitStack) -> None:
        """:raises Refused: see `run`."""
        self.settings = settings
        self.metrics = Metrics()
        self.observer = RuntimeObserver(self.metrics)
        runtime = runtime_settings(settings)
        publisher = Publisher(runtime, self.observer)
        self.scheduler = Scheduler(_pool_settings(settings), publisher)
        self.services = _services(settings, self.metrics, publisher, stack)
        self.worker = Worker(
            runtime,
            self._handle,
            self.scheduler,
            publisher,
            intake_allowed=self._intake_allowed,
            observer=self.observer,
        )
        self._room_checked = 0.0
        self._has_room = True
        try:
            self.health = HealthServer(
                settings.http.host,
                settings.http.port,
                registry=self.metrics.registry,
                live=self._live,
                ready=self._ready,
                before_scrape=self._update_gauges,
            )
        except OSError as error:
            raise Refused(
                Exit.CONFIG,
                f"http.port: cannot listen on {settings.http.host}:{settings.http.port} "
                f"({error.strerror}); choose another, or 0 for a free one",
            ) from None
        stack.callback(self.health.close)

    def _handle(self, delivery: Delivery) -> Task:
        return process_event(
            self.services,
            Origin(
                topic=delivery.topic,
                partition=delivery.partition,
                offset=delivery.offset,
                timestamp_ms=delivery.timestamp_ms if delivery.timestamp_ms >= 0 else None,
                group=self.settings.kafka.group_id,
                key=delivery.key,
                value=delivery.value,
                headers=delivery.headers,
            ),
        )

    def _intake_allowed(self) -> bool:
        """Systemic trouble pauses the intake: a breaker that is open, no room on disk, a storm.

        An open breaker is probed by the events in flight; where a rebalance left none, one more has
        to be taken in, or it would stay open for ever.
        """
        services, now = self.services, time.monotonic()
        if now - self._room_checked >= ROOM_CHECK_S:
            self._room_checked = now
            self._has_room = services.workspace.has_room()
        if not self._has_room:
            return False
        if any(d.breaker.is_open for d in services.dependencies()) and self.scheduler.running:
            return False
        return services.storm.admits(now)

    def _live(self) -> Check:
        age = self.worker.loop_age
        if age > self.settings.worker.loop_stuck_after:
            return Check(ok=False, reason=f"the control loop has not gone round for {age:.0f} s")
        return Check(ok=True)

    def _ready(self) -> Check:
        down = [d.name for d in self.services.dependencies() if d.breaker.is_open]
        if down:
            return Check(ok=False, reason=f"waiting for {', '.join(down)}")
        if not self.worker.snapshot().assignments:
            return Check(ok=False, reason="has not joined its consumer group")
        refusing = self.services.outbox.refusing_for(time.monotonic())
        if refusing is not None and refusing[1] > PUBLISH_TROUBLE_S:
            topic, seconds = refusing
            return Check(
                ok=False, reason=f"Kafka has refused records of {topic} for {seconds:.0f} s"
            )
        return Check(ok=True)

    def _update_gauges(self) -> None:
        """What is cheaper to look up for a scrape than to keep up to date."""
        metrics, services = self.metrics, self.services
        metrics.poll_age.set(self.worker.loop_age)
        metrics.temp_bytes.set(services.workspace.used_bytes)
        for name, provider in services.providers.items():
            metrics.job_waiting.labels(name).set(provider.slots.waiting)
            metrics.retry_budget_left.labels(name).set(max(0.0, provider.calls.budget.left))
        for dependency in services.dependencies():
            metrics.breaker_open.labels(dependency.name).set(dependency.breaker.is_open)
        for name, stats in self.scheduler.pool_stats().items():
            metrics.pool_queued.labels(name).set(stats.queued)
            metrics.pool_running.labels(name).set(stats.in_progress)
        status, now = self.worker.snapshot(), time.time()
        metrics.events_in_flight.set(status.in_flight)
        oldest = 0.0
        for partition in status.partitions:
            labels = (partition.topic, str(partition.partition))
            if partition.lag is not None:
                metrics.lag.labels(*labels).set(partition.lag)
            since = partition.oldest_in_flight_timestamp_ms
            age = max(0.0, now - since / 1000) if since is not None and since > 0 else 0.0
            metrics.lag_seconds.labels(*labels).set(age)
            oldest = max(oldest, age)
        metrics.oldest_uncommitted.set(oldest)
        metrics.oldest_in_flight.set(
            max((p.oldest_in_flight_seconds for p in status.partitions), default=0.0)
        )
        metrics.window_fullness.set(
            max((p.window_fullness for p in status.partitions), default=0.0)
        )


def runtime_settings(settings: Settings) -> RuntimeSettings:
    """:raises Refused: values that cannot work together."""
    kafka, worker = settings.kafka, settings.worker
    try:
        return RuntimeSettings(
            bootstrap_servers=kafka.bootstrap_servers,
            group_id=kafka.group_id,
            topics=(settings.topics.events,),
            group_protocol=kafka.group_protocol,
            start_from=kafka.start_from,
            client=kafka_client(settings),
            max_poll_interval=kafka.max_poll_interval,
            grace=worker.grace,
            commit_interval=kafka.commit_interval,
            loop_stuck_after=worker.loop_stuck_after,
            partition_stuck_after=worker.partition_stuck_after,
            in_flight_high=kafka.in_flight_high,
            in_flight_low=min(kafka.in_flight_low, kafka.in_flight_high - 1),
            window=kafka.window,
        )
    except SettingError as error:
        raise Refused(Exit.CONFIG, f"settings: {error}") from None


def kafka_client(settings: Settings) -> dict[str, str]:
    """librdkafka properties for every client of ours: security and what the operator adds.

    :raises SettingsError: a secret's file cannot be read.
    """
    kafka = settings.kafka
    values = {
        "security.protocol": kafka.security_protocol,
        "sasl.mechanisms": kafka.sasl_mechanism,
        "sasl.username": kafka.sasl_username,
        "sasl.password": read_secret(
            kafka.sasl_password, kafka.sasl_password_file, "kafka.sasl_password"
        ),
        "ssl.ca.location": kafka.ssl_ca_file,
        "ssl.certificate.location": kafka.ssl_certificate_file,
        "ssl.key.location": kafka.ssl_key_file,
        "ssl.key.password": read_secret(kafka.ssl_key_password, None, "kafka.ssl_key_password"),
    }
    return {name: str(v) for name, v in values.items() if v is not None} | dict(kafka.client)


def _pool_settings(settings: Settings) -> dict[str, PoolSettings]:
    worker = settings.worker
    return {
        pools.STORE: PoolSettings(worker.store_threads),
        pools.SOURCE: PoolSettings(worker.store_threads),
        pools.PROVIDER: PoolSettings(worker.provider_threads),
        pools.DOWNLOAD: PoolSettings(worker.download_threads),
        pools.PARSE: PoolSettings(settings.sandbox.processes),
    }


def _services(
    settings: Settings, metrics: Metrics, publisher: Publisher, stack: ExitStack
) -> Services:
    clock, worker_id = SystemClock(), secrets.token_hex(6)
    store, sources = _stores(settings, metrics, stack)
    root = settings.temp.dir or Path(tempfile.gettempdir()) / "bundle-extractor"
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    swept = sweep(root)
    metrics.temp_swept.inc(swept.bytes)
    metrics.temp_limit.set(settings.temp.quota)
    workspace = Workspace(
        root, quota_bytes=settings.temp.quota, min_free_bytes=settings.temp.min_free
    )
    stack.callback(workspace.close)
    sandbox = Sandbox(
        processes=settings.sandbox.processes,
        limits=SandboxLimits(
            memory_bytes=settings.sandbox.memory,
            cpu_seconds=settings.sandbox.cpu_time,
            wall_seconds=settings.sandbox.wall_time,
            temporary_directory=workspace.path,
        ),
        on_kill=lambda reason: metrics.sandbox_kills.labels(reason).inc(),
    )
    stack.callback(sandbox.close)
    output = settings.store.output_bucket
    for name, threads in _pool_settings(settings).items():
        metrics.pool_threads.labels(name).set(threads.threads)
    metrics.events_in_flight_limit.set(settings.kafka.in_flight_high)
    return Services(
        clock=clock,
        rng=random.Random(),
        metrics=metrics,
        journal=Journal(
            clock=clock,
            worker_id=worker_id,
            topic=settings.topics.ledger,
            send=publisher.send,
        ),
        worker_id=worker_id,
        policies=settings.policies,
        providers=_providers(settings, metrics, stack),
        secrets=_secrets(settings.secrets_dir),
        topics=settings.topics,
        store=store,
        output=Dependency("store", pools.STORE),
        input=Dependency("source", pools.SOURCE),
        sources=sources,
        input_bucket=settings.store.input_bucket,
        readable_buckets=frozenset({settings.store.input_bucket, *settings.store.readable_buckets}),
        output_bucket=output,
        records=JobRecordStore(store, output),
        manifests=ManifestStore(store, output),
        images=ImageStore(store, output),
        sandbox=sandbox,
        parser=Dependency("sandbox", pools.PARSE),
        workspace=workspace,
        documents=Limiter(settings.worker.documents),
        storm=DeadLetterStorm(threshold=settings.worker.storm_threshold),
    )


def _stores(settings: Settings, metrics: Metrics, stack: ExitStack) -> tuple:  # type: ignore[type-arg]
    def observe(operation: str, outcome: str, seconds: float, size: int) -> None:
        metrics.store_operations.labels(operation, outcome).inc()
        metrics.store_seconds.labels(operation).observe(seconds)

    threads = settings.worker.store_threads
    store = open_store(settings.store, threads=threads, observe=observe)
    stack.callback(store.close)
    sources = store
    if settings.store.input is not None:
        sources = open_store(settings.store, input_only=True, threads=threads, observe=observe)
        stack.callback(sources.close)
    if settings.store.probe:
        try:
            probe(store, settings.store.output_bucket)
        except UnsafeStore as error:
            raise Refused(Exit.STORE_REFUSED, str(error)) from None
        except StoreError as error:
            raise Refused(
                Exit.STORE_REFUSED,
                f"store.endpoint: cannot use the output bucket: {error}",
            ) from None
    return store, sources


def _providers(
    settings: Settings, metrics: Metrics, stack: ExitStack
) -> Mapping[str, ProviderService]:
    services = {}
    for name in sorted({policy.provider for policy in settings.policies.values()}):
        configured = settings.providers.get(name)
        if configured is None:
            raise Refused(
                Exit.CONFIG,
                f"providers.{name}: a policy uses this provider and it is not configured",
            )
        try:
            provider = build(configured.model_copy(update={"name": configured.name or name}))
        except SettingsInvalid as error:
            raise Refused(Exit.CONFIG, str(error)) from None
        stack.callback(provider.close)
        for problem in problems_at_start(provider):
            log.warning("provider %s: %s", name, problem)
        slots = settings.worker.jobs.get(name, settings.worker.jobs_per_provider)
        metrics.job_slots.labels(name).set(slots)
        budget = RetryBudget()
        metrics.retry_budget_limit.labels(name).set(budget.capacity)
        services[name] = ProviderService(
            provider=provider,
            slots=Limiter(slots),
            schedule=schedule_for(_policies_of(settings, name)),
            calls=Dependency(name, pools.PROVIDER, budget=budget),
            downloads=Dependency(f"{name}-download", pools.DOWNLOAD),
        )
    return services


def _policies_of(settings: Settings, provider: str) -> list[Policy]:
    return [p for p in settings.policies.values() if p.provider == provider]


def _secrets(directory: Path | None) -> dict[str, str]:
    if directory is None:
        return {}
    try:
        return {
            file.name: file.read_text().rstrip("\n")
            for file in sorted(directory.iterdir())
            if file.is_file() and not file.name.startswith(".")
        }
    except OSError as error:
        raise SettingsError(f"secrets_dir: cannot read it ({error.strerror})") from None
