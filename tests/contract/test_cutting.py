"""Textract's figures are cut out here: a document that crashes pdfium costs itself only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from consumers.extraction.retries import Verdict, classify
from consumers.extraction.sandbox import Sandbox, SandboxCrashed, SandboxLimits
from consumers.providers.protocol import Document, Provider, SubmitOptions
from consumers.providers.registry import build
from schemas.reasons import Reason
from tests import documents_pdfs
from tests.contract.subjects import KEY, Textract

MIB = 1024 * 1024


@pytest.fixture
def textract(tmp_path: Path) -> Iterator[Textract]:
    made = Textract(tmp_path)
    yield made
    made.close()


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(1, SandboxLimits(memory_bytes=256 * MIB)) as made:
        yield made


@pytest.fixture
def provider(textract: Textract, sandbox: Sandbox) -> Iterator[Provider]:
    made = build(textract.settings(), cut_regions=sandbox.cut_regions, environment={})
    yield made
    made.close()


def test_a_document_that_crashes_pdfium_fails_alone(
    textract: Textract, provider: Provider, tmp_path: Path
) -> None:
    good = textract.document()
    job_id = provider.submit(good, key=KEY, options=SubmitOptions()).job_id
    textract.finish(job_id)
    crashing = tmp_path / "bomb.pdf"
    crashing.write_bytes(documents_pdfs.object_stream_bomb(256 * MIB))
    with pytest.raises(SandboxCrashed) as crash:
        provider.images(job_id, Document(crashing, good.sha256, 1, good.pages))
    found = classify(crash.value)
    assert (found.verdict, found.reason) == (Verdict.DOCUMENT, Reason.PARSE_CRASHED)
    images = provider.images(job_id, good)
    assert [(i.page, i.order, None) for i in images] == textract.expected(job_id)
    assert all((image.data or b"").startswith(b"\x89PNG") for image in images)
