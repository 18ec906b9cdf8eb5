from __future__ import annotations

from pathlib import Path

import pikepdf

from tests import pdfs
from tests.corpus.foreign import foreign_images


def test_images_that_nothing_draws_are_foreign_and_drawn_ones_and_their_masks_are_not(
    tmp_path: Path,
) -> None:
    file = tmp_path / "whole.pdf"
    file.write_bytes(pdfs.shared_resources(10))
    assert foreign_images(file) == 0

    # The page as it stands, cut out without looking at what it draws: the nine others come along.
    cut = tmp_path / "cut.pdf"
    with pikepdf.open(file) as whole, pikepdf.new() as one:
        one.pages.append(whole.pages[0])
        one.save(cut)
    assert foreign_images(cut) == 9


def test_a_mask_belongs_to_its_image(tmp_path: Path) -> None:
    file = tmp_path / "masked.pdf"
    with pikepdf.new() as pdf:
        image = pdfs.solid_image(pdf, (1, 2, 3))
        image.SMask = pdfs.solid_image(pdf, (4, 4, 4))
        pdfs.add_page(pdf, b"q 10 0 0 10 0 0 cm /Im0 Do Q", {"/Im0": image})
        pdf.save(file)
    assert foreign_images(file) == 0
