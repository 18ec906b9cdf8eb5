"""What a folder's `manifest.csv` says the verdict on each file has to be.

Columns that are read: `file`; `pages` (empty where no two reference engines agree that the file
can be read); and if present `sha256`, `pdf_header_offset` (-1 for none), `magic_mime`,
`encrypted_needs_password` (yes/no) and `user_password`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from consumers.extraction.documents.signature import SEARCHED_BYTES

NOT_A_PDF = frozenset({"not_a_pdf", "foreign_container"})
UNREADABLE = frozenset({"unreadable", "no_pages", "parse_timeout", "parse_memory"})
_NO_HEADER = -1


@dataclass(frozen=True)
class Expected:
    """Either the pages of a file that has to be accepted, or the reasons that may refuse it."""

    pages: int | None = None
    reasons: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return (
            f"{self.pages} pages" if self.pages is not None else " or ".join(sorted(self.reasons))
        )


@dataclass(frozen=True)
class Case:
    file: Path
    sha256: str | None
    password: str | None
    expected: Expected


def cases(folder: Path) -> Iterator[Case]:
    """The cases of a folder. A file that needs a password is one without it, and one with it."""
    with (folder / "manifest.csv").open(newline="", encoding="utf-8") as manifest:
        for row in csv.DictReader(manifest):
            file = folder / row["file"]
            sha256 = row.get("sha256") or None
            needs_password = (row.get("encrypted_needs_password") or "").lower() == "yes"
            password = row.get("user_password") or None
            if needs_password and _signature_reasons(row) is None:
                yield Case(file, sha256, None, Expected(reasons=frozenset({"encrypted"})))
                if password is not None:
                    # The reference engines were not given the password, so no count is known.
                    pages = _pages(row)
                    yield Case(file, sha256, password, Expected(pages=pages or 0))
            else:
                yield Case(file, sha256, None, _without_password(row))


def _without_password(row: dict[str, str]) -> Expected:
    refused = _signature_reasons(row)
    pages = _pages(row)
    if refused is not None:
        return Expected(reasons=refused)
    if pages is None:
        return Expected(reasons=UNREADABLE)
    if pages == 0:
        return Expected(reasons=frozenset({"no_pages"}))
    return Expected(pages=pages)


def _signature_reasons(row: dict[str, str]) -> frozenset[str] | None:
    """The signature rule refuses the file whatever an engine could still make of it."""
    offset = row.get("pdf_header_offset") or ""
    if not offset:
        return None
    if _NO_HEADER < int(offset) < SEARCHED_BYTES:
        return None
    return NOT_A_PDF


def _pages(row: dict[str, str]) -> int | None:
    return int(row["pages"]) if row["pages"] else None
