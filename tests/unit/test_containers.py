"""The container of `apache/kafka` is told all it needs: any variable replaces all its defaults."""

from __future__ import annotations

from typing import Any, Self

import pytest
from testcontainers.core import container as testcontainers

from tests import containers
from tests.containers import kafka_environment


def test_clients_on_the_host_are_told_the_port_that_is_bound_there() -> None:
    settings = kafka_environment(23_456)
    listeners = dict(one.split("://") for one in settings["KAFKA_LISTENERS"].split(","))
    advertised = dict(one.split("://") for one in settings["KAFKA_ADVERTISED_LISTENERS"].split(","))
    protocols = dict(
        one.split(":") for one in settings["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")
    )

    assert listeners["EXTERNAL"] == ":23456"
    assert advertised["EXTERNAL"] == "127.0.0.1:23456"
    assert set(protocols) == set(listeners)
    assert set(advertised) == set(listeners) - {settings["KAFKA_CONTROLLER_LISTENER_NAMES"]}
    assert settings["KAFKA_INTER_BROKER_LISTENER_NAME"] in advertised


def test_the_cluster_id_has_the_form_that_kafka_wants() -> None:
    identity = kafka_environment(1)["CLUSTER_ID"]
    assert len(identity) == 22
    assert not identity.startswith("-")


class FakeContainer:
    """Stands in for a container of testcontainers, and for the engine behind it."""

    made: list[FakeContainer]

    def __init__(self, image: str) -> None:
        self.image = image
        self.env: dict[str, str] = {}
        self.bound: list[tuple[int, int]] = []
        self.exposed: list[int] = []
        self.command = ""
        self.state = "made"
        self.made.append(self)

    def with_env(self, name: str, value: str) -> Self:
        self.env[name] = value
        return self

    def with_bind_ports(self, container: int, host: int) -> Self:
        self.bound.append((container, host))
        return self

    def with_exposed_ports(self, *ports: int) -> Self:
        self.exposed += ports
        return self

    def with_command(self, command: str) -> Self:
        self.command = command
        return self

    def get_container_host_ip(self) -> str:
        return "engine.example"

    def get_exposed_port(self, port: int) -> int:
        return 20_000 + port

    def get_logs(self) -> tuple[bytes, bytes]:
        return b"early\n" * 20 + b"no room on disk\n", b""

    def __enter__(self) -> Self:
        self.state = "running"
        return self

    def __exit__(self, *_: object) -> None:
        self.state = "removed"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeContainer]:
    FakeContainer.made = []
    monkeypatch.setattr(testcontainers, "DockerContainer", FakeContainer)
    for name in ("KAFKA_IMAGE", "S3_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    return FakeContainer.made


def _answers(*_: Any) -> bool:
    return True


def test_a_kafka_container_listens_where_it_says_and_is_removed(
    made: list[FakeContainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "_kafka_answers", _answers)
    with containers.running_kafka() as address:
        (kafka,) = made
        assert kafka.state == "running"
        host, _, port = address.partition(":")
        assert (host, kafka.bound) == ("127.0.0.1", [(int(port), int(port))])
        assert f"EXTERNAL://{address}" in kafka.env["KAFKA_ADVERTISED_LISTENERS"]
        assert kafka.image.startswith("apache/kafka:4.")
    assert kafka.state == "removed"


def test_an_s3_container_has_the_keys_that_the_tests_get_and_is_removed(
    made: list[FakeContainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "_s3_answers", _answers)
    monkeypatch.setenv("S3_IMAGE", "registry.example/minio:1")
    with containers.running_s3() as (endpoint, access, secret):
        (store,) = made
        assert store.state == "running"
        assert (store.image, store.command) == ("registry.example/minio:1", "server /data")
        assert store.exposed == [9000]
        assert endpoint == "http://engine.example:29000"
        assert store.env == {"MINIO_ROOT_USER": access, "MINIO_ROOT_PASSWORD": secret}
    assert store.state == "removed"


@pytest.mark.parametrize("server", ["kafka", "s3"])
def test_a_container_that_is_never_ready_is_removed_and_its_last_lines_are_shown(
    made: list[FakeContainer], monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    monkeypatch.setattr(containers, "_READY_TIMEOUT", 0.0)
    monkeypatch.setattr(containers, f"_{server}_answers", lambda *_: False)
    with (
        pytest.raises(TimeoutError, match=r"(?s)not ready; its last lines:\n.*no room on disk"),
        getattr(containers, f"running_{server}")(),
    ):
        pass
    assert [one.state for one in made] == ["removed"]
