"""The work of one event with blocking calls, as a user writes it: requests and minio."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any

import requests
import urllib3
from minio import Minio

from schemas.results import DOCUMENT_RESULT_TYPE

FIRST_DELAY_S, CEILING_S = 0.5, 8.0


@dataclass(frozen=True, slots=True)
class PeerSettings:
    name: str
    bootstrap: str
    topic: str
    results: str
    provider: str
    """Base URL, with ``/v1``."""
    s3: str
    """host:port"""
    s3_access_key: str
    s3_secret_key: str
    input_bucket: str
    output_bucket: str
    concurrency: int


def seen_after(run_s: float) -> float:
    """Seconds after which a job of ``run_s`` is first seen finished, by doubling."""
    age, delay = FIRST_DELAY_S, FIRST_DELAY_S
    while age < run_s:
        delay = min(2 * delay, CEILING_S)
        age += delay
    return age


def settings_from_arguments() -> PeerSettings:
    return PeerSettings(**json.loads(sys.argv[1]))


def manifest_of(settings: PeerSettings, job_id: str, image_key: str, image: bytes) -> bytes:
    return json.dumps(
        {
            "job_id": job_id,
            "images": [
                {"key": image_key, "sha256": hashlib.sha256(image).hexdigest(), "bytes": len(image)}
            ],
        }
    ).encode()


def result_headers(bundle_id: str) -> list[tuple[str, str | bytes | None]]:
    """By which the benchmark counts: those of the worker's own results."""
    return [("ce_type", DOCUMENT_RESULT_TYPE.encode()), ("ce_subject", bundle_id.encode())]


def idempotency_key(settings: PeerSettings, bundle_id: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{settings.name}/{bundle_id}"))


class Clients:
    """One HTTP session per thread, as requests wants it; one minio client for all."""

    def __init__(self, settings: PeerSettings) -> None:
        self.settings = settings
        self._local = threading.local()
        self.store = Minio(
            settings.s3,
            access_key=settings.s3_access_key,
            secret_key=settings.s3_secret_key,
            secure=False,
            region="us-east-1",
            http_client=urllib3.PoolManager(maxsize=settings.concurrency),
        )

    @property
    def session(self) -> requests.Session:
        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
        session: requests.Session = self._local.session
        return session


def extract(clients: Clients, value: bytes) -> tuple[str, bytes]:
    """(bundle id, result) of an event."""
    settings, session = clients.settings, clients.session
    event: dict[str, Any] = json.loads(value)
    bundle_id = event["bundle_id"]
    source = event["documents"][0]["segments"][0]["source"]
    answer = clients.store.get_object(settings.input_bucket, source["key"])
    try:
        document = answer.read()
    finally:
        answer.close()
        answer.release_conn()
    job_id = _submit(clients, bundle_id, document)
    delay = FIRST_DELAY_S
    while True:
        time.sleep(delay)
        job = session.get(f"{settings.provider}/pdf/job/get/{job_id}", timeout=30).json()
        if job["status"] == "completed":
            break
        delay = min(delay * 2, CEILING_S)
    image = session.get(job["images"][0]["url"], timeout=30).content
    prefix = f"peers/{settings.name}/{bundle_id}"
    _put(clients, f"{prefix}/image.png", image, "image/png")
    manifest = manifest_of(settings, job_id, f"{prefix}/image.png", image)
    _put(clients, f"{prefix}/manifest.json", manifest, "application/json")
    return bundle_id, manifest


def _submit(clients: Clients, bundle_id: str, document: bytes) -> str:
    settings = clients.settings
    answer = clients.session.post(
        f"{settings.provider}/pdf/extract_images",
        files={"file": ("document.pdf", document, "application/pdf")},
        headers={"Idempotency-Key": idempotency_key(settings, bundle_id)},
        timeout=60,
    )
    answer.raise_for_status()
    job_id: str = answer.json()["job_id"]
    return job_id


def _put(clients: Clients, key: str, body: bytes, content_type: str) -> None:
    clients.store.put_object(
        clients.settings.output_bucket, key, io.BytesIO(body), len(body), content_type
    )
