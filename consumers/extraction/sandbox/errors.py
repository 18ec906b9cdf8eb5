"""What can go wrong with a sandbox process. The texts hold nothing of the document."""

from __future__ import annotations

from typing import ClassVar


class SandboxError(Exception):
    """One document exceeded what a sandbox process may use; others are not affected.

    `reason` is a code of `schemas.reasons.Reason`.
    """

    reason: ClassVar[str]
    explanation: ClassVar[str]

    def __init__(self) -> None:
        super().__init__(self.explanation)


class SandboxTimeout(SandboxError):
    reason = "parse_timeout"
    explanation = "parsing did not end within its time limit and was killed"


class SandboxMemory(SandboxError):
    reason = "parse_memory"
    explanation = "parsing needed more memory than its limit"


class SandboxCrashed(SandboxError):
    reason = "parse_crashed"
    explanation = "parsing crashed its process"


class SandboxUnavailable(RuntimeError):
    """Sandbox processes cannot be started on this machine: a fault of the installation."""


class SandboxClosed(RuntimeError):
    """The sandbox was closed before or during the call; says nothing about the document."""
