"""Documents that would harm a worker, and what a worker keeps on its disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.results import DOCUMENT_RESULT_TYPE
from tests import documents_pdfs, pdfs
from tests.bench.shards import scanned_pages
from tests.integration.conftest import MakePipeline
from tests.pipeline import Pipeline, wait_for

pytestmark = pytest.mark.integration

SECRET = "a-password-of-this-test"
QUICK = {"default": {"polling": {"first_delay_s": 0.1, "floor_s": 0.1, "ceiling_s": 0.5}}}
KIB = 1024


def document_files(pipeline: Pipeline) -> list[Path]:
    found = (pipeline.folder / "temp").glob("worker-*/*")
    return [path for path in found if path.is_file() and not path.name.startswith("sandbox-")]


def size_of(files: list[Path]) -> int:
    total = 0
    for file in files:
        try:
            total += file.stat().st_size
        except FileNotFoundError:
            continue
    return total


def large_documents(pipeline: Pipeline, count: int, kib: int) -> list[dict[str, Any]]:
    """Sources of about so many KiB."""
    sources = []
    for number in range(count):
        file = pipeline.folder / "large.pdf"
        scanned_pages(file, 1, kib * KIB - 2000 - number)
        sources.append(pipeline.upload(file.read_bytes()))
    return sources


def test_good_documents_are_not_held_up_behind_those_that_hang_the_parser(
    make_pipeline: MakePipeline,
) -> None:
    """With one sandbox process, and more that hang than there are processes before the good."""
    pipeline = make_pipeline(
        partitions=1,
        policies=QUICK,
        settings_tree={"sandbox": {"processes": 1, "cpu_time": "60s", "wall_time": "300s"}},
    )
    pipeline.start_fake_provider()
    bad = pipeline.upload(documents_pdfs.xref_that_takes_long(30_000, 20_000))
    for number in range(2):
        pipeline.send(pipeline.event(f"hangs-{number}", [bad]))
    for number in range(10):
        pipeline.send(pipeline.event(f"good-{number}", [pipeline.upload(pdfs.one_page_scan())]))
    worker = pipeline.start_worker()
    wait_for(
        lambda: len(pipeline.results(DOCUMENT_RESULT_TYPE)) == 10,
        120,
        "the good ones",
        pipeline.last_lines,
    )
    still_hanging = not pipeline.dead_letters()
    worker.kill()  # to wait for them would take minutes
    assert still_hanging


def test_a_document_that_hangs_the_parser_ends_as_parse_timeout(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline(settings_tree={"sandbox": {"cpu_time": "1s"}})
    pipeline.start_fake_provider()
    pipeline.start_worker()
    bad = pipeline.upload(documents_pdfs.xref_that_takes_long(2_000))
    pipeline.client.wait(pipeline.send(pipeline.event("hangs", [bad])), timeout_s=120)
    assert [letter.reason for letter in pipeline.dead_letters()] == ["parse_timeout"]


def test_the_policys_caps_on_images_end_documents_with_their_reasons(
    make_pipeline: MakePipeline,
) -> None:
    caps: dict[str, dict[str, Any]] = {
        "none": {},
        "few": {"max_images": 2},
        "plain": {"max_image_pixels": 100},
        "small": {"max_image_bytes": "50B"},
        "jpeg": {"allowed_image_types": ["image/jpeg"]},
    }
    policies = {name: {**QUICK["default"], "limits": limits} for name, limits in caps.items()}
    pipeline = make_pipeline(policies=policies)
    pipeline.start_fake_provider()
    pipeline.start_worker()
    source = pipeline.upload(pdfs.pages(3))
    for name in caps:
        pipeline.send(pipeline.event(f"bundle-{name}", [source], policy=name))
    wait_for(
        lambda: len(pipeline.dead_letters()) + len(pipeline.results(DOCUMENT_RESULT_TYPE)) == 5,
        120,
        "all of them",
        pipeline.last_lines,
    )
    ended = {r.data["bundle_id"]: r.data["images"] for r in pipeline.results(DOCUMENT_RESULT_TYPE)}
    assert ended == {"bundle-none": 3}
    assert {letter.key: letter.reason for letter in pipeline.dead_letters()} == {
        b"bundle-few": "too_many_images",
        b"bundle-plain": "image_too_many_pixels",
        b"bundle-small": "image_too_large",
        b"bundle-jpeg": "image_type_not_allowed",
    }


def test_a_password_is_taken_from_the_secret_that_the_event_names(
    make_pipeline: MakePipeline, tmp_path: Path
) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "clinic-a").write_text(f"{SECRET}\n")
    (secrets / "clinic-b").write_text("another-password-of-this-test\n")
    pipeline = make_pipeline(policies=QUICK)
    pipeline.start_extractor()
    pipeline.start_worker("--set", f"secrets_dir={secrets}")
    locked = pipeline.upload(pdfs.encrypted(SECRET))
    event = pipeline.event("bundle-1", [locked, locked])
    ours, others = (document["segments"] for document in event["documents"])
    ours[0]["password_secret"] = "clinic-a"
    others[0]["password_secret"] = "clinic-b"
    merged = [*ours, {"source": pipeline.upload(pdfs.one_page_scan())}]
    event["documents"].append({"document_id": "merged", "segments": merged})
    outcome = pipeline.client.wait(pipeline.send(event), timeout_s=120)

    assert outcome is not None, pipeline.last_lines()
    ended = {d["document_id"]: d for d in outcome["documents"]}
    assert ended["document-001"]["images"] == 1
    assert ended["merged"]["images"] == 2
    assert ended["document-002"]["reason"] == "encrypted"
    said = [
        pipeline.workers[0].last_lines(10_000),
        json.dumps(pipeline.ledger()),
        json.dumps(pipeline.manifest(ended["merged"]["manifest_key"])),
        *(json.dumps(letter.headers) for letter in pipeline.dead_letters()),
    ]
    assert not any(SECRET in text or "another-password" in text for text in said)


@pytest.mark.parametrize("sizes", ["known", "unknown"])
def test_a_full_quota_makes_documents_wait_and_fails_none(
    make_pipeline: MakePipeline, sizes: str
) -> None:
    quota = 1000 * KIB
    pipeline = make_pipeline(
        policies=QUICK,
        settings_tree={
            "temp": {"quota": f"{quota}B", "min_free": "0B"},
            "worker": {"jobs_per_provider": 1},
        },
    )
    pipeline.start_fake_provider("--run-time", "0.3")
    for number, source in enumerate(large_documents(pipeline, 10, 300)):
        if sizes == "unknown":
            del source["bytes"]
        pipeline.send(pipeline.event(f"bundle-{number}", [source]))
    worker = pipeline.start_worker()  # takes them all in at once
    most = 0

    def done() -> bool:
        nonlocal most
        most = max(most, size_of(document_files(pipeline)))
        return len(pipeline.results(DOCUMENT_RESULT_TYPE)) == 10

    wait_for(done, 180, "every document", pipeline.last_lines)
    assert pipeline.dead_letters() == []
    waited = {"waits_for_room", "breaker_opened"} & {line["event"] for line in pipeline.ledger()}
    assert most <= quota
    if sizes == "known":
        assert waited == {"waits_for_room"}
    else:  # found out while the bytes come
        assert waited, "the quota was never reached"
    wait_for(lambda: not document_files(pipeline), 30, "every file to be gone")
    wait_for(lambda: pipeline.http(worker, "/ready"), 30, "the worker to be ready")


def test_a_disk_that_is_nearly_full_pauses_the_intake_until_there_is_room(
    make_pipeline: MakePipeline,
) -> None:
    """`min_free` above what any disk has; the worker starts anew with a sane one."""
    pipeline = make_pipeline(policies=QUICK, settings_tree={"temp": {"min_free": "4096TiB"}})
    pipeline.start_fake_provider()
    worker = pipeline.start_worker()
    document = pipeline.upload(b"\r\n" + pdfs.one_page_scan())
    announced = pipeline.send(pipeline.event("bundle-1", [document]))
    wait_for(
        lambda: "temporary disk full" in (pipeline.http(worker, "/status") or ""), 30, "the pause"
    )
    assert not pipeline.results()
    assert not pipeline.dead_letters()
    assert not pipeline.provider_jobs()
    worker.stop(60)
    pipeline.settings_tree = {"temp": {"min_free": "0B"}}
    pipeline.start_worker()
    outcome = pipeline.client.wait(announced, timeout_s=60)
    assert outcome is not None, pipeline.last_lines()
    assert outcome["extracted"] == 1
    (validated,) = (line for line in pipeline.ledger() if line["event"] == "validated")
    assert validated["header_offset"] == 2, "what the document began with is told"
    assert validated["libmagic_version"] > 500
    assert "/" in validated["libmagic_type"]


def test_files_go_on_every_path_and_a_dead_worker_s_are_swept_beside_a_live_one(
    make_pipeline: MakePipeline,
) -> None:
    client = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1500"}
    pipeline = make_pipeline(
        policies=QUICK,
        settings_tree={"kafka": {"client": client}, "worker": {"jobs_per_provider": 1}},
    )
    pipeline.start_fake_provider("--run-time", "600")
    for number in range(6):
        pipeline.send(pipeline.event(f"b-{number}", [pipeline.upload(pdfs.one_page_scan(number))]))
    bad = [pdfs.encrypted("x"), pdfs.not_a_pdf("png"), b"%PDF-1.4\n" + b"x" * 1000]
    for number, content in enumerate(bad):
        pipeline.send(pipeline.event(f"bad-{number}", [pipeline.upload(content)]))
    killed = pipeline.start_worker()
    # One runs and has given its file back; five wait for its slot with theirs.
    wait_for(lambda: len(pipeline.dead_letters()) == 3, 60, "the bad ones", pipeline.last_lines)
    wait_for(lambda: len(document_files(pipeline)) == 5, 60, "files", pipeline.last_lines)
    killed.kill()
    left = set(document_files(pipeline))
    assert len(left) == 5

    live = pipeline.start_worker()
    assert not left & set(document_files(pipeline))
    pipeline.start_worker()
    locks = list((pipeline.folder / "temp").glob("worker-*.lock"))
    assert len(locks) == 2, "the live one's is left alone"
    assert all(lock.with_suffix("").is_dir() for lock in locks)
    # Stopped while they wait: what they had is gone with them.
    for worker in (live, pipeline.workers[-1]):
        worker.stop(60)
    assert list((pipeline.folder / "temp").iterdir()) == []
