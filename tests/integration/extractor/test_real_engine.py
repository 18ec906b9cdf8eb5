"""The service with its own engine and real PDFs, through Python and Node.js clients."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from PIL import Image

from tests import pdfs
from tests.integration.extractor.running import PATIENCE_S, PROJECT, TOKEN, Service

CLIENT = PROJECT / "deploy" / "extractor" / "examples" / "client.mjs"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    root = tmp_path_factory.mktemp("service")
    with Service(root, engine="deploy.extractor.engine:extract", workers=2) as running:
        yield running


def colour(content: bytes) -> tuple[int, ...]:
    pixel = Image.open(io.BytesIO(content)).convert("RGB").getpixel((0, 0))
    assert isinstance(pixel, tuple)
    return pixel


def test_every_image_comes_with_its_page_its_place_and_its_pixels(service: Service) -> None:
    job = service.extracted(pdfs.pages(3, images_per_page=2))
    assert (job["status"], job["pages"], job["problems"]) == ("completed", 3, [])
    places = [(image["page"], image["index"]) for image in job["images"]]
    assert places == [(page, index) for page in (1, 2, 3) for index in (1, 2)]
    for image in job["images"]:
        content = requests.get(image["url"], timeout=PATIENCE_S).content
        assert colour(content) == pdfs.colour_of(image["page"], image["index"])


@pytest.mark.parametrize(
    ("fields", "pages"),
    [
        ({"first_page": 2, "last_page": 3}, {2, 3}),
        ({"first_page": 4}, {4, 5}),
        ({"last_page": 2}, {1, 2}),
    ],
)
def test_a_page_range_limits_the_pages(
    service: Service, fields: dict[str, int], pages: set[int]
) -> None:
    job = service.extracted(pdfs.pages(5), **fields)
    assert {image["page"] for image in job["images"]} == pages


def test_an_encrypted_document_is_reported_as_such(service: Service) -> None:
    assert service.extracted(pdfs.encrypted("secret"))["error"] == {"code": "encrypted"}


def test_a_header_without_a_document_is_unreadable(service: Service) -> None:
    assert service.extracted(b"%PDF-1.7\n<html>")["error"] == {"code": "unreadable"}


def test_a_document_without_images_completes_with_none(service: Service) -> None:
    job = service.extracted(pdfs.text_only())
    assert (job["status"], job["images"]) == ("completed", [])


def run_client(service: Service, pdf: Path, out_dir: Path) -> subprocess.CompletedProcess[str]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed, so the example client cannot be run")
    return subprocess.run(
        [node, str(CLIENT), str(pdf), str(out_dir)],
        env={**os.environ, "EXTRACTOR_URL": service.url, "EXTRACTOR_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_node_client_downloads_the_images_and_makes_one_job_for_two_runs(
    service: Service, tmp_path: Path
) -> None:
    pdf = tmp_path / "document.pdf"
    pdf.write_bytes(pdfs.pages(2, images_per_page=2))
    accepted = 'extractor_submits_total{outcome="accepted"}'
    before = service.metric(accepted)
    for run in ("first", "second"):
        ended = run_client(service, pdf, tmp_path / run)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.startswith("4 images of 2 pages")
        names = sorted(path.name for path in (tmp_path / run).iterdir())
        assert names == [f"page-00{p}-image-00{i}.png" for p in (1, 2) for i in (1, 2)]
        second_of_first_page = (tmp_path / run / "page-001-image-002.png").read_bytes()
        assert colour(second_of_first_page) == pdfs.colour_of(1, 2)
    assert service.metric(accepted) == before + 1


def test_the_node_client_ends_with_the_reason_of_a_failed_job(
    service: Service, tmp_path: Path
) -> None:
    pdf = tmp_path / "document.pdf"
    pdf.write_bytes(pdfs.encrypted("secret"))
    ended = run_client(service, pdf, tmp_path / "out")
    assert ended.returncode == 1
    assert "encrypted" in ended.stderr
