"""The service with its own engine and real PDFs, through Python and Node.js clients."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from PIL import Image

from tests import pdfs
from tests.integration.extractor.engines import document
from tests.integration.extractor.running import PATIENCE_S, PROJECT, TOKEN, Service, wait_until

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


@dataclass(frozen=True)
class Ended:
    code: int
    stdout: str
    stderr: str


@contextmanager
def client(service: Service, pdf: Path, out_dir: Path) -> Iterator[Callable[[], Ended]]:
    """The example client at work; what it yields waits for its end."""
    node = shutil.which("node")
    if node is None:
        missing = "Node.js is not installed, so the example client cannot be run"
        if os.environ.get("REQUIRE_REAL_KAFKA") == "1":
            pytest.fail(f"REQUIRE_REAL_KAFKA=1, but {missing}")
        pytest.skip(missing)
    with subprocess.Popen(
        [node, str(CLIENT), str(pdf), str(out_dir)],
        env={**os.environ, "EXTRACTOR_URL": service.url, "EXTRACTOR_TOKEN": TOKEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:

        def end() -> Ended:
            stdout, stderr = process.communicate(timeout=PATIENCE_S)
            return Ended(process.returncode, stdout, stderr)

        try:
            yield end
        finally:
            process.kill()


def run_client(service: Service, pdf: Path, out_dir: Path) -> Ended:
    with client(service, pdf, out_dir) as end:
        return end()


def test_the_node_client_downloads_the_images_and_makes_one_job_for_two_runs(
    service: Service, tmp_path: Path
) -> None:
    pdf = tmp_path / "document.pdf"
    pdf.write_bytes(pdfs.pages(2, images_per_page=2))
    accepted = 'extractor_submits_total{outcome="accepted"}'
    before = service.metric(accepted)
    for run in ("first", "second"):
        ended = run_client(service, pdf, tmp_path / run)
        assert ended.code == 0, ended.stderr
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
    assert ended.code == 1
    assert "encrypted" in ended.stderr


def test_the_node_client_waits_where_the_queue_is_full(tmp_path: Path, hold: Path) -> None:
    pdf = tmp_path / "document.pdf"
    pdf.write_bytes(document("ok"))
    with Service(tmp_path, queue_capacity=1) as busy:
        busy.submitted(document("hold", hold))
        wait_until(Path(f"{hold}.started").exists)  # it runs: the next one is all of the queue
        waiting = busy.submitted(document("ok", "waiting"))
        with client(busy, pdf, tmp_path / "out") as end:
            wait_until(lambda: busy.metric('extractor_submits_total{outcome="queue_full"}') > 0)
            hold.touch()
            ended = end()
        assert (ended.code, ended.stderr) == (0, "")
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["page-001-image-001.png"]
        assert busy.finished(waiting)["status"] == "completed"


def test_a_run_that_requires_real_servers_requires_node_too(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    for required, ending in (("1", pytest.fail.Exception), ("", pytest.skip.Exception)):
        monkeypatch.setenv("REQUIRE_REAL_KAFKA", required)
        with pytest.raises(ending, match=r"Node\.js is not installed"):
            run_client(service, tmp_path / "document.pdf", tmp_path / "out")
