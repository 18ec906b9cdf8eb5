"""What worker and service both say of failures."""

from __future__ import annotations

from pathlib import Path

# A worker's answer that is no error code of the contract, since the document is not at fault: the
# job waits and runs again.
STORAGE_FULL = "storage_full"


def place_of(error: BaseException) -> str | None:
    """File name and line of the innermost frame; the exception's text may quote a document."""
    traceback, place = error.__traceback__, None
    while traceback is not None:
        place = f"{Path(traceback.tb_frame.f_code.co_filename).name}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
