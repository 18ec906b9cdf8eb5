"""Opens the sources of cuts and merges, by the engine that sees most of their pages."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import IO, BinaryIO

import pikepdf
import pypdf
from pikepdf import Pdf
from pypdf.generic import NameObject

from consumers.extraction.documents.model import DocumentRejected
from consumers.extraction.documents.opening import hand_inherited_down, open_for_copying
from consumers.extraction.documents.page_tree import open_deep


@dataclass(frozen=True, slots=True)
class OpenPart:
    """An `AssemblyPart` whose file is open (it has a descriptor, and is at any position)."""

    file: BinaryIO
    first_page: int | None
    last_page: int | None
    password: str | None
    rebuild: bool = False


def open_source(part: OpenPart, index: int) -> Pdf:
    """Open a part for copying its pages, to which what they inherit is handed down.

    What was copied can be written when the source is closed. Raises DocumentRejected with
    `encrypted` or `unreadable` (`segment` in the detail is `index`), and OSError where the process
    has too many files open.
    """
    try:
        pdf = _opened(part.file, part.password)
    except (MemoryError, OSError):
        raise
    except pikepdf.PasswordError as error:
        raise DocumentRejected(
            "encrypted", {"segment": index, "password_given": int(part.password is not None)}
        ) from error
    except Exception:
        return _open_otherwise(part, index)

    if part.rebuild or _declared_pages(part) != len(pdf.pages) or pdf.get_warnings():
        return _or_repaired(pdf, part, index)
    return pdf


def _opened(file: IO[bytes], password: str | None = None) -> Pdf:
    pdf = open_for_copying(file, password)
    try:
        hand_inherited_down(pdf)
    except BaseException:
        pdf.close()
        raise
    return pdf


def _open_otherwise(part: OpenPart, index: int) -> Pdf:
    """A file that qpdf gives up on, for which a deep page tree is reason enough."""
    try:
        return open_deep(part.file, part.password)
    except MemoryError:
        raise
    except Exception:  # it is something else, and pypdf may know better
        return _open_repaired(part, index)


def _declared_pages(part: OpenPart) -> int | None:
    """The number of pages that the file claims.

    Asked of a file opened for that alone, which takes a tenth of a millisecond: where qpdf hands
    inherited attributes down it has already put the number right, and may have dropped pages
    without a warning.
    """
    part.file.seek(0)
    try:
        pdf = pikepdf.open(part.file, password=part.password or "", inherit_page_attributes=False)
        with pdf:
            return int(pdf.Root.Pages.Count)
    except MemoryError:
        raise
    except Exception:  # it is damaged: nothing is claimed
        return None


def _or_repaired(pdf: Pdf, part: OpenPart, index: int) -> Pdf:
    """What pypdf makes of the file if that has more pages: qpdf drops those it cannot parse.

    Raises DocumentRejected where pypdf counts more and no copy has them: a page would be lost
    without a word, and page numbers would mean other pages than those that were asked for.
    """
    pages = len(pdf.pages)
    try:
        counted = len(_reader(part).pages)
    except Exception:  # pypdf raises many classes, or needs more memory than qpdf
        return pdf
    if counted <= pages:
        return pdf
    repaired = _open_repaired(part, index)
    if len(repaired.pages) < counted:
        raise DocumentRejected("unreadable", {"segment": index})
    pdf.close()
    return repaired


def _open_repaired(part: OpenPart, index: int) -> Pdf:
    """What pypdf makes of a file that qpdf gives up on, such as one without a /Root entry.

    pypdf holds all of its pages in memory until they are written; what it wrote is read from disk.
    """
    try:
        with tempfile.TemporaryFile() as repaired:
            _write_repaired(part, repaired)
            return _opened(repaired)
    except MemoryError:
        raise
    except Exception as error:  # pypdf raises many classes on damaged files
        raise DocumentRejected("unreadable", {"segment": index}) from error


def _write_repaired(part: OpenPart, repaired: IO[bytes]) -> None:
    reader = _reader(part)
    writer = pypdf.PdfWriter()
    for page in reader.pages:
        writer.add_page(page)
    for key in ("/OCProperties", "/AcroForm"):  # layers' state, and fields nobody has drawn
        if key in reader.root_object:
            entry = reader.root_object[key].clone(writer)
            writer.root_object[NameObject(key)] = entry
    writer.write(repaired)
    repaired.flush()


def _reader(part: OpenPart) -> pypdf.PdfReader:
    reader = pypdf.PdfReader(part.file)
    if reader.is_encrypted and part.password is not None:
        reader.decrypt(part.password)
    return reader
