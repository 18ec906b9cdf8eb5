"""Why there is no (complete) answer, in one of a few words."""

from __future__ import annotations


class HttpFailure(Exception):
    """No (complete) answer. ``code`` says why, in one of a few words; there is no other text."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class NotConnected(HttpFailure):
    """Nothing was sent: dns_failed, connect_timeout, connect_failed, tls_failed."""


class TimedOut(HttpFailure):
    """No byte in time: read_timeout."""


class Broken(HttpFailure):
    """The connection ended, or what came is not HTTP: connection_broken."""


class CutShort(HttpFailure):
    """The body ended before the length that was announced: body_truncated."""
