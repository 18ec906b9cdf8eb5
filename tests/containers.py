"""Test servers as containers: ``TEST_SERVERS=containers`` with a Docker engine.

The images: ``KAFKA_IMAGE`` (an `apache/kafka`) and ``S3_IMAGE`` (a MinIO or a fork of it).
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import time
import uuid
from collections.abc import Callable, Iterator
from functools import cache

import urllib3
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from minio import Minio
from minio.error import MinioException

from deploy.local.process import free_ports

_READY_TIMEOUT = 180.0


def wanted() -> bool:
    return os.environ.get("TEST_SERVERS") == "containers"


@cache
def engine_answers() -> bool:
    import docker
    from docker.errors import DockerException

    try:
        engine = docker.from_env(timeout=10)
        try:
            engine.ping()
        finally:
            engine.close()
    except DockerException:
        return False
    return True


def kafka_image() -> str:
    return os.environ.get("KAFKA_IMAGE", "apache/kafka:4.3.1")


def s3_image() -> str:
    return os.environ.get("S3_IMAGE", "pgsty/silo:RELEASE.2026-09-03T13-18-01Z")


def kafka_environment(port: int) -> dict[str, str]:
    """Settings of a one-broker Kafka that clients on the host reach at 127.0.0.1:``port``.

    Any of these variables replaces *all* of the image's defaults, so all that is needed is here.
    """
    return {
        "CLUSTER_ID": base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22].replace("-", "A"),
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_LISTENERS": f"INTERNAL://:19092,EXTERNAL://:{port},CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": (f"INTERNAL://localhost:19092,EXTERNAL://127.0.0.1:{port}"),
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
            "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "4",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    }


@contextlib.contextmanager
def running_kafka() -> Iterator[str]:
    """Yields the bootstrap address. (testcontainers' own KafkaContainer cannot run this image.)"""
    from testcontainers.core.container import DockerContainer

    # The address that the broker tells its clients must be known before it starts.
    port = free_ports(1)[0]
    container = DockerContainer(kafka_image()).with_bind_ports(port, port)
    for name, value in kafka_environment(port).items():
        container = container.with_env(name, value)
    with container:
        address = f"127.0.0.1:{port}"
        _wait(lambda: _kafka_answers(address), "Kafka", container.get_logs)
        yield address


@contextlib.contextmanager
def running_s3() -> Iterator[tuple[str, str, str]]:
    """Yields endpoint, access key, secret key."""
    from testcontainers.core.container import DockerContainer

    access, secret = secrets.token_hex(10), secrets.token_urlsafe(30)
    container = (
        DockerContainer(s3_image())
        .with_exposed_ports(9000)
        .with_env("MINIO_ROOT_USER", access)
        .with_env("MINIO_ROOT_PASSWORD", secret)
        .with_command("server /data")
    )
    with container:
        address = f"{container.get_container_host_ip()}:{container.get_exposed_port(9000)}"
        client = Minio(
            address,
            access,
            secret,
            secure=False,
            http_client=urllib3.PoolManager(retries=False, timeout=5.0),
        )
        _wait(lambda: _s3_answers(client), "the S3 store", container.get_logs)
        yield f"http://{address}", access, secret


def _wait(ready: Callable[[], bool], name: str, logs: Callable[[], tuple[bytes, bytes]]) -> None:
    deadline = time.monotonic() + _READY_TIMEOUT
    while not ready():
        if time.monotonic() > deadline:
            text = b"".join(logs()).decode(errors="replace")
            last = "\n".join(text.splitlines()[-20:])
            raise TimeoutError(f"the container of {name} is not ready; its last lines:\n{last}")
        time.sleep(0.2)


def _kafka_answers(address: str) -> bool:
    client = AdminClient({"bootstrap.servers": address, "log_level": 0})
    try:
        return bool(client.list_topics(timeout=2.0).brokers)
    except KafkaException:
        return False


def _s3_answers(client: Minio) -> bool:
    try:
        client.list_buckets()
    except (MinioException, urllib3.exceptions.HTTPError):
        return False
    return True
