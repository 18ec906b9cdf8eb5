"""Does a cut carry images that none of its pages can draw?

Independent of how cuts are made, and never wrong in what it accuses: an image that is drawn is
named by a content stream, so one whose names stand in no content of the file is foreign. (A name
that stands somewhere may still be another image's: this is a lower bound.)
"""

from __future__ import annotations

import re
from pathlib import Path

from pikepdf import Dictionary, Name, Object, Pdf, PdfError, Stream

_NAME = re.compile(rb"/([^\x00\t\n\f\r ()<>\[\]{}/%]+)")
_ESCAPE = re.compile(rb"#([0-9A-Fa-f]{2})")


def foreign_images(file: Path) -> int:
    """Images in ``file`` that no content stream names."""
    with Pdf.open(file) as pdf:
        streams = [thing for thing in pdf.objects if isinstance(thing, Stream)]
        images = {one.objgen for one in streams if one.get("/Subtype") == Name.Image}
        masks = {
            mask.objgen
            for one in streams
            for mask in (one.get("/SMask"), one.get("/Mask"))
            if isinstance(mask, Stream)
        }
        named = set().union(*(_names(one) for one in streams if one.objgen not in images))
        drawn = {
            image.objgen
            for thing in pdf.objects
            for resources in _resources(thing)
            for name, image in resources.items()
            if isinstance(image, Stream) and name.encode("utf-8", "surrogateescape")[1:] in named
        }
        # Thumbnails and the like hang on no resources: whatever is neither is foreign, too.
        return len(images - drawn - masks)


def _names(content: Stream) -> set[bytes]:
    try:
        data = content.read_bytes()
    except PdfError:
        return set()
    return {_ESCAPE.sub(lambda hit: bytes([int(hit[1], 16)]), name) for name in _NAME.findall(data)}


def _resources(thing: Object) -> list[Dictionary]:
    """The /XObject dictionaries that ``thing`` may hold: it is resources, or has them."""
    if not isinstance(thing, (Dictionary, Stream)):
        return []
    found = []
    for holder in (thing, thing.get("/Resources")):
        if isinstance(holder, (Dictionary, Stream)):
            xobjects = holder.get("/XObject")
            if isinstance(xobjects, Dictionary):
                found.append(xobjects)
    return found
