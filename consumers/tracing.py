"""OpenTelemetry spans of documents, made from the journal's lines. The extra ``[otel]``.

Active when ``OTEL_EXPORTER_OTLP_ENDPOINT`` (or ``..._TRACES_ENDPOINT``) is set and the extra is
installed; all ``OTEL_*`` variables of the SDK hold (OTLP over HTTP). A document is one span, child
of the event's ``traceparent``, with a child span per part of its way; failed attempts are events of
it. No key, no name, no content is in them: the journal has none.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from consumers.extraction.timestamps import parse_rfc3339
from consumers.milestones import parts

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

log = logging.getLogger("bundles")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
MAX_OPEN = 50_000
"""Documents whose lines are held. One that was taken away by a rebalance never ends here."""
MAX_LINES = 200
FLUSH_MS = 3000

Place = tuple[Any, ...]


class SpanMaker:
    """Gathers a document's lines until it ends. For one thread."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("bundles")
        self._open: OrderedDict[Place, list[Mapping[str, Any]]] = OrderedDict()
        self._complained = False

    def take(self, line: Mapping[str, Any]) -> None:
        """Never raises: a span costs no document."""
        try:
            self._take(line)
        except Exception as error:
            if not self._complained:
                self._complained = True
                log.warning("spans cannot be made: %s", type(error).__name__)

    def close(self) -> None:
        """Sends what is ready, within a few seconds."""
        self._provider.force_flush(FLUSH_MS)
        self._provider.shutdown()

    def _take(self, line: Mapping[str, Any]) -> None:
        if line.get("document_id") is None:
            return
        place = tuple(line.get(n) for n in ("topic", "partition", "offset", "document_id"))
        lines = self._open.setdefault(place, [])
        if len(lines) < MAX_LINES or line.get("event") == "ended":
            lines.append(line)
        if line.get("event") == "ended":
            del self._open[place]
            self._make(lines)
        elif len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)

    def _make(self, lines: list[Mapping[str, Any]]) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        ended, found = lines[-1], parts(lines)
        parent = ended.get("traceparent")
        carrier = {"traceparent": str(parent)} if parent else {}
        document = self._tracer.start_span(
            "bundles document",
            context=TraceContextTextMapPropagator().extract(carrier),
            kind=trace.SpanKind.CONSUMER,
            start_time=_ns(found[0].start),
            attributes=_attributes(ended),
        )
        self._add_attempts(document, lines)
        inside = trace.set_span_in_context(document)
        for part in found:
            self._tracer.start_span(
                f"bundles {part.name}", context=inside, start_time=_ns(part.start)
            ).end(_ns(part.end))
        if ended.get("code") != "extracted":
            document.set_status(trace.StatusCode.ERROR, str(ended.get("code")))
        document.end(_ns(found[-1].end))

    def _add_attempts(self, document: Span, lines: list[Mapping[str, Any]]) -> None:
        for line in lines:
            at = parse_rfc3339(str(line.get("at")))
            if line.get("event") in ("attempt_failed", "throttled", "another_job", "resumed"):
                told = {n: line[n] for n in ("stage", "code", "attempt", "wait_s") if n in line}
                document.add_event(str(line["event"]), told, None if at is None else _ns(at))


def start() -> SpanMaker | None:
    """None where tracing is not asked for, or the extra is not installed (a warning says so)."""
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning(
            "%s is set, and spans need the extra: pip install 'bundle-extractor[otel]'",
            ENDPOINTS[0],
        )
        return None
    named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "bundle-extractor"}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return SpanMaker(provider)


def _attributes(ended: Mapping[str, Any]) -> dict[str, Any]:
    """Names of the messaging conventions where there is one."""
    names = {
        "topic": "messaging.destination.name",
        "partition": "messaging.destination.partition.id",
        "offset": "messaging.kafka.offset",
        "bundle_id": "bundles.bundle_id",
        "document_id": "bundles.document_id",
        "extraction_id": "bundles.extraction_id",
        "code": "bundles.outcome",
    }
    said = {names[n]: ended[n] for n in names if ended.get(n) is not None}
    if "messaging.destination.partition.id" in said:
        said["messaging.destination.partition.id"] = str(said["messaging.destination.partition.id"])
    causes = ended.get("causes") or {}
    return {
        "messaging.system": "kafka",
        **said,
        **{f"bundles.seconds.{cause}": float(seconds) for cause, seconds in causes.items()},
    }


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
