"""Checks against the real services, run only where their accounts are in the environment.

Each sends one generated one-page document, waits for its result, fetches the images and deletes
what can be deleted. Costs one page.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
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
    needs: tuple[str, ...]
    settings: Callable[[Environment], ProviderSettings]


def _aws(kind: Kind, env: Environment) -> ProviderSettings:
    function = env.get("LIVE_AWS_FUNCTION", "bundle-extract")
    options = AwsSettings(
        bucket=env["LIVE_AWS_BUCKET"], region=env.get("AWS_REGION"), function=function
    )
    return ProviderSettings(kind=kind, aws=options)


_ACCOUNTS: Mapping[Kind, _Account] = {
    Kind.INFRAI: _Account(
        ("INFRAI_API_KEY",),
        lambda env: ProviderSettings(kind=Kind.INFRAI, allowed_download_hosts=("*",)),
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
    ),
    Kind.AWS_LAMBDA: _Account(
        ("LIVE_AWS_BUCKET", "LIVE_AWS_FUNCTION"), lambda env: _aws(Kind.AWS_LAMBDA, env)
    ),
    Kind.TEXTRACT: _Account(("LIVE_AWS_BUCKET",), lambda env: _aws(Kind.TEXTRACT, env)),
    Kind.DOCLING: _Account(
        ("DOCLING_URL",),
        lambda env: ProviderSettings(
            kind=Kind.DOCLING, base_url=env["DOCLING_URL"], allow_plain_http=True
        ),
    ),
}


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
        return LiveCheck(kind.value, PASSED, _one_document(provider))
    except (ProviderError, AssertionError) as error:
        return LiveCheck(kind.value, FAILED, str(error))
    finally:
        provider.close()


def _one_document(provider: Provider) -> str:
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
        images = status.images if status.images_listed else provider.images(job_id, document)
        for number, image in enumerate(images):
            destination = Path(folder, f"image-{number}")
            provider.fetch_image(job_id, image, destination, max_bytes=MAX_BYTES)
        provider.forget(job_id)
        return f"{len(images)} images"
