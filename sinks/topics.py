"""Creates and checks the four topics with the settings that the design rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from schemas.topics import TOPIC_CONFIG, TopicSettings

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One topic after `ensure_topics` or `check_topics`. ``problems`` are sentences."""

    name: str
    partitions: int
    created: bool
    problems: tuple[str, ...] = ()


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
    existing = _partition_counts(admin)
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
        TopicReport(report.name, report.partitions, report.name in created, report.problems)
        for report in check_topics(client, topics)
    ]


def check_topics(client: Mapping[str, str], topics: TopicSettings) -> list[TopicReport]:
    """How each topic stands.

    :raises TopicsUnavailable: no broker answered.
    """
    admin = AdminClient(dict(client))
    existing = _partition_counts(admin)
    wanted = topics.model_dump()
    configs = _configs(admin, [name for name in wanted.values() if name in existing])
    reports = []
    for role, name in wanted.items():
        problems: list[str] = []
        if name not in existing:
            problems.append(f"topic {name} does not exist: run `bundles topics create`")
        else:
            problems += _differences(name, TOPIC_CONFIG[role], configs.get(name, {}))
        reports.append(TopicReport(name, existing.get(name, 0), False, tuple(problems)))
    return reports


def _differences(name: str, wanted: Mapping[str, str], actual: Mapping[str, str]) -> list[str]:
    problems = []
    size = "max.message.bytes"
    if size in actual and int(actual[size]) < int(wanted[size]):
        problems.append(
            f"topic {name}: {size} is {actual[size]}, at least {wanted[size]} is needed"
        )
    if "compact" in actual.get("cleanup.policy", ""):
        problems.append(f"topic {name}: cleanup.policy is compact, which drops records of a key")
    return problems


def _partition_counts(admin: AdminClient) -> dict[str, int]:
    try:
        metadata = admin.list_topics(timeout=TIMEOUT_S)
    except KafkaException as error:
        raise TopicsUnavailable(
            f"no Kafka broker answered ({error.args[0].name()}): check kafka.bootstrap_servers "
            "and the security settings"
        ) from None
    return {
        name: len(topic.partitions)
        for name, topic in metadata.topics.items()
        if topic.error is None
    }


def _configs(admin: AdminClient, names: list[str]) -> dict[str, dict[str, str]]:
    """What may be read; an identity without DESCRIBE_CONFIGS gets nothing to compare."""
    if not names:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    found: dict[str, dict[str, str]] = {}
    for resource, future in admin.describe_configs(resources, request_timeout=TIMEOUT_S).items():
        try:
            found[resource.name] = {
                entry.name: entry.value for entry in future.result().values() if entry.value
            }
        except KafkaException:
            continue
    return found
