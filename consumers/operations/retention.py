"""What may be deleted, and why not: pure decisions over policies, ages and job records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from consumers.extraction.timestamps import parse_rfc3339
from schemas.job_record import JobPhase, JobRecord
from schemas.policy import Policy

DAY_S = 86_400.0


class Area(StrEnum):
    """What a sweep walks through, in this order."""

    DOCUMENTS = "documents"
    RECORDS = "records"
    DEAD_LETTERS = "dead-letters"
    REPLAYS = "replays"
    UPLOADS = "uploads"
    TEMP = "temp"


class Why(StrEnum):
    """Reasons to delete."""

    ORPHAN = "orphan"
    """An image that no manifest names."""
    OUTPUT_EXPIRED = "output_expired"
    RECORD_EXPIRED = "record_expired"
    CLAIM_CHECK_EXPIRED = "claim_check_expired"
    REPLAY_MARKER_EXPIRED = "replay_marker_expired"
    UPLOAD_ABANDONED = "upload_abandoned"
    DEAD_WORKER = "dead_worker"


class Kept(StrEnum):
    """Reasons why something that looked like it is left alone."""

    YOUNG = "young"
    RUNNING = "running"
    LEGAL_HOLD = "legal_hold"
    POLICY_UNKNOWN = "policy_unknown"
    """Its policy is not among the settings, so nobody knows of a hold or a retention."""
    MANIFEST_STANDS = "manifest_stands"
    """A record whose manifest stands: a redelivery finds the manifest by it."""
    IN_USE = "in_use"
    """An upload that a job record names as a source."""
    UNREADABLE = "unreadable"
    FOREIGN = "foreign"
    """Not a key that we write."""


@dataclass(frozen=True, slots=True)
class Rules:
    """``min_age_s``: nothing younger is ever an orphan. Ages in seconds."""

    policies: Mapping[str, Policy]
    min_age_s: float

    def held(self, policy_name: str) -> Kept | None:
        """Why nothing of this policy may go, or None."""
        policy = self.policies.get(policy_name)
        if policy is None:
            return Kept.POLICY_UNKNOWN
        return Kept.LEGAL_HOLD if policy.retention.legal_hold else None

    @property
    def any_hold(self) -> bool:
        return any(policy.retention.legal_hold for policy in self.policies.values())

    def output_expired(self, policy_name: str, age_s: float) -> bool:
        days = self.policies[policy_name].retention.output_days
        return days is not None and age_s > days * DAY_S

    def record_expired(self, policy_name: str, age_s: float) -> bool:
        days = self.policies[policy_name].retention.job_record_days
        return days is not None and age_s > days * DAY_S

    @property
    def shortest_record_s(self) -> float | None:
        """Younger records need not be read; None: no policy lets any go."""
        days = [p.retention.job_record_days for p in self.policies.values()]
        known = [d * DAY_S for d in days if d is not None]
        return min(known) if known else None

    @property
    def longest_protection_s(self) -> float:
        """A record last written longer ago than this protects nothing."""
        return max((self._running_s(p) for p in self.policies.values()), default=self.min_age_s)

    def protects(self, record: JobRecord, policy: Policy, now: float) -> bool:
        """Whether the job of a record without manifest may still write its images: until its
        deadline (and the lease of an unfinished submit) is over by ``min_age_s``, or, where it has
        ended, for ``min_age_s`` after its last change, for a replay of it."""
        updated = parse_rfc3339(record.updated_at)
        if updated is None:
            return True
        running = any(
            shard.phase in (JobPhase.SUBMITTING, JobPhase.SUBMITTED) for shard in record.shards
        )
        return now - updated <= (self._running_s(policy) if running else self.min_age_s)

    def _running_s(self, policy: Policy) -> float:
        return policy.polling.deadline_s + policy.retries.submitting_lease_s + self.min_age_s
