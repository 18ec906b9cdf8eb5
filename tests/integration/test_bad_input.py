"""Bad input costs that input only: one dead letter each, with its own reason, bytes untouched."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from schemas import export
from schemas.export import DEAD_LETTER_HEADERS
from schemas.reasons import Reason
from tests import documents_pdfs, pdfs
from tests.integration.conftest import MakePipeline
from tests.pipeline import Pipeline, wait_for

pytestmark = pytest.mark.integration

Make = Callable[[Pipeline], Any]
"""Gives the event (or the raw bytes) to send."""


def _one(pipeline: Pipeline, content: bytes, **segment: Any) -> dict[str, Any]:
    event = pipeline.event("bad", [pipeline.upload(content)])
    event["documents"][0]["segments"][0] |= segment
    return event


def _source(pipeline: Pipeline, **changes: Any) -> dict[str, Any]:
    source = pipeline.upload(pdfs.one_page_scan(3)) | changes
    return pipeline.event("bad", [{k: v for k, v in source.items() if v is not None}])


def _with(pipeline: Pipeline, **changes: Any) -> dict[str, Any]:
    return pipeline.event("bad", [pipeline.upload(pdfs.one_page_scan(3))]) | changes


def _document_id(pipeline: Pipeline, identifier: str) -> dict[str, Any]:
    event = _with(pipeline)
    event["documents"][0]["document_id"] = identifier
    return event


def _repeated(pipeline: Pipeline, *, documents: int = 1, segments: int = 1) -> dict[str, Any]:
    segment = {"source": pipeline.upload(pdfs.one_page_scan(3))}
    return {
        "bundle_id": "bad",
        "documents": [
            {"document_id": f"document-{number}", "segments": [segment] * segments}
            for number in range(documents)
        ],
    }


REACH_THE_SERVICE = {Reason.TOO_MANY_IMAGES}
"""What only its answer shows."""

CASES: list[tuple[str, Reason, Make]] = [
    ("not JSON", Reason.EVENT_UNPARSABLE, lambda _: b"\xff\xfenot json"),
    ("no value", Reason.EVENT_UNPARSABLE, lambda _: b""),
    ("a list", Reason.EVENT_UNPARSABLE, lambda _: b"[1, 2]"),
    ("deeply nested", Reason.EVENT_UNPARSABLE, lambda _: b"[" * 100_000),
    ("schema-registry frame", Reason.EVENT_SCHEMA_FRAMED, lambda _: b'\x00\x00\x00\x00\x01{"a":1}'),
    ("many documents", Reason.EVENT_TOO_LARGE, lambda p: _repeated(p, documents=3)),
    ("many segments", Reason.EVENT_TOO_LARGE, lambda p: _repeated(p, segments=3)),
    ("no documents", Reason.EVENT_INVALID, lambda p: _with(p, documents=[])),
    ("wrong type", Reason.EVENT_INVALID, lambda p: _with(p, operation="shredded")),
    ("unknown policy", Reason.POLICY_UNKNOWN, lambda p: _with(p, policy="nobody-knows-it")),
    ("bundle id with ../", Reason.EVENT_BAD_ID, lambda p: _with(p, bundle_id="../../etc")),
    ("id with a control character", Reason.EVENT_BAD_ID, lambda p: _document_id(p, "a\x07b")),
    ("id with ..", Reason.EVENT_BAD_ID, lambda p: _document_id(p, "a..b")),
    ("id too long", Reason.EVENT_BAD_ID, lambda p: _document_id(p, "x" * 129)),
    ("source key with ..", Reason.EVENT_BAD_KEY, lambda p: _source(p, key="a/../b")),
    ("source key with a newline", Reason.EVENT_BAD_KEY, lambda p: _source(p, key="a\nb")),
    ("missing object", Reason.SOURCE_MISSING, lambda p: _source(p, key="gone.pdf", sha256=None)),
    ("foreign bucket", Reason.BUCKET_NOT_ALLOWED, lambda p: _source(p, bucket="other-bucket")),
    ("checksum mismatch", Reason.CHECKSUM_MISMATCH, lambda p: _source(p, sha256="0" * 64)),
    ("size mismatch", Reason.SIZE_MISMATCH, lambda p: _source(p, bytes=17)),
    ("wrong type", Reason.FOREIGN_CONTAINER, lambda p: _one(p, pdfs.not_a_pdf("png"))),
    ("text", Reason.NOT_A_PDF, lambda p: _one(p, b"just some text " * 100)),
    ("over the size limit", Reason.TOO_LARGE, lambda p: _one(p, b"%PDF-1.4\n" + b"x" * 300_000)),
    ("over the page limit", Reason.TOO_MANY_PAGES, lambda p: _one(p, pdfs.pages(12, 0))),
    ("over the limit of images", Reason.TOO_MANY_IMAGES, lambda p: _one(p, pdfs.pages(9))),
    ("encrypted", Reason.ENCRYPTED, lambda p: _one(p, pdfs.encrypted("secret"))),
    (
        "unknown password secret",
        Reason.SECRET_UNKNOWN,
        lambda p: _one(p, pdfs.encrypted("secret"), password_secret="nobody-has-it"),
    ),
    (
        "page range outside",
        Reason.PAGE_RANGE,
        lambda p: _one(p, pdfs.pages(2, 1), pages={"first": 2, "last": 9}),
    ),
    ("unreadable", Reason.UNREADABLE, lambda p: _one(p, b"%PDF-1.7\n<html>nothing here</html>")),
]


def test_each_bad_input_costs_one_dead_letter_and_harms_nothing_else(
    make_pipeline: MakePipeline,
) -> None:
    limits = {
        "max_document_bytes": 200_000,
        "max_pages": 10,
        "max_documents_per_event": 2,
        "max_segments_per_document": 2,
        "max_images": 8,
    }
    pipeline = make_pipeline(partitions=1, policies={"default": {"limits": limits}})
    pipeline.start_fake_provider()
    sent: list[tuple[str, Reason, bytes, bytes]] = []
    for number, (label, reason, make) in enumerate(CASES):
        made = make(pipeline)
        value = made if isinstance(made, bytes) else json.dumps(made).encode()
        key = f"case-{number}".encode()
        pipeline.send_raw(value, key=key, headers=[("x-mine", b"kept")])
        sent.append((label, reason, key, value))
        good = pipeline.event(f"good-{number}", [pipeline.upload(pdfs.one_page_scan(number))])
        pipeline.send_raw(json.dumps(good).encode(), key=b"good")
    pipeline.start_worker()
    pipeline.wait_all_committed(150)

    schema_file = export.FOLDER / "dead-letter-headers.schema.json"
    headers_schema = Draft202012Validator(json.loads(schema_file.read_text()))
    letters = {letter.key: letter for letter in pipeline.dead_letters()}
    assert len(letters) == len(pipeline.dead_letters()) == len(CASES)
    wrong = [
        (label, reason.value, letters[key].reason)
        for label, reason, key, _ in sent
        if letters[key].reason != reason
    ]
    assert not wrong
    for label, _, key, value in sent:
        letter = letters[key]
        assert letter.value == value, label
        assert letter.headers["x-mine"] == "kept"
        assert letter.headers["x-dlq-original-topic"] == pipeline.topics.events
        assert letter.headers["x-dlq-original-offset"].isdigit()
        for name, text in letter.headers.items():
            assert len(text) <= 1024, (label, name)
        assert headers_schema.is_valid(letter.headers), label
        ours = {name for name in letter.headers if name.startswith("x-dlq-")}
        assert ours <= set(DEAD_LETTER_HEADERS), label
    counted = pipeline.count()
    good_results = {bundle for bundle, _ in counted.resulted}
    assert good_results == {f"good-{number}" for number in range(len(CASES))}
    asked = sum(reason in REACH_THE_SERVICE for _, reason, _ in CASES)
    assert len(pipeline.provider_jobs()) == len(CASES) + asked


def test_a_damaged_document_is_submitted_so_that_the_service_reads_all_its_pages(
    make_pipeline: MakePipeline,
) -> None:
    """The fake reads with qpdf, which leaves out a page of the first and does not open the other:
    as they are, both would end as `provider_incomplete`."""
    pipeline = make_pipeline(partitions=1)
    pipeline.start_fake_provider()
    damaged = [
        documents_pdfs.with_a_broken_page(pdfs.pages(3)),
        documents_pdfs.without_root(pdfs.pages(2)),
    ]
    for number, content in enumerate(damaged):
        pipeline.send(pipeline.event(f"damaged-{number}", [pipeline.upload(content)]))
    pipeline.start_worker()
    pipeline.wait_all_committed(60)

    assert [letter.reason for letter in pipeline.dead_letters()] == []
    assert {bundle for bundle, _ in pipeline.count().resulted} == {"damaged-0", "damaged-1"}
    assert len(pipeline.provider_jobs()) == 2


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("kafka.bootstrapservers", "x", "kafka.bootstrap_servers"),
        ("kafka.max_poll_interval", "60", "such as 250ms, 30s"),
        ("temp.quota", "lots", "such as 512KiB"),
        ("store.secret_key", "", "store.secret_key must be set"),
        ("store.endpoint", "ftp://x", "endpoint_url must be http"),
        ("policies.default.provider", "nobody", "providers.nobody"),
        ("policies.default.polling.ceiling_s", "0.1", "polling.ceiling_s"),
    ],
)
def test_a_wrong_setting_stops_the_start_with_a_sentence_that_names_it(
    make_pipeline: MakePipeline, setting: str, value: str, says: str
) -> None:
    pipeline = make_pipeline()
    pipeline.start_fake_provider()
    worker = pipeline.start_worker("--set", f"{setting}={value}", wait=False)
    wait_for(lambda: not worker.running, 60, "the worker to end", pipeline.last_lines)
    assert worker.returncode in (2, 64)
    assert says in worker.last_lines()
    assert "Traceback" not in worker.last_lines()


def test_a_worker_without_libmagic_says_which_package_to_install(
    make_pipeline: MakePipeline, tmp_path: Path
) -> None:
    for name in ("magic", "pylibmagic"):
        (tmp_path / f"{name}.py").write_text("raise ImportError")
    pipeline = make_pipeline()
    pipeline.start_fake_provider()
    path = os.pathsep.join([str(tmp_path), *sys.path])
    worker = pipeline.start_worker(wait=False, PYTHONPATH=path)
    wait_for(lambda: not worker.running, 60, "the worker to end", pipeline.last_lines)
    assert worker.returncode == 64
    assert "install the Python package 'pylibmagic'" in worker.last_lines()
    assert "Traceback" not in worker.last_lines()
