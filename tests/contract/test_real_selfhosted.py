"""The adapter of the self-hosted service against the real service, in a process of its own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumers.providers.errors import DocumentRefused, ImageExpired, JobNotFound, NotAuthorized
from consumers.providers.protocol import Document, JobState, JobStatus, Provider, SubmitOptions
from consumers.providers.regions import cuts_nothing
from consumers.providers.registry import build, problems_at_start
from consumers.providers.settings import Kind, ProviderSettings, SelfHostedSettings
from tests import pdfs

TOKEN = "real-service-token"
OPTIONS = SubmitOptions()


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("extractor")
    environment = os.environ | {
        "EXTRACTOR_TOKEN": TOKEN,
        "EXTRACTOR_PORT": "0",
        "EXTRACTOR_WORKERS": "1",
        "EXTRACTOR_DATA_DIR": str(folder / "data"),
        "EXTRACTOR_MIN_FREE_BYTES": "0",
    }
    log = (folder / "log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "deploy.extractor"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            told = json.loads(line)
            if "listening" in told:
                yield f"{told['listening']}/v1"
                break
        else:
            pytest.fail("the service did not start")
    finally:
        process.terminate()
        process.stdout.read()
        process.wait(timeout=30)
        process.stdout.close()
        log.close()


@pytest.fixture
def provider(base_url: str) -> Iterator[Provider]:
    made = built(base_url)
    yield made
    made.close()


def built(base_url: str, token: str = TOKEN) -> Provider:
    settings = ProviderSettings(
        kind=Kind.SELFHOSTED,
        base_url=base_url,
        selfhosted=SelfHostedSettings(long_poll_seconds=5),
    )
    return build(settings, cut_regions=cuts_nothing, environment={"EXTRACTOR_TOKEN": token})


def document(folder: Path, content: bytes, pages: int = 1) -> Document:
    path = folder / f"{hashlib.sha256(content).hexdigest()}.pdf"
    path.write_bytes(content)
    return Document(path, hashlib.sha256(content).hexdigest(), len(content), pages)


def ended(provider: Provider, job_id: str) -> JobStatus:
    deadline = time.monotonic() + 60
    while (status := provider.poll(job_id)).state is JobState.RUNNING:
        assert time.monotonic() < deadline
    return status


def test_a_job_from_submit_to_forget(provider: Provider, tmp_path: Path) -> None:
    assert problems_at_start(provider, forbidden_regions=("china",)) == ()
    sent = document(tmp_path, pdfs.pages(3, images_per_page=2), 3)
    job_id = provider.submit(sent, key="whole", options=OPTIONS).job_id
    assert provider.submit(sent, key="whole", options=OPTIONS).job_id == job_id
    status = ended(provider, job_id)
    assert (status.state, status.pages, status.known) == (JobState.SUCCEEDED, 3, True)
    assert status.finished_at is not None
    assert [(image.page, image.order) for image in status.images] == [
        (page, order) for page in (1, 2, 3) for order in (0, 1)
    ]
    for image in status.images:
        fetched = provider.fetch_image(job_id, image, tmp_path / "image", max_bytes=10**6)
        assert (fetched.sha256, fetched.bytes) == (image.sha256, image.bytes)
    provider.forget(job_id)
    provider.forget(job_id)
    with pytest.raises(JobNotFound):
        provider.poll(job_id)
    with pytest.raises(ImageExpired):
        provider.fetch_image(job_id, status.images[0], tmp_path / "image", max_bytes=10**6)


def test_a_mask_given_as_an_image_is_told_from_a_picture_of_the_page(
    provider: Provider, tmp_path: Path
) -> None:
    sent = document(tmp_path, pdfs.with_a_soft_mask())
    apart = SubmitOptions(soft_masks="separate")
    status = ended(provider, provider.submit(sent, key="masked", options=apart).job_id)
    assert [(i.page, i.order, i.is_mask) for i in status.images] == [(1, 0, False), (1, 1, True)]


def test_a_key_with_another_document_is_terminal(provider: Provider, tmp_path: Path) -> None:
    provider.submit(document(tmp_path, pdfs.one_page_scan(1)), key="same", options=OPTIONS)
    with pytest.raises(DocumentRefused) as caught:
        provider.submit(document(tmp_path, pdfs.one_page_scan(2)), key="same", options=OPTIONS)
    assert caught.value.code == "idempotency_mismatch"


def test_what_is_no_pdf_is_refused(provider: Provider, tmp_path: Path) -> None:
    with pytest.raises(DocumentRefused) as caught:
        provider.submit(document(tmp_path, b"GIF89a" * 99), key="gif", options=OPTIONS)
    assert caught.value.code == "not_a_pdf"


def test_an_encrypted_document_fails_with_its_reason(provider: Provider, tmp_path: Path) -> None:
    sent = document(tmp_path, pdfs.encrypted("secret"))
    status = ended(provider, provider.submit(sent, key="locked", options=OPTIONS).job_id)
    assert (status.failure_code, status.failure_kind) == ("encrypted", "document")


def test_a_wrong_token_is_systemic(base_url: str, tmp_path: Path) -> None:
    stranger = built(base_url, "another-token")
    with pytest.raises(NotAuthorized):
        stranger.submit(document(tmp_path, pdfs.one_page_scan()), key="k", options=OPTIONS)
    stranger.close()


def test_a_50_mb_document_is_sent_without_holding_it_in_memory(
    provider: Provider, tmp_path: Path
) -> None:
    sent = large_document(tmp_path, 50)
    tracemalloc.start()
    provider.submit(sent, key="large", options=OPTIONS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * 1024 * 1024


def test_a_refusal_that_comes_before_the_whole_body_was_sent_is_read(
    base_url: str, tmp_path: Path
) -> None:
    stranger = built(base_url, "another-token")
    for _ in range(3):
        with pytest.raises(NotAuthorized):
            stranger.submit(large_document(tmp_path, 50), key="large", options=OPTIONS)
    stranger.close()


def large_document(folder: Path, megabytes: int) -> Document:
    """Says that it is a PDF, and is zeros otherwise."""
    path = folder / "large.pdf"
    with path.open("wb") as file:
        file.write(b"%PDF-1.7\n")
        file.truncate(megabytes * 1024 * 1024)
    return Document(path, "0" * 64, megabytes * 1024 * 1024, 1)
