"""One line per transition, written once and sent twice: to the ledger topic and to the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from consumers.extraction.timestamps import rfc3339
from consumers.runtime.clock import Clock
from consumers.runtime.effects import Message

log = logging.getLogger("bundles.job")


class Journal:
    """Writes ledger records (`schemas.ledger.LedgerRecord`; a test holds every line to it).

    ``send`` and ``also`` must not block and must not raise: losing a ledger line never costs a
    document, it is counted instead. ``also`` hears of each line.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        worker_id: str,
        topic: str,
        send: Callable[[Message], None],
        also: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self._clock = clock
        self._worker = worker_id
        self._topic = topic
        self._send = send
        self._also = also

    def write(self, key: str, fields: dict[str, Any]) -> None:
        line: dict[str, Any] = {
            "schema_version": 1,
            "at": rfc3339(self._clock.time()),
            "worker": self._worker,
        }
        for name, value in fields.items():
            if value is not None:
                line[name] = round(value, 6) if isinstance(value, float) else value
        text = orjson.dumps(line)
        self._send(Message(self._topic, key.encode(), text))
        if self._also is not None:
            self._also(line)
        if log.isEnabledFor(logging.INFO):
            log.info("%s", text.decode(), extra={"line": line})
