"""What memory costs: keeps the C library from keeping much for later, gives back what it keeps, and
keeps the cycle collector from looking where nothing is.

Threads that allocate and free leave holes in glibc's arenas, in each of them its own.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress

ARENAS = 2
"""With an interpreter that runs one thread at a time, more of them (glibc makes eight a core) speed
nothing up: what they did was to hold 7 MiB more of a worker's 95, and to go on growing for longer.
"""
OF_ITS_OWN_BYTES = 512 * 1024
"""A larger block is taken from the system and given back to it: the Kafka client's are of 2 MiB,
and glibc would from the first of them on want a hole of that size in the heap for each. What the
calls of a document take is smaller, and stays in the heap: pages of the system's are dear."""
TOP_KEPT_BYTES = 8 * 1024 * 1024
"""What stays free at the heap's end. glibc would derive it from its own notion of a large block,
which it gives up once it is told the above."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h


def steady_heap() -> None:
    """Called before there are threads; without glibc, it does nothing."""
    with suppress(AttributeError, OSError):
        set_option = ctypes.CDLL(None).mallopt
        set_option(_M_ARENA_MAX, ARENAS)
        set_option(_M_MMAP_THRESHOLD, OF_ITS_OWN_BYTES)
        set_option(_M_TRIM_THRESHOLD, TOP_KEPT_BYTES)


COLLECT_AFTER = 20_000
"""Objects that may come to stay before the youngest of them are searched for cycles; Python's own
700 are reached several times a document, nearly in vain: a document leaves a handful in cycles."""


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
