"""Judges what the engine found in one document against the oracle."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image, ImageOps

from tests.extraction import pixels, poppler
from tests.extraction.engines import Found
from tests.extraction.poppler import OracleImage

_MOST_CANDIDATES = 40  # of a page with thousands of images, not all pairs can be compared


@dataclass
class Verdict:
    """Counts of one document.

    `expected` images are the manifest's; `compared` those of which there is an agreed picture,
    `right` of these have it. `undecided`: three engines, three pictures. `foreign`: images found on
    a page that draws nothing like it while another page does. `extra`: more than expected.
    """

    expected: int = 0
    found: int = 0
    compared: int = 0
    right: int = 0
    undecided: int = 0
    outvoted: int = 0
    foreign: int = 0
    extra: int = 0
    notes: list[str] = field(default_factory=list)


def count_only(expected: dict[int, int], images: tuple[Found, ...]) -> Verdict:
    """What can be said without pictures."""
    verdict = Verdict(expected=sum(expected.values()))
    mine = Counter(image.page for image in images)
    for page in expected.keys() | mine.keys():
        verdict.found += min(expected.get(page, 0), mine[page])
        verdict.extra += max(0, mine[page] - expected.get(page, 0))
        if mine[page] != expected.get(page, 0):
            verdict.notes.append(
                f"page {page}: {mine[page]} images, {expected.get(page, 0)} expected"
            )
    return verdict


def judge(
    path: Path,
    password: str | None,
    expected: dict[int, int],
    images: tuple[Found, ...],
    oracle: list[OracleImage],
) -> Verdict:
    """Match the images of every page with the oracle's and compare their pixels."""
    verdict = count_only(expected, images)
    wanted = poppler.per_page(oracle)
    unmatched: list[Found] = []
    for page in sorted(wanted.keys() | {image.page for image in images}):
        mine = [image for image in images if image.page == page]
        unmatched += _Page(path, password, verdict).compare(wanted.get(page, []), mine)
    for image in unmatched:
        others = [o for o in oracle if o.page != image.page and o.file is not None]
        if any(_is_any_of(image, [pixels.load(o.file)]) for o in others if o.file):
            verdict.foreign += 1
            verdict.notes.append(f"page {image.page}: an image of another page")
    return verdict


@dataclass
class _Page:
    path: Path
    password: str | None
    verdict: Verdict

    def compare(self, wanted: list[OracleImage], mine: list[Found]) -> list[Found]:
        """Returns those of `mine` that match nothing on this page."""
        left = list(mine)
        pending: list[OracleImage] = []
        for place, image in enumerate(wanted):
            if image.file is None:
                continue
            references = self._references(image)
            candidates = _candidates(image, place, mine, left)
            match = next((c for c in candidates if _is_any_of(c, references)), None)
            if match is None:
                pending.append(image)
            else:
                left.remove(match)
                self.verdict.compared += 1
                self.verdict.right += 1
        for image in pending:
            self._vote(image, self._references(image)[0], left)
        return left

    def _references(self, image: OracleImage) -> list[Image.Image]:
        """What the image may look like by poppler.

        A stencil has no colours. The engine shows it as ink, black where it paints; poppler writes
        its samples inverted and leaves /Decode out. Of an inline stencil /Decode is not known here,
        so that either is right.
        """
        assert image.file is not None
        picture = pixels.load(image.file)
        if image.kind != "stencil":
            return [picture]
        inverted = ImageOps.invert(picture)
        if not image.object_id:
            return [inverted, picture]
        is_decoded = pixels.has_inverting_decode(self.path, self.password, image.object_id)
        return [picture if is_decoded else inverted]

    def _vote(self, image: OracleImage, reference: Image.Image, left: list[Found]) -> None:
        """Where the engine and poppler differ, two of the other three engines decide."""
        place = f"page {image.page} object {image.object_id or 'inline'}"
        match = next((c for c in left if (c.width, c.height) == (image.width, image.height)), None)
        if match is None:
            match = next(iter(left), None)
        if match is None:
            self.verdict.compared += 1
            self.verdict.notes.append(f"{place}: missing")
            return
        left.remove(match)
        own = pixels.load(match.file)
        second = pixels.by_pikepdf(self.path, self.password, image.object_id)
        thirds = pixels.by_pdfium(self.path, self.password, image.page, (image.width, image.height))
        difference = f"off by {pixels.difference(own, reference):.1f}"
        if _agree(reference, second) or any(_agree(reference, third) for third in thirds):
            self.verdict.compared += 1
            self.verdict.notes.append(f"{place}: {difference}")
        elif second is not None and any(
            _agree(second, third) and _agree(own, third) for third in thirds
        ):
            self.verdict.compared += 1
            self.verdict.right += 1
            self.verdict.outvoted += 1
            self.verdict.notes.append(f"{place}: {difference} from poppler, which is outvoted")
        elif second is not None and any(_agree(second, third) for third in thirds):
            self.verdict.compared += 1
            self.verdict.notes.append(f"{place}: {difference}, two others agree")
        else:
            self.verdict.undecided += 1
            self.verdict.notes.append(f"{place}: {difference}, no two engines agree")


def _candidates(
    image: OracleImage, place: int, mine: list[Found], left: list[Found]
) -> list[Found]:
    """At the same place on the page first: it is nearly always the one."""
    at_place = [mine[place]] if place < len(mine) and mine[place] in left else []
    alike = [f for f in left if (f.width, f.height) == (image.width, image.height)]
    others = [f for f in left if (f.width, f.height) != (image.width, image.height)]
    return at_place + [*alike, *others][:_MOST_CANDIDATES]


def _is_any_of(found: Found, references: list[Image.Image]) -> bool:
    own = pixels.load(found.file)
    return any(_agree(own, reference) for reference in references)


def _agree(one: Image.Image, other: Image.Image | None) -> bool:
    if other is None or not _alike_in_shape(one, other):
        return False
    return pixels.difference(one, other) <= pixels.LARGEST_DIFFERENCE


def _alike_in_shape(one: Image.Image, other: Image.Image) -> bool:
    """Equal sizes, or one scaled: an image is given at the size of its mask if that is larger."""
    if one.size == other.size:
        return True
    return one.width >= other.width and one.height >= other.height
