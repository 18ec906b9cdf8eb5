"""Cut and merge: a new PDF from pages of others, that holds only what these pages draw.

The same sources and page ranges give the same bytes wherever the same qpdf runs, so that a
redelivered bundle has the same checksum. Outlines, forms, links, metadata and file attachments
of the sources are left behind; rotation, boxes, layers' default state and the appearance of form
fields and annotations stay. A source that opens with the empty or the given password is written
decrypted. Where a file looks damaged its pages are those of the engine that sees most of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, cast

import pikepdf
from pikepdf import Array, Dictionary, Name, Pdf

from consumers.extraction.documents.model import AssemblyLimits, DocumentRejected
from consumers.extraction.documents.prune import Pruner
from consumers.extraction.documents.source import OpenPart, open_source
from consumers.extraction.documents.writing import MeasuringWriter


@dataclass(frozen=True, slots=True)
class AssembledParts:
    sha256: str
    bytes: int
    ranges: tuple[tuple[int, int], ...]
    """The first and last page taken of each part."""


def assemble_pdf(
    parts: Sequence[OpenPart], destination: BinaryIO, limits: AssemblyLimits
) -> AssembledParts:
    """Write the parts' pages, in this order, to `destination` (empty, seekable).

    Raises DocumentRejected with `page_range`, `unreadable`, `encrypted`, `no_pages`,
    `too_many_pages` or `too_large`; `segment` in the detail is the 0-based part at fault. Raises
    OSError where `destination` takes no more bytes, or the process has too many files open.
    """
    target = pikepdf.new()
    version = "1.3"
    ranges: list[tuple[int, int]] = []
    layers = _Layers(target)
    with target:
        for index, part in enumerate(parts):
            with open_source(part, index) as source:
                ranges.append(_take_pages(source, part, index, target, layers, limits))
                version = max(version, _version(source))
        layers.write()
        if not ranges:
            raise DocumentRejected("no_pages")
        writer = MeasuringWriter(destination, limits.max_bytes)
        _save(target, writer, version)
    return AssembledParts(writer.digest.hexdigest(), writer.size, tuple(ranges))


def _take_pages(
    source: Pdf,
    part: OpenPart,
    index: int,
    target: Pdf,
    layers: _Layers,
    limits: AssemblyLimits,
) -> tuple[int, int]:
    pages = len(source.pages)
    if pages == 0:
        raise DocumentRejected("no_pages", {"segment": index})
    first = 1 if part.first_page is None else part.first_page
    last = pages if part.last_page is None else part.last_page
    if not 1 <= first <= last <= pages:
        raise DocumentRejected(
            "page_range", {"segment": index, "first": first, "last": last, "pages": pages}
        )
    total = len(target.pages) + last - first + 1
    if total > limits.max_pages:
        raise DocumentRejected("too_many_pages", {"pages": total, "max_pages": limits.max_pages})
    _draw_form_values(source)
    pruner = Pruner()
    # Iterated, because getting a page by its index takes time in proportion to the index.
    for number, page in enumerate(source.pages, start=1):
        if number < first:
            continue
        if number > last:
            break
        try:
            pruner.prune_page(page)
            target.pages.append(page)
        except MemoryError:
            raise
        except Exception as error:  # UnreadableContent, or whatever a damaged page makes qpdf raise
            raise DocumentRejected("unreadable", {"segment": index, "page": number}) from error
    layers.add(source, pruner.layers)
    return first, last


def _draw_form_values(source: Pdf) -> None:
    """Give form fields the appearance that the document leaves to its reader to make.

    Only the fields' values say what they look like then, and these stay behind with the form.
    """
    form = source.Root.get("/AcroForm")
    if isinstance(form, Dictionary) and bool(form.get("/NeedAppearances")):
        try:
            source.generate_appearance_streams()
        except MemoryError:
            raise
        except Exception:  # noqa: S110 - a damaged form is drawn as far as it has appearances
            pass


class _Layers:
    """Carries over which layers (optional content groups) are hidden, or they would show."""

    def __init__(self, target: Pdf) -> None:
        self._target = target
        self._groups: list[pikepdf.Object] = []
        self._hidden: list[pikepdf.Object] = []

    def add(self, source: Pdf, used: frozenset[tuple[int, int]]) -> None:
        properties = source.Root.get("/OCProperties")
        if not isinstance(properties, Dictionary):
            return
        default = properties.get("/D", Dictionary())
        if not isinstance(default, Dictionary):
            return
        hidden_by_default = default.get("/BaseState") == Name.OFF
        on, off = (_group_ids(default.get(key)) for key in ("/ON", "/OFF"))
        groups = properties.get("/OCGs")
        for group in groups if used and isinstance(groups, Array) else ():
            if not isinstance(group, Dictionary) or group.objgen not in used:
                continue
            copied = self._target.copy_foreign(group)
            self._groups.append(copied)
            identity = group.objgen
            if identity in off or (hidden_by_default and identity not in on):
                self._hidden.append(copied)

    def write(self) -> None:
        if self._hidden:
            self._target.Root.OCProperties = Dictionary(
                OCGs=Array(self._groups), D=Dictionary(OFF=Array(self._hidden))
            )


def _group_ids(groups: pikepdf.Object | None) -> set[tuple[int, int]]:
    if not isinstance(groups, Array):
        return set()
    return {group.objgen for group in groups if isinstance(group, Dictionary)}


def _version(source: Pdf) -> str:
    version = str(source.pdf_version)
    return version if version in {f"1.{minor}" for minor in range(8)} | {"2.0"} else "1.7"


def _save(target: Pdf, writer: MeasuringWriter, version: str) -> None:
    try:
        target.save(
            cast(BinaryIO, writer),
            min_version=version,
            deterministic_id=True,
            # Streams are copied as they are. To compress what is not compressed would cost time,
            # and make the bytes depend on the machine's version of zlib.
            object_stream_mode=pikepdf.ObjectStreamMode.disable,
            stream_decode_level=pikepdf.StreamDecodeLevel.none,
            compress_streams=False,
            fix_metadata_version=False,
        )
        writer.finish()
    except MemoryError:
        raise
    except Exception as error:
        writer.raise_if_stopped()
        raise DocumentRejected("unreadable") from error
    # A stream that cannot be read to its end is written as far as it goes, with a warning only.
    if target.get_warnings():
        raise DocumentRejected("unreadable")
