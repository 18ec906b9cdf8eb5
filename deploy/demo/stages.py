"""How long each stage of a document took, told from the ledger."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from consumers.milestones import MILESTONES, parts

Delivery = tuple[int, int]
"""(partition, offset) of an event."""


def stage_seconds(
    lines: Iterable[Mapping[str, Any]], deliveries: Collection[Delivery]
) -> dict[str, list[float]]:
    """Stage -> seconds, one for each document of these deliveries that was extracted. A document
    that was found done, or dead-lettered, has no such stages."""
    documents: dict[tuple[Delivery, str], list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        document = line.get("document_id")
        delivery = (line.get("partition", -1), line.get("offset", -1))
        if document and delivery in deliveries:
            documents[delivery, document].append(line)
    found: dict[str, list[float]] = {name: [] for _, name in MILESTONES}
    for of_document in documents.values():
        if any(line.get("event") == "manifest_written" for line in of_document):
            for part in parts(of_document):
                found[part.name].append(part.end - part.start)
    return {name: seconds for name, seconds in found.items() if seconds}


def p50_and_p95(seconds: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(seconds)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))]
