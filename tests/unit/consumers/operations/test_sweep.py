"""What `bundles sweep` deletes, and what it must never touch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from consumers.operations.retention import Area, Kept, Rules, Why
from consumers.operations.sweep import Deletion, Sweep, SweepOptions, SweepReport
from schemas.job_record import JobPhase
from schemas.policy import Policy
from sinks.objectstore import StoreUnavailable
from tests.store_fakes import FaultScript, FaultyStore, StoreFault
from tests.unit.consumers.operations.stored import (
    BUCKET,
    DAY,
    HOUR,
    INPUT,
    ADocument,
    Stored,
    policy,
)


def sweep(
    stored: Stored,
    *policies: Policy,
    said: list[Deletion] | None = None,
    temp_root: Path | None = None,
    **options: Any,
) -> SweepReport:
    options = {"apply": True, "threads": 1, **options}
    return Sweep(
        stored.store,
        BUCKET,
        Rules({p.name: p for p in policies or (policy(),)}, options.get("min_age_s", DAY)),
        SweepOptions(**options),
        uploads=(stored.store, INPUT),
        temp_root=temp_root,
        on_deletion=(said if said is not None else []).append,
        clock=stored.clock,
        sleep=lambda _: None,
    ).run()


def test_an_old_image_without_manifest_and_without_record_goes() -> None:
    stored = Stored()
    orphan = ADocument(stored).write_image(1)
    stored.time += 2 * DAY
    said: list[Deletion] = []

    report = sweep(stored, said=said)

    assert stored.keys() == set()
    assert report.deleted == {(Area.DOCUMENTS, Why.ORPHAN): 1}
    assert [(d.key, d.why, d.age_s) for d in said] == [(orphan, Why.ORPHAN, 2 * DAY)]


def test_a_dry_run_says_the_same_and_deletes_nothing() -> None:
    stored = Stored()
    ADocument(stored).write_images()
    stored.time += 2 * DAY
    before = stored.keys()

    dry = sweep(stored, apply=False)

    assert stored.keys() == before
    assert dry.deleted == sweep(stored).deleted
    assert not dry.applied


def test_what_a_manifest_names_is_never_touched_however_old() -> None:
    stored = Stored()
    ADocument(stored).write_all()
    before = stored.keys()
    stored.time += 10 * 365 * DAY

    report = sweep(stored)

    assert stored.keys() == before
    assert not report.deleted
    assert report.kept[Area.RECORDS, Kept.MANIFEST_STANDS] == 1


def test_of_a_document_with_a_manifest_only_the_image_that_it_does_not_name_goes() -> None:
    stored = Stored()
    document = ADocument(stored)
    document.write_all()
    loser = document.write_image(2, b"what the loser of a race had stored")
    before = stored.keys()
    stored.time += 2 * DAY

    sweep(stored)

    assert stored.keys() == before - {loser}


def test_a_young_image_stays() -> None:
    stored = Stored()
    ADocument(stored).write_images()
    stored.time += DAY - 1

    report = sweep(stored)

    assert report.kept[Area.DOCUMENTS, Kept.YOUNG] == 2
    assert len(stored.keys()) == 2


@pytest.mark.parametrize("phase", [JobPhase.SUBMITTING, JobPhase.SUBMITTED])
def test_images_of_a_job_that_may_still_run_stay_although_they_are_old(phase: JobPhase) -> None:
    stored = Stored()
    slow = policy(polling={"deadline_s": 5 * DAY})
    document = ADocument(stored, slow)
    document.write_record(phase)
    document.write_images()
    stored.time += 5 * DAY

    report = sweep(stored, slow)

    assert report.kept[Area.DOCUMENTS, Kept.RUNNING] == 2
    assert len(stored.keys()) == 3


def test_images_of_a_job_whose_deadline_is_long_over_go() -> None:
    stored = Stored()
    document = ADocument(stored)
    document.write_record()
    document.write_images()
    stored.time += DAY + HOUR

    sweep(stored)

    assert stored.keys() == {document.record_key}


def test_a_replay_that_touched_the_record_lately_protects_its_old_images() -> None:
    stored = Stored()
    document = ADocument(stored)
    document.write_images()
    stored.time += 2 * DAY
    document.write_record(JobPhase.TIMED_OUT)
    stored.time += HOUR

    report = sweep(stored)

    assert report.kept[Area.DOCUMENTS, Kept.RUNNING] == 2


def test_with_no_minimum_age_an_ended_jobs_leftovers_go_at_once_and_a_running_ones_stay() -> None:
    stored = Stored()
    ended = ADocument(stored, document_id="ended")
    ended.write_record(JobPhase.FAILED)
    orphan = ended.write_image(1)
    running = ADocument(stored, document_id="running")
    running.write_record(JobPhase.SUBMITTED)
    running.write_image(1)
    before = stored.keys()
    stored.time += 1

    sweep(stored, min_age_s=0.0)

    assert stored.keys() == before - {orphan}


def test_a_record_that_cannot_be_read_protects_everything() -> None:
    stored = Stored()
    ADocument(stored).write_images()
    stored.time += 2 * DAY
    stored.put("_jobs/damaged.json", b"{")

    sweep(stored)

    assert len(stored.keys()) == 3


def test_output_past_its_retention_goes_manifest_first_and_the_record_when_its_own_is_over() -> (
    None
):
    stored = Stored()
    kept_a_month = policy(retention={"output_days": 30, "job_record_days": 60})
    document = ADocument(stored, kept_a_month)
    document.write_all()
    said: list[Deletion] = []

    stored.time += 31 * DAY
    sweep(stored, kept_a_month, said=said)
    assert stored.keys() == {document.record_key}
    assert said[0].key == document.manifest_key

    stored.time += 30 * DAY
    sweep(stored, kept_a_month)
    assert stored.keys() == set()


def test_a_record_past_its_retention_stays_while_its_manifest_stands() -> None:
    stored = Stored()
    document = ADocument(stored)
    document.write_all()
    unfinished = ADocument(stored, document_id="unfinished")
    unfinished.write_record(JobPhase.FAILED)
    stored.time += 91 * DAY

    sweep(stored)

    left = stored.keys()
    assert document.record_key in left
    assert unfinished.record_key not in left


def test_legal_hold_keeps_everything_of_its_policy_and_every_claim_check() -> None:
    stored = Stored()
    held = policy("held", retention={"output_days": 1, "job_record_days": 1, "legal_hold": True})
    free = policy("free", retention={"output_days": 1, "job_record_days": 1})
    under_hold = ADocument(stored, held, document_id="held")
    under_hold.write_all()
    ADocument(stored, held, document_id="orphans").write_images()
    ADocument(stored, free, document_id="free").write_all()
    claim = stored.put("_dead-letters/one")
    stored.time += 1000 * DAY

    report = sweep(stored, held, free)

    left = stored.keys()
    assert claim in left
    assert under_hold.manifest_key in left
    assert len(left) == 1 + 4 + 2
    assert report.kept[Area.DOCUMENTS, Kept.LEGAL_HOLD] == 4


def test_a_policy_that_is_not_in_the_settings_keeps_its_documents() -> None:
    stored = Stored()
    ADocument(stored, policy("gone", retention={"output_days": 1})).write_all()
    before = stored.keys()
    stored.time += 1000 * DAY

    report = sweep(stored)

    assert stored.keys() == before
    assert report.kept[Area.DOCUMENTS, Kept.POLICY_UNKNOWN] == 2


def test_keys_that_are_not_ours_stay() -> None:
    stored = Stored()
    for key in ("readme.txt", "bundle/doc/notes/images/x.png", "bundle-1/document-001/x.png"):
        stored.put(key)
    before = stored.keys()
    stored.time += 1000 * DAY

    report = sweep(stored)

    assert stored.keys() == before
    assert report.kept[Area.DOCUMENTS, Kept.FOREIGN] == 3


def test_claim_checks_and_replay_markers_go_when_their_dead_letters_have_expired() -> None:
    stored = Stored()
    stored.put("_dead-letters/old")
    stored.put("_replays/old")
    stored.time += 91 * DAY
    young = {stored.put("_dead-letters/young"), stored.put("_replays/young")}

    sweep(stored)

    assert stored.keys() == young


def test_uploads_are_left_alone_unless_asked_for_and_then_only_ours_that_no_record_names() -> None:
    stored = Stored()
    used, unused = f"uploads/aa/{'a' * 64}.pdf", f"uploads/bb/{'b' * 64}.pdf"
    ADocument(stored, source=used).write_record()
    for key in (used, unused, "uploads/somebody-elses.pdf", "scans/1.pdf"):
        stored.put(key, bucket=INPUT)
    before = stored.keys(INPUT)
    stored.time += 40 * DAY

    sweep(stored)
    assert stored.keys(INPUT) == before

    report = sweep(stored, uploads_s=30 * DAY)
    assert stored.keys(INPUT) == before - {unused}
    assert report.kept[Area.UPLOADS, Kept.IN_USE] == 1


def test_a_sweep_that_stopped_goes_on_where_it_was() -> None:
    stored = Stored()
    for number in range(5):
        ADocument(stored, document_id=f"document-{number}").write_images()
    stored.put("_dead-letters/old")
    stored.time += 100 * DAY

    resume, deleted = None, []
    for _ in range(10):
        report = sweep(stored, max_deletions=3, start_after=resume)
        deleted.append(sum(report.deleted.values()))
        resume = report.resume
        if resume is None:
            break

    assert stored.keys() == set()
    assert sum(deleted) == 11
    assert max(deleted) == 3


def test_every_bundle_is_reached_whatever_its_id_begins_with() -> None:
    stored = Stored()
    for bundle in ("0", "Z-last-before-underscore", "a", "z", "a-b", "a.b"):
        ADocument(stored, bundle_id=bundle).write_image(1)
    ADocument(stored, bundle_id="whole").write_all()
    stored.put("_probe/x")
    stored.time += 2 * DAY

    assert sum(sweep(stored).deleted.values()) == 6


def test_a_passing_failure_of_the_store_is_waited_for() -> None:
    stored = Stored()
    script = FaultScript()
    stored.store = FaultyStore(script, now=stored.store._now)
    stored.store.ensure_bucket(BUCKET)
    stored.store.ensure_bucket(INPUT)
    ADocument(stored).write_images()
    stored.time += 2 * DAY
    for operation in ("list", "get", "delete"):
        script.add(operation, StoreFault.UNAVAILABLE_503, StoreFault.THROTTLED_503)

    sweep(stored)

    assert stored.keys() == set()


def test_a_store_that_stays_away_ends_the_sweep_with_a_place_to_go_on() -> None:
    stored = Stored()
    ADocument(stored, document_id="one").write_image(1)
    stored.time += 2 * DAY
    faulty = FaultyStore(
        FaultScript(lambda operation, *_: StoreFault.UNAVAILABLE_503), now=stored.store._now
    )
    walk = Sweep(
        faulty,
        BUCKET,
        Rules({"default": policy()}, DAY),
        SweepOptions(apply=True, threads=1),
        clock=stored.clock,
        sleep=lambda _: None,
    )
    with pytest.raises(StoreUnavailable):
        walk.run()
    assert walk.report.resume == "documents:"


def test_a_manifest_that_appears_while_its_orphans_are_deleted_is_reported() -> None:
    stored = Stored()
    document = ADocument(stored, pages=1)
    document.write_images()
    stored.time += 2 * DAY

    class Racing(type(stored.store)):  # type: ignore[misc]
        def delete_many(self, bucket: str, keys: Any) -> None:
            super().delete_many(bucket, keys)
            document.write_manifest()

    stored.store.__class__ = Racing

    assert sweep(stored).raced == [document.prefix]


def test_deletions_keep_to_the_rate() -> None:
    stored = Stored()
    for number in range(10):
        ADocument(stored, document_id=f"document-{number}").write_image(1)
    stored.time += 2 * DAY
    waits: list[float] = []
    Sweep(
        stored.store,
        BUCKET,
        Rules({"default": policy()}, DAY),
        SweepOptions(apply=True, threads=1, per_second=0.1),
        clock=stored.clock,
        sleep=waits.append,
    ).run()

    # Ten objects at one per ten seconds; the pauses do not really pass here, so they add up.
    assert len(waits) == 9
    assert max(waits) > 80
