"""What one seed means: documents, events, workers, the service, and what goes wrong when.

Each seed switches on a few kinds of trouble and leaves the others off (all of them all the time
would hide what each alone leads to).
"""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass, field
from typing import Any, Literal

from schemas.policy import Limits, Policy, Polling, Retries, Sharding
from tests.simulation.documents import Trait, make_pdf
from tests.simulation.faults import ALL_RATES, OUTAGES, Outage
from tests.simulation.service import PROVIDER, ServiceKind

INPUT_BUCKET, OUTPUT_BUCKET = "incoming", "extracted"

Malformed = Literal["not_json", "bad_id", "unknown_policy", "empty"]
MoveKind = Literal["revoke", "lost", "seek", "bounce"]
KillPhase = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class SourcePlan:
    key: str
    body: bytes | None
    """None: the object does not exist."""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.body or b"missing").hexdigest()


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    source: SourcePlan
    pages: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class DocumentPlan:
    document_id: str
    segments: tuple[SegmentPlan, ...]
    trait: Trait = Trait.FINE
    checksums: bool = True
    """The event carries them."""

    def as_json(self) -> dict[str, Any]:
        segments = []
        for segment in self.segments:
            source: dict[str, Any] = {"key": segment.source.key}
            if self.trait is Trait.WRONG_CHECKSUM:
                source["sha256"] = "0" * 64
            elif self.checksums:
                source["sha256"] = segment.source.sha256
            entry: dict[str, Any] = {"source": source}
            if segment.pages is not None:
                entry["pages"] = {"first": segment.pages[0], "last": segment.pages[1]}
            segments.append(entry)
        return {"document_id": self.document_id, "segments": segments}


@dataclass(frozen=True, slots=True)
class EventPlan:
    """``padding`` bytes make the event too large to be sent again as a dead letter."""

    at: float
    partition: int
    bundle_id: str
    documents: tuple[DocumentPlan, ...]
    malformed: Malformed | None = None
    padding: int = 0

    def value(self) -> bytes:
        match self.malformed:
            case "empty":
                return b""
            case "not_json":
                return b"{" + self.bundle_id.encode()
        bundle = f"../{self.bundle_id}" if self.malformed == "bad_id" else self.bundle_id
        return json.dumps(
            {
                "bundle_id": bundle,
                "policy": "nobody" if self.malformed == "unknown_policy" else "default",
                "documents": [document.as_json() for document in self.documents],
                "note": "x" * self.padding,
            }
        ).encode()


@dataclass(frozen=True, slots=True)
class Move:
    """A partition changes hands: drained in order, lost without notice (the old owner hears of it
    late), read again from the committed offset, or lost and given back."""

    at: float
    partition: int
    kind: MoveKind


@dataclass(frozen=True, slots=True)
class Kill:
    """The worker that makes the ``step``-th remote call (or publish) dies: before it takes effect,
    or after it did and before its answer is seen."""

    step: int
    phase: KillPhase


@dataclass(frozen=True, slots=True)
class Scenario:
    seed: int
    events: tuple[EventPlan, ...]
    policy: Policy
    partitions: int = 1
    workers: int = 1
    service: ServiceKind = field(default_factory=ServiceKind)
    rates: dict[str, float] = field(default_factory=dict)
    outages: tuple[Outage, ...] = ()
    faults_until: float = 120.0
    moves: tuple[Move, ...] = ()
    kills: tuple[Kill, ...] = ()
    replay_resumable: bool = False
    """An operator replays every dead letter that can be resumed, once."""
    skewed_clocks: bool = False
    max_polls_per_second: float | None = None
    job_slots: int = 8
    local_documents: int = 4
    pool_threads: int | None = None
    """Calls of each kind that are under way at the same time; None: any number."""
    temp_quota_bytes: int = 1 << 30
    storm_threshold: int = 10

    @property
    def disturbed(self) -> bool:
        return bool(self.moves or self.kills)


def from_seed(seed: int) -> Scenario:
    rng = random.Random(f"scenario-{seed}")
    partitions = rng.choice((1, 1, 2, 3))
    events = _events(rng, partitions)
    faults_until = rng.choice((0.0, 30.0, 120.0, 300.0))
    disturbed = rng.random() < 0.6
    return Scenario(
        seed=seed,
        events=events,
        policy=_policy(rng),
        partitions=partitions,
        workers=rng.choice((1, 1, 2, 3)),
        service=_service(rng),
        rates=_rates(rng) if faults_until else {},
        outages=_outages(rng, faults_until),
        faults_until=faults_until,
        moves=_moves(rng, partitions, faults_until) if disturbed else (),
        kills=_kills(rng, sum(len(e.documents) for e in events)) if disturbed else (),
        replay_resumable=rng.random() < 0.3,
        skewed_clocks=rng.random() < 0.3,
        # Not drawn: that would change what every seed means.
        max_polls_per_second=1.0 if seed % 7 == 4 else None,
        pool_threads=1 if seed % 5 == 1 else None,
        job_slots=rng.choice((1, 2, 8)),
        local_documents=rng.choice((1, 2, 4)),
        storm_threshold=rng.choice((2, 10, 10)),
    )


