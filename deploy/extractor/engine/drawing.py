"""Which images a page draws, in the order of drawing.

Only what is drawn counts: resources are often shared by all pages of a file, and a list of them
would hand one page the images of another. The content of the page is followed through form
XObjects, tiling patterns, groups of soft masks and the appearances of annotations. Glyphs of
Type 3 fonts are text and are left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pikepdf

from deploy.extractor.engine.content import named_resources, read_content
from deploy.extractor.engine.layers import Layers
from deploy.extractor.engine.model import LimitExceeded
from deploy.extractor.engine.reachable import UNREADABLE, Reachable

_OPERATORS = "Do BI ID EI gs scn SCN"
_MARKED_CONTENT = " BDC BMC EMC"
# Documents nest forms three or four deep; what goes on beyond this is a loop or an attack.
_DEEPEST_NESTING = 28
_HIDDEN, _NO_VIEW = 1 << 1, 1 << 5  # flags of an annotation, ISO 32000-2 table 167


@dataclass(frozen=True)
class DrawnImage:
    """An image stream; equal `identity` means the same image object."""

    identity: tuple[object, ...]
    stream: pikepdf.Stream = field(compare=False)


@dataclass(frozen=True)
class _Step:
    """An operator that can draw, with the resource that it names or the inline image it is.

    A name stays a Name where its bytes may be no text. `inline` is None where an inline image
    cannot be read.
    """

    operator: str
    name: str | pikepdf.Name | None = None
    inline: pikepdf.Stream | None = None


@dataclass(frozen=True)
class _Scope:
    """The resources in force in a content stream, its own first.

    Readers look a missing name up in the resources of what uses the stream, and files rely on it.
    `owner` is the object that the first of them belongs to.
    """

    chain: tuple[pikepdf.Dictionary, ...]
    owner: tuple[int, int]

    def find(self, category: str, name: str | pikepdf.Name | None) -> Any:
        for resources in self.chain:
            entries = resources.get(category)
            if name is not None and isinstance(entries, pikepdf.Dictionary) and name in entries:
                return entries[name]
        return None

    def inside(self, form: pikepdf.Stream) -> _Scope:
        own = form.get("/Resources")
        if not isinstance(own, pikepdf.Dictionary):
            return self
        return _Scope((own, *self.chain), form.objgen)


class Drawings:
    """Finds the drawn images of the pages of one file."""

    def __init__(self, pdf: pikepdf.Pdf, *, repeat: bool, max_images: int) -> None:
        self._pdf = pdf
        self._repeat = repeat
        self._max_images = max_images
        self._steps: dict[tuple[int, int], list[_Step]] = {}
        self.layers = Layers(pdf)
        self.reachable = Reachable()
        self._operators = _OPERATORS + (_MARKED_CONTENT if self.layers.exist else "")

    def on(self, page: pikepdf.Page) -> tuple[list[DrawnImage], bool]:
        """The images of a page, and whether all of its content could be read.

        Raises LimitExceeded("images") when there are more than the limit.
        """
        walk = _PageWalk(self)
        drawn = walk.page(page)
        return drawn, walk.is_complete

    def only_once(self, drawn: list[DrawnImage]) -> list[DrawnImage]:
        """Without repetitions, unless repetitions are wanted; checked against the limit."""
        if not self._repeat:
            drawn = list(dict.fromkeys(drawn))
        if len(drawn) > self._max_images:
            raise LimitExceeded("images")
        return drawn

    def steps(self, content: pikepdf.Object) -> list[_Step]:
        """The drawing operators of a content stream. Raises PdfError where it is unreadable."""
        key = content.objgen
        if key not in self._steps or key == (0, 0):
            # The quick way knows no marked content, with which layers are told apart.
            quick = _quick_steps(content, may_be_marked=not self.layers.exist)
            self._steps[key] = [*self._parsed(content)] if quick is None else quick
        return self._steps[key]

    def steps_left(self, content: pikepdf.Object) -> list[_Step]:
        """The drawing operators of those parts of a page's content that can be read."""
        source = content.get("/Contents") if isinstance(content, pikepdf.Dictionary) else None
        parts: list[Any] = list(source) if isinstance(source, pikepdf.Array) else []
        read = b""
        for part in parts:
            with contextlib.suppress(*UNREADABLE):
                read += read_content(part) + b"\n"
        with contextlib.suppress(*UNREADABLE):
            return [*self._parsed(self._pdf.make_stream(read))]
        return []

    def _parsed(self, content: pikepdf.Object) -> Iterator[_Step]:
        for instruction in pikepdf.parse_content_stream(content, self._operators):
            if isinstance(instruction, pikepdf.ContentStreamInlineImage):
                yield _Step("BI", inline=self._as_stream(instruction))
                continue
            operator, operands = str(instruction.operator), list(instruction.operands)
            name = operands[-1] if operands and isinstance(operands[-1], pikepdf.Name) else None
            if operator in ("BDC", "BMC", "EMC"):
                is_layer = operator == "BDC" and operands[:1] == ["/OC"]
                yield _Step(operator, name if is_layer else None)
            elif name is not None:
                yield _Step(operator, name)

    def _as_stream(self, instruction: pikepdf.ContentStreamInlineImage) -> pikepdf.Stream | None:
        try:
            image = instruction.iimage
            return self._pdf.make_stream(image.read_raw_bytes(), dict(image.obj.items()))
        except UNREADABLE:
            return None


