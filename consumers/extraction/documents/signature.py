"""Is this a PDF at all? Our own rule over the first 1,024 bytes.

libmagic is asked as well, but its answer is only recorded: its versions disagree on bytes before
the header (measured: 5.41 and 5.44 refuse a scan after a CRLF or a space that every parser opens,
newer ones search 1,024 bytes), and a verdict must not depend on which one a machine carries.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Any

from consumers.extraction.documents.model import DocumentRejected

SEARCHED_BYTES = 1024  # ISO 32000-1, implementation note 13: what readers search
_MEDIA_TYPE = re.compile(r"[a-zA-Z0-9.+-]{1,60}/[a-zA-Z0-9.+-]{1,60}")
LIBMAGIC_BYTES = 2048  # more did not change one answer on 4,599 files

_HEADER = b"%PDF-"  # without its version, which damaged files may lack: the engines decide

# Files of these kinds may hold a PDF further on and then show different content to different
# programs, so they are refused for what they start as. Text in front (HTTP headers, print job
# languages, mail) is no container: the header offset rule covers it.
_CONTAINERS = (
    b"PK\x03\x04",  # zip, docx, epub
    b"PK\x05\x06",  # zip without entries
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",  # jpeg
    b"GIF87a",
    b"GIF89a",
    b"II*\x00",  # tiff
    b"MM\x00*",
    b"\x00\x00\x00\x0cjP  \r\n\x87\n",  # jpeg 2000
    b"MZ",  # Windows program
    b"\x7fELF",
    b"\xca\xfe\xba\xbe",  # Mach-O, Java class
    b"\xcf\xfa\xed\xfe",
    b"%!PS",  # PostScript
    b"\xc5\xd0\xd3\xc6",  # encapsulated PostScript with a preview
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",  # old Office documents
    b"{\\rtf",
    b"Rar!\x1a\x07",
    b"7z\xbc\xaf\x27\x1c",
    b"\x1f\x8b\x08",  # gzip
    b"BZh",
    b"\xfd7zXZ\x00",
    b"RIFF",  # webp, wav
    b"SQLite format 3\x00",
)


class LibmagicMissing(RuntimeError):
    """libmagic cannot be loaded on this machine."""


def header_offset(head: bytes, *, accept_offset: bool) -> int:
    """Where the PDF header begins in `head`, the first bytes of a file.

    Raises DocumentRejected with `foreign_container` for a file that starts as another kind,
    `not_a_pdf` without a header in the first 1,024 bytes, and `header_offset` where bytes stand
    before it and the policy does not allow them.
    """
    if head.startswith(_CONTAINERS):
        raise DocumentRejected("foreign_container")
    offset = head[:SEARCHED_BYTES].find(_HEADER)
    if offset < 0:
        raise DocumentRejected("not_a_pdf", {"searched_bytes": SEARCHED_BYTES})
    if offset and not accept_offset:
        raise DocumentRejected("header_offset", {"header_offset": offset})
    return offset


def libmagic_verdict(head: bytes) -> tuple[str, int]:
    """libmagic's media type for these bytes, and libmagic's version (such as 545 for 5.45).

    Empty where it fails or answers with something else: no document may depend on its opinion.
    """
    magic, version = _libmagic()
    try:
        media_type = str(magic.from_buffer(head[:LIBMAGIC_BYTES]))
    except Exception:  # python-magic's own, and what its decoding raises
        media_type = ""
    return media_type if _MEDIA_TYPE.fullmatch(media_type) else "", version


@functools.cache
def _libmagic() -> tuple[Any, int]:
    # Points python-magic at the library and the database that the wheel carries, so that no package
    # of the operating system is needed; without it, python-magic looks for that.
    with contextlib.suppress(ImportError):
        import pylibmagic  # noqa: F401
    try:
        import magic

        return magic.Magic(mime=True), int(magic.version())  # type: ignore[no-untyped-call]
    except Exception as error:  # python-magic raises ImportError, OSError and its own
        raise LibmagicMissing(
            "libmagic could not be loaded: install the Python package 'pylibmagic', which carries "
            "it, or the operating system's package (Debian and Ubuntu: libmagic1)."
        ) from error
