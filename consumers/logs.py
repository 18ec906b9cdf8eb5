"""Logs: one line per transition. JSON for machines, a readable line on a terminal.

Lines of the journal come as a dict in ``extra={"line": ...}``, already free of content; everything
else is a message of our own. The client libraries' own logs stay at WARNING: they may quote URLs.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

_QUIET = ("urllib3", "minio", "pypdf", "pikepdf", "PIL", "botocore", "google")


def configure(level: str, style: str, stream: TextIO | None = None) -> None:
    """``style``: ``json``, ``human``, or ``auto`` (human on a terminal)."""
    stream = stream or sys.stderr
    human = style == "human" or (style == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(HumanFormatter() if human else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("bundles").setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.ERROR)


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] | None = getattr(record, "line", None)
        if line is None:
            line = {
                "at": datetime.fromtimestamp(record.created, UTC).isoformat(
                    timespec="milliseconds"
                ),
                "event": record.getMessage(),
            }
        return json.dumps(
            {"level": record.levelname.lower(), "logger": record.name, **line},
            separators=(",", ":"),
            default=str,
        )


class HumanFormatter(logging.Formatter):
    _FIRST = ("stage", "event", "document_id", "extraction_id", "code")

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        line: dict[str, Any] | None = getattr(record, "line", None)
        if line is None:
            return f"{at} {record.levelname[0]} {record.getMessage()}"
        words = [str(line[name]) for name in self._FIRST if name in line]
        rest = [
            f"{name}={line[name]}"
            for name in ("bundle_id", "job_id", "attempt", "seconds", "bytes", "pages", "images")
            if name in line
        ]
        return f"{at} {record.levelname[0]} {' '.join(words + rest)}"
