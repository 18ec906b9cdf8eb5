"""Which documents' images a job may still be writing, told by the job records of late."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator

from pydantic import ValidationError

from consumers.operations.layout import JOBS, policy_name
from consumers.operations.retention import Rules
from consumers.operations.storage import Sleep, listed, patiently, read_ahead
from schemas.job_record import JobRecord
from sinks.job_records import MAX_BYTES
from sinks.objectstore import ListedObject, ObjectNotFound, ObjectStore


class Protection:
    """Holds some 300 bytes per job record that was written within the longest protection; older
    ones are not even read."""

    def __init__(
        self,
        store: ObjectStore,
        bucket: str,
        rules: Rules,
        *,
        threads: int,
        clock: Callable[[], float] = time.time,
        sleep: Sleep = time.sleep,
    ) -> None:
        self._store, self._bucket, self._rules = store, bucket, rules
        self._threads = threads
        self._clock, self._sleep = clock, sleep
        self._prefixes: dict[tuple[str, str], bytes | None] = {}
        """(record key, ETag) -> digest of the prefix that it protects, None: of none."""
        self._covered: set[bytes] = set()
        self._unreadable = False

    def refresh(self) -> None:
        """Reads what changed since the last time; call it shortly before deleting.

        :raises StoreError: the store failed for longer than patience lasts.
        """
        fresh: dict[tuple[str, str], bytes | None] = {}
        self._unreadable = False
        for item, prefix in read_ahead(self._recent(), self._prefix_of, threads=self._threads):
            fresh[item.key, item.etag] = prefix
        self._prefixes = fresh
        self._covered = {prefix for prefix in fresh.values() if prefix is not None}

    def covers(self, prefix: str) -> bool:
        # A record that cannot be read may be of any document: better too careful.
        return self._unreadable or _digest(prefix) in self._covered

    def _recent(self) -> Iterator[ListedObject]:
        oldest = self._clock() - self._rules.longest_protection_s
        everything: Iterable[ListedObject] = listed(
            self._store, self._bucket, JOBS, sleep=self._sleep
        )
        return (item for item in everything if item.last_modified.timestamp() >= oldest)

    def _prefix_of(self, item: ListedObject) -> bytes | None:
        known = (item.key, item.etag)
        if known in self._prefixes:
            return self._prefixes[known]
        try:
            found = patiently(
                lambda: self._store.get(self._bucket, item.key, max_bytes=MAX_BYTES),
                sleep=self._sleep,
            )
            record = JobRecord.model_validate_json(found.body)
        except ObjectNotFound:
            return None
        except ValidationError:
            self._unreadable = True
            return None
        policy = self._rules.policies.get(policy_name(record.policy_version))
        if policy is not None and not self._rules.protects(record, policy, self._clock()):
            return None
        return _digest(record.manifest_key.removesuffix("/manifest.json"))


def _digest(prefix: str) -> bytes:
    return hashlib.sha256(prefix.encode()).digest()[:16]
