from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from consumers.extraction.documents.model import DocumentRejected, Region, RegionOutside
from consumers.extraction.documents.regions import cut_regions
from tests import pdfs
from tests.contract.cutting import cut_here


def test_each_region_shows_its_own_part_of_its_own_page(tmp_path: Path) -> None:
    path = tmp_path / "d.pdf"
    path.write_bytes(pdfs.pages(2, images_per_page=1))
    whole = [Region(page, 0.0, 0.0, 1.0, 1.0) for page in (2, 1)]
    cut = cut_here(path, whole, 36)
    second, first = (Image.open(io.BytesIO(png)).convert("RGB") for png in cut)
    assert pdfs.colour_of(1, 1) in set(first.get_flattened_data())
    assert pdfs.colour_of(2, 1) in set(second.get_flattened_data())
    assert pdfs.colour_of(2, 1) not in set(first.get_flattened_data())


def test_a_region_has_the_size_that_its_share_of_the_page_has(tmp_path: Path) -> None:
    path = tmp_path / "d.pdf"
    path.write_bytes(pdfs.pages(1))
    (png,) = cut_here(path, [Region(1, 0.25, 0.5, 0.5, 0.25)], 72)
    width, height = Image.open(io.BytesIO(png)).size
    assert (width, height) == pytest.approx((595 / 4, 842 / 2), abs=2)


def test_a_region_beyond_the_page_is_cut_at_its_edge(tmp_path: Path) -> None:
    path = tmp_path / "d.pdf"
    path.write_bytes(pdfs.pages(1))
    (png,) = cut_here(path, [Region(1, 0.9, -0.5, 5.0, 5.0)], 72)
    width, height = Image.open(io.BytesIO(png)).size
    assert width <= 596
    assert height <= 90


@pytest.mark.parametrize("page", [0, 2])
def test_a_page_that_is_not_there_is_an_error(tmp_path: Path, page: int) -> None:
    path = tmp_path / "d.pdf"
    path.write_bytes(pdfs.pages(1))
    with pytest.raises(RegionOutside):
        cut_here(path, [Region(page, 0.0, 0.0, 1.0, 1.0)], 200)


def test_a_page_too_large_to_render_is_never_rendered() -> None:
    with pytest.raises(RegionOutside):
        cut_regions(io.BytesIO(pdfs.pages(1)), [Region(1, 0.0, 0.0, 1.0, 1.0)], 2000, io.BytesIO())


def test_what_pdfium_cannot_open_is_unreadable() -> None:
    with pytest.raises(DocumentRejected, match="unreadable"):
        cut_regions(io.BytesIO(b"%PDF-1.7"), [Region(1, 0.0, 0.0, 1.0, 1.0)], 36, io.BytesIO())
