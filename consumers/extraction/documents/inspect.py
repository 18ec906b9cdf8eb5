"""The verdict on one PDF: signature, size, encryption, page count.

Page counts of the 33 readable files of the reference corpus, opened without a password (40 files;
pypdf 7.1, pikepdf 10.18, pypdfium2 5.15; milliseconds on a busy machine, so to be compared with
each other only):

    engine             right   other number   gives up   median   90 %   memory
    pypdf                 30              0          3      2.7     30    15 MB
    pikepdf               33              0          0      0.1      1     5 MB
    pdfium                33              0          0      0.2      1     2 MB
    pypdf, pikepdf        33              0          0      5.1     36    15 MB

pypdf counts, because on hostile files it has the best limits and was never wrong on 4,551 public
files; pikepdf is asked about whatever pypdf gives up on, runs out of its share of the time on, or
finds no pages in (it alone reports 0 pages for some damaged files that have pages). It is also the
second opinion on a count of pypdf's, which leaves out a page of a damaged /Type without a word: the
larger number counts, so that no page is lost unnoticed. Where pikepdf sees fewer, or opens nothing,
or where its page tree is deeper than any engine goes by itself (`page_tree`),
the document is `seen_differently`, and `LocalDocument` submits a rebuilt copy of it: a service may
read it with such an engine. A document is unreadable only when neither
reads it. 0 pages is invalid. pdfium is not asked: it aborts its process on hostile files, and it
believes a lying /Count.
"""

from __future__ import annotations

import hashlib
import io
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import FrameType
from typing import BinaryIO

import pikepdf
import pypdf
from pypdf.errors import FileNotDecryptedError

from consumers.extraction.documents.model import DocumentRejected, Inspection, InspectionLimits
from consumers.extraction.documents.page_tree import flatten
from consumers.extraction.documents.signature import (
    LIBMAGIC_BYTES,
    header_offset,
    libmagic_verdict,
)

_CHUNK = 1024 * 1024


def inspect_pdf(
    file: BinaryIO,
    limits: InspectionLimits,
    password: str | None = None,
    first_engine_seconds: float | None = None,
    sha256: str | None = None,
) -> Inspection:
    """Inspect an open PDF file (seekable, at any position). Whoever knows its checksum gives it.

    `first_engine_seconds` is the CPU time that pypdf may use before pikepdf is asked; None for no
    bound. It needs to run in the main thread of its process.

    Raises DocumentRejected. Memory is bounded by the engines' needs, not by the file's size.
    """
    size = file.seek(0, io.SEEK_END)
    if size > limits.max_bytes:
        raise DocumentRejected("too_large", {"bytes": size, "max_bytes": limits.max_bytes})
    file.seek(0)
    head = file.read(LIBMAGIC_BYTES)
    offset = header_offset(head, accept_offset=limits.accept_header_offset)
    libmagic_type, libmagic_version = libmagic_verdict(head)

    counted = _count_pages(file, password, first_engine_seconds)
    if counted.pages < 1:
        raise DocumentRejected("no_pages")
    if counted.pages > limits.max_pages:
        raise DocumentRejected(
            "too_many_pages", {"pages": counted.pages, "max_pages": limits.max_pages}
        )
    return Inspection(
        sha256=sha256 or _sha256(file),
        bytes=size,
        pages=counted.pages,
        encrypted=counted.encrypted,
        header_offset=offset,
        libmagic_type=libmagic_type,
        libmagic_version=libmagic_version,
        engine=counted.engine,
        repaired=counted.repaired,
        seen_differently=counted.seen_differently,
    )


@dataclass(frozen=True, slots=True)
class _Counted:
    pages: int
    encrypted: bool
    engine: str
    repaired: bool
    seen_differently: bool = False


class _NeedsPassword(Exception):
    pass


class _OutOfTime(BaseException):
    """Not an Exception, so that no handler inside of an engine can swallow it."""


def _count_pages(
    file: BinaryIO, password: str | None, first_engine_seconds: float | None
) -> _Counted:
    needs_password = out_of_memory = False
    try:
        with _cpu_seconds(first_engine_seconds):
            counted = _count_with_pypdf(file, password)
        if counted.pages > 0:
            return _with_second_opinion(counted, file, password)
    except _NeedsPassword:
        needs_password = True
    except MemoryError:
        out_of_memory = True  # pypdf reads a damaged file as a whole, pikepdf does not
    except (Exception, _OutOfTime):  # noqa: S110 - the second engine decides
        # Any class at all: on damaged files pypdf also raises ValueError, TypeError,
        # AssertionError, AttributeError and RecursionError.
        pass
    try:
        return _count_with_pikepdf(file, password)
    except _NeedsPassword:
        needs_password = True
    except MemoryError:
        raise
    except Exception as error:
        if out_of_memory:
            raise MemoryError from error
        if not needs_password:
            raise DocumentRejected("unreadable") from error
    if needs_password:
        raise DocumentRejected("encrypted", {"password_given": int(password is not None)})
    raise AssertionError("unreachable")


def _count_with_pypdf(file: BinaryIO, password: str | None) -> _Counted:
    file.seek(0)
    with _complaints("pypdf") as complaints:
        reader = pypdf.PdfReader(file)
        encrypted = reader.is_encrypted
        if encrypted and password is not None and not reader.decrypt(password):
            raise _NeedsPassword
        try:
            pages = len(reader.pages)  # walks the page tree; /Count is not believed
        except FileNotDecryptedError as error:
            raise _NeedsPassword from error
    return _Counted(pages, encrypted, "pypdf", repaired=bool(complaints))


def _count_with_pikepdf(file: BinaryIO, password: str | None) -> _Counted:
    file.seek(0)
    try:
        pdf = pikepdf.open(file, password=password or "", inherit_page_attributes=False)
    except pikepdf.PasswordError as error:
        raise _NeedsPassword from error
    with pdf:
        try:
            pages, deep = len(pdf.pages), False
        except pikepdf.PdfError:  # perhaps only because of the depth of the tree
            pages, deep = flatten(pdf), True
        # It counts only where pypdf gave up or left pages out, which is what makes it a repair.
        return _Counted(pages, pdf.is_encrypted, "pikepdf", repaired=True, seen_differently=deep)


def _with_second_opinion(counted: _Counted, file: BinaryIO, password: str | None) -> _Counted:
    try:
        second = _count_with_pikepdf(file, password)
    except (_NeedsPassword, MemoryError):  # says nothing about the pages
        return counted
    except Exception:  # it gives up on what is damaged too much for it
        return replace(counted, seen_differently=True)
    if second.pages > counted.pages:
        return second
    return replace(
        counted, seen_differently=second.seen_differently or second.pages < counted.pages
    )


class _Complaints(logging.Handler):
    """Notices that an engine warned. What it says may quote the content and is dropped."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1

    def __bool__(self) -> bool:
        return self.count > 0


@contextmanager
def _complaints(logger_name: str) -> Iterator[_Complaints]:
    handler = _Complaints()
    logger = logging.getLogger(logger_name)
    propagate = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


@contextmanager
def _cpu_seconds(seconds: float | None) -> Iterator[None]:
    """Raise _OutOfTime in the block after that much CPU time of this process."""
    if seconds is None:
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        yield
    finally:
        # A signal between the block's end and this line must not escape from here.
        with suppress(_OutOfTime):
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _sha256(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    file.seek(0)
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
