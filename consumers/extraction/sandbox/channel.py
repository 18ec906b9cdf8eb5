"""Messages between the worker and its sandbox processes: a 4-byte length, then JSON.

Both ends bound what they accept, and none sends before it was answered. Open files travel beside
the first byte (SCM_RIGHTS).
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_FILES = 64  # the kernel takes 253 in one message

_LENGTH = struct.Struct("!I")
_FIRST_BYTES = 4096
"""Most messages are a single piece."""


class ChannelClosed(Exception):
    """The other end is gone, or what it sent is no message."""


class ChannelTimeout(Exception):
    pass


Message = dict[str, Any]


def send(channel: socket.socket, message: Message, files: Sequence[int] = ()) -> None:
    """Send a message and duplicates of open files. Raises ChannelClosed."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > MAX_MESSAGE_BYTES or len(files) > MAX_FILES:
        raise ValueError("the message is larger than the protocol allows")
    data = _LENGTH.pack(len(body)) + body
    try:
        sent = socket.send_fds(channel, [data], list(files)) if files else channel.send(data)
        channel.sendall(data[sent:])
    except TimeoutError as error:
        raise ChannelTimeout from error
    except OSError as error:
        raise ChannelClosed from error


def receive(
    channel: socket.socket, *, max_files: int = 0, deadline: float | None = None
) -> tuple[Message, list[int]]:
    """Receive a message. The caller owns the descriptors that come with it.

    `deadline` is on `time.monotonic()`. Raises ChannelTimeout after it, and ChannelClosed when the
    other end is gone or sends anything that is not a message.
    """
    files: list[int] = []
    try:
        data, files = _first_bytes(channel, max_files, deadline)
        if len(data) < _LENGTH.size:
            data += _exactly(channel, _LENGTH.size - len(data), deadline)
        (length,) = _LENGTH.unpack_from(data)
        left = _LENGTH.size + length - len(data)
        if length > MAX_MESSAGE_BYTES or left < 0:
            raise ChannelClosed
        data += _exactly(channel, left, deadline)
        message = json.loads(data[_LENGTH.size :])
        if not isinstance(message, dict):
            raise ChannelClosed
    except (OSError, ValueError, RecursionError) as error:
        close_all(files)
        if isinstance(error, TimeoutError):
            raise ChannelTimeout from error
        raise ChannelClosed from error
    except (ChannelClosed, ChannelTimeout):
        close_all(files)
        raise
    return message, files


def close_all(files: Sequence[int]) -> None:
    for file in files:
        os.close(file)


def _first_bytes(
    channel: socket.socket, max_files: int, deadline: float | None
) -> tuple[bytes, list[int]]:
    _wait_until(channel, deadline)
    if max_files:
        first, files, _, _ = socket.recv_fds(channel, _FIRST_BYTES, max_files)
    else:  # descriptors that come unasked are discarded by the kernel
        first, files = channel.recv(_FIRST_BYTES), []
    if not first:
        close_all(files)
        raise ChannelClosed
    return first, files


def _exactly(channel: socket.socket, size: int, deadline: float | None) -> bytes:
    parts = []
    while size:
        _wait_until(channel, deadline)
        part = channel.recv(min(size, 65536))
        if not part:
            raise ChannelClosed
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _wait_until(channel: socket.socket, deadline: float | None) -> None:
    if deadline is None:
        if channel.gettimeout() is not None:
            channel.settimeout(None)
        return
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise ChannelTimeout
    channel.settimeout(remaining)
