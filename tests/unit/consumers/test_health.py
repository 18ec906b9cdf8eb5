"""The worker's HTTP side: what it answers, in which format, and that it survives its own faults."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import urllib3
from prometheus_client import CollectorRegistry, Counter

from consumers.health import Answer, Check, HealthServer, Request

SECRET = "content of a document"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def echo(request: Request) -> Answer:
    return 200, "application/json", json.dumps([request.accept, dict(request.query)]).encode()


def broken(request: Request) -> Answer:
    raise RuntimeError(SECRET)


@pytest.fixture
def address() -> Iterator[str]:
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry).inc(exemplar={"extraction_id": "e"})
    server = HealthServer(
        "127.0.0.1",
        0,
        registry=registry,
        live=lambda: Check(ok=True),
        ready=lambda: Check(ok=False, reason="waiting for store"),
        pages={"/echo": echo, "/broken": broken},
    )
    yield server.address
    server.close()


def get(url: str, **headers: str) -> urllib3.BaseHTTPResponse:
    return urllib3.request("GET", url, headers=headers, timeout=10, retries=False)


def test_live_and_ready_say_why_not(address: str) -> None:
    assert get(f"{address}/live").status == 200
    ready = get(f"{address}/ready")
    assert (ready.status, ready.json()) == (503, {"ok": False, "reason": "waiting for store"})


def test_exemplars_are_there_for_whoever_can_read_them(address: str) -> None:
    assert "extraction_id" in get(f"{address}/metrics", Accept=OPENMETRICS).data.decode()
    plain = get(f"{address}/metrics", Accept="text/plain").data.decode()
    assert "things_total 1.0" in plain
    assert "extraction_id" not in plain


def test_a_page_gets_its_query_and_what_is_accepted(address: str) -> None:
    answer = get(f"{address}/echo?format=json&a=1&a=2", Accept="text/html")
    assert answer.json() == ["text/html", {"format": "json", "a": "2"}]


def test_a_page_that_fails_costs_that_answer_only(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = get(f"{address}/broken")
    assert (answer.status, answer.data) == (500, b"see the log\n")
    assert "RuntimeError" in caplog.text
    assert SECRET not in caplog.text
    assert get(f"{address}/live").status == 200


def test_an_unknown_path_names_the_known_ones(address: str) -> None:
    answer = get(f"{address}/nowhere")
    assert answer.status == 404
    assert b"/metrics" in answer.data


def test_browsers_are_told_to_run_and_load_nothing(address: str) -> None:
    headers = get(f"{address}/echo").headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none';")
    assert headers["Cache-Control"] == "no-store"
