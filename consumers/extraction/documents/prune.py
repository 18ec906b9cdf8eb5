"""Take from a page everything that it does not draw.

Scanner software likes to list the images of all pages in one resource dictionary that every page
shares. A page copied with that dictionary carries the images of other pages, perhaps of another
patient. So each content stream of the page is read (the page's own, and those of the forms,
patterns, Type 3 glyphs, soft masks and annotation appearances that it draws), and the resources
are replaced by those that are named there.

The source is changed in memory and never written. Whatever belongs to a form is pruned by what
that form draws, which is the same for every page that draws it, so each is visited once.

Left whole: a Type 3 font keeps all its glyphs, whichever of them a page shows.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from typing import TypeAlias

import pikepdf
from pikepdf import Array, Dictionary, Name, Object, Page, Stream

Used: TypeAlias = frozenset[tuple[str, str]]
"""Resources by (category, name), such as ("/XObject", "/Im1")."""

MAX_NESTING = 64  # of forms in forms; readers stop at fewer (pdfium draws 15 to 30)

# What a page needs to look as it does. Everything else is left behind: thumbnails, private data of
# applications, metadata, and links to other pages or to files.
_PAGE_KEYS = frozenset(
    (
        "/Type",
        "/MediaBox",
        "/CropBox",
        "/BleedBox",
        "/TrimBox",
        "/ArtBox",
        "/Rotate",
        "/UserUnit",
        "/Resources",
        "/Contents",
        "/Annots",
        "/Group",
    )
)
# An annotation is drawn by its appearance stream or, without one, by these. Its field, its popup,
# its action and what it replies to could all lead to other pages.
_ANNOTATION_KEYS = frozenset(
    (
        "/Type",
        "/Subtype",
        "/Rect",
        "/AP",
        "/AS",
        "/F",
        "/Border",
        "/BS",
        "/BE",
        "/C",
        "/IC",
        "/CA",
        "/ca",
        "/BM",
        "/QuadPoints",
        "/L",
        "/LE",
        "/LL",
        "/LLE",
        "/Cap",
        "/InkList",
        "/Vertices",
        "/CL",
        "/RD",
        "/DA",
        "/DS",
        "/Q",
        "/Contents",
        "/OC",
    )
)
_XOBJECT_KEYS_LEFT_BEHIND = (
    "/Alternates",  # other versions of an image
    "/OPI",
    "/Ref",
    "/Metadata",
    "/PieceInfo",
    "/LastModified",
    "/AF",
    "/ID",
    "/StructParent",
    "/StructParents",
)
_LAYER_KEYS = frozenset({"/Type", "/Name", "/Intent"})
_DEFAULT_COLOUR_SPACES = frozenset({"/DefaultGray", "/DefaultRGB", "/DefaultCMYK"})

_CATEGORY_OF_OPERATOR = {
    "Do": "/XObject",
    "Tf": "/Font",
    "gs": "/ExtGState",
    "scn": "/Pattern",
    "SCN": "/Pattern",
    "sh": "/Shading",
    "cs": "/ColorSpace",
    "CS": "/ColorSpace",
    "BDC": "/Properties",
    "DP": "/Properties",
}
_CATEGORIES = sorted(set(_CATEGORY_OF_OPERATOR.values()))
_OPERATORS = " ".join(_CATEGORY_OF_OPERATOR)
_ALL_COLOUR_SPACES = ("/ColorSpace", "*")  # an inline image names its colour space by itself
_INLINE_IMAGE = re.compile(rb"(?<![^\s\0])BI(?![^\s\0/])")


class UnreadableContent(Exception):
    """A content stream cannot be read, so nobody can tell what it draws."""


class Pruner:
    """Prunes pages of one open PDF, which is changed in memory."""

    def __init__(self) -> None:
        # What each visited stream leaves for the resources of whoever draws it.
        self._unresolved: dict[tuple[int, int], Used] = {}
        self._layers: set[tuple[int, int]] = set()

    @property
    def layers(self) -> frozenset[tuple[int, int]]:
        """The optional content groups that the pruned pages belong to, by object number."""
        return frozenset(self._layers)

    def prune_page(self, page: Page) -> None:
        """Reduce a page, whose inherited attributes are its own, to what it draws.

        Raises UnreadableContent.
        """
        obj = page.obj
        _keep_keys(obj, _PAGE_KEYS)
        used = _used_by_page(page)
        resources = obj.get("/Resources")
        obj.Resources, _ = self._prune_resources(resources, used, depth=0)
        group = obj.get("/Group")
        if isinstance(group, Dictionary):
            _keep_keys(group, frozenset({"/Type", "/S", "/CS", "/I", "/K"}))
        self._prune_annotations(obj)

    def _prune_resources(
        self, resources: Object | None, used: Used, depth: int
    ) -> tuple[Dictionary, Used]:
        """The part of `resources` that is used, and the names that it does not have."""
        kept: dict[str, dict[str, Object]] = {}
        unresolved: set[tuple[str, str]] = set()
        seen = set(used)
        waiting = sorted(used, reverse=True)
        categories = {
            category: entries
            for category in _CATEGORIES
            if isinstance(resources, Dictionary)
            and isinstance(entries := resources.get(category), Dictionary)
        }
        while waiting:
            category, name = waiting.pop()
            entries = categories.get(category)
            if (category, name) == _ALL_COLOUR_SPACES:
                kept.setdefault(category, {}).update(entries.items() if entries else ())
                continue
            if entries is None or name not in entries:
                unresolved.add((category, name))
                continue
            target = entries[name]
            kept.setdefault(category, {})[name] = (
                self._layer_only(target) if category == "/Properties" else target
            )
            for more in sorted(self._visit(category, target, depth + 1) - seen):
                seen.add(more)
                waiting.append(more)
        colour_spaces = categories.get("/ColorSpace")
        if colour_spaces is not None:
            kept.setdefault("/ColorSpace", {}).update(
                (name, colour_spaces[name])
                for name in _DEFAULT_COLOUR_SPACES
                if name in colour_spaces
            )
        pruned = {
            category: Dictionary({name: kept[category][name] for name in sorted(kept[category])})
            for category in sorted(kept)
            if kept[category]
        }
        return Dictionary(pruned), frozenset(unresolved)

    def _prune_own_resources(self, owner: Object, used: Used, depth: int) -> Used:
        resources = owner.get("/Resources")
        pruned, unresolved = self._prune_resources(resources, used, depth)
        # One that has none draws with its user's resources; an empty dictionary would stop that.
        if resources is not None:
            owner["/Resources"] = pruned
        return unresolved

    def _visit(self, category: str, target: Object, depth: int) -> Used:
        """Prune what a resource draws itself; returns what it takes from its user's resources."""
        if depth > MAX_NESTING:
            raise UnreadableContent
        match category:
            case "/XObject" if isinstance(target, Stream):
                return self._visit_xobject(target, depth)
            case "/Pattern" if isinstance(target, Stream):
                return self._visit_stream(target, depth)
            case "/ExtGState" if isinstance(target, Dictionary):
                return self._visit_graphics_state(target, depth)
            case "/Font" if isinstance(target, Dictionary):
                return self._visit_font(target, depth)
        return frozenset()

    def _visit_xobject(self, xobject: Stream, depth: int) -> Used:
        for key in _XOBJECT_KEYS_LEFT_BEHIND:
            if key in xobject:
                del xobject[key]
        self._note_layer(xobject.get("/OC"))
        if xobject.get("/Subtype") == Name.Image:
            return frozenset()
        return self._visit_stream(xobject, depth)

    def _visit_stream(self, stream: Stream, depth: int) -> Used:
        """Prune a form or a tiling pattern by its own content."""
        identity = stream.objgen
        if identity in self._unresolved:
            return self._unresolved[identity]
        self._unresolved[identity] = frozenset()  # a form that draws itself ends here
        used = _used_by_stream(stream)
        unresolved = self._prune_own_resources(stream, used, depth)
        self._unresolved[identity] = unresolved
        return unresolved

    def _visit_graphics_state(self, state: Dictionary, depth: int) -> Used:
        used: Used = frozenset()
        mask = state.get("/SMask")
        if isinstance(mask, Dictionary) and isinstance(form := mask.get("/G"), Stream):
            used |= self._visit_xobject(form, depth)
        font = state.get("/Font")
        if isinstance(font, Array) and len(font) > 0 and isinstance(font[0], Dictionary):
            used |= self._visit_font(font[0], depth)
        return used

    def _visit_font(self, font: Dictionary, depth: int) -> Used:
        glyphs = font.get("/CharProcs")
        if font.get("/Subtype") != Name.Type3 or not isinstance(glyphs, Dictionary):
            return frozenset()
        identity = font.objgen if font.is_indirect else None
        if identity is not None:
            if identity in self._unresolved:
                return self._unresolved[identity]
            self._unresolved[identity] = frozenset()
        used: Used = frozenset()
        for _, glyph in glyphs.items():
            if isinstance(glyph, Stream):
                used |= _used_by_stream(glyph)
        unresolved = self._prune_own_resources(font, used, depth)
        if identity is not None:
            self._unresolved[identity] = unresolved
        return unresolved

    def _prune_annotations(self, page: Object) -> None:
        annotations = page.get("/Annots")
        if annotations is None:
            return
        kept = []
        for annotation in annotations if isinstance(annotations, Array) else ():
            if not isinstance(annotation, Dictionary) or annotation.get("/Subtype") == Name.Popup:
                continue
            _keep_keys(annotation, _ANNOTATION_KEYS)
            self._note_layer(annotation.get("/OC"))
            self._prune_appearance(annotation)
            if annotation.get("/Subtype") == Name.Widget:
                if "/AP" not in annotation:
                    continue
                # Without its form, some readers would not show it; a stamp looks the same.
                annotation["/Subtype"] = Name.Stamp
            kept.append(annotation)
        if kept:
            page.Annots = Array(kept)
        else:
            del page["/Annots"]

    def _prune_appearance(self, annotation: Object) -> None:
        """Keep the normal appearance, of a check box only in the state that it is in."""
        appearances = annotation.get("/AP")
        if appearances is None:
            return
        del annotation["/AP"]
        normal = appearances.get("/N") if isinstance(appearances, Dictionary) else None
        if isinstance(normal, Dictionary) and not isinstance(normal, Stream):
            state = annotation.get("/AS")
            drawn = normal.get(str(state)) if isinstance(state, Name) else None
            if not isinstance(drawn, Stream):
                return
            self._visit_xobject(drawn, depth=1)
            annotation["/AP"] = Dictionary(N=Dictionary({str(state): drawn}))
        elif isinstance(normal, Stream):
            self._visit_xobject(normal, depth=1)
            annotation["/AP"] = Dictionary(N=normal)

    def _layer_only(self, properties: Object) -> Object:
        """Marked content may point anywhere; only the layer it belongs to changes the drawing."""
        if isinstance(properties, Dictionary) and properties.get("/Type") in (Name.OCG, Name.OCMD):
            self._note_layer(properties)
            return properties
        return Dictionary()

    def _note_layer(self, layer: Object | None) -> None:
        """Remember a layer, or those that a membership dictionary stands for."""
        if not isinstance(layer, Dictionary):
            return
        if layer.get("/Type") != Name.OCMD:
            _keep_keys(layer, _LAYER_KEYS)
            self._layers.add(layer.objgen)
            return
        _keep_keys(layer, frozenset({"/Type", "/OCGs", "/P", "/VE"}))
        for key in ("/OCGs", "/VE"):
            self._note_layers_in(layer.get(key), depth=0)

    def _note_layers_in(self, groups: Object | None, depth: int) -> None:
        """A group, or an array of groups, or a visibility expression: arrays in arrays."""
        if depth > MAX_NESTING:
            raise UnreadableContent
        if isinstance(groups, Dictionary):
            _keep_keys(groups, _LAYER_KEYS)
            self._layers.add(groups.objgen)
        elif isinstance(groups, Array):
            for group in groups:
                self._note_layers_in(group, depth + 1)


