"""Starting: what is needed, what is refused, what it says."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import requests

from tests.integration.extractor.engines import document
from tests.integration.extractor.running import (
    COMMAND,
    PATIENCE_S,
    PROJECT,
    TOKEN,
    Service,
    wait_until,
)


def run(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if "EXTRACTOR" not in name}
    return subprocess.run(
        [*COMMAND, "--data-dir", str(tmp_path / "data"), *arguments],
        cwd=PROJECT,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_without_a_token_it_does_not_start_and_says_how_to_give_one(tmp_path: Path) -> None:
    ended = run(tmp_path)
    assert ended.returncode == 2
    assert "set EXTRACTOR_TOKEN" in ended.stderr
    assert "EXTRACTOR_TOKEN_FILE" in ended.stderr


def test_an_empty_token_file_is_no_token(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("\n")
    ended = run(tmp_path, EXTRACTOR_TOKEN_FILE=str(token_file))
    assert ended.returncode == 2
    assert "set EXTRACTOR_TOKEN" in ended.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EXTRACTOR_WORKERS", "0"),
        ("EXTRACTOR_ENGINE", "not an engine"),
        ("EXTRACTOR_PUBLIC_URL", "ftp://x"),
        ("EXTRACTOR_RETENTION_S", "soon"),
    ],
)
def test_a_wrong_setting_is_named_without_its_value_and_without_the_token(
    tmp_path: Path, name: str, value: str
) -> None:
    ended = run(tmp_path, EXTRACTOR_TOKEN="secret-token", **{name: value})
    assert ended.returncode == 2
    assert name in ended.stderr
    assert "secret-token" not in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    ended = run(tmp_path, EXTRACTOR_TOKEN_FILE=str(tmp_path / "absent"))
    assert ended.returncode == 2
    assert "absent" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with Service(tmp_path / "one") as service:
        port = service.url.rpartition(":")[2]
        ended = run(tmp_path, "--port", port, EXTRACTOR_TOKEN="t")
    assert ended.returncode == 2
    assert f"port {port}" in ended.stderr


def test_every_token_of_the_file_is_accepted(tmp_path: Path) -> None:
    token_file = tmp_path / "tokens"
    token_file.write_text("old-token\nnew-token\n")
    with Service(tmp_path, token_file=token_file) as service:
        for token, status in (("old-token", 404), ("new-token", 404), ("other", 401)):
            answer = requests.get(
                f"{service.url}/v1/pdf/job/get/{'0' * 32}",
                headers={"Authorization": f"Bearer {token}"},
                timeout=PATIENCE_S,
            )
            assert answer.status_code == status


def test_keys_of_different_tokens_do_not_meet(tmp_path: Path) -> None:
    token_file = tmp_path / "tokens"
    token_file.write_text("one\ntwo\n")
    with Service(tmp_path, token_file=token_file) as service:
        job_ids = {
            requests.post(
                f"{service.url}/v1/pdf/extract_images",
                headers={"Authorization": f"Bearer {token}", "Idempotency-Key": "same"},
                files={"file": ("x.pdf", document("ok", token), "application/pdf")},
                timeout=PATIENCE_S,
            ).json()["job_id"]
            for token in ("one", "two")
        }
        assert len(job_ids) == 2


def test_the_jobs_of_a_token_are_not_there_for_another(tmp_path: Path) -> None:
    token_file = tmp_path / "tokens"
    token_file.write_text(f"{TOKEN}\nother\n")
    with Service(tmp_path, token_file=token_file) as service:
        job_id = service.submitted(document("ok"))
        service.finished(job_id)
        other = {"Authorization": "Bearer other"}
        read = requests.get(
            f"{service.url}/v1/pdf/job/get/{job_id}", headers=other, timeout=PATIENCE_S
        )
        deleted = requests.delete(
            f"{service.url}/v1/pdf/job/{job_id}", headers=other, timeout=PATIENCE_S
        )
        assert (read.status_code, deleted.status_code) == (404, 204)
        assert service.poll(job_id).json()["status"] == "completed"
        # As if there were no such job: not even whether there is one can be told.
        unknown = requests.get(
            f"{service.url}/v1/pdf/job/get/{'0' * 32}", headers=other, timeout=PATIENCE_S
        )
        assert read.json() == unknown.json()


def test_the_ready_file_holds_the_address(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    process = subprocess.Popen(
        [*COMMAND, "--data-dir", str(tmp_path / "data"), "--ready-file", str(ready)],
        cwd=PROJECT,
        env={**os.environ, "EXTRACTOR_TOKEN": "t"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(ready.exists)
        url = json.loads(ready.read_text())["listening"]
        assert url.startswith("http://127.0.0.1:")
        assert requests.get(f"{url}/health", timeout=PATIENCE_S).status_code == 200
    finally:
        process.kill()
        process.wait()


def test_file_urls_carry_the_configured_public_address(tmp_path: Path) -> None:
    with Service(tmp_path, public_url="https://extractor.example.org/base/") as service:
        (image,) = service.extracted(document("ok"))["images"]
    assert image["url"].startswith("https://extractor.example.org/base/v1/files/")


def test_an_engine_that_cannot_be_loaded_makes_the_service_unhealthy(tmp_path: Path) -> None:
    with Service(tmp_path, engine="no_such_module:extract") as service:
        health = f"{service.url}/health"
        wait_until(lambda: requests.get(health, timeout=PATIENCE_S).status_code == 503)
        assert requests.get(health, timeout=PATIENCE_S).json()["status"] == "no_worker"
        assert "EXTRACTOR_ENGINE" in service.log.read_text()


def test_the_service_itself_loads_no_pdf_library(tmp_path: Path) -> None:
    with Service(tmp_path, engine="deploy.extractor.engine:extract") as service:
        assert service.process is not None
        maps = Path(f"/proc/{service.process.pid}/maps").read_text()
    for library in ("pdfium", "qpdf", "pikepdf", "numpy", "PIL"):
        assert library not in maps
