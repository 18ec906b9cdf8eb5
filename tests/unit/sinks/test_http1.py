"""`sinks.http1` against servers that answer byte by byte as told."""

from __future__ import annotations

import gc
import io
import select
import socket
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sinks.http1 import (
    BLOCK_BYTES,
    MAX_HEAD_BYTES,
    Broken,
    CutShort,
    HttpFailure,
    NotConnected,
    Origin,
    Origins,
    Response,
    TimedOut,
    blocks_of,
    joined,
)

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: x\r\n\r\nhello"
END = b"<end of connection>"


@dataclass
class Server:
    """Sends one of ``answers`` to every request (read to the end of its head and of as many body
    bytes as announced); `END` closes the connection."""

    answers: list[Iterable[bytes]]
    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0


@contextmanager
def serving(*answers: bytes | Iterable[bytes]) -> Iterator[Server]:
    server = Server([[one] if isinstance(one, bytes) else one for one in answers])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.port = listener.getsockname()[1]
        thread = threading.Thread(target=_serve, args=(listener, server), daemon=True)
        thread.start()
        yield server
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def _serve(listener: socket.socket, server: Server) -> None:
    while server.answers:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        server.connections += 1
        with connection:
            while server.answers and (request := _request(connection)):
                server.requests.append(request)
                for piece in server.answers.pop(0):
                    if piece is END:
                        break
                    connection.sendall(piece)
                else:
                    continue
                break


def _request(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        try:
            piece = connection.recv(4096)
        except ConnectionResetError:
            piece = b""
        if not piece:
            return b""
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    while len(body) < length:
        body += connection.recv(4096)
    return head + b"\r\n\r\n" + body


def origin(server: Server, **options: float) -> Origin:
    return Origin("http", "127.0.0.1", server.port, connect_seconds=5, kept=4)


def ask(to: Origin, method: str = "GET", **options: object) -> Response:
    arguments = {"headers": {}, "read_seconds": 5.0, **options}
    return to.request(method, "/a?b=c", **arguments)  # type: ignore[arg-type]


def body_of(response: Response) -> bytes:
    return b"".join(iter(response.read1, b""))


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK, b"hello"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"hello"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, b"hello"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
def test_an_answer_is_read_and_its_connection_used_again(answer: bytes, body: bytes) -> None:
    whole, dripped = [answer], [answer[i : i + 1] for i in range(len(answer))]
    with serving(whole, dripped, OK) as server:
        to = origin(server)
        for _ in range(2):
            response = ask(to)
            assert (response.status // 100, body_of(response)) == (2, body)
            assert response.complete
            assert response.headers.get("Link") is None
        assert body_of(ask(to)) == b"hello"
        assert server.connections == 1


def test_headers_are_found_whatever_their_case_and_joined_when_repeated() -> None:
    with serving(
        b"HTTP/1.1 404 Not Found\r\nX-One: a\r\nx-one: b\r\nContent-Length: 0\r\n\r\n"
    ) as s:
        response = ask(origin(s))
        assert response.status == 404
        assert response.headers.get("X-ONE") == "a, b"


def test_the_request_is_sent_as_given() -> None:
    with serving(OK, OK, OK) as server:
        to = origin(server)
        ask(to, headers={"A": "1"}).close()
        ask(to, "PUT", body=b"abc", headers={"Host": "h"}).close()
        ask(to, "PUT", body=iter([b"x", b"\ny"]), headers={"Content-Length": "3"}).close()
        one, two, three = server.requests
        assert (
            one == f"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nA: 1\r\n\r\n".encode()
        )
        assert two == b"PUT /a?b=c HTTP/1.1\r\nContent-Length: 3\r\nHost: h\r\n\r\nabc"
        assert three.endswith(b"Content-Length: 3\r\n\r\nx\ny")


def test_a_head_request_has_no_body_whatever_its_answer_announces() -> None:
    with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", OK) as server:
        to = origin(server)
        response = ask(to, "HEAD")
        assert response.complete
        assert body_of(response) == b""
        assert body_of(ask(to)) == b"hello"
        assert server.connections == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ([END], Broken),
        ([b"SSH-2.0-x\r\n"], Broken),
        ([b"HTTP/1.1 2"], TimedOut),
        ([b"HTTP/1.1 200 OK\r\nA: " + b"x" * 2 * MAX_HEAD_BYTES], Broken),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"], Broken),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na"], Broken),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", END], CutShort),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", END], CutShort),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhel"], Broken),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"], TimedOut),
        (
            [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"],
            Broken,
        ),
    ],
)
def test_a_bad_answer_is_an_error_and_its_connection_is_not_used_again(
    answer: list[bytes], error: type[HttpFailure]
) -> None:
    with serving(answer, OK) as server:
        to = origin(server)
        with pytest.raises(error):
            body_of(ask(to, read_seconds=0.3))
        assert body_of(ask(to)) == b"hello"
        assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        [OK + OK],
        [OK.replace(b"ETag: x", b"Connection: close")],
        [b"HTTP/1.0 200 OK\r\n\r\nhello", END],
        [b"HTTP/1.1 200 OK\r\n\r\nhello", END],
    ],
)
def test_a_connection_that_says_more_or_ends_is_not_used_again(answer: list[bytes]) -> None:
    with serving(answer, OK) as server:
        to = origin(server)
        for _ in range(2):
            assert body_of(ask(to)) == b"hello"
        assert server.connections == 2


