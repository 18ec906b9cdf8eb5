"""What a document's ledger lines tell: its runs, its dead letters, and all that is known of it
where neither a job record nor a manifest stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consumers.milestones import Part, parts
from consumers.operations.ledger import Line
from schemas.identity import dead_letter_id


@dataclass(frozen=True, slots=True)
class Run:
    """One delivery of the event: the first, a redelivery or a replay."""

    place: str
    spans: tuple[Part, ...]
    outcome: str | None
    seconds: float | None
    causes: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SentDeadLetter:
    """As its ledger line says. ``identifier`` is what `bundles replay --id` takes; ``place``: of
    the event, ``topic/partition@offset``."""

    identifier: str
    reason: str
    stage: str
    at: str
    place: str


@dataclass(frozen=True, slots=True)
class LedgerOnly:
    """A document (without ``document_id``: an event) of which only the ledger knows: refused before
    it had a job record, on its way there, or past its retention."""

    lines: Sequence[Line]
    incomplete: str | None = None

    @property
    def bundle_id(self) -> str | None:
        return self._first("bundle_id")

    @property
    def document_id(self) -> str | None:
        return self._first("document_id")

    @property
    def extraction_id(self) -> str | None:
        return self._first("extraction_id")

    @property
    def state(self) -> str:
        """The reason of its last dead letter, how it ended otherwise, or ``running``."""
        last = next((x for x in reversed(self.lines) if x.get("event") in _ENDS), None)
        return str(last.get("code")) if last is not None else "running"

    def _first(self, name: str) -> str | None:
        return next((str(line[name]) for line in self.lines if line.get(name)), None)


_ENDS = frozenset({"dead_lettered", "result_published"})


def runs(lines: Iterable[Line]) -> list[Run]:
    """The lines by delivery, each as the parts between its milestones."""
    by_place: dict[str, list[Line]] = {}
    for line in lines:
        by_place.setdefault(place_of(line), []).append(line)
    return [_run(place, of_place) for place, of_place in by_place.items()]


def _run(place: str, lines: list[Line]) -> Run:
    ended: Mapping[str, Any] = next((x for x in lines if x.get("event") == "ended"), {})
    return Run(
        place,
        tuple(parts(lines)),
        ended.get("code"),
        ended.get("seconds"),
        dict(ended.get("causes") or {}),
    )


def dead_letters(lines: Iterable[Line]) -> list[SentDeadLetter]:
    """In the lines' order. Their topic is not read: a dead letter's id follows from the line."""
    return [
        SentDeadLetter(
            dead_letter_id(
                str(line.get("topic")),
                int(line.get("partition") or 0),
                int(line.get("offset") or 0),
                str(line.get("document_id") or ""),
                str(line.get("code")),
            ),
            str(line.get("code")),
            str(line.get("stage")),
            str(line.get("at")),
            place_of(line),
        )
        for line in lines
        if line.get("event") == "dead_lettered"
    ]


def place_of(line: Line) -> str:
    return f"{line.get('topic')}/{line.get('partition')}@{line.get('offset')}"


def by_extraction(lines: Iterable[Line]) -> list[tuple[str | None, list[Line]]]:
    """The lines of some documents, apart: each with its extraction id, or None where a document was
    refused before it had one. Lines from before the id was known go to the extraction of the same
    document of the same event. Lines of a bundle as a whole are left out where its documents have
    some."""
    by_document: dict[tuple[object, object, str], list[Line]] = {}
    for line in lines:
        document = (line.get("bundle_id"), line.get("document_id"), place_of(line))
        by_document.setdefault(document, []).append(line)
    found: dict[tuple[str | None, object, object], list[Line]] = {}
    for (bundle_id, document_id, _), of_document in by_document.items():
        known = next((str(x["extraction_id"]) for x in of_document if x.get("extraction_id")), None)
        found.setdefault((known, bundle_id, document_id), []).extend(of_document)
    documents = [(known, lines) for (known, _, document), lines in found.items() if document]
    whole = [(known, lines) for (known, _, document), lines in found.items() if not document]
    return documents or whole
