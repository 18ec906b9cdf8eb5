"""What memory costs: gives the operating system back what the C library keeps for later, and keeps
the cycle collector from looking where nothing is.

Many threads that allocate and free leave glibc's arenas full of holes: after 10,000 documents,
20 MiB of a worker's 95 were free and still resident, and it went on growing.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable

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
