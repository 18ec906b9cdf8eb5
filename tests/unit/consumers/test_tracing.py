"""Spans made from the journal's lines, and sent to a collector."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from consumers import tracing
from consumers.extraction.timestamps import rfc3339

pytest.importorskip("opentelemetry.sdk", reason="the extra [otel] is not installed")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

T = 1_750_000_000.0
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def line(event: str, at: float, **fields: Any) -> dict[str, Any]:
    return {
        "event": event,
        "at": rfc3339(T + at),
        "stage": "poll",
        "topic": "events",
        "partition": 3,
        "offset": 7,
        "bundle_id": "bundle-1",
        "document_id": "document-001",
        "extraction_id": "extraction",
        "traceparent": TRACEPARENT,
        **fields,
    }


def a_document(**fields: Any) -> list[dict[str, Any]]:
    return [
        line("accepted", 1, wait_s=1.0, **fields),
        line("attempt_failed", 2, code="http_500", attempt=1, **fields),
        line("submitted", 3, **fields),
        line("finished", 6, **fields),
        line("ended", 8, seconds=8.0, code="extracted", causes={"provider": 3.0}, **fields),
    ]


def spans_of(lines: list[dict[str, Any]]) -> dict[str, ReadableSpan]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    maker = tracing.SpanMaker(provider)
    for one in lines:
        maker.take(one)
    return {span.name: span for span in exporter.get_finished_spans()}


def test_a_document_is_a_span_under_the_events_trace_with_a_span_per_part() -> None:
    spans = spans_of(a_document())

    document, service = spans["bundles document"], spans["bundles service"]
    assert document.parent is not None
    assert document.context is not None
    assert f"{document.context.trace_id:032x}" == TRACEPARENT.split("-")[1]
    assert f"{document.parent.span_id:016x}" == TRACEPARENT.split("-")[2]
    assert service.parent is not None
    assert service.parent.span_id == document.context.span_id
    assert (service.start_time, service.end_time) == (int((T + 3) * 1e9), int((T + 6) * 1e9))
    assert (document.start_time, document.end_time) == (int(T * 1e9), int((T + 8) * 1e9))
    assert document.attributes is not None
    assert document.attributes["bundles.extraction_id"] == "extraction"
    assert document.attributes["bundles.seconds.provider"] == 3.0
    assert [(e.name, dict(e.attributes or {})["code"]) for e in document.events] == [
        ("attempt_failed", "http_500")
    ]
    assert document.status.is_unset


def test_a_dead_letter_is_an_error() -> None:
    lines = a_document()
    lines[-1]["code"] = "dead_lettered"
    assert not spans_of(lines)["bundles document"].status.is_ok
    assert spans_of(lines)["bundles document"].status.description == "dead_lettered"


def test_an_event_without_traceparent_begins_a_trace_of_its_own() -> None:
    lines = a_document(document_id="another")
    for one in lines:
        del one["traceparent"]
    assert spans_of(lines)["bundles document"].parent is None


def test_documents_that_never_end_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "MAX_OPEN", 10)
    maker = tracing.SpanMaker(TracerProvider())
    for number in range(50):
        maker.take(line("accepted", 1, offset=number))
    assert len(maker._open) == 10


def test_a_line_that_makes_no_sense_costs_nothing_but_its_span() -> None:
    assert spans_of([line("ended", 1, seconds="x"), *a_document()])["bundles document"]


class Collector(BaseHTTPRequestHandler):
    received: list[ExportTraceServiceRequest]
    arrived: threading.Event

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            import gzip

            body = gzip.decompress(body)
        self.received.append(ExportTraceServiceRequest.FromString(body))
        self.arrived.set()
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[HTTPServer]:
    Collector.received, Collector.arrived = [], threading.Event()
    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def test_spans_reach_the_collector_that_the_environment_names(
    collector: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tracing.ENDPOINTS[0], f"http://127.0.0.1:{collector.server_port}")
    maker = tracing.start()
    assert maker is not None
    for one in a_document():
        maker.take(one)
    maker.close()

    assert Collector.arrived.wait(30)
    (resource,) = Collector.received[0].resource_spans
    names = {span.name for scope in resource.scope_spans for span in scope.spans}
    assert {"bundles document", "bundles service"} <= names
    service = {a.key: a.value.string_value for a in resource.resource.attributes}
    assert service["service.name"] == "bundle-extractor"


def test_without_an_endpoint_there_is_no_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in tracing.ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    assert tracing.start() is None


def test_without_the_extra_a_warning_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(tracing.ENDPOINTS[0], "http://127.0.0.1:1")
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace", None)
    assert tracing.start() is None
    assert "bundle-extractor[otel]" in caplog.text