def test_an_unread_body_is_dropped_together_with_its_connection() -> None:
    with serving([OK[:-2]], OK) as server:
        to = origin(server)
        ask(to).close()
        assert body_of(ask(to)) == b"hello"
        assert server.connections == 2


def test_a_connection_that_the_peer_ended_meanwhile_is_not_used_again() -> None:
    with serving([OK, END], OK) as server:
        to = origin(server)
        assert body_of(ask(to)) == b"hello"
        (idle,) = to._idle
        assert select.select([idle.sock], [], [], 5)[0]  # the end has arrived
        assert body_of(ask(to)) == b"hello"
        assert server.connections == 2


def test_a_peer_that_refuses_a_body_early_is_heard() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    def endless() -> Iterator[bytes]:
        while True:
            yield bytes(100_000)

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            connection, _ = listener.accept()
            connection.recv(1000)
            connection.sendall(refusal)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1 << 20)
            connection.close()

        thread = threading.Thread(target=refuse)
        thread.start()
        to = Origin("http", "127.0.0.1", listener.getsockname()[1], connect_seconds=5, kept=1)
        try:
            response = ask(to, "POST", body=endless(), headers={"Content-Length": "9999999999"})
        except Broken:
            pass  # the reset overtook the answer: what is lost is lost
        else:
            assert response.status == 413
        thread.join(5)


