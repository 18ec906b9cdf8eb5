"""Reads the manifest.csv of a folder of PDFs."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CorpusFile:
    """`images_per_page`: distinct drawn images and stencils of each page; None where unknown."""

    path: Path
    password: str | None
    images_per_page: dict[int, int] | None


def read_manifest(folder: Path) -> list[CorpusFile]:
    """The files of the manifest that are there. Raises FileNotFoundError without a manifest."""
    with (folder / "manifest.csv").open(newline="", encoding="utf-8") as rows:
        files = [_file(folder, row) for row in csv.DictReader(rows)]
    return [file for file in files if file.path.is_file()]


def _file(folder: Path, row: dict[str, str]) -> CorpusFile:
    is_readable = (row.get("pages") or "").strip() not in ("", "0")
    counts = row.get("distinct_images_and_stencils_per_page") or ""
    return CorpusFile(
        path=folder / row["file"],
        password=row.get("user_password") or None,
        images_per_page=_counts(counts) if is_readable else None,
    )


def _counts(text: str) -> dict[int, int]:
    """From "1:2 4:1", page and number of images."""
    pairs = (entry.split(":") for entry in text.split())
    return {int(page): int(count) for page, count in pairs}
