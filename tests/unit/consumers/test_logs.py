"""The log's two forms: JSON for machines, a line to read on a terminal."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
from collections.abc import Iterator
from typing import Any

import pytest

from consumers import logs
from consumers.extraction.journal import Journal
from consumers.runtime.clock import SystemClock

FIELDS: dict[str, Any] = {
    "bundle_id": "bundle-1",
    "document_id": "document-001",
    "extraction_id": "0af76519-16cd-53dd-8448-eb211c80319c",
    "stage": "poll",
    "event": "attempt_failed",
    "code": "http_500",
    "attempt": 2,
    "traceparent": None,
}


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Logging belongs to the whole process."""
    loggers = [logging.getLogger(name) for name in (None, "bundles", *logs._QUIET)]
    levels, handlers = [logger.level for logger in loggers], logging.getLogger().handlers[:]
    yield
    logging.getLogger().handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def write(times: int = 1) -> list[bytes]:
    """One transition, so often; gives what the ledger got."""
    sent: list[bytes] = []
    journal = Journal(
        clock=SystemClock(),
        worker_id="worker",
        topic="ledger",
        send=lambda message: sent.append(message.value or b""),
    )
    for _ in range(times):
        journal.write("key", FIELDS)
    return sent


def test_a_transition_is_one_json_line_with_what_the_ledger_has_of_it() -> None:
    stream = io.StringIO()
    logs.configure("info", "auto", stream)  # no terminal

    ledger = write(times=2)

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    said = {"level": "info", "logger": "bundles.job"}
    assert lines == [said | json.loads(line) for line in ledger]
    assert lines[0]["extraction_id"] == FIELDS["extraction_id"]
    assert "traceparent" not in lines[0]


def test_on_a_terminal_it_is_one_line_to_read_with_the_extraction_id_on_it() -> None:
    ours, theirs = pty.openpty()
    try:
        with os.fdopen(theirs, "w") as terminal:
            logs.configure("info", "auto", terminal)
            write()
            shown = os.read(ours, 4096).decode()
    finally:
        os.close(ours)

    (line,) = shown.splitlines()
    words = ["poll", "attempt_failed", "document-001", FIELDS["extraction_id"], "http_500"]
    assert line.split()[1:] == ["I", *words, "bundle_id=bundle-1", "attempt=2"]


@pytest.mark.parametrize(("style", "is_json"), [("json", True), ("human", False)])
def test_a_form_that_was_asked_for_is_kept_to(style: str, is_json: bool) -> None:
    stream = io.StringIO()
    logs.configure("info", style, stream)
    logging.getLogger("bundles").warning("%d words of our own", 5)

    (line,) = stream.getvalue().splitlines()
    if is_json:
        said = json.loads(line)
        assert (said["level"], said["logger"]) == ("warning", "bundles")
        assert said["event"] == "5 words of our own"
    else:
        assert line.endswith(" W 5 words of our own")


@pytest.mark.parametrize("style", ["json", "human"])
def test_below_its_level_nothing_is_logged_and_the_ledger_still_gets_its_line(style: str) -> None:
    stream = io.StringIO()
    logs.configure("warning", style, stream)

    assert len(write()) == 1
    assert stream.getvalue() == ""


@pytest.mark.parametrize("name", logs._QUIET)
def test_client_libraries_which_may_quote_urls_do_not_get_a_word_in(name: str) -> None:
    stream = io.StringIO()
    logs.configure("debug", "json", stream)

    logging.getLogger(name).warning("https://store.example/?X-Amz-Signature=secret")
    logging.getLogger(f"{name}.connection").warning("https://store.example/?X-Amz-Signature=secret")

    assert stream.getvalue() == ""
