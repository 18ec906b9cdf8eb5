"""What a client may send before it has made a request, against a real server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import uvicorn

from deploy.extractor import connections
from deploy.extractor.connections import MAX_HEAD_BYTES, BoundedHttp

PATIENCE_S = 30.0
Connect = Callable[[], socket.socket]


async def echo_length(
    _: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    """Answers with the number of bytes of the body."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    text = str(size).encode()
    headers = [(b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


@pytest.fixture
def connect() -> Iterator[Connect]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        echo_length, http=BoundedHttp, ws="none", lifespan="off", log_config=None
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    opened: list[socket.socket] = []

    def connected() -> socket.socket:
        connection = socket.create_connection(listener.getsockname(), timeout=PATIENCE_S)
        opened.append(connection)
        return connection

    yield connected
    for connection in opened:
        connection.close()
    server.should_exit = True
    thread.join()
    listener.close()


def sent_until_closed(connection: socket.socket, piece: bytes, most: int) -> bool:
    """Whether the server closed before it was sent ``most`` bytes of the same."""
    try:
        for _ in range(most // len(piece)):
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
    except TimeoutError:  # it listens on
        return False
    except OSError:  # reset, or a broken pipe
        return True
    return False


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"a" * 65536),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", b"X-Header: value\r\n" * 4096),
        (b"GET /", b"a" * 65536),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
            b"a" * 65536,
        ),
    ],
    ids=["a header", "headers", "an address", "a trailer"],
)
def test_what_never_ends_is_cut_off(connect: Connect, start: bytes, piece: bytes) -> None:
    connection = connect()
    connection.sendall(start)
    # Far more than the buffers between the two hold.
    assert sent_until_closed(connection, piece, 256 * MAX_HEAD_BYTES)


@pytest.mark.parametrize("before", [b"", b"GET / HTTP/1.1\r\nHost: a\r\nX:"])
def test_a_head_that_does_not_come_is_not_waited_for(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, before: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_TIMEOUT_S", 0.1)
    connection = connect()
    connection.sendall(before)
    assert connection.recv(1) == b""


def test_the_second_head_of_a_connection_is_not_waited_for_either(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connect()
    answered(connection, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    monkeypatch.setattr(connections, "HEAD_TIMEOUT_S", 0.1)
    connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
    assert connection.recv(1) == b""


def test_a_large_body_and_many_requests_pass(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_TIMEOUT_S", 0.1)
    size = 16 * MAX_HEAD_BYTES
    length = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size
    chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    connection = connect()
    for _ in range(3):
        assert answered(connection, length + bytes(size)).endswith(str(size).encode())
        pieces = b"".join(b"400\r\n" + bytes(1024) + b"\r\n" for _ in range(size // 1024))
        answer = answered(connection, chunked + pieces + b"0\r\n\r\n")
        assert answer.endswith(str(size).encode())


def answered(connection: socket.socket, request: bytes) -> bytes:
    """The answer, whose body fits one packet."""
    connection.sendall(request)
    answer = b""
    while b"\r\n\r\n" not in answer or answer.endswith(b"\r\n\r\n"):
        received = connection.recv(65536)
        assert received, "the connection was closed"
        answer += received
    return answer
