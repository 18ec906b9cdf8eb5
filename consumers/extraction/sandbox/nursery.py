"""The process that the sandbox processes are forked from: one thread, engines imported.

Started by the worker as `python -m consumers.extraction.sandbox.nursery FD DIR CORES`, where FD is
a socket, DIR its temporary directory, which it removes at its end, and CORES the processor cores to
run on, separated by commas, as the worker may keep to one.
Requests: `spawn` (with the child's end of its socket) and `end` (kill if alive, and say how it
ended). When the worker goes away, however it does, the socket closes and every child is killed.
A child stays a zombie until `end`, so its process id cannot come to mean another process.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import socket
import sys
import time
import warnings

from consumers import seccomp
from consumers.extraction.sandbox import channel, confine

_GRACE_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0


def main() -> None:
    connection, temporary = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    _run_on([int(core) for core in sys.argv[3].split(",") if core])
    try:
        _import_engines()
    except Exception as error:
        channel.send(connection, {"unavailable": f"{type(error).__name__}: {error}"[:500]})
        return
    isolated = [confine.leave_network(), seccomp.forbid_sockets()]  # either would do
    # Objects that exist now are never looked at by the collector again, so that the children go on
    # sharing their memory.
    gc.collect()
    gc.freeze()
    channel.send(connection, {"ready": True, "network_isolated": any(isolated)})
    children: set[int] = set()
    try:
        _serve(connection, children)
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        # A worker that was killed cannot remove it any more.
        shutil.rmtree(temporary, ignore_errors=True)


def _run_on(cores: list[int]) -> None:
    if cores:
        with contextlib.suppress(OSError):  # taken away since: those of the worker will do
            os.sched_setaffinity(0, cores)


def _import_engines() -> None:
    warnings.simplefilter("ignore")  # they may quote the content, and nobody reads them
    from consumers.extraction.sandbox.child import warm_up

    warm_up()


def _serve(connection: socket.socket, children: set[int]) -> None:
    while True:
        try:
            request, descriptors = channel.receive(connection, max_files=1)
        except channel.ChannelClosed:
            return
        if request["operation"] == "spawn":
            child = _fork(connection, descriptors[0], request)
            os.close(descriptors[0])
            children.add(child)
            channel.send(connection, {"process": child})
        else:
            ended = request["process"]
            signal_number = _end(ended, kill=request["kill"])
            children.discard(ended)
            channel.send(connection, {"signal": signal_number})


def _fork(nursery_connection: socket.socket, descriptor: int, request: channel.Message) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        nursery_connection.close()
        confine.die_with_parent(parent)
        confine.prefer_as_out_of_memory_victim()
        connection = socket.socket(fileno=descriptor)
        confine.disable_sockets()
        confine.limit_resources(request["memory_bytes"], request["file_bytes"])
        from consumers.extraction.sandbox.child import serve

        serve(connection)
        status = 0
    finally:
        os._exit(status)


def _end(child: int, *, kill: bool) -> int:
    """Reap a child; returns the signal that it died of by itself, or 0.

    Without `kill` it is given a moment, because its socket closes before it can be reaped.
    """
    if not kill:
        status = _wait(child, _GRACE_SECONDS)
        if status is not None:
            return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    os.kill(child, signal.SIGKILL)
    _wait(child, _PATIENCE_SECONDS)  # it is gone when its memory is freed
    return 0


def _wait(child: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        if time.monotonic() > deadline:
            return None
        time.sleep(0.001)


if __name__ == "__main__":
    main()
