"""Apache Kafka (KRaft) on the loopback address: one broker, or three.

Every broker is also a controller, listens on a plaintext port of its own for the brokers and for
us, and, with `KafkaSecurity`, on a second one that clients use. Nothing is shared with other
clusters on the machine; the ports are free ones.
"""

from __future__ import annotations

import base64
import logging
import os
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from deploy.local.jars import KAFKA_VERSION, JarsUnavailable, Progress, kafka_class_path
from deploy.local.java import JavaMissing, find_java
from deploy.local.kafka_security import KafkaSecurity
from deploy.local.kafka_settings import broker_settings
from deploy.local.process import (
    LOOPBACK,
    ChildProcess,
    ServerFailed,
    free_ports,
    port_is_free,
    says_port_taken,
)

# Rounded up from what a start takes (2-8 s) for a machine that does much else at the same time.
_START_TIMEOUT = 120.0
_FORMAT_TIMEOUT = 120.0
_START_ATTEMPTS = 4
_STOP_TIMEOUT = 15.0

# slf4j-simple: log to standard error, which goes to the broker's log file. Kafka's dump of every
# configuration value, hundreds of lines at each start, is left out.
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config.AbstractConfig=warn",
)

_SILENT = logging.Logger("kafka-start")
_SILENT.addHandler(logging.NullHandler())


class LocalKafka(Protocol):
    """What can be asked of any local Kafka, Apache's or the embedded one."""

    @property
    def kind(self) -> Literal["apache", "embedded"]: ...
    @property
    def description(self) -> str: ...
    @property
    def bootstrap(self) -> str: ...
    @property
    def broker_ids(self) -> tuple[int, ...]: ...
    @property
    def processes(self) -> tuple[ChildProcess, ...]: ...
    def last_lines(self, count: int = 20) -> str: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


@dataclass
class _Broker:
    number: int  # node id
    folder: Path
    internal_port: int
    controller_port: int
    client_port: int  # equal to internal_port without security
    process: ChildProcess

    @property
    def properties_file(self) -> Path:
        return self.folder / "server.properties"


