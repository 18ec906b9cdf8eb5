"""No new sockets, by a filter of system calls: what the kernel allows to any process.

Works where containers may not have a network namespace of their own: for the worker's sandbox and
for the extraction service's workers. A socket that is open already goes on working: a process of
the sandbox has one, to the worker.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_MODE_FILTER = 2

_LOAD = 0x20  # a word of `struct seccomp_data`
_IF_EQUAL = 0x15
_IF_AT_LEAST = 0x35
_RETURN = 0x06
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in `struct seccomp_data`
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EACCES

# Numbers above belong to x32, another ABI of the same machine with numbers of its own.
_X32 = 0x40000000
_IO_URING_SETUP = 425  # opens sockets without any of the other calls
# The audit architecture, and the numbers of socket, socketpair, bind and connect.
_CALLS = {
    "x86_64": (0xC000003E, (41, 53, 49, 42)),
    "aarch64": (0xC00000B7, (198, 199, 200, 203)),
}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def forbid_sockets() -> bool:
    """Let this single-threaded process, and all it will fork, open and connect no socket.

    Returns whether the kernel did; it is known how on x86-64 and 64-bit ARM.
    """
    calls = _CALLS.get(platform.machine())
    if calls is None or struct.calcsize("P") != 8:  # a 32-bit Python is another ABI
        return False
    program = _program(*calls)
    code = ctypes.create_string_buffer(program, len(program))
    libc = ctypes.CDLL(None, use_errno=True)
    # Without it only root may set a filter.
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    filter_ = _Program(len(program) // 8, ctypes.addressof(code))
    return bool(libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(filter_), 0, 0) == 0)


def _program(architecture: int, calls: tuple[int, ...]) -> bytes:
    """Classic BPF: EACCES for these calls and for whatever is another ABI's."""
    refused = [(_IF_AT_LEAST, _X32), *((_IF_EQUAL, call) for call in (*calls, _IO_URING_SETUP))]
    end = len(refused)  # instructions from the first test to `allow`
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 0, end + 2, architecture),  # another one: to `refuse`
        (_LOAD, 0, 0, _NUMBER),
        *((test, end - number, 0, value) for number, (test, value) in enumerate(refused)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("HBBI", *line) for line in lines)
