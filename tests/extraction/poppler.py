"""Poppler's `pdfimages` as the oracle: what each page draws, and its pixels."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 60


@dataclass(frozen=True)
class OracleImage:
    """A distinct image of a page. `object_id` is "" for an inline image; `file` may be absent."""

    page: int
    kind: str
    width: int
    height: int
    object_id: str
    file: Path | None


def is_available() -> bool:
    return shutil.which("pdfimages") is not None


def images(path: Path, out_dir: Path, password: str | None) -> list[OracleImage] | None:
    """The distinct drawn images and stencils of a document by poppler, None where it fails."""
    listed = _listed(path, password)
    if listed is None:
        return None
    files = _written(path, out_dir, password)
    distinct: dict[tuple[int, str, int], OracleImage] = {}
    for row in listed:
        page, number, kind, width, height, object_id = row
        if kind not in ("image", "stencil"):
            continue
        key = (page, object_id, 0 if object_id else number)
        distinct.setdefault(
            key, OracleImage(page, kind, width, height, object_id, files.get(number))
        )
    return list(distinct.values())


def per_page(found: list[OracleImage]) -> dict[int, list[OracleImage]]:
    pages: dict[int, list[OracleImage]] = defaultdict(list)
    for image in found:
        pages[image.page].append(image)
    return dict(pages)


def _listed(path: Path, password: str | None) -> list[tuple[int, int, str, int, int, str]] | None:
    command = ["pdfimages", "-list", *_password(password), str(path)]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_SECONDS, check=False, text=True, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode != 0:
        return None
    rows = []
    for line in done.stdout.splitlines()[2:]:
        cells = line.split()
        if len(cells) < 12 or not cells[0].isdigit():
            continue
        # The object column is "[inline]" or a number and a generation.
        object_id = "" if "[inline]" in cells else f"{cells[10]} {cells[11]}"
        rows.append(
            (int(cells[0]), int(cells[1]), cells[2], int(cells[3]), int(cells[4]), object_id)
        )
    return rows


def _written(path: Path, out_dir: Path, password: str | None) -> dict[int, Path]:
    out_dir.mkdir(parents=True, exist_ok=True)
    command = ["pdfimages", "-png", *_password(password), str(path), str(out_dir / "o")]
    try:
        subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {}
    return {int(file.stem.rsplit("-", 1)[1]): file for file in out_dir.glob("o-*.png")}


def _password(password: str | None) -> list[str]:
    return [] if password is None else ["-upw", password]
