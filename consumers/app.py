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

from confluent_kafka import KafkaException

from consumers import pools, tracing
from consumers.extraction.bundle import process_event
from consumers.extraction.journal import Journal
from consumers.extraction.origin import Origin
from consumers.extraction.polling import schedule_for
from consumers.extraction.pressure.gate import MAX_WAIT_S, Gate
from consumers.extraction.pressure.pace import Pace
from consumers.extraction.pressure.storm import DeadLetterStorm
from consumers.extraction.sandbox import Sandbox, SandboxLimits, SandboxUnavailable
from consumers.extraction.services import Dependency, ProviderService, Services, held_up
from consumers.extraction.turns import CALLS_PER_THREAD
from consumers.extraction.workspace import Workspace, sweep
from consumers.gauges import Gauges
from consumers.health import Check, HealthServer, Request
from consumers.kafka_access import GROUP_OPERATION, lacking
from consumers.kafka_client import kafka_client
from consumers.memory import calm_collector, steady_heap, trimmer
from consumers.metrics import PROVIDER_CALLS, STORE_CALLS, Metrics, version_of_this
from consumers.observed import CountedWrites, ObservedProvider
from consumers.observing import RuntimeObserver
from consumers.one_core import ALL_CORES, OneCore, without_preempting
from consumers.providers.protocol import Abilities
from consumers.providers.regions import RegionCutter
from consumers.providers.registry import SettingsInvalid, build, problems_at_start
from consumers.providers.settings import ProviderSettings
from consumers.runtime.clock import SystemClock
from consumers.runtime.control import Failure, Worker
from consumers.runtime.delivery import Delivery
from consumers.runtime.effects import Task
from consumers.runtime.exits import Exit
from consumers.runtime.limiter import Limiter
from consumers.runtime.pools import PoolSettings
from consumers.runtime.publisher import Publisher
from consumers.runtime.scheduler import STEP_INTERVAL, Scheduler
from consumers.runtime.settings import RuntimeSettings, SettingError
from consumers.settings import Settings, SettingsError
from consumers.status_page import Health, status_page
from consumers.status_report import Reporter
from consumers.stores import open_store
from sinks.images import ImageStore
from sinks.job_records import JobRecordStore
from sinks.manifests import ManifestStore
from sinks.objectstore import StoreError
from sinks.objectstore.probe import UnsafeStore, probe

log = logging.getLogger("bundles")

LOOK_S = 1.0
TRIM_S = 30.0
"""How often unused memory is given back."""
ROOM_KEPT = 0.1
"""The share of the temporary files' quota that is left to documents under way: the intake pauses
while less is free."""
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
    without_preempting()
    steady_heap()
    _check_access(settings)
    with ExitStack() as stack:
        application = Application(settings, stack)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: application.worker.stop())
        calm_collector()
        on_ready(application.health.address)
        code = application.worker.run()
        failure = application.worker.failure
        if failure is not None:
            log.error("stopped: %s%s", failure.message, _advice(failure, settings))
        return int(code)


def _check_access(settings: Settings) -> None:
    """A worker that may not publish would take bundles in and get stuck with them.

    Without any security nobody is told apart, and a broker that does not answer costs the start
    some seconds: so it is not asked.

    :raises Refused: the brokers say that something is not allowed.
    """
    if settings.kafka.security_protocol == "plaintext":
        return
    client = {"bootstrap.servers": settings.kafka.bootstrap_servers, **kafka_client(settings)}
    try:
        sentences = lacking(client, settings.topics)
    except KafkaException as error:
        raise Refused(
            Exit.CONFIG, f"the Kafka client refused its settings: {error.args[0].str()}"
        ) from None
    if sentences:
        raise Refused(Exit.CONFIG, "; ".join(sentences))


def _advice(failure: Failure, settings: Settings) -> str:
    if "group authorization failed" in failure.message.lower():
        group = settings.kafka.group_id
        return f"; kafka.group_id: grant this identity {GROUP_OPERATION} on group {group}"
    return ""