class KafkaCluster:
    """Apache Kafka in KRaft mode: `brokers` processes (ids 1, 2, ...), each also a controller.

    With ``data_dir`` the data stays there and a later start over the same folder finds it;
    without, it lives in a temporary folder that `close` removes. ``properties`` override or add
    to each broker's ``server.properties``.

    The constructor only prepares; `start` (or ``with``) raises ServerFailed with the broker's own
    last lines, `deploy.local.java.JavaMissing` or `deploy.local.jars.JarsUnavailable`.
    """

    kind: Literal["apache"] = "apache"

    def __init__(
        self,
        brokers: int = 1,
        *,
        data_dir: Path | None = None,
        message_max_bytes: int | None = None,
        properties: Mapping[str, str] | None = None,
        security: KafkaSecurity | None = None,
        heap_mib: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        if brokers not in (1, 3):
            raise ValueError("a local cluster has 1 broker or 3")
        self._count = brokers
        self._security = security
        self._extra = dict(properties or {})
        if message_max_bytes is not None:
            self._extra["message.max.bytes"] = str(message_max_bytes)
            # A follower fetches at least one batch whatever its size; this keeps it efficient.
            self._extra.setdefault("replica.fetch.max.bytes", str(message_max_bytes))
        self._heap_mib = heap_mib or (512 if brokers == 1 else 320)
        self._progress = progress
        self._given_data_dir = data_dir
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._brokers: dict[int, _Broker] = {}
        self._jvm: list[str] = []

    # --- what callers use --------------------------------------------------------------------

    @property
    def description(self) -> str:
        plural = "" if self._count == 1 else "s"
        return f"Apache Kafka {KAFKA_VERSION} (KRaft, {self._count} broker{plural})"

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(range(1, self._count + 1))

    @property
    def bootstrap(self) -> str:
        """Addresses for clients, host:port,host:port; they stay the same over `restart`."""
        return ",".join(f"{LOOPBACK}:{broker.client_port}" for broker in self._started().values())

    @property
    def internal_bootstrap(self) -> str:
        """Addresses that need no credentials, for tests that set up a secured cluster."""
        return ",".join(f"{LOOPBACK}:{broker.internal_port}" for broker in self._started().values())

    @property
    def data_dir(self) -> Path:
        """Where settings, logs and data of all brokers are."""
        if self._given_data_dir is not None:
            return self._given_data_dir
        if self._temporary is None:
            raise ServerFailed("this cluster is not running")
        return Path(self._temporary.name)

    @property
    def processes(self) -> tuple[ChildProcess, ...]:
        """One per broker; none before the start and after `close`."""
        return tuple(broker.process for broker in self._brokers.values())

    def pid(self, broker_id: int) -> int:
        return self._started()[broker_id].process.pid

    def running(self, broker_id: int) -> bool:
        return self._started()[broker_id].process.running

    def last_lines(self, count: int = 20) -> str:
        return "\n".join(
            f"--- broker {number}\n{broker.process.last_lines(count)}"
            for number, broker in self._brokers.items()
        )

    def start(self) -> Self:
        """Fetch the jars if need be, format the storage once, start, wait until all answer."""
        if self._brokers:
            raise ServerFailed("this cluster was started already")
        java, class_path = find_java(), kafka_class_path(self._progress)
        self._jvm = [
            str(java),
            *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"),
            "-XX:-UsePerfData",  # files in /tmp, which a broker that is killed leaves behind
            *_LOGGING,
            *("-cp", class_path),
        ]
        data = self._data_folder()
        cluster_id = _kept_cluster_id(data)
        try:
            self._start_on_free_ports(data, cluster_id)
        except BaseException:
            self.close()
            raise
        return self

    def stop(self, broker_id: int) -> None:
        """Controlled shutdown: leadership moves first, if a majority of controllers is left."""
        self._started()[broker_id].process.stop(_STOP_TIMEOUT)

    def kill(self, broker_id: int) -> None:
        """SIGKILL, as a crash of that broker."""
        self._started()[broker_id].process.kill()

    def restart(self, broker_id: int) -> None:
        """Stop a broker if it runs and start it again, on the same ports and data."""
        self.stop(broker_id)
        self.start_again(broker_id)

    def start_again(self, *broker_ids: int) -> None:
        """Start brokers that were stopped or killed, together: with a majority of them down none
        would become ready alone. Same ports, same data."""
        for broker_id in broker_ids:
            broker = self._started()[broker_id]
            _wait_for_ports(broker)
            broker.process.start()
        self.wait_ready()

    def wait_ready(self, timeout: float = _START_TIMEOUT) -> None:
        """Wait until every broker that runs answers and knows all the others."""
        running = [broker for broker in self._brokers.values() if broker.process.running]
        wanted = {broker.number for broker in running}
        for broker in running:
            # Each is asked itself: the others take a killed broker for alive for some seconds.
            address = f"{LOOPBACK}:{broker.internal_port}"
            broker.process.wait_ready(partial(_knows, address, wanted), timeout)

    def close(self) -> None:
        """Stop everything; removes the data unless ``data_dir`` was given. May be called twice."""
        processes = [broker.process for broker in self._brokers.values()]
        if self._given_data_dir is not None:
            for process in processes:
                process.terminate()
            for process in processes:
                process.stop(_STOP_TIMEOUT)
        for process in processes:
            process.kill()
        self._brokers = {}
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def __enter__(self) -> Self:
        return self if self._brokers else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- how it is done ----------------------------------------------------------------------

    def _started(self) -> dict[int, _Broker]:
        if not self._brokers:
            raise ServerFailed("this cluster is not running")
        return self._brokers

    def _data_folder(self) -> Path:
        if self._given_data_dir is None:
            self._temporary = tempfile.TemporaryDirectory(
                prefix="kafka-", ignore_cleanup_errors=True
            )
            return Path(self._temporary.name)
        self._given_data_dir.mkdir(parents=True, exist_ok=True)
        return self._given_data_dir.resolve()

    def _start_on_free_ports(self, data: Path, cluster_id: str) -> None:
        for attempt in range(1, _START_ATTEMPTS + 1):
            self._brokers = self._plan(data)
            for broker in self._brokers.values():
                self._write_properties(broker)
            self._format(cluster_id)
            for broker in self._brokers.values():
                broker.process.start()
            try:
                self.wait_ready()
                return
            except ServerFailed as error:
                for broker in self._brokers.values():
                    broker.process.kill()
                if attempt == _START_ATTEMPTS or not says_port_taken(self.last_lines(200)):
                    raise ServerFailed(f"Kafka did not start. {error}") from error

    def _plan(self, data: Path) -> dict[int, _Broker]:
        ports = iter(free_ports(3 * self._count))
        brokers = {}
        for number in self.broker_ids:
            folder = data / f"broker-{number}"
            folder.mkdir(parents=True, exist_ok=True)
            internal, controller, client = next(ports), next(ports), next(ports)
            properties_file = folder / "server.properties"
            process = ChildProcess(
                f"Kafka broker {number}",
                [
                    self._jvm[0],
                    f"-Xmx{self._heap_mib}m",
                    *self._jvm[1:],
                    "kafka.Kafka",
                    str(properties_file),
                ],
                log_file=folder / "server.log",
                env=_environment(),
                cwd=folder,
            )
            brokers[number] = _Broker(
                number=number,
                folder=folder,
                internal_port=internal,
                controller_port=controller,
                client_port=client if self._security else internal,
                process=process,
            )
        return brokers

    def _write_properties(self, broker: _Broker) -> None:
        settings = broker_settings(
            number=broker.number,
            controller_ports={one.number: one.controller_port for one in self._brokers.values()},
            internal_port=broker.internal_port,
            client_port=broker.client_port,
            data=broker.folder / "data",
            security=self._security,
        )
        text = "".join(f"{key}={value}\n" for key, value in (settings | self._extra).items())
        broker.properties_file.write_text(text, encoding="utf-8")
        broker.properties_file.chmod(0o600)

    def _format(self, cluster_id: str) -> None:
        """Format the storage of brokers that have none yet, all at the same time."""
        new = [
            broker
            for broker in self._brokers.values()
            if not (broker.folder / "data" / "meta.properties").exists()
        ]
        users = self._security.scram_users if self._security else {}
        mechanism = self._security.mechanism if self._security else ""
        scram = [
            part
            for name, password in users.items()
            for part in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
        ]
        if not new:
            return
        with ThreadPoolExecutor(len(new)) as pool:
            list(pool.map(lambda broker: self._format_one(broker, cluster_id, scram), new))

    def _format_one(self, broker: _Broker, cluster_id: str, scram: list[str]) -> None:
        done = subprocess.run(
            [
                *self._jvm,
                "kafka.tools.StorageTool",
                *("format", "-t", cluster_id, "-c", str(broker.properties_file)),
                *scram,
            ],
            capture_output=True,
            text=True,
            timeout=_FORMAT_TIMEOUT,
            check=False,
            env=_environment(),
        )
        if done.returncode != 0:
            lines = (done.stdout + done.stderr).strip().splitlines()[-20:]
            raise ServerFailed(
                f"The storage of Kafka broker {broker.number} could not be formatted. "
                "Kafka's last lines:\n" + "\n".join(lines)
            )


def start_kafka(
    mode: Literal["auto", "apache", "embedded"] = "auto",
    *,
    brokers: int = 1,
    data_dir: Path | None = None,
    message_max_bytes: int | None = None,
    properties: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    notice: logging.Logger | None = None,
    on_made: Callable[[LocalKafka], object] = lambda _: None,
) -> LocalKafka:
    """Start a Kafka for development; the caller calls ``close()``. ``on_made`` hears of each before
    its start, so that who is interrupted in here can close it all the same.

    ``auto`` takes Apache Kafka and, where its jars or a Java cannot be had, says so (as a warning
    of ``notice`` and in ``description``) and takes librdkafka's built-in broker instead. A Kafka
    that is there but does not start is an error in every mode: ServerFailed.
    """
    from deploy.local.embedded import EmbeddedKafka

    reason = "asked for"
    if mode != "embedded":
        cluster = KafkaCluster(
            brokers,
            data_dir=data_dir,
            message_max_bytes=message_max_bytes,
            properties=properties,
            progress=progress,
        )
        on_made(cluster)
        try:
            return cluster.start()
        except (JavaMissing, JarsUnavailable) as error:
            if mode == "apache":
                raise
            reason = "Apache Kafka cannot be had here"
            (notice or logging.getLogger(__name__)).warning(
                "Falling back to the embedded Kafka: %s", error
            )
    embedded = EmbeddedKafka(brokers, reason=reason)
    on_made(embedded)
    return embedded.start()


def _wait_for_ports(broker: _Broker) -> None:
    """Wait until the ports of a broker that ended are free again."""
    deadline = time.monotonic() + _STOP_TIMEOUT
    ports = (broker.client_port, broker.internal_port, broker.controller_port)
    while not all(map(port_is_free, ports)):
        if time.monotonic() > deadline:
            raise ServerFailed(
                f"Kafka broker {broker.number} cannot come back: somebody took one of its ports"
            )
        time.sleep(0.1)


def _kept_cluster_id(data: Path) -> str:
    """The id of the cluster whose data is in the folder, or a new one."""
    file = data / "cluster-id"
    if not file.exists():
        new = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # Kafka's tools take a leading dash for an option.
        file.write_text(new.replace("-", "A"), encoding="ascii")
    return file.read_text(encoding="ascii").strip()


def _environment() -> dict[str, str]:
    """Ours without the variables by which a JVM takes options that are not meant for this one."""
    unwanted = {"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "KAFKA_OPTS"}
    return {name: value for name, value in os.environ.items() if name not in unwanted}


def _knows(address: str, wanted: set[int]) -> bool:
    """Whether the broker at ``address`` answers, and knows all brokers of ``wanted``.

    A new client each time: one that has found the cluster may ask another broker.
    """
    client = AdminClient(
        {"bootstrap.servers": address, "reconnect.backoff.ms": 50, "log_level": 0},
        # Refused connections are what waiting for a start looks like: not worth a line each.
        logger=_SILENT,
    )
    try:
        return wanted <= set(client.list_topics(timeout=1.0).brokers)
    except KafkaException:
        return False
