"""Answers "what happened to this": from manifests, job records and the ledger, never from the
upload. See `bundles trace`.

What is asked for is found by listing one bundle's prefix and reading objects by their keys, so the
size of the store does not matter. Only a provider's job id, and a document that has neither image
nor manifest yet, must be searched for: in the ledger of late, then in the youngest job records.
"""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import ValidationError

from consumers.extraction.timestamps import parse_rfc3339
from consumers.operations.layout import JOBS, StoredDocument, documents, image_name_of
from consumers.operations.ledger import Ledger, Line
from consumers.operations.storage import listed, read_ahead
from consumers.operations.trace_lines import LedgerOnly, by_extraction, dead_letters
from schemas.job_record import JobPhase, JobRecord
from schemas.manifest import Manifest, ManifestImage
from sinks.job_records import MAX_BYTES, JobRecordStore
from sinks.manifests import ManifestStore, ManifestWrite
from sinks.objectstore import ListedObject, ObjectNotFound, ObjectStore

IMAGE_NAME = re.compile(r"page-\d{3,}-image-\d{3,}")
BEFORE_RECORD_S = 120.0
"""Fetching and validating come before the record; their lines are looked for so long before it."""
AFTER_LAST_S = 60.0
RECORDS_SEARCHED = 10_000


@dataclass(slots=True)
class Trace:
    """One extraction of one document. ``record`` and ``manifest``: as they stand, None where they
    do not. ``lines``: the ledger's, None where it was not asked."""

    extraction_id: str
    record: JobRecord | None
    manifest: Manifest | None
    manifest_key: str | None
    manifest_sha256: str | None = None
    manifest_bytes: int | None = None
    manifest_at: float | None = None
    image: ManifestImage | None = None
    lines: list[Line] | None = None
    incomplete: str | None = None

    @property
    def about(self) -> Manifest | JobRecord:
        known = self.manifest or self.record
        assert known is not None
        return known

    @property
    def state(self) -> str:
        """``extracted``, ``running``, or the reason why it is neither."""
        if self.manifest is not None:
            return "extracted"
        record = self.record
        assert record is not None
        ended = next(
            (s for s in record.shards if s.phase in (JobPhase.FAILED, JobPhase.TIMED_OUT)), None
        )
        if ended is not None:
            return ended.failure or ended.phase.value
        last = next((x for x in reversed(self.lines or []) if x.get("event") == "ended"), None)
        if last is None or last.get("code") != "dead_lettered":
            return "running"
        letters = dead_letters(self.lines or [])
        return letters[-1].reason if letters else "dead_lettered"


@dataclass(slots=True)
class Answer:
    """``ledger_only``: documents that have neither record nor manifest. ``notes``: what was not
    looked at, as sentences."""

    traces: list[Trace] = field(default_factory=list)
    ledger_only: list[LedgerOnly] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        return not (self.traces or self.ledger_only)


