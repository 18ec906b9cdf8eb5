"""A small S3 server on a real socket that tells the truth until it is told to lie.

Truthful, it keeps conditions atomically and knows the requests our client makes. `lie` queues
what it does wrong with the next requests of a method; the `ignores_*` switches make it one of the
stores that must not be used.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


@dataclass(frozen=True)
class Stored:
    body: bytes
    content_type: str
    etag: str
    metadata: Mapping[str, str]
    modified: str


@dataclass
class Answer:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]


Lie = Callable[["Conversation", Callable[[], Answer]], None]
"""Answers one request its own way; calling the second argument makes it take effect."""


def error_document(code: str, key: str = "") -> bytes:
    return (
        f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>about {escape(key)}</Message>"
        f"<Resource>/{escape(key)}</Resource></Error>"
    ).encode()


def error(status: int, code: str) -> Answer:
    return Answer(status, error_document(code), {"Content-Type": "application/xml"})


# ---- lies


def says(
    status: int,
    code: str = "",
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    after_effect: bool = False,
) -> Lie:
    """Answer so, without acting (or, `after_effect`, having acted)."""

    def lie(conversation: Conversation, effect: Callable[[], Answer]) -> None:
        if after_effect:
            effect()
        text = body if body is not None else error_document(code) if code else b""
        conversation.reply(Answer(status, text, dict(headers or {})))

    return lie


def drops_connection(*, after_effect: bool = False) -> Lie:
    def lie(conversation: Conversation, effect: Callable[[], Answer]) -> None:
        if after_effect:
            effect()
        conversation.hang_up()

    return lie


def cuts_body_short(by: int) -> Lie:
    def lie(conversation: Conversation, effect: Callable[[], Answer]) -> None:
        answer = effect()
        conversation.reply(answer, send_only=len(answer.body) - by)
        conversation.hang_up()

    return lie


def announces(length: int) -> Lie:
    """A Content-Length that is not the body's."""

    def lie(conversation: Conversation, effect: Callable[[], Answer]) -> None:
        conversation.reply(effect(), content_length=length)

    return lie


def never_ends(sent: list[int]) -> Lie:
    """A chunked body without end; `sent[0]` counts what the client took."""

    def lie(conversation: Conversation, effect: Callable[[], Answer]) -> None:
        effect()
        conversation.start(Answer(200), {"Transfer-Encoding": "chunked"})
        piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        while sent[0] < 1 << 30:
            try:
                conversation.wfile.write(piece)
            except OSError:
                break
            sent[0] += 0x10000
        conversation.hang_up()

    return lie


def trickles(until: threading.Event) -> Lie:
    """One byte at a time, fast enough for every single wait of the client."""

    def lie(conversation: Conversation, effect: Callable[[], Answer]) -> None:
        effect()
        conversation.start(Answer(200), {"Content-Length": "1000000"})
        while not until.wait(0.02):
            try:
                conversation.wfile.write(b"x")
                conversation.wfile.flush()
            except OSError:
                break
        conversation.hang_up()

    return lie


def stays_silent(until: threading.Event, *, after_effect: bool = False) -> Lie:
    def lie(conversation: Conversation, effect: Callable[[], Answer]) -> None:
        if after_effect:
            effect()
        until.wait(60)
        conversation.hang_up()

    return lie


def truth(conversation: Conversation, effect: Callable[[], Answer]) -> None:
    conversation.reply(effect())


