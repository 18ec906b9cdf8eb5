"""Opens PDFs whose pages go into other PDFs, without the bytes of their streams in memory.

What `pikepdf.open` opens is read through a Python object, which somebody could close; so qpdf takes
a stream into memory as soon as its page is copied. What a qpdf job opens is a file of qpdf's own: a
copied stream is read from there while the copy is written, one stream at a time.
"""

from __future__ import annotations

import os
from typing import IO

import pikepdf
from pikepdf import Dictionary, Name, Page, Pdf

_NO_OBJECT = (1, 65535)  # the generation of what is free for ever


def open_for_copying(file: IO[bytes], password: str | None = None) -> Pdf:
    """Open a file that has a descriptor, all of it written, at any position.

    It is opened anew and may be closed. Attributes that pages inherit stay where they are: see
    `hand_inherited_down`. Raises whatever `pikepdf.open` does, but for a password that is not
    needed, and OSError where the process may have no more files open.
    """
    job = {
        "inputFile": f"/proc/self/fd/{file.fileno()}",
        "outputFile": os.devnull,  # a job has to name one; it is not written
        "password": password or "",
        "suppressPasswordRecovery": "",  # this password and no variants of it
        "noWarn": "",  # warnings quote the content; `Pdf.get_warnings` has them all the same
    }
    return pikepdf.Job(job).create_pdf()


def hand_inherited_down(pdf: Pdf) -> None:
    """Give every page the attributes that it inherits, as `pikepdf.open` does.

    qpdf does so as soon as any page is taken to another PDF: here one of no use, to an empty PDF.
    """
    # `Pdf.make_indirect` would look for a free number, and read every object of the file for it.
    pdf._replace_object(_NO_OBJECT, Dictionary(Type=Name.Page))
    with pikepdf.new() as elsewhere:
        elsewhere.pages.append(Page(pdf.get_object(_NO_OBJECT)))
