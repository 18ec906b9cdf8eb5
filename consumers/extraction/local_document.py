"""The private local copy of a document: fetched, assembled and inspected when it is needed, and
gone as soon as it is not. A job that only waits holds no file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from consumers.extraction.calls import call
from consumers.extraction.documents.model import (
    Assembled,
    AssemblyLimits,
    AssemblyPart,
    Inspection,
    InspectionLimits,
)
from consumers.extraction.page_runs import PageRun, runs_of
from consumers.extraction.scope import DocumentFailed, Scope
from consumers.extraction.services import Services
from consumers.extraction.workspace import DocumentFiles
from consumers.providers.protocol import Document as SubmittedDocument
from consumers.runtime.effects import Acquire, SafePoint, Sleep, Task, Together
from consumers.runtime.limiter import Limiter, Permit
from schemas.events import Document, Segment
from schemas.policy import Policy
from schemas.reasons import Reason
from sinks.objectstore import Download

ROOM_CHECK_S = 0.5
"""How often a document asks whether there is room on disk for it."""

CUTS = 2
"""Parts of one document that are cut at the same moment: all of a large document's at once would
stand in the sandbox's queue before every small document behind it."""

ASSEMBLED = "document.pdf"


@dataclass(frozen=True, slots=True)
class FetchedSource:
    path: Path
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Local:
    """What is known of the document while its file is here."""

    path: Path
    sources: tuple[FetchedSource, ...]
    """One per segment."""
    sha256: str
    bytes: int
    pages: int
    page_runs: tuple[PageRun, ...]
    parser: str
    as_it_came: Inspection
    """Of the document before a copy was made to be submitted for it."""


class _NoRoomToRebuild(Exception):
    pass


