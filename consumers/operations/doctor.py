"""Everything that a worker needs, looked at one by one. See `bundles doctor`.

Nothing is changed but for the store's probe, which writes below ``_probe/`` and removes it again.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from consumers.operations.checks import Check, failed, guarded, ok, warning
from consumers.operations.doctor_kafka import check_kafka
from consumers.operations.doctor_providers import check_providers
from consumers.settings import Settings, SettingsError
from consumers.stores import open_store
from schemas.units import format_size
from sinks.objectstore import AccessDenied, S3Store, StoreError
from sinks.objectstore.probe import UnsafeStore, probe


def examine(settings: Settings) -> Iterator[Check]:
    """The findings, as they are made."""
    parts = {
        "kafka": check_kafka,
        "store": check_store,
        "sources": check_sources,
        "providers": check_providers,
        "secrets": check_secrets,
        "temp": check_temp,
        "libmagic": check_libmagic,
        "sandbox": check_sandbox,
    }
    for name, part in parts.items():
        yield from guarded(name, partial(part, settings))


# -- store ---------------------------------------------------------------------------------------


def check_store(settings: Settings) -> Iterator[Check]:
    bucket = settings.store.output_bucket
    store = _opened(settings, input_only=False)
    if isinstance(store, Check):
        yield store
        return
    try:
        yield _bucket(store, "store.output_bucket", bucket)
        probe(store, bucket)
        yield ok("conditional writes", "the store keeps If-None-Match and If-Match, also in races")
        next(iter(store.list(bucket, "_jobs/")), None)
        yield ok("listing", "the output bucket can be listed (for sweep, verify and trace)")
    except UnsafeStore as error:
        yield failed(
            "conditional writes",
            str(error),
            "set store.endpoint to such a store: on this one two workers could overwrite each "
            "other's manifests",
        )
    except StoreError as error:
        yield failed(
            "store",
            str(error),
            "check store.endpoint and the keys; the identity needs to get, put, delete and list "
            f"objects in {bucket}",
        )
    finally:
        store.close()


def check_sources(settings: Settings) -> Iterator[Check]:
    store = _opened(settings, input_only=True)
    if isinstance(store, Check):
        yield store
        return
    try:
        named = {"store.input_bucket": [settings.store.input_bucket]}
        named["store.readable_buckets"] = list(settings.store.readable_buckets)
        for setting, buckets in named.items():
            for bucket in buckets:
                yield _bucket(store, setting, bucket)
    finally:
        store.close()


def _opened(settings: Settings, *, input_only: bool) -> S3Store | Check:
    try:
        return open_store(settings.store, input_only=input_only, threads=8)
    except SettingsError as error:
        return failed(
            "sources" if input_only else "store", str(error), "set store.endpoint and its keys"
        )


def _bucket(store: S3Store, setting: str, bucket: str) -> Check:
    try:
        there = store.bucket_exists(bucket)
    except AccessDenied as error:
        if error.credentials_rejected:
            return failed(setting, str(error), "check the access key and the secret key")
        return warning(
            setting,
            f"this identity may not ask whether bucket {bucket} exists",
            "allow ListBucket on it, or take it that it is there",
        )
    except StoreError as error:
        return failed(setting, str(error), "check store.endpoint: is the store up?")
    if there:
        return ok(setting, f"bucket {bucket} is there")
    return failed(setting, f"bucket {bucket} does not exist", f"create it, or set {setting}")


# -- this machine --------------------------------------------------------------------------------


def check_secrets(settings: Settings) -> Iterator[Check]:
    directory = settings.secrets_dir
    if directory is None:
        return
    try:
        names = [file for file in directory.iterdir() if file.is_file()]
    except OSError as error:
        yield failed("secrets_dir", f"cannot be read ({error.strerror})", "mount it, or unset it")
        return
    unreadable = [file for file in names if not os.access(file, os.R_OK)]
    if unreadable:
        yield failed(
            "secrets_dir",
            f"{len(unreadable)} of {len(names)} secrets cannot be read",
            "make them readable for the worker's user",
        )
    else:
        yield ok("secrets_dir", f"{len(names)} secret(s)")


def temp_root(settings: Settings) -> Path:
    return settings.temp.dir or Path(tempfile.gettempdir()) / "bundle-extractor"


def check_temp(settings: Settings) -> Iterator[Check]:
    root = temp_root(settings)
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=root) as file:
            file.write(b"x")
    except OSError as error:
        yield failed(
            "temp.dir",
            f"cannot write to {root} ({error.strerror})",
            "give the worker's user a directory of its own there, or set temp.dir",
        )
        return
    found = root.stat()
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        yield warning(
            "temp.dir",
            f"{root} is open to other users or belongs to one (each worker's own folder in it is "
            "private all the same)",
            f"chown it to the worker's user and chmod 700 {root}",
        )
    free = shutil.disk_usage(root).free
    quota, spare = settings.temp.quota, settings.temp.min_free
    said = f"{format_size(free - free % 2**20)} free at {root}"
    if free < spare:
        yield failed("temp space", said, f"temp.min_free is {format_size(spare)}: free some disk")
    elif free < quota + spare:
        wanted = f"temp.quota {format_size(quota)} and temp.min_free {format_size(spare)}"
        yield warning("temp space", f"{said}, less than {wanted} together", "lower temp.quota")
    else:
        yield ok("temp space", said)


def check_libmagic(settings: Settings) -> Iterator[Check]:
    from consumers.extraction.documents.signature import LibmagicMissing, libmagic_verdict

    try:
        verdict, version = libmagic_verdict(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    except LibmagicMissing as error:
        yield failed("libmagic", str(error), "pip install pylibmagic, or install libmagic1")
        return
    said = f"version {version / 100:.2f} takes a PDF header for {verdict}"
    yield ok("libmagic", said) if verdict == "application/pdf" else warning("libmagic", said)


def check_sandbox(settings: Settings) -> Iterator[Check]:
    """Starts one process with the limits that hold and has it read a page."""
    from consumers.extraction.documents.model import DocumentRejected, InspectionLimits
    from consumers.extraction.sandbox import Sandbox, SandboxLimits
    from consumers.extraction.sandbox.errors import SandboxError

    limits = settings.sandbox
    with tempfile.TemporaryDirectory(prefix="bundles-doctor-") as folder:
        page = Path(folder) / "page.pdf"
        _write_a_page(page)
        try:
            sandbox = Sandbox(
                processes=1,
                limits=SandboxLimits(
                    memory_bytes=limits.memory,
                    cpu_seconds=limits.cpu_time,
                    wall_seconds=limits.wall_time,
                    temporary_directory=Path(folder),
                ),
            )
            with sandbox:
                isolated = sandbox.network_isolated
                pages = sandbox.inspect(page, InspectionLimits()).pages
        except ValueError as error:
            yield failed("sandbox", f"sandbox: {error}", "correct that setting of sandbox")
        except (SandboxError, DocumentRejected) as error:
            yield failed(
                "sandbox",
                f"a process that parses documents could not read a page ({type(error).__name__})",
                "raise sandbox.memory, and see whether this machine lets processes be forked",
            )
        else:
            said = f"a process with {format_size(limits.memory)} read {pages} page"
            yield ok("sandbox", said)
            yield from _network(isolated)


def _network(isolated: bool) -> Iterator[Check]:
    if not isolated:
        yield warning(
            "sandbox network",
            "this kernel takes the network from no process, so only Python code in the sandbox is "
            "kept off it",
            "allow seccomp filters in the container, and bound what it may connect to",
        )


def _write_a_page(file: Path) -> None:
    from pypdf import PdfWriter

    writer = PdfWriter()
    writer.add_blank_page(width=72, height=72)
    writer.write(file)