class Application:
    """A built worker. Everything that must be closed is on ``stack``."""

    def __init__(self, settings: Settings, stack: ExitStack) -> None:
        """:raises Refused: see `run`."""
        self.settings = settings
        self.metrics = Metrics()
        self.observer = RuntimeObserver(self.metrics)
        runtime = runtime_settings(settings)
        publisher = Publisher(runtime, self.observer)
        self.scheduler = Scheduler(_pool_settings(settings), publisher, step_interval=STEP_INTERVAL)
        self.services = _services(settings, self.metrics, publisher, self._beside, stack)
        self.worker = Worker(
            runtime,
            self._handle,
            self.scheduler,
            publisher,
            intake_allowed=self._intake_allowed,
            observer=self.observer,
        )
        self._reporter = Reporter(
            self.services,
            version=version_of_this(),
            group=settings.kafka.group_id,
            in_flight_limit=settings.kafka.in_flight_high,
            temp_quota=settings.temp.quota,
        )
        self._gauges = Gauges(self.metrics)
        self._looked, self._trimmed = 0.0, time.monotonic()
        self._trim = trimmer()
        self._core = OneCore(ALL_CORES if settings.worker.one_core else ())
        stack.callback(self._core.leave)
        self._look(time.monotonic())
        try:
            self.health = HealthServer(
                settings.http.host,
                settings.http.port,
                registry=self.metrics.registry,
                live=self._live,
                ready=self._ready,
                pages={"/status": self._status_page},
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
                maybe_seen=delivery.maybe_seen,
            ),
        )

    def _beside(self, task: Task) -> None:
        self.scheduler.start(task, lambda _: None, "beside")

    def _intake_allowed(self) -> bool:
        """Systemic trouble pauses the intake: a breaker that is open, no room on disk, a storm."""
        services, now = self.services, time.monotonic()
        if now - self._looked >= LOOK_S:
            self._look(now)
        if not self._has_room:
            return False
        if held_up(services.dependencies()):
            return False
        return services.storm.admits(now)

    def _look(self, now: float) -> None:
        """What need not be known more often than once a second, on the control thread."""
        self._looked = now
        if now - self._trimmed >= TRIM_S:
            self._trimmed = now
            self._trim()
        self._core.look()
        workspace = self.services.workspace
        workspace.remove_expired()
        self._has_room = workspace.has_room(int(workspace.quota_bytes * ROOM_KEPT))
        status = self.worker.snapshot()
        stopped = [
            f"breaker of {d.name}" for d in self.services.dependencies() if d.breaker.is_open
        ]
        if not self._has_room:
            stopped.append("temporary disk full")
        if self.services.storm.on:
            stopped.append("dead-letter storm")
        if status.intake_stopped not in (None, "application"):
            stopped.append(f"{status.intake_stopped} limit".replace("_", " "))
        self._reporter.take(status, self.scheduler.pool_stats(), tuple(stopped))

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
        self._gauges.update(self._reporter.latest, now=time.time(), loop_age=self.worker.loop_age)

    def _status_page(self, request: Request) -> tuple[int, str, bytes]:
        live, ready = self._live(), self._ready()
        health = Health(live.ok, ready.ok, live.reason or ready.reason, self.worker.loop_age)
        return status_page(request, self._reporter.latest, health, now=time.time())


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


def _pool_settings(settings: Settings) -> dict[str, PoolSettings]:
    worker = settings.worker
    return {
        pools.STORE: PoolSettings(worker.store_threads),
        pools.SOURCE: PoolSettings(worker.store_threads),
        pools.PROVIDER: PoolSettings(worker.provider_threads),
        pools.DOWNLOAD: PoolSettings(worker.download_threads),
        # A document that hangs its process keeps a thread until the limit: leave room beside it.
        pools.PARSE: PoolSettings(2 + 4 * settings.sandbox.processes),
    }


def _call_places(settings: Settings) -> dict[str, Limiter]:
    # The parser's threads are more than the processes that they wait for: no other call need be
    # ready.
    return {
        name: Limiter((1 if name == pools.PARSE else CALLS_PER_THREAD) * pool.threads)
        for name, pool in _pool_settings(settings).items()
    }


