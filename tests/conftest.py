"""Fixtures of all tests: the real servers, started on first use and once a run."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from deploy.local.kafka import KafkaCluster
from tests import servers
from tests.integration_count import (
    pytest_configure,
    pytest_itemcollected,
    pytest_sessionfinish,
    pytest_terminal_summary,
)
from tests.servers import S3, Kafka, MakeBucket, MakeTopic

# Hooks, found here by their names.
__all__ = [
    "pytest_configure",
    "pytest_itemcollected",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
]

# A busy machine is no fault of what is tested.
hypothesis_settings.register_profile(
    "any", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("any")


def pytest_report_header() -> list[str]:
    return [f"kafka: {servers.kafka_plan()}", f"s3: {servers.s3_plan()}"]


def pytest_sessionstart() -> None:
    # A run that is told to end (`timeout`, a cancelled build) ends like one that got Ctrl-C:
    # servers stopped, their data removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A shell has what it runs in the background ignore this one.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def not_under_nohup() -> Iterator[None]:
    """SIGHUP does what it does on a terminal, also where the run itself is to outlive one."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """Apache Kafka with one broker."""
    with servers.running_kafka() as running:
        yield running


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """An S3 store with conditional writes."""
    with servers.running_s3() as running:
        yield running


@pytest.fixture(scope="session")
def kafka3_for_the_run() -> Iterator[KafkaCluster]:
    """Use `kafka3`."""
    with servers.running_kafka3() as cluster:
        yield cluster


@pytest.fixture
def kafka3(kafka3_for_the_run: KafkaCluster) -> Iterator[KafkaCluster]:
    """Apache Kafka with three brokers (ids 1 to 3) that the test may stop and kill.

    Started once a run; all three are up again before the next test gets it.
    """
    yield kafka3_for_the_run
    down = [one for one in kafka3_for_the_run.broker_ids if not kafka3_for_the_run.running(one)]
    kafka3_for_the_run.start_again(*down)


@pytest.fixture
def make_topic(kafka: Kafka) -> Iterator[MakeTopic]:
    """Creates topics of the test on `kafka`."""
    made: list[str] = []

    def make(
        label: str = "topic", *, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        name = servers.unique_name(label)
        servers.create_topic(kafka.bootstrap, name, partitions, config)
        made.append(name)
        return name

    yield make
    servers.delete_topics(kafka, made)


@pytest.fixture
def make_topic3(kafka3: KafkaCluster) -> MakeTopic:
    """Creates topics with three copies on `kafka3`."""

    def make(
        label: str = "topic", *, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        name = servers.unique_name(label)
        servers.create_topic(kafka3.bootstrap, name, partitions, config)
        return name

    return make


@pytest.fixture
def make_bucket(s3: S3) -> Iterator[MakeBucket]:
    """Creates buckets of the test on `s3`."""
    made: list[str] = []
    client = s3.client()

    def make(label: str = "bucket") -> str:
        name = servers.unique_name(label)
        client.make_bucket(name)
        made.append(name)
        return name

    yield make
    servers.delete_buckets(s3, made)
