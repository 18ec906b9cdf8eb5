"""Kafka as a worker needs it: reachable, topics with the right settings, permissions.

What this identity may do is asked of the brokers (authorized operations), never tried out.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
)

from consumers.kafka_access import TOPIC_OPERATIONS
from consumers.kafka_client import kafka_client
from consumers.operations.checks import Check, failed, ok, warning
from consumers.settings import Settings, SettingsError
from sinks.topics import TopicsUnavailable, check_topics

TIMEOUT_S = 15.0


def check_kafka(settings: Settings) -> Iterator[Check]:
    try:
        client = {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            **kafka_client(settings),
        }
        admin = AdminClient({**client, "log_level": 0})
        brokers = len(admin.list_topics(timeout=TIMEOUT_S).brokers)
    except SettingsError as error:
        yield failed("kafka", str(error), "correct the kafka section of the settings")
        return
    except KafkaException as error:
        yield failed(
            "kafka",
            f"no broker answered ({error.args[0].name()})",
            "check kafka.bootstrap_servers, the network, and kafka.security_protocol with its keys",
        )
        return
    yield ok("kafka", f"{brokers} broker(s) answer")
    yield from _topics(settings, client)
    yield from _permissions(settings, admin)


def _topics(settings: Settings, client: Mapping[str, str]) -> Iterator[Check]:
    try:
        reports = check_topics(client, settings.topics)
    except TopicsUnavailable as error:
        yield failed("topics", str(error), "see whether the brokers are still up")
        return
    for report in reports:
        what = f"topic {report.name}"
        for problem in report.problems:
            fix = "`bundles topics create`" if not report.partitions else "alter the topic's config"
            yield failed(what, problem.removeprefix(f"{what}: "), fix)
        for said in report.warnings:
            yield warning(what, said.removeprefix(f"{what}: "), "alter the topic")
        if report.unread is not None:
            yield warning(
                what,
                f"its settings could not be read ({report.unread})",
                "allow DESCRIBE_CONFIGS on it, or have `bundles topics check` run by one who may",
            )
        if report.as_needed:
            yield ok(what, f"{report.partitions} partition(s), settings as needed")


def _permissions(settings: Settings, admin: AdminClient) -> Iterator[Check]:
    topics, read, write = settings.topics, AclOperation.READ, AclOperation.WRITE
    wanted = {
        topics.events: (read, write),  # write: for replays
        topics.results: (write,),
        topics.dead_letters: (read, write),
        topics.ledger: (read, write),
    }
    worker_needs = {
        name: {AclOperation[TOPIC_OPERATIONS[role]]} for role, name in topics.model_dump().items()
    }
    described = admin.describe_topics(
        TopicCollection(list(wanted)),
        include_authorized_operations=True,
        request_timeout=TIMEOUT_S,
    )
    for name, future in described.items():
        what = f"permissions on {name}"
        try:
            allowed = future.result().authorized_operations
        except KafkaException as error:
            if error.args[0].name() != "UNKNOWN_TOPIC_OR_PART":  # said already
                yield failed(
                    what,
                    f"it cannot be described ({error.args[0].name()})",
                    f"grant {_names(worker_needs[name])} (DESCRIBE comes with it)",
                )
            continue
        yield _judge(what, allowed, worker_needs[name], set(wanted[name]))
    yield _group(settings, admin)


def _judge(
    what: str, allowed: Collection[Any] | None, needed: set[Any], for_operators: set[Any]
) -> Check:
    if not allowed:
        return warning(what, "the brokers do not say what this identity may do")
    missing = needed - set(allowed)
    if missing:
        return failed(what, f"{_names(missing)} is not allowed", f"grant {_names(needed)}")
    lacking = for_operators - set(allowed)
    if lacking:
        return ok(what, f"enough for a worker; replay and trace also need {_names(lacking)}")
    return ok(what, f"{_names(for_operators)} allowed")


def _group(settings: Settings, admin: AdminClient) -> Check:
    group = settings.kafka.group_id
    what = f"permissions on group {group}"
    try:
        allowed = _described(admin, group).authorized_operations
    except KafkaException as error:
        name = error.args[0].name()
        if name == "GROUP_AUTHORIZATION_FAILED":
            return failed(what, "READ is not allowed", "grant READ on the group")
        if name == "GROUP_ID_NOT_FOUND":  # brokers 4.0 and later
            return ok(what, "no worker has joined it yet; READ on it cannot be told before")
        return warning(what, f"the group cannot be described ({name})")
    return _judge(what, allowed, {AclOperation.READ}, {AclOperation.READ})


def _described(admin: AdminClient, group: str) -> Any:
    """Asked again while the group's coordinator is only starting."""
    for pause in (0.5, 1.0, 2.0, None):
        asked = admin.describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=TIMEOUT_S
        )
        try:
            return asked[group].result()
        except KafkaException as error:
            if pause is None or "COORDINATOR" not in error.args[0].name():
                raise
            time.sleep(pause)
    raise AssertionError("the last round returns or raises")


def _names(operations: set[Any]) -> str:
    return " and ".join(sorted(operation.name for operation in operations))
