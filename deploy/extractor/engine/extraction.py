"""Extracts the images of a document into a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pikepdf
from pikepdf import settings

from deploy.extractor.engine.decoding import Decoder, EncodedImage
from deploy.extractor.engine.drawing import Drawings
from deploy.extractor.engine.model import (
    BadImage,
    EncryptedDocument,
    ExtractedImage,
    Extraction,
    ExtractOptions,
    LimitExceeded,
    ProblemCode,
    UnreadableDocument,
)
from deploy.extractor.engine.reachable import UNREADABLE

_SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/jp2": ".jp2",
    "image/tiff": ".tif",
}


def extract(path: Path, out_dir: Path, options: ExtractOptions) -> Extraction:
    """Write the images that each page of the PDF at `path` draws into the existing `out_dir`.

    Raises EncryptedDocument, UnreadableDocument or LimitExceeded; images that cannot be read are
    reported in `Extraction.problems` and do not stop the others. Meant to be called in a process
    of its own with limits on memory and CPU time: it sets process-wide limits of the PDF library,
    and a file made to attack the decoders can end the process.
    """
    try:
        with _opened(path, options) as pdf:
            return _Run(pdf, out_dir, options).all_pages()
    except MemoryError as error:
        raise LimitExceeded("memory") from error
    except (pikepdf.PdfError, pikepdf.QpdfRuntimeError, RecursionError) as error:
        raise UnreadableDocument("the structure of the document cannot be read") from error


@contextmanager
def _opened(path: Path, options: ExtractOptions) -> Iterator[pikepdf.Pdf]:
    # The largest stream that an image within the limit can need, 16-bit CMYK.
    settings.set_qpdf_limits(flate_max_memory=max(64 << 20, 8 * options.max_pixels_per_image))
    try:
        pdf = pikepdf.open(path, password=options.password or "", suppress_warnings=True)
    except pikepdf.PasswordError as error:
        raise EncryptedDocument("the document needs a password") from error
    except (pikepdf.PdfError, pikepdf.QpdfRuntimeError) as error:
        raise UnreadableDocument("the file cannot be read as a PDF") from error
    with pdf:
        yield pdf


@dataclass
class _Saved:
    """What became of an image: its files, or why there are none."""

    images: list[ExtractedImage]
    problem: ProblemCode | None = None


class _Run:
    """One document on its way into one folder."""

    def __init__(self, pdf: pikepdf.Pdf, out_dir: Path, options: ExtractOptions) -> None:
        self._pdf = pdf
        self._out_dir = out_dir
        self._options = options
        self._drawings = Drawings(
            pdf, repeat=options.repeat_drawings, max_images=options.max_images
        )
        self._decoder = Decoder(
            pdf, max_pixels=options.max_pixels_per_image, soft_masks=options.soft_masks
        )
        self._saved: dict[tuple[object, ...], _Saved] = {}
        self._images: list[ExtractedImage] = []
        self._problems: list[str] = []
        self._bytes = 0

    def all_pages(self) -> Extraction:
        try:
            pages = len(self._pdf.pages)
        except pikepdf.PdfError as error:
            raise UnreadableDocument("the tree of pages cannot be read") from error
        if pages == 0:
            raise UnreadableDocument("the document has no pages")
        if pages > self._options.max_pages:
            raise LimitExceeded("pages")
        first, last = self._options.page_range or (1, pages)
        for number, page in enumerate(self._pdf.pages, start=1):
            if first <= number <= last:
                self._page(number, page)
        return Extraction(pages, tuple(self._images), tuple(self._problems))

    def _page(self, number: int, page: pikepdf.Page) -> None:
        try:
            drawn, is_complete = self._drawings.on(page)
        except UNREADABLE:
            drawn, is_complete = [], False
        if not is_complete:
            self._problems.append(f"unreadable_content page={number}")
        index = 0
        for image in drawn:
            index += 1
            if len(self._images) >= self._options.max_images:
                raise LimitExceeded("images")
            saved = self._saved.get(image.identity)
            if saved is None:
                saved = self._save(image.stream, number, index)
                self._saved[image.identity] = saved
            if saved.problem is not None:
                self._problems.append(f"{saved.problem} page={number} index={index}")
            for offset, entry in enumerate(saved.images):
                index += offset
                self._images.append(replace(entry, page=number, index=index))

    def _save(self, image: pikepdf.Stream, page: int, index: int) -> _Saved:
        try:
            files = self._decoder.files(image)
        except BadImage as error:
            return _Saved([], error.code)
        return _Saved([self._write(file, page, index + i) for i, file in enumerate(files)])

    def _write(self, file: EncodedImage, page: int, index: int) -> ExtractedImage:
        self._bytes += len(file.data)
        if self._bytes > self._options.max_total_bytes:
            raise LimitExceeded("bytes")
        path = self._out_dir / f"page-{page:04}-image-{index:04}{_SUFFIXES[file.media_type]}"
        path.write_bytes(file.data)
        return ExtractedImage(
            page=page,
            index=index,
            file=path,
            media_type=file.media_type,
            width=file.width,
            height=file.height,
            sha256=hashlib.sha256(file.data).hexdigest(),
            bytes=len(file.data),
            is_mask=file.is_mask,
        )
