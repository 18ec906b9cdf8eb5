"""One sandbox process: serves requests, one at a time, until its channel is closed."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, BinaryIO, cast

from consumers.extraction.documents.assemble import assemble_pdf
from consumers.extraction.documents.images import verify_image
from consumers.extraction.documents.inspect import inspect_pdf
from consumers.extraction.documents.model import (
    AssemblyLimits,
    DocumentRejected,
    ImageLimits,
    InspectionLimits,
    Region,
    RegionOutside,
    RejectedImage,
)
from consumers.extraction.documents.source import OpenPart
from consumers.extraction.sandbox import channel
from consumers.extraction.sandbox.confine import limit_cpu_seconds

# Operations whose last file is written.
_WRITING = frozenset({"assemble", "cut_regions"})
# A document up to this size is read at once: the engines take it in pieces of some bytes.
_SMALL_BYTES = 1024 * 1024
# Of the CPU time of an inspection, what the first engine may use before the second is asked.
FIRST_ENGINE_SHARE = 0.3


def serve(connection: socket.socket) -> None:
    """Answer requests until the worker closes the connection."""
    while True:
        try:
            request, descriptors = channel.receive(connection, max_files=channel.MAX_FILES)
        except channel.ChannelClosed:
            return
        limit_cpu_seconds(request["cpu_seconds"])
        answer = _answer(request, descriptors)
        limit_cpu_seconds(0)
        answer["peak_kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        channel.send(connection, answer)


def _answer(request: dict[str, Any], descriptors: list[int]) -> channel.Message:
    try:
        with _opened(descriptors, writable_last=request["operation"] in _WRITING) as files:
            return _OPERATIONS[request["operation"]](request, files)
    except DocumentRejected as rejected:
        return {"rejected": rejected.reason, "detail": rejected.detail}
    except MemoryError:
        return {"out_of_memory": True}
    except OSError as error:  # of what is written: reading is the engines' to judge
        return {"os_error": error.errno}


@contextlib.contextmanager
def _opened(descriptors: list[int], *, writable_last: bool) -> Iterator[list[BinaryIO]]:
    with contextlib.ExitStack() as stack:
        files: list[BinaryIO] = []
        for number, descriptor in enumerate(descriptors):
            if writable_last and number == len(descriptors) - 1:
                # Not buffered: closing it must not fail. What an earlier request left goes.
                file = stack.enter_context(os.fdopen(descriptor, "r+b", buffering=0))
                with contextlib.suppress(OSError):  # a device cannot
                    file.truncate(0)
                file.seek(0)
                files.append(cast(BinaryIO, file))
            else:
                files.append(stack.enter_context(os.fdopen(descriptor, "rb")))
        yield files


def _inspect(request: dict[str, Any], files: list[BinaryIO]) -> channel.Message:
    document = files[0]
    if os.fstat(document.fileno()).st_size <= _SMALL_BYTES:
        document.seek(0)  # an attempt before may have left it anywhere
        document = io.BytesIO(document.read())
    inspection = inspect_pdf(
        document,
        InspectionLimits(**request["limits"]),
        request["password"],
        first_engine_seconds=request["cpu_seconds"] * FIRST_ENGINE_SHARE,
        sha256=request["sha256"],
    )
    return {"inspection": asdict(inspection)}


def _assemble(request: dict[str, Any], files: list[BinaryIO]) -> channel.Message:
    *sources, destination = files
    parts = [
        OpenPart(
            sources[part["file"]],
            part["first_page"],
            part["last_page"],
            part["password"],
            part["rebuild"],
        )
        for part in request["parts"]
    ]
    assembled = assemble_pdf(parts, destination, AssemblyLimits(**request["limits"]))
    return {"assembled": asdict(assembled)}


def _verify_images(request: dict[str, Any], files: list[BinaryIO]) -> channel.Message:
    limits = ImageLimits(
        max_bytes=request["limits"]["max_bytes"],
        max_pixels=request["limits"]["max_pixels"],
        media_types=frozenset(request["limits"]["media_types"]),
    )
    images: list[dict[str, Any]] = []
    for file in files:
        try:
            images.append(asdict(verify_image(file, limits)))
        except MemoryError:
            images.append(asdict(RejectedImage("image_too_many_pixels")))
    return {"images": images}


def _cut_regions(request: dict[str, Any], files: list[BinaryIO]) -> channel.Message:
    from consumers.extraction.documents.regions import cut_regions  # few workers need pdfium

    document, destination = files
    regions = [Region(*values) for values in request["regions"]]
    try:
        sizes = cut_regions(document, regions, request["dpi"], destination)
    except RegionOutside:
        return {"region_outside": True}
    return {"sizes": sizes}


def _warm_up(_request: dict[str, Any], files: list[BinaryIO]) -> channel.Message:
    return {"warm": len(files)}


_OPERATIONS = {
    "inspect": _inspect,
    "assemble": _assemble,
    "verify_images": _verify_images,
    "cut_regions": _cut_regions,
    "warm_up": _warm_up,
}


def warm_up() -> None:
    """Import and build what the first request would have to, for all processes forked later."""
    import pikepdf
    from PIL import Image

    pdf = pikepdf.new()
    pdf.add_blank_page()
    encrypted, assembled = io.BytesIO(), io.BytesIO()
    pdf.save(encrypted, encryption=pikepdf.Encryption(user="", owner="owner", R=6))
    inspect_pdf(encrypted, InspectionLimits())
    with tempfile.TemporaryFile() as plain:
        pdf.save(plain)
        plain.flush()
        inspect_pdf(cast(BinaryIO, plain), InspectionLimits())
        part = OpenPart(cast(BinaryIO, plain), None, None, None)
        assemble_pdf([part], assembled, AssemblyLimits())
    for kind in ("PNG", "JPEG", "TIFF"):
        image = io.BytesIO()
        Image.new("RGB", (8, 8)).save(image, kind)
        verify_image(image, ImageLimits())


if __name__ == "__main__":  # says what is missing on a machine where the processes do not start
    warm_up()
    print("the engines work")