class _PageWalk:
    """One page: every form is followed once, so that forms of forms of forms cost no more."""

    def __init__(self, drawings: Drawings) -> None:
        self._drawings = drawings
        self._layers = drawings.layers
        self._known: dict[tuple[object, ...], list[DrawnImage]] = {}
        self.is_complete = True

    def page(self, page: pikepdf.Page) -> list[DrawnImage]:
        resources = page.resources  # looks in the tree of pages too
        chain = (resources,) if isinstance(resources, pikepdf.Dictionary) else ()
        scope = _Scope(chain, page.obj.objgen)
        drawn: list[DrawnImage] = []
        if self._drawings.reachable.by_page(page, resources):
            if page.obj.get("/Type") != "/Page":
                page.obj["/Type"] = pikepdf.Name.Page  # what the parser goes by
            drawn += self._content(page.obj, scope, depth=0)
        for appearance in _appearances(page, self._layers):
            drawn += self._form(appearance, scope, depth=1)
        return self._drawings.only_once(drawn)

    def _content(self, content: pikepdf.Object, scope: _Scope, depth: int) -> list[DrawnImage]:
        try:
            steps = self._drawings.steps(content)
        except UNREADABLE:
            self.is_complete = False
            steps = self._drawings.steps_left(content)
        drawn: list[DrawnImage] = []
        much = 1024  # drawings after which repetitions are dropped, lest they fill the memory
        marked: list[bool] = []  # for each open marked content, whether it is shown
        for step in steps:
            try:
                if step.operator in ("BDC", "BMC"):
                    marked.append(self._layers.shows(scope.find("/Properties", step.name)))
                elif step.operator == "EMC":
                    del marked[-1:]
                elif all(marked):
                    drawn += self._step(step, scope, depth)
            except UNREADABLE:
                self.is_complete = False
            if len(drawn) > much:
                drawn = self._drawings.only_once(drawn)
                much = 1024 + 2 * len(drawn)
        return self._drawings.only_once(drawn)

    def _step(self, step: _Step, scope: _Scope, depth: int) -> list[DrawnImage]:
        match step.operator:
            case "BI":
                if step.inline is not None:
                    return [self._inline(step.inline, scope)]
                self.is_complete = False
            case "Do":
                return self._xobject(scope.find("/XObject", step.name), scope, depth)
            case "scn" | "SCN":
                pattern = scope.find("/Pattern", step.name)
                if isinstance(pattern, pikepdf.Stream):
                    return self._form(pattern, scope, depth + 1)
            case "gs":
                return self._soft_mask(scope.find("/ExtGState", step.name), scope, depth)
        return []

    def _inline(self, image: pikepdf.Stream, scope: _Scope) -> DrawnImage:
        space = image.get("/ColorSpace")
        if isinstance(space, pikepdf.Name):
            named = scope.find("/ColorSpace", space)
            if named is not None:
                image["/ColorSpace"] = named
        return DrawnImage(image.objgen, image)

    def _xobject(self, xobject: Any, scope: _Scope, depth: int) -> list[DrawnImage]:
        if not isinstance(xobject, pikepdf.Stream) or not self._layers.shows(xobject.get("/OC")):
            return []
        subtype = xobject.get("/Subtype")
        if subtype == "/Image":
            return [DrawnImage(xobject.objgen, xobject)]
        if subtype == "/Form":
            return self._form(xobject, scope, depth + 1)
        return []

    def _soft_mask(self, state: Any, scope: _Scope, depth: int) -> list[DrawnImage]:
        mask = state.get("/SMask") if isinstance(state, pikepdf.Dictionary) else None
        group = mask.get("/G") if isinstance(mask, pikepdf.Dictionary) else None
        return self._form(group, scope, depth + 1) if isinstance(group, pikepdf.Stream) else []

    def _form(self, form: pikepdf.Stream, scope: _Scope, depth: int) -> list[DrawnImage]:
        """The images of a form, a pattern or an appearance: all of them have its structure."""
        inside = scope.inside(form)
        key = (form.objgen, inside.owner)
        if key not in self._known:
            if depth > _DEEPEST_NESTING:
                return []
            self._known[key] = []  # what a form draws of itself is nothing
            self._known[key] = self._content(form, inside, depth)
        return self._known[key]


def _quick_steps(content: pikepdf.Object, *, may_be_marked: bool) -> list[_Step] | None:
    """The steps of a page or form whose content is plain; None where it is not, or is damaged."""
    source = content if isinstance(content, pikepdf.Stream) else content.get("/Contents")
    streams: list[Any] = list(source) if isinstance(source, pikepdf.Array) else [source]
    try:
        named = named_resources(
            b"\n".join(read_content(stream) for stream in streams), may_be_marked=may_be_marked
        )
    except UNREADABLE:
        return None
    return None if named is None else [_Step(operator, name) for operator, name in named]


def _appearances(page: pikepdf.Page, layers: Layers) -> Iterator[pikepdf.Stream]:
    """The normal appearances of the annotations that are shown on the page."""
    annotations = page.obj.get("/Annots")
    if not isinstance(annotations, pikepdf.Array):
        return
    for annotation in list(annotations):
        if not isinstance(annotation, pikepdf.Dictionary) or annotation.get("/Subtype") == "/Popup":
            continue
        flags = annotation.get("/F", 0)
        if isinstance(flags, int) and flags & (_HIDDEN | _NO_VIEW):
            continue
        if not layers.shows(annotation.get("/OC")):
            continue
        appearances = annotation.get("/AP")
        normal = appearances.get("/N") if isinstance(appearances, pikepdf.Dictionary) else None
        if isinstance(normal, pikepdf.Stream):
            yield normal
        elif isinstance(normal, pikepdf.Dictionary):
            state = normal.get(str(annotation.get("/AS", "/Off")))
            if isinstance(state, pikepdf.Stream):
                yield state
