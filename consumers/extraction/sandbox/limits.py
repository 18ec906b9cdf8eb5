"""The limits of a sandbox process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MIB = 1024 * 1024

SLOW_PROCESSES = 2
"""So many processes for documents that take long are there for each of the others."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Per process and, for the times, per request.

    The defaults: the page count of 99 % of 4,551 public PDFs took 14 ms and 6 MB. The slowest one,
    8.6 s and 290 MB with the first engine, takes the second one 0.5 s.
    """

    memory_bytes: int = 1024 * MIB
    """Address space of a process with its interpreter and engines, which take about 150 MiB."""
    cpu_seconds: float = 5.0
    wall_seconds: float = 60.0
    """Much more than `cpu_seconds`, so that a busy machine alone fails no document."""
    slow_after_seconds: float = 0.25
    """When a document makes room for others; see `Sandbox`. Until then one that hangs holds a
    place that others wait for."""
    file_bytes: int = 1024 * MIB
    """The largest file that a process can write."""
    temporary_directory: Path | None = None
    """The parent of the processes' private directory for temporary files; None for the system's."""
    requests_per_process: int = 1000
    """After so many a process is replaced, so that leaks of the engines do not add up."""

    def __post_init__(self) -> None:
        if self.memory_bytes < 256 * MIB:
            raise ValueError("memory_bytes: the engines alone need 150 MiB; give at least 256 MiB")
        if not 0 < self.cpu_seconds <= 3600 or not 0 < self.wall_seconds <= 3600:
            raise ValueError("cpu_seconds and wall_seconds must be over 0 and at most 3600")
        if self.file_bytes < MIB or self.requests_per_process < 1:
            raise ValueError("file_bytes must be at least 1 MiB, requests_per_process at least 1")
