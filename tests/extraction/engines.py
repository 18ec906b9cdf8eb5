"""The engine under test and the one it is compared with, as plain functions for child processes."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass
from pathlib import Path

import pypdf

from deploy.extractor.engine import ExtractOptions, extract


@dataclass(frozen=True)
class Found:
    """An image file that the engine wrote for a page."""

    page: int
    file: Path
    width: int
    height: int


@dataclass(frozen=True)
class Answer:
    """All that the engine said of a document."""

    images: tuple[Found, ...]
    problems: tuple[str, ...]


def ours(path: Path, out_dir: Path, password: str | None) -> Answer:
    """The images of a document, written to `out_dir`."""
    extraction = extract(path, out_dir, ExtractOptions(password=password))
    images = tuple(Found(i.page, i.file, i.width, i.height) for i in extraction.images)
    return Answer(images, extraction.problems)


def pypdf_images(path: Path, password: str | None) -> int:
    """The bytes of all images of a document by pypdf's `page.images`.

    A page whose images raise an exception is left at that image, as a plain loop would.
    """
    warnings.simplefilter("ignore")
    size = 0
    for page in pypdf.PdfReader(path, password=password).pages:
        with contextlib.suppress(Exception):
            for image in page.images:
                size += len(image.data)
    return size
