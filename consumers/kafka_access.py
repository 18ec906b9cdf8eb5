"""What a worker must be allowed to do on Kafka, and whether it is: asked of the brokers (authorized
operations), never tried out."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
)

from schemas.topics import TopicSettings

TOPIC_OPERATIONS: Mapping[str, str] = MappingProxyType(
    {"events": "READ", "results": "WRITE", "dead_letters": "WRITE", "ledger": "WRITE"}
)
"""Per role of a topic. Each implies DESCRIBE. WRITE on a topic is all that an idempotent producer
needs since Kafka 3.0; older brokers want IDEMPOTENT_WRITE on the cluster too."""

GROUP_OPERATION = "READ"
"""On the consumer group."""

TIMEOUT_S = 5.0


def lacking(client: Mapping[str, str], topics: TopicSettings) -> list[str]:
    """What this identity may not do on the topics though a worker must, as sentences.

    Only what the brokers say for certain: none where they do not answer, or do not know.
    """
    names = topics.model_dump()
    admin = AdminClient({**client, "log_level": 0})
    described = admin.describe_topics(
        TopicCollection(list(names.values())),
        include_authorized_operations=True,
        request_timeout=TIMEOUT_S,
    )
    sentences = []
    for role, operation in TOPIC_OPERATIONS.items():
        try:
            allowed = described[names[role]].result().authorized_operations
            refused = bool(allowed) and AclOperation[operation] not in allowed
        except KafkaException as error:
            refused = error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        if refused:
            sentences.append(
                f"topics.{role}: this identity may not {operation} topic {names[role]}; "
                f"grant it {operation} there"
            )
    return sentences
