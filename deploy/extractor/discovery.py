"""The public description of this service: what it can do and within which limits."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any, get_args

from deploy.extractor import contract
from deploy.extractor.options import SoftMasks
from deploy.extractor.settings import Settings


def describe(settings: Settings, *, available: bool) -> dict[str, Any]:
    """The answer of `GET /v1/discovery`; `available` says whether a worker can be had now."""
    return {
        "service": "bundle-extractor",
        "version": _package_version(),
        "contract_version": contract.CONTRACT_VERSION,
        "capabilities": {
            "pdf.extract_images": {
                "available": available,
                "regions": ["self-hosted"],
                "vendors": ["self-hosted"],
                "billing": "none",
                "submit": f"POST {contract.SUBMIT_PATH}",
                "options": {
                    "soft_masks": list(get_args(SoftMasks)),
                    "repeat_drawings": [False, True],
                    "first_page": "integer, 1-based",
                    "last_page": "integer, inclusive",
                },
                "statuses": [status.value for status in contract.JobStatus],
                "errors": [error.value for error in contract.JobError],
            }
        },
        "abilities": {
            "idempotent_submit": True,
            "idempotency_window_s": settings.key_window_s,
            "long_poll_s": contract.LONGEST_LONG_POLL_S,
            "delete": True,
        },
        "limits": {
            "max_upload_bytes": settings.max_upload_bytes,
            "max_json_bytes": settings.max_json_bytes,
            "queue_capacity": settings.queue_capacity,
            "retention_s": settings.retention_s,
            "file_url_ttl_s": settings.file_url_ttl_s,
            "job_wall_s": settings.job_wall_s,
            "job_cpu_s": settings.job_cpu_s,
            "job_memory_bytes": settings.job_memory_bytes,
            **settings.engine_limits(),
        },
    }


def _package_version() -> str:
    try:
        return version("bundle-extractor")
    except PackageNotFoundError:
        return "unknown"
