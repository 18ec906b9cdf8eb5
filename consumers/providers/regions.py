"""For services that tell where an image is and not what it is: who cuts it out of the page.

An adapter is given a callable for that. pdfium renders the page, and a hostile file can crash it,
so in a worker it is `Sandbox.cut_regions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from consumers.extraction.documents.model import Region

RegionCutter = Callable[[Path, Sequence[Region], int], list[bytes]]
"""(document, regions, dots per inch) -> one PNG for each region, in their order.

Raises RegionOutside, and what is wrong with the document or with its process."""


def cuts_nothing(document: Path, regions: Sequence[Region], dpi: int) -> list[bytes]:
    """For who builds an adapter and never asks it for images."""
    raise RuntimeError("this adapter was built without anything that cuts regions out of pages")
