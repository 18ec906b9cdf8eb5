"""An OAuth 2 token endpoint for the client credentials grant, over TLS.

Its tokens are unsigned, which is what a broker without a key set takes: what is tested is our side,
that a token is asked for with the right credentials, sent, and accepted by a real broker.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

LIFETIME_S = 300


class IdentityProvider:
    """``subject`` is who the tokens are for; ``asked`` counts the tokens given out."""

    def __init__(
        self, certificate: Path, key: Path, *, client_id: str, secret: str, subject: str
    ) -> None:
        self.asked = 0
        self.scopes: list[str] = []
        expected = "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = parse_qs(body)
                if self.headers.get("Authorization") != expected:
                    self._answer(401, {"error": "invalid_client"})
                    return
                provider.asked += 1
                provider.scopes += form.get("scope", [])
                self._answer(
                    200,
                    {
                        "access_token": _unsigned_token(subject),
                        "token_type": "Bearer",
                        "expires_in": LIFETIME_S,
                    },
                )

            def _answer(self, status: int, document: dict[str, Any]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Not ours to say."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def endpoint(self) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}/token"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _unsigned_token(subject: str) -> str:
    now = time.time()
    claims = {"sub": subject, "iat": now, "exp": now + LIFETIME_S}
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "none"}, claims)
    ]
    return ".".join([*parts, ""])