def _services(
    settings: Settings,
    metrics: Metrics,
    publisher: Publisher,
    beside: Callable[[Task], None],
    stack: ExitStack,
) -> Services:
    clock, worker_id = SystemClock(), secrets.token_hex(6)
    store, sources = _stores(settings, metrics, stack)
    root = settings.temp.dir or Path(tempfile.gettempdir()) / "bundle-extractor"
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    swept = sweep(root)
    metrics.temp_swept.inc(swept.bytes)
    workspace = Workspace(
        root,
        quota_bytes=settings.temp.quota,
        min_free_bytes=settings.temp.min_free,
        idle_seconds=settings.temp.lifetime,
    )
    stack.callback(workspace.close)
    try:
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
    except SandboxUnavailable as error:
        raise Refused(Exit.CONFIG, f"documents cannot be parsed here: {error}") from None
    stack.callback(sandbox.close)
    spans = tracing.start()
    if spans is not None:
        stack.callback(spans.close)
    output = settings.store.output_bucket
    metrics.know_topics(settings.topics.results, settings.topics.dead_letters)
    services = Services(
        clock=clock,
        rng=random.Random(),
        metrics=metrics,
        journal=Journal(
            clock=clock,
            worker_id=worker_id,
            topic=settings.topics.ledger,
            send=publisher.send,
            also=spans.take if spans is not None else None,
        ),
        worker_id=worker_id,
        policies=settings.policies,
        providers=_providers(settings, metrics, sandbox.cut_regions, stack),
        secrets=_secrets(settings.secrets_dir),
        topics=settings.topics,
        store=store,
        output=Dependency("store", pools.STORE),
        input=Dependency("source", pools.SOURCE),
        sources=sources,
        input_bucket=settings.store.input_bucket,
        readable_buckets=frozenset({settings.store.input_bucket, *settings.store.readable_buckets}),
        output_bucket=output,
        records=JobRecordStore(CountedWrites(store, "job_record", metrics), output),
        manifests=ManifestStore(CountedWrites(store, "manifest", metrics), output),
        images=ImageStore(CountedWrites(store, "image", metrics), output),
        sandbox=sandbox,
        parser=Dependency("sandbox", pools.PARSE),
        workspace=workspace,
        documents=Limiter(settings.worker.documents),
        call_places=_call_places(settings),
        storm=DeadLetterStorm(threshold=settings.worker.storm_threshold),
        beside=beside,
    )
    metrics.know_dependency("store", STORE_CALLS)
    metrics.know_dependency("source", ("download",))
    metrics.know_dependency("sandbox", ())
    for provider in services.providers.values():
        metrics.know_dependency(provider.calls.name, PROVIDER_CALLS)
        metrics.know_dependency(provider.downloads.name, ("download",))
    return services


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
    settings: Settings, metrics: Metrics, cut_regions: RegionCutter, stack: ExitStack
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
            provider = build(
                configured.model_copy(update={"name": configured.name or name}),
                cut_regions=cut_regions,
            )
        except SettingsInvalid as error:
            raise Refused(Exit.CONFIG, str(error)) from None
        stack.callback(provider.close)
        for objection in problems_at_start(
            provider, forbidden_regions=settings.forbidden_regions(name)
        ):
            if objection.forbids:
                raise Refused(Exit.CONFIG, f"providers.{name}: {objection.text}")
            log.warning("provider %s: %s", name, objection.text)
        slots = settings.worker.jobs.get(name, settings.worker.jobs_per_provider)
        metrics.know_provider(provider.name)
        services[name] = ProviderService(
            provider=ObservedProvider(provider, metrics),
            slots=Limiter(slots),
            schedule=schedule_for(settings.policies_of(name)),
            calls=Dependency(
                provider.name,
                pools.PROVIDER,
                gate=_gate(settings, name),
                paces=_paces(configured, provider.abilities),
            ),
            downloads=Dependency(f"{provider.name}-download", pools.DOWNLOAD),
        )
    return services


def _gate(settings: Settings, provider: str) -> Gate:
    """Nobody waits longer than the most patient job may take."""
    patience = max(policy.polling.deadline_s for policy in settings.policies_of(provider))
    return Gate(max_wait_s=min(MAX_WAIT_S, patience))


def _paces(configured: ProviderSettings, abilities: Abilities) -> Mapping[str, Pace]:
    per_second = configured.max_polls_per_second or abilities.max_polls_per_second
    return {} if per_second is None else {"poll": Pace(per_second)}


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
