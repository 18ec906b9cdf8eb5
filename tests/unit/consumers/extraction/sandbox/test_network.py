"""What a document that took over its sandbox process could reach: nothing. Tried by the C library,
because Python's own sockets are taken away besides."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from consumers.extraction.sandbox import Sandbox

CONNECT = """
import ctypes, errno, struct, socket

def connect(port):
    libc = ctypes.CDLL(None, use_errno=True)
    opened = libc.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
    if opened < 0:
        return errno.errorcode[ctypes.get_errno()]
    address = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, bytes([127, 0, 0, 1]))
    if libc.connect(opened, address, len(address)) != 0:
        return errno.errorcode[ctypes.get_errno()]
    return "connected"
"""
# Python runs a module of this name at its start: so the nursery's children can be told to connect.
TAKEN_OVER = (
    CONNECT
    + """
try:
    from consumers.extraction.sandbox import child
except ImportError:
    pass
else:
    child._OPERATIONS["connect"] = lambda request, files: {"outcome": connect(request["port"])}
"""
)
ALONE = (
    """
import sys
from consumers import seccomp
from consumers.extraction.sandbox import confine
"""
    + CONNECT
)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as made:
        made.setblocking(False)
        yield made


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def outcome_of(code: str, listener: socket.socket) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", ALONE + code, str(port_of(listener))],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.split()


def test_a_sandbox_process_reaches_no_port_that_listens(
    listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(TAKEN_OVER)
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        taken_over = Sandbox(1)
    with taken_over as sandbox:
        outcome = sandbox._call(
            {"operation": "connect", "port": port_of(listener)},
            [],
            0,
            lambda answer: str(answer["outcome"]),
        )
        isolated = sandbox.network_isolated
    means = outcome_of("print(seccomp.forbid_sockets(), confine.leave_network())", listener)
    assert isolated == ("True" in means)
    if not isolated:
        pytest.skip(f"this kernel lets no process give up its network: {outcome}")
    assert outcome in ("EACCES", "ENETUNREACH", "ECONNREFUSED")
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize(
    ("means", "outcome"),
    [("seccomp.forbid_sockets", "EACCES"), ("confine.leave_network", "ENETUNREACH")],
)
def test_each_of_the_two_means_would_do(means: str, outcome: str, listener: socket.socket) -> None:
    done, found = outcome_of(f"print({means}(), connect(int(sys.argv[1])))", listener)
    if done == "False":
        pytest.skip(f"this kernel does not allow {means}")
    assert found == outcome
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_without_them_the_port_is_reached(listener: socket.socket) -> None:
    assert outcome_of("print(connect(int(sys.argv[1])))", listener) == ["connected"]
    listener.accept()[0].close()
