import os
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from consumers.extraction.sandbox.channel import (
    MAX_MESSAGE_BYTES,
    ChannelClosed,
    ChannelTimeout,
    receive,
    send,
)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


Ends = tuple[socket.socket, socket.socket]


def test_a_message_and_its_open_files_arrive(ends: Ends) -> None:
    reading, writing = os.pipe()
    send(ends[0], {"text": "å"}, [writing])
    os.close(writing)
    message, files = receive(ends[1], max_files=4)
    assert message == {"text": "å"}
    (file,) = files
    os.write(file, b"x")
    os.close(file)
    assert os.read(reading, 10) == b"x"
    os.close(reading)


@pytest.mark.parametrize("size", [0, 4000, 4096, 5000, 200_000])
def test_messages_of_any_size_one_after_the_other(ends: Ends, size: int) -> None:
    for number in range(3):
        sent = {"number": number, "text": "x" * size}
        sender = threading.Thread(target=send, args=(ends[0], sent))
        sender.start()
        assert receive(ends[1]) == (sent, [])
        sender.join()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\0\0",
        struct.pack("!I", MAX_MESSAGE_BYTES + 1),
        struct.pack("!I", 10) + b"short",
        struct.pack("!I", 3) + b"[1]",
        struct.pack("!I", 4) + b"null",
        struct.pack("!I", 2) + b"\xff\xfe",
        struct.pack("!I", 100_000) + b"[" * 100_000,
        struct.pack("!I", 2) + b"{}" + struct.pack("!I", 2) + b"{}",
    ],
    ids=[
        *("nothing", "half a length", "too long", "cut", "array", "null", "no text", "nested"),
        "an answer that nobody asked for",
    ],
)
def test_what_is_no_message_closes_the_channel(ends: Ends, sent: bytes) -> None:
    ends[0].sendall(sent)
    ends[0].shutdown(socket.SHUT_WR)
    with pytest.raises(ChannelClosed):
        receive(ends[1], deadline=time.monotonic() + 30)


def test_a_sender_that_trickles_cannot_extend_the_deadline(ends: Ends) -> None:
    ends[0].sendall(struct.pack("!I", 10) + b"{")
    with pytest.raises(ChannelTimeout):
        receive(ends[1], deadline=time.monotonic() + 0.05)


def test_a_closed_end_is_noticed_when_sending(ends: Ends) -> None:
    ends[1].close()
    with pytest.raises(ChannelClosed):
        send(ends[0], {})


def test_files_that_come_unasked_are_not_left_open(ends: Ends) -> None:
    reading, writing = os.pipe()
    send(ends[1], {}, [writing])
    os.close(writing)
    assert receive(ends[0]) == ({}, [])
    assert os.read(reading, 1) == b""  # no writer is left
    os.close(reading)
