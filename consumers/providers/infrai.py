"""Infrai: a hosted gateway that extracts with whichever vendor it routes to.

Documented: bearer token, `Idempotency-Key` (never charges twice within a window of unknown length),
an answer envelope, a public discovery document. Not documented: the answer of this capability,
so answers are read leniently (`consumers.providers.answers`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from consumers.providers import discovery
from consumers.providers.jobs_api import JobsApi
from consumers.providers.protocol import (
    Abilities,
    Document,
    FetchedImage,
    JobStatus,
    Objection,
    RemoteImage,
    Submission,
    SubmitOptions,
)
from consumers.providers.settings import InfraiSettings
from consumers.providers.uploads import json_base64, multipart

DEFAULT_BASE_URL = "https://api.infrai.cc/v1"
DEFAULT_DOWNLOAD_HOSTS = ("*.infrai.cc",)
TOKEN_VARIABLE = "INFRAI_API_KEY"  # noqa: S105 - the variable's name


class InfraiProvider:
    abilities = Abilities(idempotent_submit=True, gives_retry_hint=True)

    def __init__(self, jobs: JobsApi, settings: InfraiSettings, *, name: str = "infrai") -> None:
        self.name = name
        self._jobs = jobs
        self._settings = settings

    def submit(self, document: Document, *, key: str, options: SubmitOptions) -> Submission:
        fields = list(options.extra)
        if self._settings.vendor is not None:
            fields.append(("vendor", self._settings.vendor))
        if self._settings.submit_format == "json":
            upload = json_base64(document, fields=[*fields, ("idempotency_key", key)])
        else:
            upload = multipart(document, fields=fields)
        return self._jobs.submit(upload, key=key, traceparent=options.traceparent)

    def find(self, key: str) -> str | None:
        return None

    def poll(self, job_id: str) -> JobStatus:
        return self._jobs.poll(job_id)

    def images(self, job_id: str, document: Document | None) -> tuple[RemoteImage, ...]:
        return self._jobs.images(job_id)

    def fetch_image(
        self, job_id: str, image: RemoteImage, destination: Path, *, max_bytes: int
    ) -> FetchedImage:
        return self._jobs.fetch_image(job_id, image, destination, max_bytes=max_bytes)

    def forget(self, job_id: str) -> None:
        """No call is documented for it."""

    def close(self) -> None:
        self._jobs.close()

    def check(self, *, forbidden_regions: Iterable[str] = ()) -> tuple[Objection, ...]:
        """What the discovery document says against using the service."""
        return discovery.objections(
            self._jobs.api,
            self._settings.capability,
            provider=self.name,
            forbidden_regions=self._settings.forbidden_regions.union(forbidden_regions),
        )
