"""Page trees that are deeper than qpdf and pypdf go, made flat.

Both engines give up at 100 levels, because they walk by recursion. This walk keeps a list, and
enters each node once: so a cycle, and nodes that are shared in order to stand for 10 ** n pages,
are found out as soon as one of them comes again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from pikepdf import Array, Dictionary, Object, Pdf

from consumers.extraction.documents.opening import open_for_copying

QPDF_LEVELS = 100
_INHERITED = ("/Resources", "/MediaBox", "/CropBox", "/Rotate")

Inherited = Mapping[str, Object]


class UnreadableTree(Exception):
    """The tree is not deep, so something else is wrong with it, or it is no tree."""


def open_deep(file: BinaryIO, password: str | None = None) -> Pdf:
    """Open a file that qpdf gives up on for the depth of its page tree, with all pages at one
    level and with their inherited attributes. Raises UnreadableTree, and whatever pikepdf does.
    """
    pdf = open_for_copying(file, password)
    try:
        flatten(pdf)
    except BaseException:
        pdf.close()
        raise
    return pdf


def flatten(pdf: Pdf) -> int:
    """Hang all pages of a deep tree directly under its root, with what they inherit.

    Returns their number. Raises UnreadableTree; the tree is then as it was.
    """
    root = pdf.Root.get("/Pages")
    if not isinstance(root, Dictionary):
        raise UnreadableTree
    found, deepest = [], 0
    for page, inherited, depth in _leaves(root):
        found.append((page, inherited))
        deepest = max(deepest, depth)
    if deepest <= QPDF_LEVELS:
        raise UnreadableTree
    seen: set[tuple[int, int]] = set()
    pages = Array()
    for page, inherited in found:
        own = page if page.is_indirect else pdf.make_indirect(page)
        if own.objgen in seen:  # a page that is listed twice becomes two
            own = pdf.make_indirect(copy.copy(own))
        seen.add(own.objgen)
        for key, value in inherited.items():
            if key not in own:
                own[key] = value
        own.Parent = root
        pages.append(own)
    root.Kids = pages
    root.Count = len(found)
    return len(found)


def _leaves(root: Dictionary) -> Iterator[tuple[Object, Inherited, int]]:
    """The pages in their order, each with what it inherits and how many nodes it is below."""
    entered: set[tuple[int, int]] = set()
    waiting: list[tuple[Object, Inherited, int]] = [(root, {}, 0)]
    while waiting:
        node, inherited, depth = waiting.pop()
        if not isinstance(node, Dictionary):
            raise UnreadableTree
        if "/Kids" not in node:
            yield node, inherited, depth
            continue
        kids = node["/Kids"]
        if not isinstance(kids, Array) or (node.is_indirect and node.objgen in entered):
            raise UnreadableTree
        entered.add(node.objgen)
        own = {key: node[key] for key in _INHERITED if key in node}
        passed_on = {**inherited, **own} if own else inherited
        waiting.extend((kid, passed_on, depth + 1) for kid in reversed(list(kids)))
