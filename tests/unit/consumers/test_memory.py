"""What is done about memory, each in a process of its own."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from consumers.memory import ARENAS

PROGRAM = """
import ctypes
from pathlib import Path
from consumers.memory import trimmer

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

give_back = trimmer()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
blocks = [libc.malloc(64 * 1024) for _ in range(1000)]
for block in blocks:
    ctypes.memset(block, 1, 64 * 1024)
for block in blocks[:-1]:  # the last one keeps the heap's top where it is
    libc.free(block)
before = resident()
give_back()
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc_trim is glibc's")
def test_holes_are_given_back() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(shown.stdout) > 50 * 1024 * 1024


HEAP = """
import ctypes, re, sys, threading
from pathlib import Path
from consumers.memory import steady_heap

if sys.argv[1] == "steady":
    steady_heap()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.fopen.restype = ctypes.c_void_p
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.fclose.argtypes = [ctypes.c_void_p]

def shown():
    file = libc.fopen(sys.argv[2].encode(), b"w")
    libc.malloc_info(0, file)
    libc.fclose(file)
    return Path(sys.argv[2]).read_text()

def of_their_own():
    return int(re.findall('<total type="mmap" count="(\\d+)"', shown())[-1])

all_here = threading.Barrier(6)

def work():
    all_here.wait()
    libc.malloc(1000)
    all_here.wait()

threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.free(libc.malloc(4 << 20))
before = of_their_own()
libc.malloc(1 << 20)
libc.malloc(300 << 10)
print(shown().count("<heap "), of_their_own() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the heap is glibc's")
def test_threads_share_a_few_arenas_and_large_blocks_are_in_none(tmp_path: Path) -> None:
    arenas, large = {}, {}
    for how in ("steady", "as it is"):
        run = subprocess.run(
            [sys.executable, "-c", HEAP, how, str(tmp_path / how)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        arenas[how], large[how] = map(int, run.stdout.split())
    assert arenas["steady"] == ARENAS < arenas["as it is"]
    assert large == {"steady": 1, "as it is": 0}


CALM = """
import gc
from consumers.memory import COLLECT_AFTER, calm_collector

old = [[] for _ in range(1000)]
calm_collector()
print(gc.get_threshold()[0] == COLLECT_AFTER, gc.get_freeze_count() > 1000, gc.isenabled())
"""


def test_what_lives_as_long_as_the_process_is_not_searched_for_cycles() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", CALM], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout.split() == ["True", "True", "True"]
