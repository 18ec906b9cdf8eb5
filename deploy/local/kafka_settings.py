"""The ``server.properties`` of a local Kafka broker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from deploy.local.kafka_security import KafkaSecurity
from deploy.local.process import LOOPBACK


def broker_settings(
    *,
    number: int,
    controller_ports: Mapping[int, int],
    internal_port: int,
    client_port: int,
    data: Path,
    security: KafkaSecurity | None,
) -> dict[str, str]:
    """Settings of broker ``number`` in a cluster whose brokers are the keys of
    ``controller_ports``: with three, every topic has three copies of which two must have a
    message before it is acknowledged."""
    brokers = len(controller_ports)
    copies, in_sync = str(brokers), "1" if brokers == 1 else "2"
    listeners = {"INTERNAL": internal_port}
    protocols = {"INTERNAL": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    if security is not None:
        listeners["CLIENT"] = client_port
        protocols["CLIENT"] = security.protocol
    advertised = [f"{name}://{LOOPBACK}:{port}" for name, port in listeners.items()]
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(number),
        "controller.quorum.voters": ",".join(
            f"{other}@{LOOPBACK}:{port}" for other, port in controller_ports.items()
        ),
        "listeners": ",".join([*advertised, f"CONTROLLER://{LOOPBACK}:{controller_ports[number]}"]),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in protocols.items()),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "INTERNAL",
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        # The first member of a group need not wait for others to arrive.
        "group.initial.rebalance.delay.ms": "0",
        # A laptop's few topics: the cleaner's default buffer alone is 128 MiB of heap.
        "log.cleaner.dedupe.buffer.size": str(8 << 20),
    }
    return settings | (security.properties() if security is not None else {})
