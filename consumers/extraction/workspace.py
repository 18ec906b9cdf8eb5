"""Temporary files of documents: private, owned, bounded, and gone afterwards.

    root/worker-<pid>-<random>.lock     locked (flock) for as long as the owner lives
    root/worker-<pid>-<random>/         0700; one per process
        <document>-<number>.<name>      0600; the files of the documents being worked on

Files of a document share a number and no directory: to make and remove one for every document took
as much of the control thread as a tenth of all else.

A directory belongs to whoever holds its lock, and the kernel drops the lock when the owner ends,
however it ends. So `sweep` cannot take a live owner for a dead one, whatever process ids mean by
then. The lock is taken before the directory is made, and it is removed after the directory.

Bytes are counted as they are written, so asking whether there is room costs nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_PREFIX = "worker-"
_LOCK_SUFFIX = ".lock"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


class WorkspaceFull(Exception):
    """No room for temporary files. The next document would fare the same, so it is never that
    document's fault: wait until others are done, and take in nothing meanwhile."""


class LargerThanQuota(Exception):
    """One document needs more than all temporary files may have: no waiting would help it."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What `sweep` found."""

    owners: int = 0
    """Dead owners whose directories were removed."""
    files: int = 0
    bytes: int = 0
    live: int = 0
    """Owners that live, and whose files were left alone."""


def sweep(root: Path, *, remove: bool = True) -> Swept:
    """Remove what dead owners left under `root`; never what a live one has.

    Several processes may sweep at the same time. Without `remove` it is only counted.
    """
    owners = files = size = live = 0
    if not root.is_dir():
        return Swept()
    for directory in sorted(root.glob(f"{_PREFIX}*")):
        if directory.suffix == _LOCK_SUFFIX and directory.with_suffix("").exists():
            continue  # is handled with its directory
        lock_path = directory.with_suffix(_LOCK_SUFFIX)
        with _taken(lock_path) as taken:
            if not taken:
                live += 1
                continue
            if directory != lock_path and directory.is_dir():
                found, found_bytes = _contents(directory)
                owners, files, size = owners + 1, files + found, size + found_bytes
                if remove:
                    shutil.rmtree(directory, ignore_errors=True)
            if remove:
                lock_path.unlink(missing_ok=True)
    return Swept(owners, files, size, live)


class Workspace:
    """The temporary files of this process. Safe to use from several threads."""

    def __init__(
        self,
        root: Path,
        quota_bytes: int,
        min_free_bytes: int = 0,
        clock: Callable[[], float] = time.monotonic,
        idle_seconds: float | None = None,
    ) -> None:
        """`root` is made (0700) if it is missing; one that exists keeps its permissions.

        `quota_bytes` bounds what this process writes; `min_free_bytes` is what it leaves free on
        the file system; `idle_seconds` is how long `DocumentFiles.rests` lets one live (None:
        for ever). Raises OSError if nothing can be created there.
        """
        self.quota_bytes = quota_bytes
        self.idle_seconds = idle_seconds
        self._min_free_bytes = min_free_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._used_bytes = 0
        self._documents: set[DocumentFiles] = set()
        self._numbers = itertools.count(1)
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock_descriptor, lock_path = _own(root)
        self._lock_path = lock_path
        self.path = lock_path.with_suffix("")
        self.path.mkdir(mode=0o700)

    @property
    def used_bytes(self) -> int:
        with self._lock:
            return self._used_bytes

    def has_room(self, expected_bytes: int = 0) -> bool:
        """Whether so many bytes more are within the quota and leave enough of the disk free."""
        if self.used_bytes + expected_bytes > self.quota_bytes:
            return False
        disk = os.statvfs(self.path)
        return disk.f_bavail * disk.f_frsize - expected_bytes >= self._min_free_bytes

    def document_files(self, name: str, lifetime_seconds: float | None = None) -> DocumentFiles:
        """The place of a document's files; close it, or use it in a `with`, to remove them.

        `name` has letters, digits and `._-` only; two with one name do not meet. After
        `lifetime_seconds` they may be removed by `remove_expired`, whoever forgot them.
        """
        _check_name(name)
        expires_at = None if lifetime_seconds is None else self._clock() + lifetime_seconds
        document = DocumentFiles(self, f"{name}-{next(self._numbers)}", expires_at)
        with self._lock:
            self._documents.add(document)
        return document

    def remove_expired(self) -> int:
        """Remove the files of documents whose lifetime is over; returns how many these were."""
        now = self._clock()
        with self._lock:
            expired = [
                document
                for document in self._documents
                if document.expires_at is not None and document.expires_at <= now
            ]
        for document in expired:
            document.close()
        return len(expired)

    def close(self) -> None:
        """Remove everything of this process, and give the ownership up."""
        with self._lock:
            if self._lock_descriptor < 0:
                return
            descriptor, self._lock_descriptor = self._lock_descriptor, -1
            self._documents.clear()
            self._used_bytes = 0
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock_path.unlink(missing_ok=True)
        os.close(descriptor)

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _charge(self, size: int) -> None:
        with self._lock:
            if self._used_bytes + size > self.quota_bytes:
                raise WorkspaceFull(f"the quota of {self.quota_bytes} bytes is used up")
            self._used_bytes += size

    def _release(self, size: int) -> None:
        with self._lock:
            self._used_bytes = max(0, self._used_bytes - size)

    def _forget(self, document: DocumentFiles) -> None:
        with self._lock:
            self._documents.discard(document)


