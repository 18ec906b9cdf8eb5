"""Where an unexpected exception came from, for logs that must not hold its text."""

from __future__ import annotations

from pathlib import Path


def place_of(error: BaseException) -> str | None:
    """File name and line of the innermost frame; the exception's text may quote a document."""
    traceback, place = error.__traceback__, None
    while traceback is not None:
        place = f"{Path(traceback.tb_frame.f_code.co_filename).name}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