# ---- the server


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients hang up in the middle; that is what these tests are about."""


class LyingS3:
    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Stored] = {}
        self.buckets: set[str] = set()
        self.requests: list[Request] = []
        self.connections = 0
        self.ignores_if_none_match = False
        self.ignores_if_match = False
        self.creates_on_if_match_of_missing = False
        self.lets_all_racers_win = False
        self.keeps_metadata = True
        self._lies: dict[str, deque[Lie]] = {}
        self._lock = threading.Lock()
        store = self

        class Handler(Conversation):
            server_store = store

        self._server = _QuietServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.port = self._server.server_address[1]
        self.endpoint_url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> LyingS3:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def lie(self, method: str, *lies: Lie) -> None:
        with self._lock:
            self._lies.setdefault(method, deque()).extend(lies)

    def next_lie(self, request: Request) -> Lie:
        with self._lock:
            self.requests.append(request)
            queue = self._lies.get(request.method)
            return queue.popleft() if queue else truth

    def count(self, method: str) -> int:
        with self._lock:
            return sum(request.method == method for request in self.requests)

    def store(self, bucket: str, key: str, body: bytes, headers: Mapping[str, str]) -> Stored:
        metadata = {
            name.lower(): value
            for name, value in headers.items()
            if name.lower().startswith("x-amz-meta-") and self.keeps_metadata
        }
        etag = hashlib.md5(body).hexdigest()
        stored = Stored(
            body,
            headers.get("Content-Type", "binary/octet-stream"),
            etag,
            metadata,
            formatdate(time.time(), usegmt=True),
        )
        self.objects[bucket, key] = stored
        return stored

    def put(self, bucket: str, key: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        none_match, match = headers.get("If-None-Match"), headers.get("If-Match")
        present = self.objects.get((bucket, key))
        if self.lets_all_racers_win and none_match and present is None:
            time.sleep(0.2)  # looked, and writes later: all racers pass the check
            stored = self.store(bucket, key, body, headers)
            return Answer(200, b"", {"ETag": f'"{stored.etag}"'})
        with self._lock:
            if bucket not in self.buckets:
                return error(404, "NoSuchBucket")
            present = self.objects.get((bucket, key))
            if none_match == "*" and present and not self.ignores_if_none_match:
                return error(412, "PreconditionFailed")
            if match and not self.ignores_if_match:
                if present is None and not self.creates_on_if_match_of_missing:
                    return error(404, "NoSuchKey")
                if present is not None and match.strip('"') != present.etag:
                    return error(412, "PreconditionFailed")
            stored = self.store(bucket, key, body, headers)
            return Answer(200, b"", {"ETag": f'"{stored.etag}"'})

    def get(self, bucket: str, key: str) -> Answer:
        with self._lock:
            if bucket not in self.buckets:
                return error(404, "NoSuchBucket")
            stored = self.objects.get((bucket, key))
        if stored is None:
            return error(404, "NoSuchKey")
        headers = {
            "ETag": f'"{stored.etag}"',
            "Content-Type": stored.content_type,
            "Last-Modified": stored.modified,
            **stored.metadata,
        }
        return Answer(200, stored.body, headers)

    def delete(self, bucket: str, key: str) -> Answer:
        with self._lock:
            if bucket not in self.buckets:
                return error(404, "NoSuchBucket")
            self.objects.pop((bucket, key), None)
        return Answer(204)

    def delete_many(self, bucket: str, body: bytes) -> Answer:
        for key in re.findall(r"<Key>([^<]*)</Key>", body.decode()):
            answer = self.delete(bucket, key)
            if answer.status != 204:
                return answer
        return Answer(200, b"<DeleteResult></DeleteResult>", {"Content-Type": "application/xml"})

    def list(self, bucket: str, query: Mapping[str, list[str]]) -> Answer:
        if bucket not in self.buckets:
            return error(404, "NoSuchBucket")
        prefix = query.get("prefix", [""])[0]
        after = query.get("continuation-token", query.get("start-after", [""]))[0]
        with self._lock:
            keys = sorted(k for b, k in self.objects if b == bucket and k.startswith(prefix))
            keys = [key for key in keys if key > after]
        page, more = keys[:3], len(keys) > 3  # small pages, so that paging is exercised
        items = "".join(self._item(bucket, key) for key in page)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        text = (
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{items}</ListBucketResult>"
        )
        return Answer(200, text.encode(), {"Content-Type": "application/xml"})

    def _item(self, bucket: str, key: str) -> str:
        stored = self.objects[bucket, key]
        return (
            f"<Contents><Key>{escape(key)}</Key><Size>{len(stored.body)}</Size>"
            f"<ETag>&quot;{stored.etag}&quot;</ETag>"
            "<LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents>"
        )

    def bucket(self, method: str, bucket: str) -> Answer:
        if method == "PUT":
            self.buckets.add(bucket)
            return Answer(200)
        return Answer(200 if bucket in self.buckets else 404)


class Conversation(BaseHTTPRequestHandler):
    server_store: LyingS3
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server_store.connections += 1

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = dict(self.headers.items())
        url = urlsplit(self.path)
        _, bucket, *rest = unquote(url.path).split("/", 2)
        key = rest[0] if rest else ""
        query = parse_qs(url.query, keep_blank_values=True)
        store = self.server_store
        method = self.command

        def effect() -> Answer:
            if method == "POST":
                return store.delete_many(bucket, body)
            if not key and method == "GET":
                return store.list(bucket, query)
            if not key:
                return store.bucket(method, bucket)
            if method == "PUT":
                return store.put(bucket, key, body, headers)
            if method == "DELETE":
                return store.delete(bucket, key)
            return store.get(bucket, key)

        lie = store.next_lie(Request(method, self.path, headers))
        try:
            lie(self, effect)
        except OSError:
            self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = _serve

    def start(self, answer: Answer, extra: Mapping[str, str]) -> None:
        self.send_response(answer.status)
        for name, value in {**answer.headers, **extra}.items():
            self.send_header(name, value)
        self.end_headers()

    def reply(
        self, answer: Answer, *, content_length: int | None = None, send_only: int | None = None
    ) -> None:
        length = len(answer.body) if content_length is None else content_length
        self.start(answer, {"Content-Length": str(length)})
        if self.command != "HEAD":
            self.wfile.write(answer.body[:send_only])
        self.wfile.flush()

    def hang_up(self) -> None:
        self.close_connection = True