class DocumentFiles:
    """The temporary files of one document. Safe to use from several threads."""

    def __init__(self, workspace: Workspace, prefix: str, expires_at: float | None) -> None:
        self.expires_at = expires_at
        self._workspace = workspace
        self._beginning = f"{workspace.path}/{prefix}."
        self._paths: dict[str, Path] = {}
        """Of every name that was asked for: what has to be gone in the end."""
        self._sizes: dict[str, int] = {}
        self._lock = threading.Lock()
        self._closed = False

    def file(self, name: str) -> Path:
        """The path of a file of this document; nothing is created."""
        path = self._paths.get(name)
        if path is None:
            _check_name(name)
            path = self._paths[name] = Path(self._beginning + name)
        return path

    def name_of(self, path: Path) -> str:
        """The name of a file of this document."""
        return str(path).removeprefix(self._beginning)

    @property
    def closed(self) -> bool:
        """The files are gone."""
        return self._closed

    def rests(self) -> None:
        """Nobody uses the files now: when that lasts too long they may be removed."""
        idle = self._workspace.idle_seconds
        self.expires_at = None if idle is None else self._workspace._clock() + idle

    def wakes(self) -> None:
        """The files are used, for however long that takes."""
        self.expires_at = None

    def reserve(self, sizes: Mapping[str, int]) -> bool:
        """Count files before they are written, all of them or none; `account` says later how large
        each became. False: there is no room for them now."""
        total = sum(sizes.values())
        if not self._workspace.has_room(total):
            return False
        try:
            self._workspace._charge(total)
        except WorkspaceFull:  # another thread was quicker
            return False
        with self._lock:
            for name, size in sizes.items():
                self._sizes[name] = self._sizes.get(name, 0) + size
        return True

    @contextlib.contextmanager
    def growing(self, name: str) -> Iterator[Callable[[int], None]]:
        """For a block that writes a file of a size that may not be known: call what this gives with
        the number of bytes before they are written. Up to what was reserved they count already.

        Raises, from there, WorkspaceFull, and LargerThanQuota where the document by itself is. If
        the block fails, the file is removed and no more than the reservation goes on counting.
        """
        with self._lock:
            reserved = self._sizes.get(name, 0)
        written = 0

        def grow(size: int) -> None:
            nonlocal written
            written += size
            with self._lock:
                more, total = written - self._sizes.get(name, 0), sum(self._sizes.values())
            if total + more > self._workspace.quota_bytes:
                raise LargerThanQuota("the document is larger than the quota of temporary files")
            if more > 0:
                self._grow(name, more)

        try:
            yield grow
        except BaseException:
            self.file(name).unlink(missing_ok=True)
            with self._lock:
                beyond = self._sizes.get(name, 0) - reserved
                if beyond > 0:
                    self._sizes[name] = reserved
                    self._workspace._release(beyond)
            raise

    def account(self, name: str, size: int | None = None) -> int:
        """Count a file that somebody else wrote in here; returns its ``size`` (None: as it is).

        Raises WorkspaceFull, or FileNotFoundError if `close` was called meanwhile; the file is
        removed then.
        """
        if size is None:
            size = self.file(name).stat().st_size
        try:
            self._grow(name, size - self._sizes.get(name, 0))
        except (WorkspaceFull, FileNotFoundError):
            self.remove(name)
            raise
        return size

    def remove(self, name: str) -> None:
        """Remove a file that is no longer needed; does nothing if it is not there."""
        self.file(name).unlink(missing_ok=True)
        with self._lock:
            self._paths.pop(name, None)
            self._workspace._release(self._sizes.pop(name, 0))

    def close(self) -> None:
        """Remove all files. May be called again."""
        with self._lock:
            self._closed = True
            for path in list(self._paths.values()):
                with contextlib.suppress(OSError):
                    os.unlink(path)
            self._paths.clear()
            self._workspace._release(sum(self._sizes.values()))
            self._sizes.clear()
        self._workspace._forget(self)

    def __enter__(self) -> DocumentFiles:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _grow(self, name: str, size: int) -> None:
        with self._lock:
            if self._closed:
                raise FileNotFoundError("the document's temporary files have been removed")
            if size > 0:
                self._workspace._charge(size)
            else:
                self._workspace._release(-size)
            self._sizes[name] = self._sizes.get(name, 0) + size


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        # Not quoted: a name that is wrong may be anything.
        raise ValueError("a temporary file's name may have letters, digits and '._-' only")


def _own(root: Path) -> tuple[int, Path]:
    """Create and lock a new lock file."""
    while True:
        path = root / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}{_LOCK_SUFFIX}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A sweep may have seen it unlocked for a moment, and have removed it.
            if _is_same_file(descriptor, path):
                return descriptor, path
        except BlockingIOError:
            pass
        os.close(descriptor)


@contextlib.contextmanager
def _taken(lock_path: Path) -> Iterator[bool]:
    """Whether the lock could be taken, which means that its owner is dead; held for the block."""
    try:
        descriptor = os.open(
            lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
    except OSError:  # another user's, for instance
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = _is_same_file(descriptor, lock_path)
        except BlockingIOError:
            taken = False
        yield taken
    finally:
        os.close(descriptor)


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _contents(directory: Path) -> tuple[int, int]:
    """How many files are below, and their bytes."""
    sizes = [
        (Path(parent) / name).lstat().st_size
        for parent, _, names in os.walk(directory)
        for name in names
    ]
    return len(sizes), sum(sizes)
