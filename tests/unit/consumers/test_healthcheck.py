"""The health check of a container, against a server on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from consumers.healthcheck import main
from deploy.local.process import free_ports


@contextmanager
def server(status: int, body: bytes) -> Iterator[tuple[int, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        try:
            yield running.server_address[1], asked
        finally:
            running.shutdown()
            thread.join()


def test_a_server_that_is_well_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    with server(200, b'{"ok": true}') as (port, asked):
        assert main(["/ready", "--port", str(port)]) == 0
    assert asked == ["/ready"]
    assert '200 {"ok": true}' in capsys.readouterr().out


def test_the_reason_of_one_that_is_not_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with server(503, b'{"ok": false, "reason": "waiting for store"}') as (port, _):
        assert main(["--port", str(port)]) == 1
    assert "503" in (said := capsys.readouterr().out)
    assert "waiting for store" in said


def test_nobody_listening_is_not_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--port", str(free_ports(1)[0])]) == 1
    assert "does not answer" in capsys.readouterr().out


def test_the_port_is_the_one_of_the_workers_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(200, b"") as (port, asked):
        monkeypatch.setenv("BUNDLES_HTTP__PORT", str(port))
        assert main([]) == 0
    assert asked == ["/live"]