def _policy(rng: random.Random) -> Policy:
    return Policy(
        name="default",
        provider=PROVIDER,
        limits=Limits(),
        sharding=Sharding(max_pages_per_job=rng.choice((None, None, 1, 2))),
        polling=Polling(deadline_s=rng.choice((60.0, 300.0))),
        retries=Retries(
            max_resubmits=rng.choice((0, 1, 1, 2)),
            not_found_grace=rng.choice((0, 3, 3)),
        ),
        forget_after_manifest=rng.random() < 0.7,
    )


def _service(rng: random.Random) -> ServiceKind:
    return ServiceKind(
        idempotent=rng.random() < 0.7,
        finds=rng.random() < 0.5,
        forgets=rng.random() < 0.6,
        lists_images=rng.random() < 0.7,
        tells_end=rng.random() < 0.5,
        reports_pages=rng.random() < 0.7,
        images_need_document=rng.random() < 0.15,
        url_seconds=rng.choice((2.0, 30.0, 3600.0)),
        run_seconds=rng.choice(((0.0, 0.5), (0.5, 5.0), (5.0, 50.0))),
    )


# A new one would change what every seed means, those of `REGRESSIONS` too.
_RARE = tuple(t for t in Trait if t not in (Trait.FINE, Trait.SEEN_DIFFERENTLY))


def _events(rng: random.Random, partitions: int) -> tuple[EventPlan, ...]:
    events = [
        _event(rng, f"b{number}", rng.randrange(partitions))
        for number in range(rng.choice((1, 1, 2, 3, 5)))
    ]
    if rng.random() < 0.3:  # the same bundle announced twice, perhaps on two partitions
        twice = rng.choice(events)
        if twice.malformed is None:
            at = twice.at + rng.choice((0.0, 0.001, 1.0, 20.0))
            events.append(
                EventPlan(at, rng.randrange(partitions), twice.bundle_id, twice.documents)
            )
    return tuple(sorted(events, key=lambda event: event.at))


def _event(rng: random.Random, bundle: str, partition: int) -> EventPlan:
    at = rng.choice((0.0, rng.uniform(0.0, 30.0)))
    malformed: Malformed | None = None
    if rng.random() < 0.05:
        malformed = rng.choice(("not_json", "bad_id", "unknown_policy", "empty"))
    documents = tuple(
        make_document(rng, f"{bundle}-d{number}", _trait(rng))
        for number in range(rng.choice((1, 1, 1, 2, 3)))
    )
    padding = 5000 if rng.random() < 0.05 else 0
    return EventPlan(at, partition, bundle, documents, malformed, padding)


def _trait(rng: random.Random) -> Trait:
    return rng.choice(_RARE) if rng.random() < 0.2 else Trait.FINE


def make_document(
    rng: random.Random, name: str, trait: Trait = Trait.FINE, *, checksums: bool | None = None
) -> DocumentPlan:
    segments = []
    for number in range(rng.choice((1, 1, 1, 2))):
        pages = rng.choice((1, 1, 2, 3))
        of_it = trait if number == 0 else Trait.FINE
        body = make_pdf(f"{name}-s{number}", pages, of_it, rng)
        cut = None
        if trait is not Trait.NOT_PDF and rng.random() < 0.2:
            cut = (pages, pages)
        source = SourcePlan(f"uploads/{name}-{number}.pdf", body)
        if trait is Trait.MISSING and number == 0:
            source = SourcePlan(source.key, None)
        segments.append(SegmentPlan(source, cut))
    if checksums is None:
        checksums = rng.random() < 0.5
    return DocumentPlan(name, tuple(segments), trait, checksums)


def _rates(rng: random.Random) -> dict[str, float]:
    kinds = rng.sample(sorted(ALL_RATES), rng.choice((0, 1, 2, 4, 8)))
    factor = rng.choice((0.3, 1.0, 2.5))
    return {kind: min(0.6, ALL_RATES[kind] * factor) for kind in kinds}


def _outages(rng: random.Random, until: float) -> tuple[Outage, ...]:
    outages = []
    while until and rng.random() < 0.25:
        begins = rng.uniform(0.0, until)
        outages.append(
            Outage(rng.choice(OUTAGES), begins, min(until, begins + rng.choice((3.0, 60.0))))
        )
    return tuple(outages)


def _moves(rng: random.Random, partitions: int, until: float) -> tuple[Move, ...]:
    kinds: tuple[MoveKind, ...] = ("revoke", "lost", "seek", "bounce")
    return tuple(
        Move(
            rng.choice((rng.uniform(0.0, 5.0), rng.uniform(0.0, max(until, 30.0)))),
            rng.randrange(partitions),
            rng.choice(kinds),
        )
        for _ in range(rng.choice((0, 1, 2, 5)))
    )


def _kills(rng: random.Random, documents: int) -> tuple[Kill, ...]:
    phases: tuple[KillPhase, ...] = ("before", "after")
    return tuple(
        Kill(rng.randrange(1, 20 * documents), rng.choice(phases))
        for _ in range(rng.choice((0, 1, 1, 3)))
    )


def plain_policy(**changes: Any) -> Policy:
    """The policy of a named scenario."""
    return Policy(name="default", provider=PROVIDER, **changes)
