"""The service's private directory: who may use it, what lies where, and durable writes in it."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from pathlib import Path

PRIVATE_DIR = 0o700
PRIVATE_FILE = 0o600


class DataDirInUse(RuntimeError):
    """Another service already runs on this directory."""


class DataDir:
    """`jobs.sqlite`, `inputs/<job>.pdf`, `outputs/<job>/<image>`, `file-url.key`.

    Holds an exclusive lock while open, since two services on one directory would run every job
    twice. Raises DataDirInUse, or OSError when the directory cannot be made or written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.inputs = self.root / "inputs"
        self.outputs = self.root / "outputs"
        self.database = self.root / "jobs.sqlite"
        for directory in (self.root, self.inputs, self.outputs):
            directory.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
            directory.chmod(PRIVATE_DIR)
        self._lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise DataDirInUse(
                "another extraction service uses this data directory; "
                "stop it or set EXTRACTOR_DATA_DIR to another one"
            ) from None

    def close(self) -> None:
        os.close(self._lock)

    def input_of(self, job_id: str) -> Path:
        return self.inputs / f"{job_id}.pdf"

    def output_of(self, job_id: str) -> Path:
        return self.outputs / job_id

    def free_bytes(self) -> int:
        stat = os.statvfs(self.root)
        return stat.f_bavail * stat.f_frsize

    def remove_input(self, job_id: str) -> None:
        self.input_of(job_id).unlink(missing_ok=True)

    def remove_job(self, job_id: str) -> None:
        """Remove everything a job left on disk; nothing there is fine."""
        self.remove_input(job_id)
        shutil.rmtree(self.output_of(job_id), ignore_errors=True)

    def fresh_output(self, job_id: str) -> Path:
        """An empty output directory, without what an earlier attempt may have left."""
        directory = self.output_of(job_id)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=PRIVATE_DIR)
        return directory

    def job_ids_on_disk(self) -> set[str]:
        return {path.stem for path in self.inputs.iterdir()} | {
            path.name for path in self.outputs.iterdir()
        }

    def file_url_key(self) -> bytes:
        """The key that signs file URLs; kept, so that URLs outlive a restart."""
        path = self.root / "file-url.key"
        try:
            key = path.read_bytes()
        except FileNotFoundError:
            key = b""
        if len(key) != 32:
            key = secrets.token_bytes(32)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
            with os.fdopen(descriptor, "wb") as file:
                file.write(key)
                file.flush()
                os.fsync(file.fileno())
        return key


def fsync_directory(directory: Path) -> None:
    """Make the names in a directory durable (a new file's data alone is not enough)."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
