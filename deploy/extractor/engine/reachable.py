"""A quick look at whether content can draw an image at all, which spares most pages the parsing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pikepdf

from deploy.extractor.engine.content import read_content

# What the PDF library raises at damaged content, or at content in the coding of an image.
UNREADABLE = (
    pikepdf.PdfError,
    pikepdf.DependencyError,
    NotImplementedError,
    TypeError,
    ValueError,
    LookupError,  # "BI EI" raises IndexError
    AttributeError,
)
_DEEPEST_NESTING = 28


class Reachable:
    """Remembers the forms of one file that it has looked at."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}

    def by_page(self, page: pikepdf.Page, resources: Any) -> bool:
        """Whether the content of a page may draw an image; True where in doubt."""
        contents = page.obj.get("/Contents")
        streams = list(contents) if isinstance(contents, pikepdf.Array) else [contents]
        try:
            return self._by(streams, resources, 0)
        except UNREADABLE:
            return True

    def _by(self, streams: list[Any], resources: Any, depth: int) -> bool:
        if depth > _DEEPEST_NESTING:
            return False
        if isinstance(resources, pikepdf.Dictionary) and self._by_resources(resources, depth):
            return True
        # An inline image begins with this operator; in a text it costs no more than a parsing.
        return any(b"BI" in read_content(s) for s in streams if isinstance(s, pikepdf.Stream))

    def _by_resources(self, resources: pikepdf.Dictionary, depth: int) -> bool:
        for xobject in _entries(resources, "/XObject"):
            if isinstance(xobject, pikepdf.Stream):
                subtype = xobject.get("/Subtype")
                if subtype == "/Image" or (subtype == "/Form" and self._form(xobject, depth)):
                    return True
        for pattern in _entries(resources, "/Pattern"):
            if isinstance(pattern, pikepdf.Stream) and self._form(pattern, depth):
                return True
        for state in _entries(resources, "/ExtGState"):
            mask = state.get("/SMask") if isinstance(state, pikepdf.Dictionary) else None
            group = mask.get("/G") if isinstance(mask, pikepdf.Dictionary) else None
            if isinstance(group, pikepdf.Stream) and self._form(group, depth):
                return True
        return False

    def _form(self, form: pikepdf.Stream, depth: int) -> bool:
        key = form.objgen
        if key not in self._known:
            self._known[key] = False  # until it is known, so that a form of itself ends here
            self._known[key] = self._by([form], form.get("/Resources"), depth + 1)
        return self._known[key]


def _entries(resources: pikepdf.Dictionary, category: str) -> Iterator[Any]:
    entries = resources.get(category)
    if isinstance(entries, pikepdf.Dictionary):
        for _, entry in entries.items():
            yield entry
