"""Checks against the real services, run only where their accounts are in the environment.

Each sends one generated one-page document, waits for its result, fetches the images and deletes
what can be deleted. It fails where another number of pages is told, or no image by a service that
extracts what is embedded. Costs one page.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from consumers.providers.errors import ProviderError
from consumers.providers.protocol import Document, JobState, Provider, SubmitOptions
from consumers.providers.registry import build
from consumers.providers.settings import (
    AwsSettings,
    AzureSettings,
    GoogleSettings,
    Kind,
    ProviderSettings,
)
from tests import pdfs
from tests.contract.cutting import cut_here

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
DEADLINE_SECONDS = 300.0
POLL_SECONDS = 2.0
MAX_BYTES = 64 * 1024 * 1024

Environment = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LiveCheck:
    provider: str
    outcome: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Account:
    """``also``: variables that may be set too, each with what it is for."""

    needs: tuple[str, ...]
    settings: Callable[[Environment], ProviderSettings]
    also: tuple[tuple[str, str], ...] = ()
    gives_every_image: bool = True
    """It extracts what is embedded, so our page has one. The others look for figures."""


_AWS_ALSO = (
    ("AWS_REGION", "the region"),
    ("AWS_ACCESS_KEY_ID", "and all else that AWS's own tools take an identity from"),
)


def _aws(kind: Kind, env: Environment) -> ProviderSettings:
    bucket, region = env["LIVE_AWS_BUCKET"], env.get("AWS_REGION")
    if kind is Kind.AWS_LAMBDA:
        options = AwsSettings(bucket=bucket, region=region, function=env["LIVE_AWS_FUNCTION"])
    else:
        options = AwsSettings(bucket=bucket, region=region)
    return ProviderSettings(kind=kind, aws=options)


_ACCOUNTS: Mapping[Kind, _Account] = {
    Kind.INFRAI: _Account(
        ("INFRAI_API_KEY",),
        lambda env: ProviderSettings(
            kind=Kind.INFRAI,
            allowed_download_hosts=tuple(env.get("INFRAI_DOWNLOAD_HOSTS", "").split()),
        ),
        also=(("INFRAI_DOWNLOAD_HOSTS", "where its images are, if not on its own hosts"),),
    ),
    Kind.SELFHOSTED: _Account(
        ("EXTRACTOR_URL", "EXTRACTOR_TOKEN"),
        lambda env: ProviderSettings(
            kind=Kind.SELFHOSTED, base_url=env["EXTRACTOR_URL"], allow_plain_http=True
        ),
    ),
    Kind.AZURE: _Account(
        ("AZURE_DOCUMENT_INTELLIGENCE_ENDPOINT", "AZURE_DOCUMENT_INTELLIGENCE_KEY"),
        lambda env: ProviderSettings(
            kind=Kind.AZURE,
            base_url=env["AZURE_DOCUMENT_INTELLIGENCE_ENDPOINT"],
            azure=AzureSettings(),
        ),
        gives_every_image=False,
    ),
    Kind.GOOGLE: _Account(
        ("DOCUMENT_AI_PROJECT", "DOCUMENT_AI_PROCESSOR", "DOCUMENT_AI_BUCKET"),
        lambda env: ProviderSettings(
            kind=Kind.GOOGLE,
            google=GoogleSettings(
                project=env["DOCUMENT_AI_PROJECT"],
                processor=env["DOCUMENT_AI_PROCESSOR"],
                bucket=env["DOCUMENT_AI_BUCKET"],
                location=env.get("DOCUMENT_AI_LOCATION", "eu"),
            ),
        ),
        also=(
            ("DOCUMENT_AI_LOCATION", "`eu` where it is not set"),
            ("GOOGLE_ACCESS_TOKEN", "else the environment's own identity"),
        ),
        gives_every_image=False,
    ),
    Kind.AWS_LAMBDA: _Account(
        ("LIVE_AWS_BUCKET", "LIVE_AWS_FUNCTION"),
        lambda env: _aws(Kind.AWS_LAMBDA, env),
        also=_AWS_ALSO,
    ),
    Kind.TEXTRACT: _Account(
        ("LIVE_AWS_BUCKET",),
        lambda env: _aws(Kind.TEXTRACT, env),
        also=_AWS_ALSO,
        gives_every_image=False,
    ),
    Kind.DOCLING: _Account(
        ("DOCLING_URL",),
        lambda env: ProviderSettings(
            kind=Kind.DOCLING, base_url=env["DOCLING_URL"], allow_plain_http=True
        ),
        also=(("DOCLING_SERVE_API_KEY", "its key"),),
        gives_every_image=False,
    ),
}


def settings_of(kind: Kind, environment: Environment) -> ProviderSettings:
    return _ACCOUNTS[kind].settings(environment)


def as_markdown(checks: Sequence[LiveCheck]) -> str:
    """One row a service: what has to be in the environment for its check, and how it ended."""
    lines = ["| service | variables | may be set too | check |", "|---|---|---|---|"]
    for check in checks:
        account = _ACCOUNTS[Kind(check.provider)]
        needs = ", ".join(f"`{name}`" for name in account.needs)
        also = "; ".join(f"`{name}`: {use}" for name, use in account.also)
        told = check.outcome
        if check.outcome != NOT_RUN:
            told += f": {check.reason}"
        lines.append(f"| {check.provider} | {needs} | {also} | {told} |")
    return "\n".join(lines)


def run(environment: Environment | None = None) -> list[LiveCheck]:
    env = dict(os.environ) if environment is None else environment
    return [_check(kind, account, env) for kind, account in _ACCOUNTS.items()]


def _check(kind: Kind, account: _Account, env: Environment) -> LiveCheck:
    missing = [name for name in account.needs if not env.get(name)]
    if missing:
        return LiveCheck(kind.value, NOT_RUN, f"needs {', '.join(missing)}")
    try:
        provider = build(account.settings(env), cut_regions=cut_here, environment=env)
    except ValueError as error:
        return LiveCheck(kind.value, FAILED, str(error))
    try:
        told = _one_document(provider, gives_every_image=account.gives_every_image)
        return LiveCheck(kind.value, PASSED, told)
    except (ProviderError, AssertionError) as error:
        return LiveCheck(kind.value, FAILED, str(error))
    finally:
        provider.close()


def _one_document(provider: Provider, *, gives_every_image: bool) -> str:
    data = pdfs.one_page_scan()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "document.pdf")
        path.write_bytes(data)
        document = Document(path, hashlib.sha256(data).hexdigest(), len(data), 1)
        key = str(uuid.uuid4())
        submission = provider.submit(document, key=key, options=SubmitOptions())
        status, job_id = submission.status, submission.job_id
        deadline = time.monotonic() + DEADLINE_SECONDS
        while status is None or status.state is JobState.RUNNING:
            assert time.monotonic() < deadline, "the job did not end in time"
            time.sleep(POLL_SECONDS)
            status = provider.poll(job_id)
        assert status.state is JobState.SUCCEEDED, f"the job failed: {status.failure_code}"
        assert status.pages in (None, 1), f"one page was sent, {status.pages} are told"
        images = status.images if status.images_listed else provider.images(job_id, document)
        assert images or not gives_every_image, "the page has an image, none is listed"
        for number, image in enumerate(images):
            destination = Path(folder, f"image-{number}")
            provider.fetch_image(job_id, image, destination, max_bytes=MAX_BYTES)
        provider.forget(job_id)
        return f"{len(images)} images"
