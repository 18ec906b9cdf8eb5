"""Starts `worker_process` and reads what it writes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys
import threading
from collections.abc import Iterator

from consumers.runtime.settings import RuntimeSettings
from tests.integration.consumers.runtime.members import eventually


class Process:
    """A running `worker_process` and the lines that it wrote."""

    def __init__(self, settings: RuntimeSettings, mode: str) -> None:
        given = {"settings": dataclasses.asdict(settings), "mode": mode}
        self.popen = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.integration.consumers.runtime.worker_process",
                json.dumps(given),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._read, args=(stream, into), daemon=True)
            for stream, into in (
                (self.popen.stdout, self.lines),
                (self.popen.stderr, self.errors),
            )
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _read(stream: Iterator[str], into: list[str]) -> None:
        for line in stream:
            into.append(line.rstrip("\n"))

    def told(self, start: str) -> list[str]:
        return [line for line in self.lines if line.startswith(start)]

    def wait_told(self, start: str, count: int = 1, seconds: float = 60.0) -> None:
        eventually(
            lambda: len(self.told(start)) >= count or self.popen.poll() is not None,
            f"{count} x {start!r}",
            seconds,
        )
        assert len(self.told(start)) >= count, self.errors

    def wait_end(self, seconds: float = 60.0) -> int:
        code = self.popen.wait(seconds)
        for thread in self._threads:
            thread.join(10)
        return code


@contextlib.contextmanager
def process(settings: RuntimeSettings, mode: str) -> Iterator[Process]:
    started = Process(settings, mode)
    try:
        yield started
    finally:
        started.popen.kill()
        started.wait_end()