class Tracer:
    """``budget_s`` bounds reading the ledger for known extractions, ``search_s`` a search."""

    def __init__(
        self,
        store: ObjectStore,
        bucket: str,
        ledger: Ledger,
        *,
        budget_s: float,
        search_s: float = 20.0,
        searched_since: float = 0.0,
        threads: int = 8,
        on_progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store, self._bucket = store, bucket
        self._ledger = ledger
        self._budget_s, self._search_s, self._since = budget_s, search_s, searched_since
        self._threads = threads
        self._progress = on_progress
        self._records = JobRecordStore(store, bucket)
        self._manifests = ManifestStore(store, bucket)

    # -- what can be asked for -------------------------------------------------------------------

    def image(self, bundle_id: str, name: str, document_id: str | None) -> Answer:
        """The image of that name, in every document of the bundle that has one."""
        answer = Answer()
        for trace in self._stored(
            bundle_id, document_id, lambda d: any(image_name_of(i.key) == name for i in d.images)
        ):
            assert trace.manifest is not None
            trace.image = next((i for i in trace.manifest.images if i.name == name), None)
            if trace.image is not None:
                answer.traces.append(trace)
        self._add_lines(answer)
        return answer

    def document(self, bundle_id: str, document_id: str) -> Answer:
        answer = Answer(list(self._stored(bundle_id, document_id, lambda _: True)))
        if not answer.traces:
            answer = self._search(
                bundle_id,
                lambda line: (
                    line.get("bundle_id") == bundle_id and line.get("document_id") == document_id
                ),
            )
        self._add_lines(answer)
        return answer

    def bundle(self, bundle_id: str) -> Answer:
        """Its documents that have a manifest; where there is none, those that the ledger knows."""
        answer = Answer(list(self._stored(bundle_id, None, lambda _: True)))
        if answer.traces:
            answer.notes.append("documents without a manifest are not listed; trace one by its id")
        else:
            answer = self._search(bundle_id, lambda line: line.get("bundle_id") == bundle_id)
        if len(answer.traces) == 1:
            self._add_lines(answer)
        return answer

    def extraction(self, extraction_id: str) -> Answer:
        trace = self._by_id(extraction_id)
        if trace is not None:
            answer = Answer([trace])
            self._add_lines(answer)
            return answer
        known = self._ledger_only(extraction_id)
        return Answer(ledger_only=[known] if known else [])

    def anything(self, identifier: str) -> Answer:
        """An extraction id, a bundle id, or a provider's job id."""
        if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", identifier):
            answer = self.extraction(identifier)
            if not answer.empty:
                return answer
        if next(iter(listed(self._store, self._bucket, f"{identifier}/")), None) is not None:
            return self.bundle(identifier)
        answer = self._search(
            identifier, lambda line: identifier in (line.get("job_id"), line.get("bundle_id"))
        )
        if answer.empty:
            self._search_records(identifier, answer)
        answer.ledger_only = [
            one if one.bundle_id == identifier else self._whole(one) for one in answer.ledger_only
        ]
        self._add_lines(answer)
        return answer

    # -- finding ---------------------------------------------------------------------------------

    def _stored(
        self,
        bundle_id: str,
        document_id: str | None,
        wanted: Callable[[StoredDocument], bool],
    ) -> list[Trace]:
        prefix = f"{bundle_id}/" + (f"{document_id}/" if document_id else "")
        found = (
            document
            for document in documents(listed(self._store, self._bucket, prefix))
            if document.manifest is not None and wanted(document)
        )
        read = read_ahead(found, self._read, threads=self._threads)
        return [trace for _, trace in read if trace is not None]

    def _read(self, document: StoredDocument) -> Trace | None:
        write = self._manifests.find(document.manifest_key)
        if write is None or document.manifest is None:
            return None
        trace = self._of(write)
        trace.manifest_at = document.manifest.last_modified.timestamp()
        return trace

    def _of(self, write: ManifestWrite) -> Trace:
        loaded = self._records.load(write.manifest.extraction_id)
        return Trace(
            write.manifest.extraction_id,
            loaded.record if loaded else None,
            write.manifest,
            write.key,
            write.sha256,
            write.bytes,
        )

    def _by_id(self, extraction_id: str) -> Trace | None:
        loaded = self._records.load(extraction_id)
        if loaded is None:
            return None
        key = loaded.record.manifest_key
        write = self._manifests.find(key)
        if write is None:
            return Trace(extraction_id, loaded.record, None, None)
        trace = self._of(write)
        trace.manifest_at = self._store.head(self._bucket, key).last_modified.timestamp()
        return trace

    def _search(self, needle: str, matches: Callable[[Line], bool]) -> Answer:
        self._progress(f"searching the ledger, for up to {self._search_s:g} s")
        lines, note = self._ledger.search(
            needle, matches, since=self._since, budget_s=self._search_s
        )
        answer = Answer(notes=[note] if note else [])
        for extraction_id, its_lines in by_extraction(lines):
            trace = self._by_id(extraction_id) if extraction_id else None
            if trace is not None:
                answer.traces.append(trace)
            else:
                answer.ledger_only.append(LedgerOnly(its_lines, note))
        return answer

    def _ledger_only(
        self, extraction_id: str, bundle_id: str | None = None, document_id: str | None = None
    ) -> LedgerOnly | None:
        """With the bundle and document also what came before the id was known."""
        found = self._ledger.lines_of(
            [key for key in (extraction_id, bundle_id) if key],
            _about(extraction_id, document_id),
            since=self._since,
            until=time.time() + AFTER_LAST_S,
            budget_s=self._search_s,
        )
        return LedgerOnly(found.lines, found.incomplete) if found.lines else None

    def _whole(self, found: LedgerOnly) -> LedgerOnly:
        """All of a document of which a search by a job's id found only the lines with that id."""
        if found.extraction_id is None:
            return found
        ids = found.extraction_id, found.bundle_id, found.document_id
        return self._ledger_only(*ids) or found

    def _search_records(self, job_id: str, answer: Answer) -> None:
        """There is no index by job id: the youngest records are read, newest first."""
        self._progress(f"reading the {RECORDS_SEARCHED} youngest job records")
        youngest = heapq.nlargest(
            RECORDS_SEARCHED,
            listed(self._store, self._bucket, JOBS),
            key=lambda item: item.last_modified,
        )
        for _, record in read_ahead(youngest, self._load, threads=self._threads):
            if record is not None and any(s.job_id == job_id for s in record.shards):
                trace = self._by_id(record.extraction_id)
                if trace is not None:
                    answer.traces.append(trace)
                return
        if len(youngest) == RECORDS_SEARCHED:
            answer.notes.append(f"only the {RECORDS_SEARCHED} youngest job records were read")

    def _load(self, item: ListedObject) -> JobRecord | None:
        try:
            body = self._store.get(self._bucket, item.key, max_bytes=MAX_BYTES).body
            return JobRecord.model_validate_json(body)
        except (ObjectNotFound, ValidationError):
            return None

    # -- the ledger ------------------------------------------------------------------------------

    def _add_lines(self, answer: Answer) -> None:
        deadline = time.monotonic() + self._budget_s
        for trace in answer.traces:
            about = trace.about
            window = self._window(trace)
            if window is None:
                trace.incomplete = "its job record is gone, so the ledger was not searched"
                continue
            found = self._ledger.lines_of(
                (trace.extraction_id, about.bundle_id),
                _about(trace.extraction_id, about.document_id),
                since=window[0],
                until=window[1],
                budget_s=max(0.0, deadline - time.monotonic()),
            )
            trace.lines, trace.incomplete = found.lines, found.incomplete

    def _window(self, trace: Trace) -> tuple[float, float] | None:
        record = trace.record
        created = parse_rfc3339(record.created_at) if record else None
        if record is None or created is None:
            return None
        updated = parse_rfc3339(record.updated_at) or created
        if trace.manifest_at is None and trace.state == "running":
            return created - BEFORE_RECORD_S, time.time() + AFTER_LAST_S
        last = max(updated, trace.manifest_at or 0.0)
        return created - BEFORE_RECORD_S, last + AFTER_LAST_S


def _about(extraction_id: str, document_id: str | None) -> Callable[[Line], bool]:
    def about(line: Line) -> bool:
        known = line.get("extraction_id")
        if known is None:
            return document_id is not None and line.get("document_id") == document_id
        return bool(known == extraction_id)

    return about