class LocalDocument:
    """Holds one place of the worker's local capacity while a file is here."""

    def __init__(
        self, services: Services, scope: Scope, policy: Policy, bundle_id: str, document: Document
    ) -> None:
        self._services = services
        self._scope = scope
        self._policy = policy
        self._bundle_id = bundle_id
        self._document = document
        self._making = Limiter(1)
        """The jobs of several shards share the copy: one of them makes it, the others wait."""
        self._users: Counter[Path] = Counter()
        self._parts: dict[Path, SubmittedDocument] = {}
        self._cutting: dict[Path, Limiter] = {}
        self._cuts = Limiter(CUTS)
        self._drop_when_unused = False
        self._permit: Permit | None = None
        self._files: DocumentFiles | None = None
        self._sources: tuple[FetchedSource, ...] | None = None
        self._local: Local | None = None
        self._expected_sha256: str | None = None
        self._rebuilt_bytes: int | None = None
        """The room to make for the document and for a copy, once it is known that it gets one."""

    def expect(self, sha256: str) -> None:
        """What the job record says was submitted: a later copy must be the same bytes."""
        self._expected_sha256 = sha256

    @property
    def here(self) -> bool:
        """`part` gives a file without taking another place of the worker's capacity."""
        return self._local is not None and not (self._files and self._files.closed)

    def sources(self) -> Task:
        """Task: the fetched sources (tuple[FetchedSource, ...]), one per segment."""
        making = yield Acquire(self._making, "copy")
        try:
            return (yield from self._sources_made())
        finally:
            making.release()
            self._rests()

    def ensure(self) -> Task:
        """Task: the inspected `Local`, made now if it is not here."""
        making = yield Acquire(self._making, "copy")
        try:
            return (yield from self._local_made())
        finally:
            making.release()
            self._rests()

    def part(self, first_page: int, last_page: int) -> Task:
        """Task: a `SubmittedDocument` of these pages. It stays until the caller gives it back with
        `discard`, whoever drops the copy meanwhile. A few ranges are cut at the same time."""
        making = yield Acquire(self._making, "copy")
        try:
            local: Local = yield from self._local_made()
            whole = (first_page, last_page) == (1, local.pages)
            files = self._files
            assert files is not None
            name = f"pages-{first_page}-{last_page}.pdf"
            path = local.path if whole else files.file(name)
            self._users[path] += 1  # from here on nobody takes the copy away
        finally:
            making.release()
        if whole:
            return SubmittedDocument(path, local.sha256, local.bytes, local.pages)
        try:
            cutting = yield Acquire(self._cutting.setdefault(path, Limiter(1)), "cut")
            try:
                if path not in self._parts:
                    part = AssemblyPart(local.path, first_page, last_page)
                    cut = yield Acquire(self._cuts, "cut")
                    try:
                        self._parts[path] = yield from self._cut(part, files, name)
                    finally:
                        cut.release()
                return self._parts[path]
            finally:
                cutting.release()
        except BaseException:
            self._unused(path)
            raise

    def discard(self, submitted: SubmittedDocument) -> None:
        self._unused(submitted.path)

    def _unused(self, path: Path) -> None:
        self._users[path] -= 1
        if self._users[path] <= 0:
            del self._users[path]
            self._parts.pop(path, None)
            self._cutting.pop(path, None)
            whole = self._local.path if self._local is not None else None
            if self._files is not None and path != whole:
                self._files.remove(self._files.name_of(path))
        if self._drop_when_unused and not self._users and not self._making.in_use:
            self.close()
        self._rests()

    def _rests(self) -> None:
        if self._files is not None and not self._users and not self._making.in_use:
            self._files.rests()

    def _wakes(self) -> None:
        """A copy that rested for too long may be gone: it is made again then."""
        if self._files is not None:
            self._files.wakes()
            if self._files.closed:
                self.close()

    def drop(self) -> None:
        """The files go as soon as nobody uses them; `ensure` can bring them back."""
        if self._users or self._making.in_use:  # whoever is making it will use it
            self._drop_when_unused = True
        else:
            self.close()

    def close(self) -> None:
        """The files go now. Safe to call twice."""
        self._local = self._sources = None
        self._users.clear()
        self._parts.clear()
        self._cutting.clear()
        self._drop_when_unused = False
        files, self._files = self._files, None
        permit, self._permit = self._permit, None
        try:
            if files is not None:
                files.close()
        finally:
            if permit is not None:
                permit.release()

    def _sources_made(self) -> Task:
        self._wakes()
        self._drop_when_unused = False
        if self._sources is None:
            if self._permit is None:
                self._permit = yield Acquire(self._services.documents, self._bundle_id)
            yield SafePoint()
            if self._files is None:
                self._files = self._services.workspace.document_files("document")
            try:
                yield from self._make_room(self._files)
                with self._scope.stage("fetch"):
                    self._sources = yield from self._fetch()
            except BaseException:
                self.close()  # another shard that tries must not meet half of it
                raise
        return self._sources

    def _local_made(self) -> Task:
        self._wakes()
        if self._local is None:
            try:
                self._local = yield from self._validated()
            except _NoRoomToRebuild:
                # The source was given back: documents that keep theirs would wait for each other.
                self._local = yield from self._validated()
            found = self._local.as_it_came
            self._scope.note(
                "validated",
                stage="validate",
                bytes=self._local.bytes,
                pages=self._local.pages,
                libmagic_type=found.libmagic_type or None,
                libmagic_version=found.libmagic_version,
                header_offset=found.header_offset,
            )
        return self._local

    def _validated(self) -> Task:
        sources: tuple[FetchedSource, ...] = yield from self._sources_made()
        yield SafePoint()
        try:
            with self._scope.stage("validate"):
                return (yield from self._inspect(sources))
        except BaseException:
            self.close()
            raise

    def _cut(self, part: AssemblyPart, files: DocumentFiles, name: str) -> Task:
        # Several are cut at the same time, beside jobs that run: the document's time is the jobs'.
        scope = self._scope.branch()
        with scope.stage("validate"):
            made: Assembled = yield from self._assemble(scope, [part], files, name)
        return SubmittedDocument(files.file(name), made.sha256, made.bytes, made.pages)

    # -- fetch -------------------------------------------------------------------------------

    def _distinct(self) -> dict[tuple[str, str], Segment]:
        """The sources by place; several segments may share one."""
        distinct: dict[tuple[str, str], Segment] = {}
        for segment in self._document.segments:
            distinct.setdefault(self._place(segment), segment)
        return distinct

    def _make_room(self, files: DocumentFiles) -> Task:
        """Waits until there is room for all that the event says will come, before any of it does:
        documents that each have a part of their files would wait for each other."""
        sizes = {
            _source_name(number): segment.source.bytes or 0
            for number, segment in enumerate(self._distinct().values())
        }
        if self._assembles:
            most = self._policy.limits.max_document_bytes
            sizes[ASSEMBLED] = min(sum(sizes.values()), most)
        elif self._rebuilt_bytes is not None:
            sizes = dict.fromkeys((_source_name(0), ASSEMBLED), self._rebuilt_bytes)
        if sum(sizes.values()) > self._services.workspace.quota_bytes:
            raise DocumentFailed(Reason.TOO_LARGE, "fetch", "temp_quota")
        if files.reserve(sizes):
            return
        self._scope.note("waits_for_room", stage="fetch")
        with self._scope.timeline.during("queue"):
            while not files.reserve(sizes):
                yield Sleep(ROOM_CHECK_S)

    def _fetch(self) -> Task:
        distinct = self._distinct()
        if len(distinct) == 1:
            (place, segment), *_ = distinct.items()
            fetched = {place: (yield from self._fetch_one(segment, 0))}
        else:
            tasks = [self._fetch_one(s, i) for i, s in enumerate(distinct.values())]
            outcomes = yield Together(tasks)
            for outcome in outcomes:
                if outcome.error is not None:
                    raise outcome.error
            fetched = {p: o.value for p, o in zip(distinct, outcomes, strict=True)}
        return tuple(fetched[self._place(segment)] for segment in self._document.segments)

    @property
    def _assembles(self) -> bool:
        """A document with a password is cut out of its encryption: the service has no password."""
        whole = self._document.is_whole
        return not whole or self._document.segments[0].password_secret is not None

    def _place(self, segment: Segment) -> tuple[str, str]:
        return (segment.source.bucket or self._services.input_bucket, segment.source.key)

    def _fetch_one(self, segment: Segment, number: int) -> Task:
        services, source = self._services, segment.source
        bucket, key = self._place(segment)
        if bucket not in services.readable_buckets:
            raise DocumentFailed(Reason.BUCKET_NOT_ALLOWED, "fetch")
        limits = self._policy.limits
        bound = limits.max_document_bytes if self._document.is_whole else limits.max_source_bytes
        if source.bytes is not None and source.bytes > bound:
            raise DocumentFailed(Reason.TOO_LARGE, "fetch")
        assert self._files is not None
        files, name = self._files, _source_name(number)

        def fetch() -> Download:
            with files.growing(name) as grow:
                downloaded = services.sources.download(
                    bucket,
                    key,
                    files.file(name),
                    max_bytes=bound,
                    expected_sha256=source.sha256,
                    before_write=grow,
                )
            files.account(name, downloaded.size)
            return downloaded

        download: Download = yield from call(
            services,
            self._scope,
            services.input,
            "download",
            fetch,
            retries=self._policy.retries,
        )
        if source.bytes is not None and source.bytes != download.size:
            raise DocumentFailed(Reason.SIZE_MISMATCH, "fetch")
        services.metrics.bytes.labels("fetched").inc(download.size)
        self._scope.note("fetched", stage="fetch", bytes=download.size)
        return FetchedSource(files.file(name), download.sha256, download.size)

    # -- assemble and validate ---------------------------------------------------------------

    def _inspect(self, sources: Sequence[FetchedSource]) -> Task:
        services, limits = self._services, self._policy.limits
        segments = self._document.segments
        inspection_limits = InspectionLimits(
            max_bytes=limits.max_document_bytes,
            max_pages=limits.max_pages,
            accept_header_offset=limits.accept_header_offset,
        )
        path, sha256, page_map = sources[0].path, sources[0].sha256, None
        if self._assembles:
            assert self._files is not None
            path = self._files.file(ASSEMBLED)
            parts = [
                AssemblyPart(
                    source.path,
                    segment.pages.first if segment.pages else None,
                    segment.pages.last if segment.pages else None,
                    self._password(segment),
                )
                for source, segment in zip(sources, segments, strict=True)
            ]
            assembled: Assembled = yield from self._assemble(
                self._scope, parts, self._files, ASSEMBLED
            )
            sha256, page_map = assembled.sha256, assembled.page_map
        inspection: Inspection = yield from self._sandboxed(
            self._scope,
            partial(services.sandbox.inspect, path, inspection_limits, sha256=sha256),
        )
        as_it_came = inspection
        if page_map is None and inspection.seen_differently:
            path, inspection = yield from self._rebuilt(path, inspection, inspection_limits)
        if self._expected_sha256 not in (None, inspection.sha256):
            # The source changed under its key, or another version cut it: not the same document.
            raise DocumentFailed(Reason.CHECKSUM_MISMATCH, "validate")
        return Local(
            path=path,
            sources=tuple(sources),
            sha256=inspection.sha256,
            bytes=inspection.bytes,
            pages=inspection.pages,
            page_runs=runs_of(page_map) if page_map else ((1, 1, inspection.pages),),
            parser=inspection.engine,
            as_it_came=as_it_came,
        )

    def _rebuilt(self, path: Path, inspection: Inspection, limits: InspectionLimits) -> Task:
        """Task: the path and the inspection of what is submitted of a document of which another
        engine sees less: a copy that has all its pages for every engine, or itself without one."""
        files, itself = self._files, (path, inspection)
        assert files is not None
        if self._expected_sha256 == inspection.sha256:
            return itself  # what was submitted before
        if 2 * inspection.bytes > self._services.workspace.quota_bytes:
            return itself
        if self._rebuilt_bytes is None:
            self._rebuilt_bytes = inspection.bytes
            if not files.reserve({ASSEMBLED: inspection.bytes}):
                raise _NoRoomToRebuild
        copy = files.file(ASSEMBLED)
        try:
            part = AssemblyPart(path, rebuild=True)
            made: Assembled = yield from self._assemble(self._scope, [part], files, ASSEMBLED)
            rebuilt: Inspection = yield from self._sandboxed(
                self._scope,
                partial(self._services.sandbox.inspect, copy, limits, sha256=made.sha256),
            )
        except DocumentFailed:
            rebuilt = inspection
        if rebuilt is inspection or rebuilt.pages != inspection.pages:
            files.remove(ASSEMBLED)
            self._rebuilt_bytes = None
            return itself
        files.remove(files.name_of(path))
        return copy, rebuilt

    def _assemble(
        self, scope: Scope, parts: Sequence[AssemblyPart], files: DocumentFiles, name: str
    ) -> Task:
        def assemble() -> Assembled:
            made = self._services.sandbox.assemble(parts, files.file(name), self._assembly_limits())
            files.account(name)
            return made

        return self._sandboxed(scope, assemble)

    def _assembly_limits(self) -> AssemblyLimits:
        limits = self._policy.limits
        return AssemblyLimits(max_bytes=limits.max_document_bytes, max_pages=limits.max_pages)

    def _password(self, segment: Segment) -> str | None:
        if segment.password_secret is None:
            return None
        try:
            return self._services.secrets[segment.password_secret]
        except KeyError:
            raise DocumentFailed(Reason.SECRET_UNKNOWN, "validate") from None

    def _sandboxed(self, scope: Scope, fn: Callable[[], object]) -> Task:
        services, retries = self._services, self._policy.retries
        return (yield from call(services, scope, services.parser, "parse", fn, retries=retries))


def _source_name(number: int) -> str:
    return f"source-{number}.pdf"
