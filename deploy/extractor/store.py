"""The durable record of jobs: one SQLite file in WAL mode, written by one thread.

Accepting and finishing a job are fsynced before they return. Taking a job up is not: the worst
that a power cut can undo there is the count of one attempt, and the job runs again anyway.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.extractor.contract import JobError, JobStatus
from deploy.extractor.records import Accepted, ImageRow, JobRow

_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    id           TEXT PRIMARY KEY,
    sequence     INTEGER NOT NULL,
    owner        TEXT NOT NULL,
    status       TEXT NOT NULL,
    key_digest   TEXT UNIQUE,
    fingerprint  TEXT NOT NULL,
    options      TEXT NOT NULL,
    input_bytes  INTEGER NOT NULL,
    attempts     INTEGER NOT NULL DEFAULT 0,
    submitted_at REAL NOT NULL,
    finished_at  REAL,
    pages        INTEGER,
    error_code   TEXT,
    error_which  TEXT,
    problems     TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE INDEX IF NOT EXISTS jobs_by_status ON jobs (status, sequence);
CREATE TABLE IF NOT EXISTS images (
    job_id     TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    ordinal    INTEGER NOT NULL,
    page       INTEGER NOT NULL,
    idx        INTEGER NOT NULL,
    file       TEXT NOT NULL,
    media_type TEXT NOT NULL,
    width      INTEGER NOT NULL,
    height     INTEGER NOT NULL,
    sha256     TEXT NOT NULL,
    bytes      INTEGER NOT NULL,
    is_mask    INTEGER NOT NULL,
    PRIMARY KEY (job_id, ordinal)
) STRICT, WITHOUT ROWID;
"""


_JOB_COLUMNS = (
    "id, owner, status, fingerprint, options, input_bytes, attempts, submitted_at, finished_at, "
    "pages, error_code, error_which, problems"
)
_IMAGE_COLUMNS = "page, idx, file, media_type, width, height, sha256, bytes, is_mask"


