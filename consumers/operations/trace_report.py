"""A trace for machines: a dict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from consumers.extraction.timestamps import rfc3339
from consumers.operations.ledger import Line
from consumers.operations.trace import Trace
from consumers.operations.trace_lines import LedgerOnly, Run, dead_letters, runs

NOT_ATTEMPTS = frozenset({"topic", "partition", "offset", "schema_version", "traceparent"})
KNOWN_ELSEWHERE = frozenset({"bundle_id", "document_id", "extraction_id"})


def as_dict(trace: Trace) -> dict[str, Any]:
    about = trace.about
    return {
        "extraction_id": trace.extraction_id,
        "bundle_id": about.bundle_id,
        "parent_bundle_id": about.parent_bundle_id,
        "operation": about.operation,
        "document_id": about.document_id,
        "state": trace.state,
        "policy_version": about.policy_version,
        "provider": about.provider,
        "image": trace.image.model_dump(mode="json") if trace.image else None,
        "sources": [segment.model_dump(mode="json") for segment in about.segments],
        "submitted": {
            "sha256": about.submitted_sha256,
            "bytes": about.submitted_bytes,
            "pages": about.pages,
        },
        "jobs": jobs_of(trace),
        "replays": trace.record.replays if trace.record else None,
        "manifest": _manifest(trace),
        **_told(trace.lines or (), trace.incomplete),
    }


def ledger_only_as_dict(found: LedgerOnly) -> dict[str, Any]:
    """The same keys; None for what only a job record or a manifest could say."""
    return {
        "extraction_id": found.extraction_id,
        "bundle_id": found.bundle_id,
        "parent_bundle_id": None,
        "operation": None,
        "document_id": found.document_id,
        "state": found.state,
        "policy_version": None,
        "provider": None,
        "image": None,
        "sources": [],
        "submitted": None,
        "jobs": [],
        "replays": None,
        "manifest": None,
        **_told(found.lines, found.incomplete),
    }


def _told(lines: Sequence[Line], incomplete: str | None) -> dict[str, Any]:
    """What the ledger says."""
    return {
        "dead_letters": [
            {"id" if name == "identifier" else name: value for name, value in asdict(one).items()}
            for one in dead_letters(lines)
        ],
        "attempts": [
            {k: v for k, v in line.items() if k not in NOT_ATTEMPTS | KNOWN_ELSEWHERE}
            for line in lines
        ],
        "runs": [_run(run) for run in runs(lines)],
        "ledger_incomplete": incomplete,
    }


def jobs_of(trace: Trace) -> list[dict[str, Any]]:
    """The record knows more than the manifest, but only the manifest is kept for ever."""
    if trace.record is not None:
        return [shard.model_dump(mode="json") for shard in trace.record.shards]
    assert trace.manifest is not None
    return [job.model_dump(mode="json") for job in trace.manifest.jobs]


def _manifest(trace: Trace) -> dict[str, Any] | None:
    if trace.manifest is None:
        return None
    return {
        "key": trace.manifest_key,
        "sha256": trace.manifest_sha256,
        "bytes": trace.manifest_bytes,
        "written_at": rfc3339(trace.manifest_at) if trace.manifest_at else None,
        "extracted_at": trace.manifest.extracted_at,
        "images": len(trace.manifest.images),
        "image_bytes": sum(image.bytes for image in trace.manifest.images),
        "problems": [p.model_dump(mode="json", exclude_none=True) for p in trace.manifest.problems],
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "event": run.place,
        "outcome": run.outcome,
        "seconds": run.seconds,
        "causes": dict(run.causes),
        "timeline": [
            {"what": s.name, "from": rfc3339(s.start), "seconds": round(s.end - s.start, 3)}
            for s in run.spans
        ],
    }