def test_what_the_body_raises_is_not_taken_for_the_connections() -> None:
    class Unreadable(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise BrokenPipeError("a pipe on the disk's side")

    blocks = blocks_of(Unreadable(b"nine byte"), 9)
    with serving(OK) as server, pytest.raises(BrokenPipeError):
        ask(origin(server), "PUT", body=blocks, headers={"Content-Length": "9"})


@pytest.mark.parametrize("headers", [{"A": "x\r\nB: y"}, {"A\n": "x"}, {"A": "\0"}])
def test_a_header_cannot_smuggle_another(headers: dict[str, str]) -> None:
    with serving(OK) as server, pytest.raises(ValueError, match="line break"):
        ask(origin(server), headers=headers)


def test_a_target_cannot_smuggle_a_header() -> None:
    with serving(OK) as server, pytest.raises(ValueError):
        origin(server).request("GET", "/a b", headers={}, read_seconds=1)


def test_a_port_where_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        to = Origin("http", "127.0.0.1", taken.getsockname()[1], connect_seconds=5, kept=1)
        with pytest.raises(NotConnected) as caught:
            ask(to)
    assert caught.value.code == "connect_failed"


def test_the_origin_used_last_longest_ago_is_closed() -> None:
    with serving(OK, OK) as server:
        origins = Origins(connect_seconds=5, kept=4, most=1)
        first = origins.of("http", "127.0.0.1", server.port)
        body_of(ask(first))
        assert origins.of("http", "127.0.0.1", server.port) is first
        origins.of("http", "127.0.0.1", 1)
        assert origins.of("http", "127.0.0.1", server.port) is not first
        assert body_of(ask(first)) == b"hello"  # whoever still has it can use it
        assert server.connections == 2


@pytest.mark.parametrize(
    "sizes", [[], [0], [1, 2, 3], [BLOCK_BYTES], [100_000] * 7, [1_000_000, 1]]
)
def test_pieces_are_joined_to_blocks_of_the_same_bytes(sizes: list[int]) -> None:
    pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
    blocks = list(joined(iter(pieces)))
    assert b"".join(blocks) == b"".join(pieces)
    assert all(len(block) >= BLOCK_BYTES for block in blocks[:-1])


@pytest.mark.parametrize("size", [0, 1, 2000, 2001, 5000])
def test_a_file_in_blocks_from_where_it_is(size: int) -> None:
    content = bytes(index % 251 for index in range(size))
    file = io.BytesIO(b"before" + content + b"after")
    file.seek(6)
    blocks = list(blocks_of(file, size, 2000))
    assert b"".join(blocks) == content
    assert [len(block) for block in blocks[:-1]] == [2000] * (len(blocks) - 1)


def test_a_file_that_becomes_shorter_ends() -> None:
    file = io.BytesIO(bytes(100))
    blocks = blocks_of(file, 100, 10)
    next(blocks)
    file.truncate(25)
    assert [len(block) for block in blocks] == [10, 5]


def test_a_small_call_takes_little_of_the_heap(tmp_path: Path) -> None:
    """What is asked for and cut afterwards counts: the heap must have it in one piece. Of several
    calls the least, for other threads of this process take some, too."""
    small = tmp_path / "small"
    small.write_bytes(bytes(100))
    peaks = []
    with serving(*[OK] * 6) as server:
        to = origin(server)
        body_of(ask(to))
        for _ in range(5):
            with small.open("rb") as file:
                tracemalloc.start()
                try:
                    answer = ask(
                        to, "PUT", body=blocks_of(file, 100), headers={"Content-Length": "100"}
                    )
                    assert body_of(answer) == b"hello"
                    peaks.append(tracemalloc.get_traced_memory()[1])
                finally:
                    tracemalloc.stop()
    assert min(peaks) < 32 * 1024, peaks


FORKED = """
import os
from sinks.http1.response import _buffer

view = _buffer.view
child = os.fork()
if not child:
    view[0] = 1
    os._exit(0)
os.waitpid(child, 0)
print(view[0])
"""


def test_what_is_received_is_shared_with_no_process() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout.split() == ["0"]


def test_a_head_that_drips_in_ends() -> None:
    ended = threading.Event()

    def drips() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nX: "
        while not ended.wait(0.005):
            yield b"x"

    with serving(drips()) as server:
        with pytest.raises(TimedOut):
            ask(origin(server), read_seconds=0.1)
        ended.set()


def test_answers_leave_nothing_to_the_cycle_collector() -> None:
    """Read to the end, closed early, or broken: nothing is kept until the collector looks. What
    other threads of this process leave to it is not asked for."""
    count = 20
    broken = b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"
    with serving(*[OK] * count, broken, *[OK] * count) as server:
        to = origin(server)
        gc.collect()
        gc.disable()
        try:
            for _ in range(count):
                ask(to).read1()
            with pytest.raises(Broken):
                ask(to)
            for _ in range(count):
                ask(to).close()
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            assert not [kept for kept in gc.garbage if isinstance(kept, Response)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
            to.close()
