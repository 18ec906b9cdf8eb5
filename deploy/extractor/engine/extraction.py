"""Extracts the images of a document into a folder."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pikepdf
from pikepdf import settings

from deploy.extractor.engine.decoding import Decoder
from deploy.extractor.engine.drawing import Drawings
from deploy.extractor.engine.encoder import Encoder, Encoding
from deploy.extractor.engine.encoding import DecodedImage
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
        with (
            _opened(path, options) as pdf,
            closing(Encoder(options.max_pixels_per_image)) as encoder,
        ):
            return _Run(pdf, encoder, out_dir, options).all_pages()
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


@dataclass(frozen=True)
class _Saved:
    """What becomes of an image: its files, or why there are none."""

    files: tuple[Encoding, ...]
    problem: ProblemCode | None = None


@dataclass(frozen=True)
class _Placed:
    """A file in its place on a page."""

    page: int
    index: int
    file: Encoding


class _Run:
    """One document on its way into one folder."""

    def __init__(
        self, pdf: pikepdf.Pdf, encoder: Encoder, out_dir: Path, options: ExtractOptions
    ) -> None:
        self._pdf = pdf
        self._encoder = encoder
        self._out_dir = out_dir
        self._options = options
        self._drawings = Drawings(
            pdf, repeat=options.repeat_drawings, max_images=options.max_images
        )
        self._decoder = Decoder(
            pdf,
            max_pixels=options.max_pixels_per_image,
            soft_masks=options.soft_masks,
            make_room=encoder.make_room,
        )
        self._saved: dict[tuple[object, ...], _Saved] = {}
        self._found: list[_Placed | str] = []
        """Files and problems, in the order of the document."""
        self._placed = 0
        self._bytes = 0
        self._counting = threading.Lock()

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
        return self._result(pages)

    def _page(self, number: int, page: pikepdf.Page) -> None:
        try:
            drawn, is_complete = self._drawings.on(page)
        except UNREADABLE:
            drawn, is_complete = [], False
        if not is_complete:
            self._found.append(f"unreadable_content page={number}")
        index = 0
        for image in drawn:
            index += 1
            if self._placed >= self._options.max_images:
                raise LimitExceeded("images")
            saved = self._saved.get(image.identity)
            if saved is None:
                saved = self._save(image.stream, number, index)
                self._saved[image.identity] = saved
            if saved.problem is not None:
                self._found.append(_problem(saved.problem, number, index))
            for offset, file in enumerate(saved.files):
                index += offset
                self._found.append(_Placed(number, index, file))
                self._placed += 1

    def _save(self, image: pikepdf.Stream, page: int, index: int) -> _Saved:
        try:
            files = self._decoder.files(image)
        except BadImage as error:
            return _Saved((), error.code)
        return _Saved(
            tuple(
                self._encoder.start(file, partial(self._write, page, index + offset))
                for offset, file in enumerate(files)
            )
        )

    def _write(self, page: int, index: int, file: DecodedImage, content: bytes) -> ExtractedImage:
        with self._counting:
            self._bytes += len(content)
            if self._bytes > self._options.max_total_bytes:
                raise LimitExceeded("bytes")
        path = self._out_dir / f"page-{page:04}-image-{index:04}{_SUFFIXES[file.media_type]}"
        path.write_bytes(content)
        return ExtractedImage(
            page=page,
            index=index,
            file=path,
            media_type=file.media_type,
            width=file.width,
            height=file.height,
            sha256=hashlib.sha256(content).hexdigest(),
            bytes=len(content),
            is_mask=file.is_mask,
        )

    def _result(self, pages: int) -> Extraction:
        images: list[ExtractedImage] = []
        problems: list[str] = []
        for found in self._found:
            if isinstance(found, str):
                problems.append(found)
                continue
            try:
                images.append(replace(found.file.result(), page=found.page, index=found.index))
            except BadImage as error:
                problems.append(_problem(error.code, found.page, found.index))
        return Extraction(pages, tuple(images), tuple(problems))


def _problem(code: ProblemCode, page: int, index: int) -> str:
    return f"{code} page={page} index={index}"
