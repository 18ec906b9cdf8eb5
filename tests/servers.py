"""Real servers for the tests: which ones, started how, and what tests get of them.

In this order:

* ``KAFKA_BOOTSTRAP``; ``S3_ENDPOINT`` with ``S3_ACCESS_KEY`` and ``S3_SECRET_KEY``: used as is;
* ``TEST_SERVERS=containers`` and a Docker engine that answers: testcontainers (`tests.containers`);
* else the local starter (`deploy.local`): Apache Kafka and SeaweedFS as child processes.

Where Apache Kafka cannot be had, tests that need it are skipped, saying why; with
``REQUIRE_REAL_KAFKA=1`` they fail.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

import pytest
import urllib3
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from minio import Minio
from minio.deleteobjects import DeleteObject

from deploy.local.jars import KAFKA_VERSION, JarsUnavailable, cache_folder
from deploy.local.java import JavaMissing, find_java
from deploy.local.kafka import KafkaCluster
from deploy.local.s3 import REGION, S3Server, WeedMissing, weed_program
from tests import containers

_TOPIC_TIMEOUT = 60.0
_NO_ENGINE = "TEST_SERVERS=containers, but no Docker engine answers"


@dataclass(frozen=True)
class Kafka:
    """A Kafka to test against. ``cluster`` is there when it is ours to stop and kill."""

    bootstrap: str
    description: str
    cluster: KafkaCluster | None = None

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})


@dataclass(frozen=True)
class S3:
    """An S3 store to test against. ``server`` is there when it is ours to stop and kill."""

    endpoint: str
    access_key: str
    secret_key: str = field(repr=False)
    description: str
    server: S3Server | None = None

    @property
    def address(self) -> str:
        """host:port"""
        return urlsplit(self.endpoint).netloc

    @property
    def secure(self) -> bool:
        return self.endpoint.startswith("https:")

    def client(self) -> Minio:
        """A client that never repeats a request by itself."""
        return Minio(
            self.address,
            self.access_key,
            self.secret_key,
            secure=self.secure,
            region=REGION,
            http_client=urllib3.PoolManager(
                retries=False, timeout=urllib3.Timeout(connect=10, read=60), maxsize=32
            ),
        )


class MakeTopic(Protocol):
    """Creates a topic with a name of its own, ready to be written and read; returns the name."""

    def __call__(
        self,
        label: str = "topic",
        *,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> str: ...


class MakeBucket(Protocol):
    """Creates an empty bucket with a name of its own; returns the name."""

    def __call__(self, label: str = "bucket") -> str: ...


# --- which servers ---------------------------------------------------------------------------


def kafka_plan() -> str:
    """One line for the header of the run. Starts and fetches nothing."""
    if bootstrap := os.environ.get("KAFKA_BOOTSTRAP"):
        return f"the one at KAFKA_BOOTSTRAP={bootstrap}"
    if containers.wanted():
        if containers.engine_answers():
            return f"container {containers.kafka_image()}"
        return f"{_local_kafka_plan()} ({_NO_ENGINE})"
    return _local_kafka_plan()


def s3_plan() -> str:
    """One line for the header of the run. Starts nothing."""
    if endpoint := os.environ.get("S3_ENDPOINT"):
        return f"the one at S3_ENDPOINT={endpoint}"
    if containers.wanted():
        if containers.engine_answers():
            return f"container {containers.s3_image()}"
        return f"{_local_s3_plan()} ({_NO_ENGINE})"
    return _local_s3_plan()


def _local_s3_plan() -> str:
    try:
        weed_program()
    except WeedMissing as error:
        return f"NONE. {error}"
    return f"{S3Server().description}, local process"


def _local_kafka_plan() -> str:
    try:
        find_java()
    except JavaMissing as error:
        return f"NONE. {error}"
    jars = "cached" if any(cache_folder().glob("kafka_*.jar")) else "to be fetched"
    return f"Apache Kafka {KAFKA_VERSION} (KRaft), local processes, jars {jars}"


@contextlib.contextmanager
def running_kafka() -> Iterator[Kafka]:
    """Apache Kafka with one broker for the whole run."""
    if bootstrap := os.environ.get("KAFKA_BOOTSTRAP"):
        yield Kafka(bootstrap, f"the one at KAFKA_BOOTSTRAP={bootstrap}")
    elif containers.wanted() and containers.engine_answers():
        with containers.running_kafka() as address:
            yield Kafka(address, f"container {containers.kafka_image()}")
    else:
        with _started(KafkaCluster(1)) as cluster:
            yield Kafka(cluster.bootstrap, cluster.description, cluster)


@contextlib.contextmanager
def running_kafka3() -> Iterator[KafkaCluster]:
    """Three brokers of our own, because tests stop and kill them."""
    with _started(KafkaCluster(3)) as cluster:
        yield cluster


@contextlib.contextmanager
def running_s3() -> Iterator[S3]:
    """An S3 store for the whole run."""
    if endpoint := os.environ.get("S3_ENDPOINT"):
        access, secret = (os.environ.get(name) for name in ("S3_ACCESS_KEY", "S3_SECRET_KEY"))
        if not access or not secret:
            pytest.fail("S3_ENDPOINT is set, so S3_ACCESS_KEY and S3_SECRET_KEY must be set too")
        yield S3(endpoint, access, secret, f"the one at S3_ENDPOINT={endpoint}")
    elif containers.wanted() and containers.engine_answers():
        with containers.running_s3() as (address, access, secret):
            yield S3(address, access, secret, f"container {containers.s3_image()}")
    else:
        with S3Server() as server:
            yield S3(
                server.endpoint, server.access_key, server.secret_key, server.description, server
            )


@contextlib.contextmanager
def _started(cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    try:
        cluster.start()
    except (JavaMissing, JarsUnavailable) as error:
        if os.environ.get("REQUIRE_REAL_KAFKA") == "1":
            pytest.fail(f"REQUIRE_REAL_KAFKA=1, but there is no Apache Kafka. {error}")
        pytest.skip(f"no Apache Kafka: {error}")
    with cluster:
        yield cluster


# --- topics and buckets ----------------------------------------------------------------------


def unique_name(label: str) -> str:
    """Valid as a topic and as a bucket name, and used by nobody else."""
    clean = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:40]
    return f"{clean or 'test'}-{uuid.uuid4().hex[:12]}"


def create_topic(
    bootstrap: str, name: str, partitions: int, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic and wait until every broker knows a leader for each of its partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(name, num_partitions=partitions, config=dict(config or {}))
    admin.create_topics([topic], request_timeout=_TOPIC_TIMEOUT)[name].result(_TOPIC_TIMEOUT)
    deadline = time.monotonic() + _TOPIC_TIMEOUT
    for address in bootstrap.split(","):
        while not _has_leaders(address, name, partitions):
            if time.monotonic() > deadline:
                pytest.fail(f"topic {name} has no leaders {_TOPIC_TIMEOUT:g} s after its creation")
            time.sleep(0.05)


def _has_leaders(address: str, name: str, partitions: int) -> bool:
    """Asked of one broker (a client that has found the cluster may ask another)."""
    try:
        found = AdminClient({"bootstrap.servers": address}).list_topics(name, timeout=5.0)
    except KafkaException:
        return False
    known = found.topics[name].partitions
    return len(known) == partitions and all(one.leader >= 0 for one in known.values())


def delete_topics(kafka: Kafka, names: list[str]) -> None:
    """Only on a Kafka that outlives the run."""
    if kafka.cluster is None and names:
        admin = kafka.admin()  # held: requests that have not been answered end with their client
        for deleted in admin.delete_topics(names).values():
            try:
                deleted.result(_TOPIC_TIMEOUT)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:  # the test deleted it
                    raise


def delete_buckets(s3: S3, names: list[str]) -> None:
    """Only on a store that outlives the run."""
    if s3.server is None:
        client = s3.client()
        for name in names:
            found = client.list_objects(name, recursive=True)
            doomed = [DeleteObject(str(one.object_name)) for one in found]
            errors = list(client.remove_objects(name, doomed))
            assert not errors, f"bucket {name} could not be emptied"
            client.remove_bucket(name)
