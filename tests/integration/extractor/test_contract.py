"""The HTTP contract, over real sockets."""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from deploy.extractor import contract
from tests.integration.extractor.engines import IMAGE, document
from tests.integration.extractor.running import PATIENCE_S, PROJECT, Service, wait_until

ALL_PATHS = {path for name, path in vars(contract).items() if name.endswith("_PATH")}


def a_key() -> str:
    return str(uuid.uuid4())


def test_a_submitted_document_is_extracted_and_its_image_downloaded_by_url_alone(
    service: Service,
) -> None:
    answer = service.submit(document("ok"), key=a_key())
    assert answer.status_code == 202
    assert answer.json()["status"] == "queued"

    job = service.finished(answer.json()["job_id"])
    assert job["status"] == "completed"
    assert job["pages"] == 1
    assert datetime.fromisoformat(job["submitted_at"]) <= datetime.fromisoformat(job["finished_at"])
    (image,) = job["images"]
    assert (image["page"], image["index"]) == (1, 1)
    assert (image["media_type"], image["width"], image["height"]) == ("image/png", 3, 2)

    download = requests.get(image["url"], timeout=PATIENCE_S)
    assert download.content == IMAGE + b"1"
    assert hashlib.sha256(download.content).hexdigest() == image["sha256"]
    assert download.headers["etag"] == f'"{image["sha256"]}"'
    assert int(download.headers["content-length"]) == image["bytes"] == len(download.content)
    assert download.headers["content-type"] == "image/png"
    assert "content-encoding" not in download.headers
    assert "transfer-encoding" not in download.headers


def test_json_with_base64_is_accepted_too(service: Service) -> None:
    answer = requests.post(
        f"{service.url}/v1/pdf/extract_images",
        headers=service.headers(),
        json={
            "pdf_base64": base64.b64encode(document("options")).decode(),
            "first_page": 2,
            "last_page": 4,
            "repeat_drawings": True,
        },
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 202, answer.text
    (options,) = service.finished(answer.json()["job_id"])["problems"]
    assert "page_range=(2, 4)" in options
    assert "repeat_drawings=True" in options


def test_form_fields_reach_the_engine_as_options(service: Service) -> None:
    job = service.extracted(
        document("options"), soft_masks="separate", repeat_drawings="true", first_page=3
    )
    (options,) = job["problems"]
    assert "soft_masks='separate'" in options
    assert "repeat_drawings=True" in options
    assert "page_range=(3, " in options


@pytest.mark.parametrize(
    ("fields", "which"),
    [
        ({"soft_masks": "sometimes"}, "soft_masks"),
        ({"first_page": 0}, "first_page"),
        ({"last_page": "x"}, "last_page"),
        ({"first_page": 5, "last_page": 4}, "first_page"),
    ],
)
def test_a_wrong_option_is_refused_by_name_and_leaves_no_file(
    service: Service, fields: dict[str, Any], which: str
) -> None:
    before = service.settled_files()
    answer = service.submit(document("ok"), **fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_request"
    assert answer.json()["error"]["which"] == which
    assert service.settled_files() == before


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic token-of-this-test-run"},
        {"Authorization": "Bearer"},
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/pdf/extract_images"),
        ("GET", "/v1/pdf/job/get/" + "0" * 32),
        ("DELETE", "/v1/pdf/job/" + "0" * 32),
    ],
)
def test_a_request_without_the_token_is_unauthorized(
    service: Service, method: str, path: str, headers: dict[str, str]
) -> None:
    answer = requests.request(method, service.url + path, headers=headers, timeout=PATIENCE_S)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "unauthorized"
    assert answer.headers["www-authenticate"] == "Bearer"


def test_the_same_key_and_document_give_the_same_job(service: Service) -> None:
    key = a_key()
    job_id = service.submitted(document("ok"), key=key)
    service.finished(job_id)
    again = service.submit(document("ok"), key=key)
    assert again.status_code == 200
    assert again.json() == {"job_id": job_id, "status": "completed"}


def test_many_submits_at_once_with_one_key_make_one_job(service: Service) -> None:
    key = a_key()

    def submit(_: int) -> str:
        answer = requests.post(
            f"{service.url}/v1/pdf/extract_images",
            headers=service.headers(key),
            files={"file": ("x.pdf", document("ok"), "application/pdf")},
            timeout=PATIENCE_S,
        )
        assert answer.status_code in (200, 202), answer.text
        job_id: str = answer.json()["job_id"]
        return job_id

    before = service.metric('extractor_submits_total{outcome="accepted"}')
    with ThreadPoolExecutor(8) as threads:
        job_ids = set(threads.map(submit, range(16)))
    assert len(job_ids) == 1
    assert service.metric('extractor_submits_total{outcome="accepted"}') == before + 1


