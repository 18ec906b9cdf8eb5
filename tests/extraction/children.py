"""Runs a function in a child process with limits on memory and time, and tells how it ended."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

MEMORY_BYTES = 2 << 30


@dataclass(frozen=True)
class Outcome:
    """Times of the function, measured in the child.

    `seconds` is the time on the clock, `cpu_seconds` the processor time of all its threads; that of
    a child that was killed is the time on the clock.

    `death` says how the child ended when it gave no answer: "timeout", or its exit code.
    `error` is the class of an exception that the function raised.
    """

    seconds: float
    cpu_seconds: float
    value: Any = None
    error: str | None = None
    death: str | None = None


def run(function: Callable[..., Any], *arguments: Any, seconds: float) -> Outcome:
    """Call `function(*arguments)` in a forked child that is killed after `seconds`."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(sending, function, arguments, seconds))
    started = time.perf_counter()
    child.start()
    sending.close()
    try:
        if receiving.poll(seconds):
            answer: Outcome = receiving.recv()
            return answer
        return Outcome(seconds, seconds, death="timeout")
    except EOFError:
        child.join()
        lived = time.perf_counter() - started
        return Outcome(lived, lived, death=f"exit code {child.exitcode}")
    finally:
        child.kill()
        child.join()
        receiving.close()


def _child(
    answer: Connection, function: Callable[..., Any], arguments: Any, seconds: float
) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    started = time.perf_counter(), time.process_time()
    value, failure = None, None
    try:
        value = function(*arguments)
    except Exception as error:
        failure = type(error).__name__
    times = time.perf_counter() - started[0], time.process_time() - started[1]
    answer.send(Outcome(*times, value=value, error=failure))
