"""Bounds of the service: queue, sizes, memory, ages."""

from __future__ import annotations

import base64
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import requests

from tests.integration.extractor.engines import document
from tests.integration.extractor.running import PATIENCE_S, TOKEN, Service, wait_until

MIB = 1024 * 1024


def test_a_full_queue_is_answered_with_a_time_to_come_back(tmp_path: Path, hold: Path) -> None:
    with Service(tmp_path, queue_capacity=2) as service:
        service.submitted(document("hold", hold))
        wait_until(Path(f"{hold}.started").exists)
        accepted = [service.submitted(document("ok", n), key=f"key-{n}") for n in range(2)]
        refused = service.submit(document("ok", 3))
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "queue_full"
        assert int(refused.headers["retry-after"]) >= 1
        assert float(refused.headers["retry-after-ms"]) > 0
        repeated = service.submit(document("ok", 1), key="key-1")
        assert repeated.json()["job_id"] == accepted[1], "a known key needs no room"
        hold.touch()
        for job_id in accepted:
            service.finished(job_id)
        assert service.submit(document("ok", 3)).status_code == 202


def test_too_little_room_on_the_disk_is_no_fault_of_the_document(tmp_path: Path) -> None:
    with Service(tmp_path, min_free_bytes=2**60) as service:
        refused = service.submit(document("ok"))
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "storage_full"
        assert int(refused.headers["retry-after"]) >= 1


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(
        tmp_path_factory.mktemp("small"),
        max_upload_bytes=100_000,
        max_json_bytes=50_000,
        upload_timeout_s=1,
    ) as service:
        yield service


@pytest.mark.parametrize("size", [100_001, 5 * MIB])
def test_a_document_over_the_limit_is_too_large_and_leaves_no_file(
    small: Service, size: int
) -> None:
    refused = small.submit(document("ok").ljust(size))
    assert refused.status_code == 413
    assert refused.json()["error"] == {
        "code": "too_large",
        "message": "the document is larger than this service accepts",
        "which": "max_upload_bytes",
    }
    assert small.files() == []


def test_a_chunked_body_that_announces_no_length_is_limited_too(small: Service) -> None:
    head = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'
        + document("ok")
    )

    def body() -> Iterator[bytes]:
        yield head
        for _ in range(30):
            yield bytes(10_000)
        yield b"\r\n--b--\r\n"

    refused = requests.post(
        f"{small.url}/v1/pdf/extract_images",
        headers={**small.headers(), "Content-Type": "multipart/form-data; boundary=b"},
        data=body(),
        timeout=PATIENCE_S,
    )
    assert refused.status_code == 413
    assert small.files() == []


def test_a_json_body_over_its_own_limit_is_pointed_to_multipart(small: Service) -> None:
    refused = requests.post(
        f"{small.url}/v1/pdf/extract_images",
        headers=small.headers(),
        json={"pdf_base64": base64.b64encode(document("ok").ljust(60_000)).decode()},
        timeout=PATIENCE_S,
    )
    assert refused.status_code == 413
    assert refused.json()["error"]["which"] == "max_json_bytes"
    assert "multipart" in refused.json()["error"]["message"]


def test_a_document_of_exactly_the_limit_is_accepted(small: Service) -> None:
    job_id = small.submitted(document("ok").ljust(100_000))
    assert small.finished(job_id)["status"] == "completed"
    small.delete(job_id)


def _half_an_upload(service: Service) -> socket.socket:
    host, port = service.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
    connection.sendall(
        b"POST /v1/pdf/extract_images HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n"
        b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"
        b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n%PDF-1.7 ok'
    )
    return connection


def test_a_body_that_never_ends_is_given_up(small: Service) -> None:
    with _half_an_upload(small) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")
    assert small.files() == []


def test_an_upload_that_breaks_off_leaves_no_file(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        connection = _half_an_upload(service)
        wait_until(lambda: len(service.files()) == 1)
        connection.close()
        wait_until(lambda: service.files() == [])
        assert service.extracted(document("ok"))["status"] == "completed"


def test_the_memory_of_the_service_does_not_grow_with_the_size_of_the_document(
    tmp_path: Path,
) -> None:
    pdf = document("ok") + os.urandom(50 * MIB)
    with Service(tmp_path) as service:
        service.extracted(document("ok"))  # warm: every code path loaded
        assert service.process is not None
        process = psutil.Process(service.process.pid)
        idle = process.memory_info().rss
        peak = idle
        done = threading.Event()

        def watch() -> None:
            nonlocal peak
            while not done.is_set():
                peak = max(peak, process.memory_info().rss)
                time.sleep(0.002)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for _ in range(3):
                assert service.extracted(pdf)["status"] == "completed"
        finally:
            done.set()
            watcher.join()
        assert peak - idle < 16 * MIB


def test_a_file_url_expires_and_a_new_read_of_the_job_gives_a_fresh_one(tmp_path: Path) -> None:
    with Service(tmp_path, file_url_ttl_s=2) as service:
        job_id = service.submitted(document("ok"))
        (image,) = service.finished(job_id)["images"]

        def is_expired() -> bool:
            answer = requests.get(image["url"], timeout=PATIENCE_S)
            if answer.status_code == 200:
                return False
            assert (answer.status_code, answer.json()["error"]["code"]) == (410, "file_expired")
            return True

        wait_until(is_expired)

        def a_fresh_url_works() -> bool:
            fresh = service.finished(job_id)["images"][0]["url"]
            return requests.get(fresh, timeout=PATIENCE_S).status_code == 200

        wait_until(a_fresh_url_works)


def test_finished_jobs_are_removed_by_age_with_files_and_key(tmp_path: Path) -> None:
    with Service(tmp_path, retention_s=0.5, sweep_every_s=0.05) as service:
        job_id = service.submitted(document("ok"), key="short-lived")
        wait_until(lambda: service.poll(job_id).status_code == 404)
        wait_until(lambda: service.files() == [])
        assert service.submitted(document("ok"), key="short-lived") != job_id
        wait_until(lambda: service.metric('extractor_jobs_removed_total{reason="age"}') >= 1)


def test_jobs_that_wait_are_never_removed_by_age(tmp_path: Path, hold: Path) -> None:
    with Service(tmp_path, retention_s=0.2, sweep_every_s=0.05) as service:
        running = service.submitted(document("hold", hold))
        wait_until(Path(f"{hold}.started").exists)
        sentinel = time.monotonic() + 1.0
        wait_until(lambda: time.monotonic() > sentinel)
        assert service.poll(running).json()["status"] == "running"


def test_a_worker_is_replaced_after_its_share_of_jobs(tmp_path: Path) -> None:
    with Service(tmp_path, jobs_per_worker=2) as service:
        pids = [service.extracted(document("pid"))["problems"][0] for _ in range(4)]
        assert pids[0] == pids[1] != pids[2] == pids[3]


def test_everything_on_disk_is_for_the_owner_alone(tmp_path: Path, hold: Path) -> None:
    with Service(tmp_path) as service:
        service.extracted(document("ok"))
        service.submitted(document("hold", hold))
        wait_until(Path(f"{hold}.started").exists)
        for path in (service.data_dir, *service.data_dir.rglob("*")):
            assert path.stat().st_mode & 0o077 == 0, path.name