@pytest.mark.parametrize(
    ("other", "fields"),
    [(document("ok", "other bytes"), {}), (document("ok"), {"soft_masks": "separate"})],
)
def test_the_same_key_with_another_document_or_options_is_a_mismatch(
    service: Service, other: bytes, fields: dict[str, Any]
) -> None:
    key = a_key()
    service.finished(service.submitted(document("ok"), key=key))
    before = service.settled_files()
    answer = service.submit(other, key=key, **fields)
    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "idempotency_mismatch"
    assert service.settled_files() == before


def test_submits_without_a_key_are_jobs_of_their_own(service: Service) -> None:
    assert service.submitted(document("ok")) != service.submitted(document("ok"))


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"<html>%PDF", b" " * 1024 + b"%PDF-1.7 ok "])
def test_what_has_no_pdf_header_is_not_a_pdf_and_leaves_no_file(
    service: Service, content: bytes
) -> None:
    before = service.settled_files()
    answer = service.submit(content)
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "not_a_pdf"
    assert service.settled_files() == before


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("text/plain", b"x", 415),
        ("multipart/form-data", b"x", 400),
        ("multipart/form-data; boundary=b", b"--b\r\nbroken", 400),
        ("multipart/form-data; boundary=b", b"--b--\r\n", 400),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n%PDF-1.7 ok ',
            400,
        ),
        ("application/json", b"{", 400),
        ("application/json", b"[1]", 400),
        ("application/json", b"[" * 100_000, 400),
        ("application/json", b'{"pdf_base64": "%%%"}', 400),
    ],
)
def test_a_malformed_body_is_refused_and_leaves_no_file(
    service: Service, content_type: str, body: bytes, status: int
) -> None:
    before = service.settled_files()
    answer = requests.post(
        f"{service.url}/v1/pdf/extract_images",
        headers={**service.headers(), "Content-Type": content_type},
        data=body,
        timeout=PATIENCE_S,
    )
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == "invalid_request"
    assert service.settled_files() == before


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\u00e9"])
def test_an_unusable_idempotency_key_is_refused(service: Service, key: str) -> None:
    answer = requests.post(
        f"{service.url}/v1/pdf/extract_images",
        headers={**service.headers(), "Idempotency-Key": key.encode("latin-1")},
        files={"file": ("x.pdf", document("ok"), "application/pdf")},
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["which"] == "idempotency-key"


@pytest.mark.parametrize("job_id", ["0" * 32, "nonsense", "..%2f..%2fjobs.sqlite"])
def test_an_unknown_job_is_not_found(service: Service, job_id: str) -> None:
    answer = service.poll(job_id)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] in ("job_not_found", "not_found")


def test_a_long_poll_is_answered_when_the_job_finishes(service: Service, hold: Path) -> None:
    job_id = service.submitted(document("hold", hold))
    with ThreadPoolExecutor(1) as threads:
        polled = threads.submit(
            requests.get,
            f"{service.url}/v1/pdf/job/get/{job_id}",
            params={"wait": 20},
            headers=service.headers(),
            timeout=PATIENCE_S,
        )
        wait_until(Path(f"{hold}.started").exists)
        assert not polled.done()
        hold.touch()
        assert polled.result().json()["status"] == "completed"


def test_an_unfinished_job_is_reported_with_a_hint_when_to_ask_again(
    service: Service, hold: Path
) -> None:
    running = service.submitted(document("hold", hold))
    waiting = service.submitted(document("ok"))
    wait_until(Path(f"{hold}.started").exists)
    for job_id, status in ((running, "running"), (waiting, "queued")):
        answer = service.poll(job_id, wait=0.01)
        assert answer.json()["status"] == status
        assert "images" not in answer.json()
        assert int(answer.headers["retry-after"]) >= 1
        assert 0 < float(answer.headers["retry-after-ms"]) <= 10_000
    hold.touch()
    assert service.finished(running)["status"] == service.finished(waiting)["status"] == "completed"


@pytest.mark.parametrize("wait", ["-1", "soon", "nan"])
def test_a_wait_that_is_no_time_is_refused(service: Service, wait: str) -> None:
    answer = service.poll("0" * 32, wait=wait)
    assert answer.status_code == 400
    assert answer.json()["error"]["which"] == "wait"