def _keep_keys(dictionary: Object, allowed: frozenset[str]) -> None:
    for key in list(dictionary.keys()):
        if key not in allowed:
            del dictionary[key]


def _used_by_page(page: Page) -> Used:
    contents = page.obj.get("/Contents")
    if contents is None:
        return frozenset()
    try:
        return _names(pikepdf.parse_content_stream(page, _OPERATORS)) | _inline(
            page.obj.Contents.read_bytes()
            if isinstance(contents, Stream)
            else b" ".join(part.read_bytes() for part in contents if isinstance(part, Stream))
        )
    except MemoryError:
        raise
    except Exception:  # pikepdf raises several classes on damaged content
        streams = [contents] if isinstance(contents, Stream) else list(contents)
        return _names_in_damaged(part for part in streams if isinstance(part, Stream))


def _used_by_stream(stream: Stream) -> Used:
    try:
        return _names(pikepdf.parse_content_stream(stream, _OPERATORS)) | _inline(
            stream.read_bytes()
        )
    except MemoryError:
        raise
    except Exception:
        return _names_in_damaged([stream])


def _names(
    instructions: Iterable[pikepdf.ContentStreamInstruction | pikepdf.ContentStreamInlineImage],
) -> Used:
    used = set()
    for instruction in instructions:
        category = _CATEGORY_OF_OPERATOR.get(str(instruction.operator))
        if category is None:
            continue
        for operand in instruction.operands:
            if isinstance(operand, Name):
                used.add((category, str(operand)))
    return frozenset(used)


