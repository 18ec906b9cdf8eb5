"""Which partition a key's records are in, so that one is read instead of all."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

CONSISTENT = frozenset({"consistent", "consistent_random"})


def partition_of(key: str, partitions: int, client: Mapping[str, str]) -> int | None:
    """As librdkafka's producer chose it with these client properties; None where we cannot tell.

    Its default, ``consistent_random``, is CRC-32 of the key modulo the partition count for every
    key that is not empty (librdkafka, rd_kafka_msg_partitioner_consistent).
    """
    if not key or client.get("partitioner", "consistent_random") not in CONSISTENT:
        return None
    return zlib.crc32(key.encode()) % partitions