def test_delete_removes_the_files_and_the_job_and_may_be_repeated(service: Service) -> None:
    before = service.settled_files()
    job_id = service.submitted(document("ok"), key="to-be-deleted")
    (image,) = service.finished(job_id)["images"]
    assert service.delete(job_id).status_code == 204
    assert service.settled_files() == before
    assert service.delete(job_id).status_code == 204
    assert service.poll(job_id).status_code == 404
    download = requests.get(image["url"], timeout=PATIENCE_S)
    assert (download.status_code, download.json()["error"]["code"]) == (410, "file_gone")
    assert service.submitted(document("ok"), key="to-be-deleted") != job_id


def test_deleting_a_running_job_stops_it_and_the_next_job_runs(
    service: Service, hold: Path
) -> None:
    running = service.submitted(document("hold", hold))
    wait_until(Path(f"{hold}.started").exists)
    assert service.delete(running).status_code == 204
    assert service.extracted(document("ok"))["status"] == "completed"
    assert service.poll(running).status_code == 404
    wait_until(lambda: not (service.data_dir / "outputs" / running).exists())


def test_deleting_a_waiting_job_means_that_it_never_runs(service: Service, hold: Path) -> None:
    running = service.submitted(document("hold", hold))
    wait_until(Path(f"{hold}.started").exists)
    never = hold.with_name("never")
    waiting = service.submitted(document("hold", never))
    assert service.delete(waiting).status_code == 204
    hold.touch()
    assert service.finished(running)["status"] == "completed"
    assert service.extracted(document("ok"))["status"] == "completed"
    assert not Path(f"{never}.started").exists()


def test_a_finished_document_is_not_kept_only_its_images_are(service: Service) -> None:
    job_id = service.submitted(document("ok"))
    service.finished(job_id)
    assert not (service.data_dir / "inputs" / f"{job_id}.pdf").exists()


@pytest.mark.parametrize("token", ["x", "a" * 80, "%2e%2e%2fjobs.sqlite"])
def test_a_made_up_file_url_is_forbidden(service: Service, token: str) -> None:
    answer = requests.get(f"{service.url}/v1/files/{token}", timeout=PATIENCE_S)
    assert answer.status_code in (403, 404)


def test_a_file_is_served_whatever_authorization_says(service: Service) -> None:
    (image,) = service.extracted(document("ok"))["images"]
    download = requests.get(
        image["url"], headers={"Authorization": "Bearer wrong"}, timeout=PATIENCE_S
    )
    assert download.status_code == 200


def test_images_keep_the_order_the_engine_gave_them(service: Service) -> None:
    images = service.extracted(document("images", 25))["images"]
    assert [image["index"] for image in images] == list(range(1, 26))
    for image in (images[0], images[24]):
        content = requests.get(image["url"], timeout=PATIENCE_S).content
        assert content == IMAGE + str(image["index"]).encode()


def test_discovery_health_and_metrics_are_public(service: Service) -> None:
    discovery = requests.get(f"{service.url}/v1/discovery", timeout=PATIENCE_S).json()
    assert discovery["capabilities"]["pdf.extract_images"]["available"] is True
    assert discovery["limits"]["max_upload_bytes"] > 0
    assert requests.get(f"{service.url}/health", timeout=PATIENCE_S).json()["status"] == "ok"
    metrics = requests.get(f"{service.url}/metrics", timeout=PATIENCE_S).text
    names = re.findall(r"^# TYPE (\w+)", metrics, re.MULTILINE)
    assert names
    assert all(name.startswith("extractor_") for name in names)


def test_the_readme_tells_what_needs_the_token(service: Service) -> None:
    readme = (PROJECT / "deploy/extractor/README.md").read_text()
    rows = re.findall(r"^\| (`(?:GET|POST|DELETE) .*?) \| ", readme, re.MULTILINE)
    (guarded,) = re.findall(r"^Paths below `(\S+)` need `Authorization", readme, re.MULTILINE)
    seen = set()
    for row in rows:
        method, paths = row[1:].split(" ", 1)
        for path in re.findall(r"(/[a-z0-9_/]+(?:\{\w+\})?)[?`]", paths):
            url = service.url + re.sub(r"\{\w+\}", "0" * 32, path)
            status = requests.request(method, url, timeout=PATIENCE_S).status_code
            assert (status == 401) == path.startswith(guarded), f"{method} {path}"
            seen.add(path)
    assert {*ALL_PATHS, "/health", "/metrics"} == seen


@pytest.mark.parametrize(("method", "status"), [("GET", 405), ("PUT", 405)])
def test_a_wrong_method_is_answered_as_json(service: Service, method: str, status: int) -> None:
    answer = requests.request(method, f"{service.url}/v1/pdf/extract_images", timeout=PATIENCE_S)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == "method_not_allowed"
