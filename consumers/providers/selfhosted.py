"""The self-hosted extraction service of this project: the same HTTP contract, more abilities."""

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
from consumers.providers.settings import SelfHostedSettings
from consumers.providers.uploads import multipart

TOKEN_VARIABLE = "EXTRACTOR_TOKEN"  # noqa: S105 - the variable's name


class SelfHostedProvider:
    def __init__(
        self, jobs: JobsApi, settings: SelfHostedSettings, *, name: str = "selfhosted"
    ) -> None:
        self.name = name
        self._jobs = jobs
        self.abilities = Abilities(
            idempotent_submit=True,
            gives_retry_hint=True,
            long_poll_seconds=settings.long_poll_seconds,
            max_pages_per_job=settings.max_pages_per_job,
            max_bytes_per_job=settings.max_bytes_per_job,
            results_kept_seconds=settings.results_kept_seconds,
            forgets=True,
            reports_pages=True,
        )

    def submit(self, document: Document, *, key: str, options: SubmitOptions) -> Submission:
        fields = [
            ("soft_masks", options.soft_masks),
            ("repeat_drawings", "true" if options.repeat_drawings else "false"),
            *options.extra,
        ]
        return self._jobs.submit(
            multipart(document, fields=fields), key=key, traceparent=options.traceparent
        )

    def find(self, key: str) -> str | None:
        return None

    def poll(self, job_id: str) -> JobStatus:
        return self._jobs.poll(job_id, wait_seconds=self.abilities.long_poll_seconds)

    def images(self, job_id: str, document: Document | None) -> tuple[RemoteImage, ...]:
        return self._jobs.images(job_id)

    def fetch_image(
        self, job_id: str, image: RemoteImage, destination: Path, *, max_bytes: int
    ) -> FetchedImage:
        return self._jobs.fetch_image(job_id, image, destination, max_bytes=max_bytes)

    def forget(self, job_id: str) -> None:
        self._jobs.forget(job_id)

    def close(self) -> None:
        self._jobs.close()

    def check(self, *, forbidden_regions: Iterable[str] = ()) -> tuple[Objection, ...]:
        """What the discovery document says against using the service."""
        return discovery.objections(
            self._jobs.api,
            "pdf.extract_images",
            provider=self.name,
            forbidden_regions=forbidden_regions,
        )
