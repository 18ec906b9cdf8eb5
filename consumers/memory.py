"""What memory costs: keeps the C library from keeping much for later, gives back what it keeps, and
keeps the cycle collector from looking where nothing is.

Threads that allocate and free leave holes in glibc's arenas, in each of them its own.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress

COLLECT_AFTER = 20_000
"""Objects that may come to stay before the youngest of them are searched for cycles; Python's own
700 are reached several times a document, nearly in vain: a document leaves a handful in cycles."""


ARENAS = 2
"""With an interpreter that runs one thread at a time, more of them (glibc makes eight a core) speed
nothing up: what they did was to hold 7 MiB more of a worker's 95, and to go on growing for longer.
"""
_M_ARENA_MAX = -8  # malloc.h


def few_arenas() -> None:
    """Called before there are threads; without glibc, it does nothing."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS)


def calm_collector() -> None:
    """Called once when all that lives as long as the process is there: it is never searched."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])


def trimmer() -> Callable[[], None]:
    """A call that takes a few milliseconds; without glibc, one that does nothing."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return lambda: None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int

    def give_back() -> None:
        trim(0)

    return give_back