def _inline(content: bytes) -> Used:
    return frozenset({_ALL_COLOUR_SPACES}) if _INLINE_IMAGE.search(content) else frozenset()


_TOKEN = re.compile(rb"/([^\s\0()<>\[\]{}/%]+)")
_ESCAPE = re.compile(r"#([0-9A-Fa-f]{2})")


def _names_in_damaged(streams: Iterable[Stream]) -> Used:
    """Every name in what can be decoded of damaged content, whatever it stands for.

    Readers draw the good beginning of such a stream. More than it draws may be kept, but never
    what it does not even name.
    """
    used = {_ALL_COLOUR_SPACES}
    for stream in streams:
        for token in _TOKEN.findall(_readable_beginning(stream)):
            name = "/" + _ESCAPE.sub(lambda hexed: chr(int(hexed[1], 16)), token.decode("latin-1"))
            used.update((category, name) for category in _CATEGORIES)
    return frozenset(used)


def _readable_beginning(stream: Stream) -> bytes:
    try:
        return bytes(stream.read_bytes())
    except MemoryError:
        raise
    except Exception:  # noqa: S110 - the beginning may be decoded all the same
        pass
    filters = stream.get("/Filter")
    if isinstance(filters, Array) and len(filters) == 1:
        filters = filters[0]
    raw = stream.read_raw_bytes()
    if filters is None:
        return bytes(raw)
    if filters != Name.FlateDecode:
        raise UnreadableContent
    decoder = zlib.decompressobj()
    decoded = b""
    try:
        for start in range(0, len(raw), 1024):
            decoded += decoder.decompress(raw[start : start + 1024])
    except zlib.error:
        pass
    return decoded
