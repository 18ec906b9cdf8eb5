"""Documents of a simulation: pages that name their images, and what is wrong with them.

A "PDF" here is ``%PDF-`` followed by JSON. The sandbox and the extraction service of the simulation
read it; the code under test only ever sees its bytes.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from consumers.extraction.documents.model import (
    Assembled,
    AssemblyLimits,
    AssemblyPart,
    DocumentRejected,
    ImageLimits,
    Inspection,
    InspectionLimits,
    RejectedImage,
    VerifiedImage,
)
from consumers.extraction.sandbox.errors import SandboxCrashed

_HEADER = b"%PDF-1.7 simulated\n"


class Trait(StrEnum):
    """What is special about a document; it decides how it may end."""

    FINE = "fine"
    # its source
    MISSING = "missing"
    WRONG_CHECKSUM = "wrong_checksum"
    # its bytes
    NOT_PDF = "not_pdf"
    ENCRYPTED = "encrypted"
    CRASHES_PARSER = "crashes_parser"
    SEEN_DIFFERENTLY = "seen_differently"
    # at the service
    REFUSED = "refused"
    FAILS = "fails"
    FAILS_ONCE = "fails_once"
    FAILS_EVERY_JOB = "fails_every_job"
    ENDLESS = "endless"
    SLOW = "slow"
    SHORT = "short"
    BAD_IMAGE = "bad_image"


def make_pdf(name: str, pages: int, trait: Trait, rng: random.Random) -> bytes:
    """A source document; ``name`` makes it different from every other."""
    if trait is Trait.NOT_PDF:
        return b"PK\x03\x04 " + name.encode()
    images = [[f"{name}/{p}/{i}" for i in range(rng.choice((0, 1, 1, 2, 3)))] for p in range(pages)]
    if trait is Trait.BAD_IMAGE and not any(images):
        images[0].append(f"{name}/0/0")
    return _write(name, trait, images)


def _write(name: str, trait: Trait, pages: list[list[str]]) -> bytes:
    return _HEADER + json.dumps({"name": name, "trait": trait, "pages": pages}).encode()


class Read:
    """A document as its reader sees it."""

    def __init__(self, data: bytes) -> None:
        if not data.startswith(_HEADER):
            raise DocumentRejected("not_a_pdf")
        content: dict[str, Any] = json.loads(data[len(_HEADER) :])
        self.name: str = content["name"]
        self.trait = Trait(content["trait"])
        self.pages: list[list[str]] = content["pages"]


def image_bytes(image: str, trait: Trait) -> bytes:
    return (b"garbage:" if trait is Trait.BAD_IMAGE else b"\x89PNG:") + image.encode()


class SimSandbox:
    """Answers like `consumers.extraction.sandbox.Sandbox`; ``trouble`` may raise first."""

    def __init__(self, trouble: Callable[[str], None]) -> None:
        self._trouble = trouble

    def inspect(
        self,
        path: Path,
        limits: InspectionLimits,
        password: str | None = None,
        *,
        sha256: str | None = None,
    ) -> Inspection:
        data = path.read_bytes()
        self._trouble("inspect")
        read = _checked(data)
        return Inspection(
            sha256=sha256 or hashlib.sha256(data).hexdigest(),
            bytes=len(data),
            pages=len(read.pages),
            encrypted=False,
            header_offset=0,
            libmagic_type="application/pdf",
            libmagic_version=545,
            engine="pypdf",
            repaired=False,
            seen_differently=read.trait is Trait.SEEN_DIFFERENTLY,
        )

    def assemble(
        self,
        parts: Sequence[AssemblyPart],
        destination: Path,
        limits: AssemblyLimits | None = None,
    ) -> Assembled:
        self._trouble("assemble")
        if destination.exists():
            raise FileExistsError(destination.name)
        pages: list[list[str]] = []
        page_map: list[tuple[int, int]] = []
        names: list[str] = []
        trait = Trait.FINE
        for index, part in enumerate(parts):
            read = _checked(part.path.read_bytes())
            first, last = part.first_page or 1, part.last_page or len(read.pages)
            if last > len(read.pages):
                raise DocumentRejected("page_range", {"segment": index})
            pages += read.pages[first - 1 : last]
            page_map += [(index, page) for page in range(first, last + 1)]
            names.append(f"{read.name}[{first}-{last}]")
            trait = read.trait if trait is Trait.FINE else trait
        if trait is Trait.SEEN_DIFFERENTLY:
            trait = Trait.FINE  # what is written anew is read alike
        data = _write("+".join(names), trait, pages)
        destination.write_bytes(data)
        return Assembled(hashlib.sha256(data).hexdigest(), len(data), len(pages), tuple(page_map))

    def verify_images(
        self, files: Sequence[Path], limits: ImageLimits
    ) -> list[VerifiedImage | RejectedImage]:
        self._trouble("verify_images")
        return [_verdict(file.read_bytes()) for file in files]


def _checked(data: bytes) -> Read:
    read = Read(data)
    if read.trait is Trait.ENCRYPTED:
        raise DocumentRejected("encrypted")
    if read.trait is Trait.CRASHES_PARSER:
        raise SandboxCrashed
    return read


def _verdict(data: bytes) -> VerifiedImage | RejectedImage:
    if not data.startswith(b"\x89PNG:"):
        return RejectedImage("image_not_an_image")
    return VerifiedImage(
        "image/png", 10 + len(data), 20, len(data), hashlib.sha256(data).hexdigest()
    )
