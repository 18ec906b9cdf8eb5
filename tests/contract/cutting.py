"""Cuts regions out of our own documents, in this process."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from consumers.extraction.documents.model import Region
from consumers.extraction.documents.regions import cut_regions


def cut_here(document: Path, regions: Sequence[Region], dpi: int) -> list[bytes]:
    cut = io.BytesIO()
    with document.open("rb") as file:
        sizes = cut_regions(file, regions, dpi, cut)
    cut.seek(0)
    return [cut.read(size) for size in sizes]
