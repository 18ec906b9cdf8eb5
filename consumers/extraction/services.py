"""What the stages work with: built once at start (or by the simulator), handed to every task."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from consumers.extraction.journal import Journal
from consumers.extraction.key_order import KeyOrder
from consumers.extraction.live import LiveDocuments
from consumers.extraction.polling import PollSchedule
from consumers.extraction.pressure.breaker import Breaker
from consumers.extraction.pressure.budget import RetryBudget
from consumers.extraction.pressure.gate import Gate
from consumers.extraction.pressure.outbox import Outbox
from consumers.extraction.pressure.pace import Pace
from consumers.extraction.pressure.storm import DeadLetterStorm
from consumers.extraction.sandbox import Sandbox
from consumers.extraction.workspace import Workspace
from consumers.metrics import Metrics
from consumers.providers.protocol import Provider
from consumers.runtime.clock import Clock
from consumers.runtime.effects import Task
from consumers.runtime.limiter import Limiter
from schemas.policy import Policy
from schemas.topics import TopicSettings
from sinks.images import ImageStore
from sinks.job_records import JobRecordStore
from sinks.manifests import ManifestStore
from sinks.objectstore import ObjectStore


@dataclass(slots=True)
class Dependency:
    """Something remote that can be down: its breaker, and what its calls are counted under."""

    name: str
    pool: str
    breaker: Breaker = field(default_factory=Breaker)
    gate: Gate = field(default_factory=Gate)
    budget: RetryBudget = field(default_factory=RetryBudget)
    paces: Mapping[str, Pace] = field(default_factory=dict)
    """Of operations that may only be called so often."""
    callers: int = 0
    """Calls under way, those included that wait for the breaker or for another attempt: each of
    them asks again by itself, so an open breaker gets its probes."""


@dataclass(slots=True)
class ProviderService:
    """A provider with the pressure state that all of its jobs share."""

    provider: Provider
    slots: Limiter
    schedule: PollSchedule
    calls: Dependency
    downloads: Dependency
    forgetting: int = 0
    """Jobs whose deletion waits for another try."""


@dataclass(slots=True)
class Services:
    clock: Clock
    rng: random.Random
    metrics: Metrics
    journal: Journal
    worker_id: str
    policies: Mapping[str, Policy]
    providers: Mapping[str, ProviderService]
    secrets: Mapping[str, str] = field(repr=False)
    topics: TopicSettings
    store: ObjectStore
    output: Dependency
    """The store that we write to."""
    input: Dependency
    """The store that sources are read from."""
    sources: ObjectStore
    input_bucket: str
    readable_buckets: frozenset[str]
    output_bucket: str
    records: JobRecordStore
    manifests: ManifestStore
    images: ImageStore
    sandbox: Sandbox
    parser: Dependency
    """The sandbox as something that can be unavailable as a whole."""
    workspace: Workspace
    documents: Limiter
    """Documents that hold local files: bounds temporary disk and memory."""
    call_places: Mapping[str, Limiter]
    """By pool: the calls in it, those included that wait for a thread (see `turns`)."""
    storm: DeadLetterStorm
    beside: Callable[[Task], None]
    """Starts a task that no offset waits for. It ends with the worker."""
    key_order: KeyOrder = field(default_factory=KeyOrder)
    outbox: Outbox = field(default_factory=Outbox)
    live: LiveDocuments = field(default_factory=LiveDocuments)
    """What the status page tells of."""
    event_source: str = "/bundle-extractor"
    """The CloudEvents ``source`` of what is published."""

    def dependencies(self) -> Iterator[Dependency]:
        """Everything remote whose breaker pauses the intake."""
        yield self.output
        yield self.input
        yield self.parser
        for provider in self.providers.values():
            yield provider.calls
            yield provider.downloads


def held_up(dependencies: Iterable[Dependency]) -> bool:
    """Something is down, and documents that wait for it will notice when it is back: take in none
    that would only wait too.

    Where nobody waits (a rebalance took the documents away, or the one that opened the breaker has
    been given up), events must come in, or nobody would ever find out.
    """
    return any(d.breaker.is_open and d.callers for d in dependencies)
