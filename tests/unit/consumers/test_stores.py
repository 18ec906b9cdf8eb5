"""The store that the settings name: which identity, and what goes with each request."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from consumers.settings import SettingsError, load
from consumers.stores import open_store


class Recorder:
    """An S3 server that takes every object and remembers what was said with it."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                recorder.headers.append({k.lower(): v for k, v in self.headers.items()})
                self.send_response(200)
                self.send_header("ETag", '"0123"')
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Not ours to say."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    server = Recorder()
    yield server
    server.close()


def put(recorder: Recorder, *, input_only: bool = False, **variables: str) -> dict[str, str]:
    """The headers of a write with these settings."""
    given = {"ENDPOINT": recorder.endpoint, "ACCESS_KEY": "key", "SECRET_KEY": "secret"} | variables
    environment = {f"BUNDLES_STORE__{name}": value for name, value in given.items()}
    store = open_store(load(environment=environment).store, input_only=input_only, threads=1)
    try:
        store.put("bucket", "key", b"x", content_type="text/plain")
    finally:
        store.close()
    return recorder.headers[-1]


def signed(headers: dict[str, str]) -> set[str]:
    """Names of headers that the signature covers."""
    names = headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0]
    return set(names.split(";"))


def test_without_settings_no_encryption_is_asked_for(recorder: Recorder) -> None:
    assert not [name for name in put(recorder) if "encryption" in name]


def test_sse_s3_goes_signed_with_every_write(recorder: Recorder) -> None:
    headers = put(recorder, SERVER_SIDE_ENCRYPTION="AES256")
    assert headers["x-amz-server-side-encryption"] == "AES256"
    assert "x-amz-server-side-encryption" in signed(headers)


def test_sse_kms_names_the_key(recorder: Recorder) -> None:
    headers = put(recorder, SERVER_SIDE_ENCRYPTION="aws:kms", KMS_KEY_ID="alias/bundles")
    assert headers["x-amz-server-side-encryption"] == "aws:kms"
    assert headers["x-amz-server-side-encryption-aws-kms-key-id"] == "alias/bundles"
    assert "x-amz-server-side-encryption-aws-kms-key-id" in signed(headers)


def test_a_session_token_goes_signed_with_every_request(recorder: Recorder, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("session-token\n")
    headers = put(recorder, SESSION_TOKEN_FILE=str(file))
    assert headers["x-amz-security-token"] == "session-token"
    assert "x-amz-security-token" in signed(headers)


def test_sources_are_read_with_their_own_identity(recorder: Recorder) -> None:
    keys = {"INPUT__ACCESS_KEY": "reader", "INPUT__SECRET_KEY": "other"}
    assert "Credential=reader/" in put(recorder, input_only=True, **keys)["authorization"]
    assert "Credential=key/" in put(recorder, input_only=False, **keys)["authorization"]


def test_an_input_identity_without_keys_is_refused(recorder: Recorder) -> None:
    with pytest.raises(SettingsError, match=r"store\.input\.access_key_file"):
        put(recorder, input_only=True, INPUT__REGION="eu-central-1")
