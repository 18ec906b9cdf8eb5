"""The client of a service's API that all adapters use: one attempt a call, all of it bounded.

What it never does: follow a redirect (a 307 would post the document to another host, with its
headers), decode a compressed body (a cut gzip stream passes silently), retry, send the secret to
another origin than the configured one, or put a URL, header or body into an exception or a log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from consumers.providers import retry_after
from consumers.providers.errors import ProviderError, ResponseUnsafe
from consumers.providers.failures import (
    COMMON_CODES,
    UNRECOGNISED,
    Codes,
    error_code,
    failure,
    meaning_of,
    repeats,
    says_retryable,
)
from consumers.providers.files import ReceivedFile, receive
from consumers.providers.transport import (
    MAX_URL_LENGTH,
    Limits,
    body_pieces,
    new_origins,
    opened,
    origin_of,
    target_of,
    unusable,
)
from consumers.providers.uploads import Upload
from sinks.http1 import Response


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer with its body. Headers are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The decoded body; None where it is empty or not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    @property
    def retry_after(self) -> float | None:
        return retry_after.from_headers(self.headers)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class ApiClient:
    """Calls to one configured API origin, with its credential. Safe to use from many threads."""

    def __init__(
        self,
        base_url: str,
        *,
        credential: Callable[[], Mapping[str, str]],
        limits: Limits,
        connections: int = 32,
        ca_file: Path | None = None,
        code_of: Callable[[Any], str | None] = error_code,
    ) -> None:
        """``credential`` gives the header(s) that authenticate a call; ``code_of`` finds the error
        code in a decoded body."""
        self.base_url = base_url.rstrip("/")
        self._origin = origin_of(self.base_url)
        self._base_path = urlsplit(self.base_url).path
        self._credential = credential
        self._code_of = code_of
        self.limits = limits
        self._origins = new_origins(limits, connections=connections, ca_file=ca_file, hosts=1)
        self._server = self._origins.of(*self._origin)

    def own_url(self, reference: str, *, operation: str) -> str:
        """``reference`` (absolute, or relative to the base) as an absolute URL of this origin.

        Raises:
            ResponseUnsafe: it points anywhere else. The credential is not sent there.
        """
        try:
            url = urljoin(f"{self.base_url}/", reference)
            same = len(url) <= MAX_URL_LENGTH and origin_of(url) == self._origin
        except ValueError:
            same = False
        if not same:
            raise ResponseUnsafe("foreign_url", operation=operation)
        return url

    def call(
        self,
        method: str,
        url: str,
        *,
        operation: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | Upload | None = None,
        extra_read_seconds: float = 0.0,
        codes: Codes = COMMON_CODES,
    ) -> Answer:
        """One request; ``url`` is absolute or a path below the base.

        Raises:
            ProviderError: no answer, or one whose status is not 2xx, by what it means.
        """
        with self._open(method, url, operation, headers, body, extra_read_seconds) as response:
            answer = Answer(
                response.status, response.headers, self._body(response, operation=operation)
            )
        if not answer.ok:
            raise self.failure(answer, operation=operation, codes=codes)
        return answer

    def failure(
        self, answer: Answer, *, operation: str, codes: Codes = COMMON_CODES
    ) -> ProviderError:
        """The error that an answer stands for: by its code, else by its status."""
        body = answer.json()
        return failure(
            answer.status,
            self.code_in(body, codes),
            operation=operation,
            retry_after=answer.retry_after,
            codes=codes,
            retryable=says_retryable(body),
        )

    def download(
        self,
        url: str,
        destination: Path,
        *,
        operation: str,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        expected_bytes: int | None = None,
        expected_sha256: str | None = None,
        codes: Codes = COMMON_CODES,
    ) -> ReceivedFile:
        """GET with the credential, straight to a private file; for results that the API itself
        serves.

        Raises:
            ProviderError: as `call`; `DocumentRefused` where it is larger than ``max_bytes``.
        """
        with self._open("GET", url, operation, headers, None, 0.0) as response:
            if response.status == 200:
                return receive(
                    body_pieces(response, self.limits, operation=operation),
                    response.headers,
                    destination,
                    max_bytes=max_bytes,
                    operation=operation,
                    expected_bytes=expected_bytes,
                    expected_sha256=expected_sha256,
                )
            answer = Answer(
                response.status, response.headers, self._body(response, operation=operation)
            )
        raise self.failure(answer, operation=operation, codes=codes)

    def code_in(self, body: Any, codes: Codes = COMMON_CODES) -> str | None:
        """The error code in a decoded body, unless it repeats our secret back to us."""
        code = self._code_of(body)
        if code is None or meaning_of(code, codes) is not None:
            return code
        return self.unless_secret(code)

    def unless_secret(self, word: str) -> str:
        """``word``, which only looks like a code or a status, unless it repeats our secret."""
        # `Bearer` and the like are no part of the secret.
        secrets = [value.rpartition(" ")[2] for value in self._credential().values()]
        return UNRECOGNISED if any(repeats(word, secret) for secret in secrets) else word

    def close(self) -> None:
        self._origins.close()

    @contextmanager
    def _open(
        self,
        method: str,
        url: str,
        operation: str,
        headers: Mapping[str, str] | None,
        body: bytes | Upload | None,
        extra_read_seconds: float,
    ) -> Iterator[Response]:
        if url.startswith(("http://", "https://")):
            target = target_of(self.own_url(url, operation=operation))
        else:  # ours, and what it names is quoted: it leads nowhere else
            target = f"{self._base_path}/{url.lstrip('/')}"
        sent = {"Accept": "application/json", "Accept-Encoding": "identity", **(headers or {})}
        sent.update(self._credential())
        data: bytes | Iterator[bytes] | None = None
        if isinstance(body, Upload):
            sent["Content-Type"] = body.content_type
            sent["Content-Length"] = str(body.length)
            data = body.chunks()
        else:
            data = body
        with opened(
            self._server,
            method,
            target,
            operation=operation,
            headers=sent,
            body=data,
            limits=self.limits,
            extra_read_seconds=extra_read_seconds,
        ) as response:
            yield response

    def _body(self, response: Response, *, operation: str) -> bytes:
        received = bytearray()
        for piece in body_pieces(response, self.limits, operation=operation):
            received += piece
            if len(received) > self.limits.max_json_bytes:
                raise unusable("answer_too_large", operation)
        return bytes(received)
