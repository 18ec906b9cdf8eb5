"""Creates and checks the four topics with the settings that the design rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from schemas.topics import TOPIC_CONFIG, TopicSettings
from sinks.topic_rules import Placement, judge

TIMEOUT_S = 30.0
MAX_BYTES = "max.message.bytes"


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One topic after `ensure_topics` or `check_topics`. ``problems`` (something cannot work) and
    ``warnings`` are sentences. ``replicas``: of the partition with the fewest. ``unread``: why its
    settings could not be read, None where they were."""

    name: str
    partitions: int
    replicas: int = 0
    created: bool = False
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unread: str | None = None

    @property
    def as_needed(self) -> bool:
        return not (self.problems or self.warnings or self.unread)


class TopicsUnavailable(Exception):
    """The brokers did not answer or refused; the text says what to check."""


def ensure_topics(
    client: Mapping[str, str],
    topics: TopicSettings,
    *,
    partitions: int = 12,
    replication: int = -1,
) -> list[TopicReport]:
    """Creates what is missing and leaves alone what is there (reporting how it differs).

    ``replication`` -1: the broker's default.

    :raises TopicsUnavailable: no broker answered, or it may not be done.
    """
    admin = AdminClient(dict(client))
    wanted = topics.model_dump()
    existing = _existing(admin).topics
    missing = [
        NewTopic(
            name,
            num_partitions=partitions,
            replication_factor=replication,
            config=TOPIC_CONFIG[role],
        )
        for role, name in wanted.items()
        if name not in existing
    ]
    created = set()
    if missing:
        for name, future in admin.create_topics(missing, operation_timeout=TIMEOUT_S).items():
            try:
                future.result()
                created.add(name)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise TopicsUnavailable(
                        f"cannot create topic {name}: {error.args[0].name()}; "
                        "create it by hand or give this identity CREATE on it"
                    ) from None
    return [
        replace(report, created=report.name in created) for report in check_topics(client, topics)
    ]


def check_topics(client: Mapping[str, str], topics: TopicSettings) -> list[TopicReport]:
    """How each topic stands.

    :raises TopicsUnavailable: no broker answered.
    """
    admin = AdminClient(dict(client))
    existing = _existing(admin)
    wanted = topics.model_dump()
    read = _settings(admin, [name for name in wanted.values() if name in existing.topics])
    events = read.get(topics.events)
    events_max_bytes = int(TOPIC_CONFIG["events"][MAX_BYTES])
    if isinstance(events, dict):
        events_max_bytes = int(events.get(MAX_BYTES, events_max_bytes))
    reports = []
    for role, name in wanted.items():
        counts = existing.topics.get(name)
        if counts is None:
            missing = f"topic {name} does not exist: run `bundles topics create`"
            reports.append(TopicReport(name, 0, problems=(missing,)))
            continue
        partitions, replicas = counts
        config = read[name]
        if isinstance(config, str):
            reports.append(TopicReport(name, partitions, replicas, unread=config))
            continue
        found = judge(role, config, events_max_bytes, Placement(replicas, existing.brokers))
        reports.append(
            TopicReport(
                name,
                partitions,
                replicas,
                problems=tuple(f"topic {name}: {said}" for said in found.problems),
                warnings=tuple(f"topic {name}: {said}" for said in found.warnings),
            )
        )
    return reports


@dataclass(frozen=True, slots=True)
class _Existing:
    """``topics``: name -> (partitions, replicas of the one with the fewest)."""

    topics: dict[str, tuple[int, int]]
    brokers: int


def _existing(admin: AdminClient) -> _Existing:
    try:
        metadata = admin.list_topics(timeout=TIMEOUT_S)
    except KafkaException as error:
        raise TopicsUnavailable(
            f"no Kafka broker answered ({error.args[0].name()}): check kafka.bootstrap_servers "
            "and the security settings"
        ) from None
    topics = {}
    for name, topic in metadata.topics.items():
        if topic.error is None:
            replicas = [len(partition.replicas) for partition in topic.partitions.values()]
            topics[name] = len(replicas), min(replicas, default=0)
    return _Existing(topics, len(metadata.brokers))


def _settings(admin: AdminClient, names: list[str]) -> dict[str, dict[str, str] | str]:
    """By topic; the error's name where this identity may not read them (DESCRIBE_CONFIGS)."""
    if not names:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    found: dict[str, dict[str, str] | str] = {}
    for resource, future in admin.describe_configs(resources, request_timeout=TIMEOUT_S).items():
        try:
            entries = future.result().values()
            found[resource.name] = {e.name: e.value for e in entries if e.value is not None}
        except KafkaException as error:
            found[resource.name] = str(error.args[0].name())
    return found
