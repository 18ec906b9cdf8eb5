"""Where a document's pages come from, as runs of pages that follow each other: pure."""

from __future__ import annotations

from collections.abc import Sequence

PageRun = tuple[int, int, int]
"""(segment (1-based), first page in its source, number of pages)."""


def runs_of(page_map: Sequence[tuple[int, int]]) -> tuple[PageRun, ...]:
    """Pages as runs: ``page_map`` has (0-based segment, 1-based source page) per page."""
    runs: list[PageRun] = []
    for segment, page in page_map:
        if runs:
            number, first, count = runs[-1]
            if number == segment + 1 and page == first + count:
                runs[-1] = (number, first, count + 1)
                continue
        runs.append((segment + 1, page, 1))
    return tuple(runs)


def source_page(page_runs: Sequence[PageRun], page: int) -> tuple[int, int]:
    """(segment (1-based), page in its source) of a page of the document.

    :raises ValueError: the document has no such page.
    """
    before = 0
    for segment, first, count in page_runs:
        if page <= before + count:
            return segment, first + page - before - 1
        before += count
    raise ValueError("page outside of the document")