class JobStore:
    """Reads may come from any one thread, writes from any other one; never two at a time each."""

    def __init__(self, path: Path) -> None:
        self._writer = _connect(path)
        self._writer.executescript(_SCHEMA)
        _add_owner(self._writer)
        self._reader = _connect(path)
        row = self._writer.execute("SELECT coalesce(max(sequence), 0) FROM jobs").fetchone()
        self._sequence: int = row[0]

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    # Writes

    def accept(
        self,
        job_id: str,
        *,
        owner: str,
        key_digest: str | None,
        fingerprint: str,
        options: str,
        input_bytes: int,
        now: float,
        window_s: float,
    ) -> Accepted:
        """Record a new job durably, unless its idempotency key names one younger than the window.

        `fingerprint` stands for the bytes and options: the same key with another is a mismatch.
        """
        with self._transaction(durable=True) as db:
            if key_digest is not None:
                known = _by_key(db, key_digest)
                if known is not None and now - known[2] < window_s:
                    return Accepted(known[0], False, is_mismatch=known[1] != fingerprint)
                db.execute("UPDATE jobs SET key_digest = NULL WHERE key_digest = ?", (key_digest,))
            self._sequence += 1
            db.execute(
                "INSERT INTO jobs (id, sequence, owner, status, key_digest, fingerprint, options,"
                " input_bytes, submitted_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    job_id,
                    self._sequence,
                    owner,
                    JobStatus.QUEUED,
                    key_digest,
                    fingerprint,
                    options,
                    input_bytes,
                    now,
                ),
            )
        return Accepted(job_id, True)

    def start(self, job_id: str) -> bool:
        """Mark a queued job as running; False when it is not queued (any more)."""
        with self._transaction(durable=False) as db:
            cursor = db.execute(
                "UPDATE jobs SET status = ?, attempts = attempts + 1 WHERE id = ? AND status = ?",
                (JobStatus.RUNNING, job_id, JobStatus.QUEUED),
            )
            return cursor.rowcount == 1

    def requeue(self, job_id: str) -> None:
        """Give a running job back without charging it the attempt (an orderly stop)."""
        with self._transaction(durable=False) as db:
            db.execute(
                "UPDATE jobs SET status = ?, attempts = attempts - 1 WHERE id = ? AND status = ?",
                (JobStatus.QUEUED, job_id, JobStatus.RUNNING),
            )

    def complete(
        self,
        job_id: str,
        *,
        pages: int,
        images: Sequence[ImageRow],
        problems: Sequence[str],
        now: float,
    ) -> bool:
        """Record the result durably; False when the job was deleted meanwhile."""
        with self._transaction(durable=True) as db:
            cursor = db.execute(
                "UPDATE jobs SET status = ?, pages = ?, problems = ?, finished_at = ?"
                " WHERE id = ? AND status = ?",
                (
                    JobStatus.COMPLETED,
                    pages,
                    json.dumps(list(problems)),
                    now,
                    job_id,
                    JobStatus.RUNNING,
                ),
            )
            if cursor.rowcount == 0:
                return False
            db.executemany(
                f"INSERT INTO images (job_id, ordinal, {_IMAGE_COLUMNS})"  # noqa: S608 (constant)
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    (
                        job_id,
                        ordinal,
                        image.page,
                        image.index,
                        image.file,
                        image.media_type,
                        image.width,
                        image.height,
                        image.sha256,
                        image.bytes,
                        image.is_mask,
                    )
                    for ordinal, image in enumerate(images)
                ),
            )
        return True

    def fail(self, job_id: str, code: JobError, which: str | None, now: float) -> bool:
        """Record a failure durably; False when the job was deleted meanwhile."""
        with self._transaction(durable=True) as db:
            cursor = db.execute(
                "UPDATE jobs SET status = ?, error_code = ?, error_which = ?, finished_at = ?"
                " WHERE id = ? AND status = ?",
                (JobStatus.FAILED, code, which, now, job_id, JobStatus.RUNNING),
            )
            return cursor.rowcount == 1

    def delete(self, job_id: str) -> bool:
        """Forget a job durably, its idempotency key included; False when it was not known."""
        with self._transaction(durable=True) as db:
            return db.execute("DELETE FROM jobs WHERE id = ?", (job_id,)).rowcount == 1

    def delete_finished_before(self, cutoff: float) -> list[str]:
        """Forget jobs that finished before `cutoff` (Unix s) and return their ids."""
        with self._transaction(durable=True) as db:
            rows = db.execute(
                "DELETE FROM jobs WHERE finished_at < ? RETURNING id", (cutoff,)
            ).fetchall()
            return [row[0] for row in rows]

    def recover(self, max_attempts: int, now: float) -> list[str]:
        """After a start: ids of all unfinished jobs, oldest first, all of them queued again.

        A job that was running at the end of `max_attempts` runs of the service is failed, so that
        one document cannot bring the service down for ever.
        """
        with self._transaction(durable=True) as db:
            db.execute(
                "UPDATE jobs SET status = ?, error_code = ?, error_which = ?, finished_at = ?"
                " WHERE status = ? AND attempts >= ?",
                (
                    JobStatus.FAILED,
                    JobError.CRASHED,
                    "attempts",
                    now,
                    JobStatus.RUNNING,
                    max_attempts,
                ),
            )
            db.execute(
                "UPDATE jobs SET status = ? WHERE status = ?", (JobStatus.QUEUED, JobStatus.RUNNING)
            )
            rows = db.execute(
                "SELECT id FROM jobs WHERE status = ? ORDER BY sequence", (JobStatus.QUEUED,)
            ).fetchall()
            return [row[0] for row in rows]

    # Reads

    def get(self, job_id: str) -> JobRow | None:
        row = self._reader.execute(
            f"SELECT {_JOB_COLUMNS} FROM jobs WHERE id = ?",  # noqa: S608 (constant)
            (job_id,),
        ).fetchone()
        if row is None:
            return None
        return JobRow(
            id=row[0],
            owner=row[1],
            status=JobStatus(row[2]),
            fingerprint=row[3],
            options=row[4],
            input_bytes=row[5],
            attempts=row[6],
            submitted_at=row[7],
            finished_at=row[8],
            pages=row[9],
            error_code=JobError(row[10]) if row[10] is not None else None,
            error_which=row[11],
            problems=tuple(json.loads(row[12])),
        )

    def images(self, job_id: str) -> list[ImageRow]:
        rows = self._reader.execute(
            f"SELECT {_IMAGE_COLUMNS} FROM images"  # noqa: S608 (constant)
            " WHERE job_id = ? ORDER BY ordinal",
            (job_id,),
        )
        return [_image(row) for row in rows]

    def image(self, job_id: str, ordinal: int) -> ImageRow | None:
        row = self._reader.execute(
            f"SELECT {_IMAGE_COLUMNS} FROM images"  # noqa: S608 (constant)
            " WHERE job_id = ? AND ordinal = ?",
            (job_id, ordinal),
        ).fetchone()
        return None if row is None else _image(row)

    def is_known_key(self, key_digest: str) -> bool:
        return _by_key(self._reader, key_digest) is not None

    def statuses(self) -> dict[str, JobStatus]:
        """Of all jobs, by id."""
        rows = self._reader.execute("SELECT id, status FROM jobs")
        return {job_id: JobStatus(status) for job_id, status in rows}

    def _transaction(self, *, durable: bool) -> _Transaction:
        return _Transaction(self._writer, durable)


class _Transaction:
    def __init__(self, db: sqlite3.Connection, durable: bool) -> None:
        self._db = db
        self._durable = durable

    def __enter__(self) -> sqlite3.Connection:
        # Outside a transaction this takes effect at once (sqlite.org/pragma.html#synchronous);
        # in WAL mode FULL fsyncs each commit and NORMAL only check-points.
        self._db.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
        self._db.execute("BEGIN IMMEDIATE")
        return self._db

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            try:
                self._db.execute("COMMIT")
                return
            except sqlite3.Error:  # such as a full disk: the transaction is still open
                self._roll_back()
                raise
        self._roll_back()

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    path.chmod(0o600)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA busy_timeout = 5000")
    return db


def _add_owner(db: sqlite3.Connection) -> None:
    """To a file of the time before jobs had owners; what it holds stays everybody's."""
    columns = {row[1] for row in db.execute("PRAGMA table_info(jobs)")}
    if "owner" not in columns:
        db.execute("ALTER TABLE jobs ADD COLUMN owner TEXT NOT NULL DEFAULT ''")


def _image(row: tuple[Any, ...]) -> ImageRow:
    page, index, file, media_type, width, height, sha256, size, is_mask = row
    return ImageRow(
        page, index, file, media_type, width, height, sha256, bytes=size, is_mask=bool(is_mask)
    )


def _by_key(db: sqlite3.Connection, key_digest: str) -> tuple[str, str, float] | None:
    row: tuple[str, str, float] | None = db.execute(
        "SELECT id, fingerprint, submitted_at FROM jobs WHERE key_digest = ?", (key_digest,)
    ).fetchone()
    return row
