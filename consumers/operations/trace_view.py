"""A trace for people: lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from consumers.extraction.timestamps import parse_rfc3339
from consumers.milestones import Part
from consumers.operations.ledger import Line
from consumers.operations.trace import Trace
from consumers.operations.trace_lines import LedgerOnly, Run, SentDeadLetter, dead_letters, runs
from consumers.operations.trace_report import KNOWN_ELSEWHERE, NOT_ATTEMPTS, jobs_of
from schemas.job_record import JobRecord
from schemas.manifest import Manifest
from schemas.problems import Problem, number_of

BAR = 44
HISTORY = 60
PROBLEMS = 10
_IN_OTHER_COLUMNS = frozenset({"at", "stage", "event", "causes", "worker", "job_key"})


def show(trace: Trace, console: Console) -> None:
    _show(_facts(trace), trace.lines or [], trace.incomplete, console)


def show_ledger_only(found: LedgerOnly, console: Console) -> None:
    """A document that has neither a job record nor a manifest."""
    _show(_ledger_facts(found), found.lines, found.incomplete, console)


def _show(
    facts: Iterable[tuple[str, str]],
    lines: Sequence[Line],
    incomplete: str | None,
    console: Console,
) -> None:
    for name, text in (*facts, *_letter_facts(dead_letters(lines))):
        # Never folded or cut: a checksum or a key is there to be copied.
        console.print(Text.assemble((f"{name:<11} ", "bold"), text), soft_wrap=True)
    if lines:
        console.print()
        console.print(_history(lines))
    for run in runs(lines):
        if run.spans:
            console.print()
            console.print(_timeline(run))
    if incomplete:
        console.print()
        console.print(f"note: {incomplete}", style="yellow", markup=False)


def _ledger_facts(found: LedgerOnly) -> Iterator[tuple[str, str]]:
    yield "bundle", found.bundle_id or "(not known)"
    yield "document", f"{found.document_id or '(the whole event)'}: {found.state}"
    if found.extraction_id:
        yield "extraction", found.extraction_id
    for run in runs(found.lines):
        yield "event", run.place
    yield "job", "neither a job record nor a manifest stands: this is from the ledger alone"


def _letter_facts(letters: Iterable[SentDeadLetter]) -> Iterator[tuple[str, str]]:
    for letter in letters:
        yield "dead letter", f"{letter.reason} in {letter.stage}, {letter.at}, of {letter.place}"
        yield "", f"bundles replay --id {letter.identifier}"


def _facts(trace: Trace) -> Iterator[tuple[str, str]]:
    about = trace.about
    if (image := trace.image) is not None:
        where = f"page {image.page}, which is page {image.source_page} of source {image.segment}"
        yield "image", f"{image.name}: {where}"
        kind = f"{image.media_type}, a mask" if image.is_mask else image.media_type
        yield "", f"{kind}, {image.width} x {image.height}, {image.bytes:,} bytes"
        yield "", f"sha256 {image.sha256}"
        yield "", image.key
    parent = f" (from {about.parent_bundle_id})" if about.parent_bundle_id else ""
    yield "bundle", f"{about.bundle_id}{parent}, {about.operation.value}"
    yield "document", f"{about.document_id}: {trace.state}"
    for number, segment in enumerate(about.segments, start=1):
        pages = f", pages {segment.first_page}-{segment.last_page}" if segment.first_page else ""
        yield f"source {number}", f"s3://{segment.bucket}/{segment.key}{pages}"
        yield "", f"sha256 {segment.sha256}, {segment.bytes:,} bytes"
    submitted = f"{about.submitted_bytes:,} bytes, {about.pages} page(s)"
    yield "submitted", f"{submitted}, sha256 {about.submitted_sha256}"
    yield "extraction", f"{trace.extraction_id}, policy {about.policy_version}"
    yield from _job_facts(about, trace)
    if trace.manifest is not None:
        named = trace.manifest.images
        total = sum(i.bytes for i in named)
        yield "manifest", f"{trace.manifest_key}"
        yield "", f"sha256 {trace.manifest_sha256}, {trace.manifest_bytes or 0:,} bytes"
        yield (
            "",
            (f"{len(named)} image(s), {total:,} bytes; extracted {trace.manifest.extracted_at}"),
        )
        if problems := trace.manifest.problems:
            said = ", ".join(_said(problem) for problem in problems[:PROBLEMS])
            more = number_of(problems[PROBLEMS:])
            cut = f" and {more} more: --json has what the manifest lists" if more else ""
            yield "not given", f"{number_of(problems)} by the service: {said}{cut}"


def _said(problem: Problem) -> str:
    """A code and its place, or how many are not listed."""
    places = (("page", problem.page), ("image", problem.index), ("count", problem.count))
    return " ".join(
        [problem.code.value, *(f"{name} {at}" for name, at in places if at is not None)]
    )


def _job_facts(about: Manifest | JobRecord, trace: Trace) -> Iterator[tuple[str, str]]:
    for job in jobs_of(trace):
        ended = f", {job['failure']}" if job.get("failure") else ""
        accepted = job.get("accepted_at") or "never"
        phase = f", {job['phase']}{ended}" if job.get("phase") else ""
        yield (
            "job",
            f"{job.get('job_id') or '(no id yet)'} at {about.provider}: pages "
            f"{job['first_page']}-{job['last_page']}, accepted {accepted}, "
            f"{job['submits']} submit(s){phase}",
        )
    if trace.record is not None and trace.record.replays:
        yield "replays", str(trace.record.replays)


def _history(lines: Sequence[Line]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for _ in range(4):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    first = parse_rfc3339(str(lines[0].get("at"))) or 0.0
    for line in lines[:HISTORY]:
        at = parse_rfc3339(str(line.get("at"))) or first
        details = {
            k: v
            for k, v in line.items()
            if k not in NOT_ATTEMPTS | KNOWN_ELSEWHERE | _IN_OTHER_COLUMNS
        }
        said = " ".join(f"{name}={value}" for name, value in details.items())
        table.add_row(
            str(line.get("at"))[11:23],
            f"+{at - first:.3f}",
            str(line.get("stage")),
            Text(str(line.get("event")), style="bold"),
            Text(said, style="dim"),
        )
    if len(lines) > HISTORY:
        table.add_row(f"... {len(lines) - HISTORY} more: --json has them all")
    return table


def _timeline(run: Run) -> RenderableType:
    """Each part as a bar where it lies in the whole; then what the document's time went to."""
    start, end = run.spans[0].start, run.spans[-1].end
    whole = max(end - start, 1e-9)
    table = Table.grid(padding=(0, 2))
    table.add_row(Text(f"{run.place}: {run.outcome or 'not ended'}", style="bold"))
    bars = Table.grid(padding=(0, 2))
    for span in run.spans:
        left = round(BAR * (span.start - start) / whole)
        width = round(BAR * (span.end - start) / whole) - left
        bar = " " * left + ("━" * width or "│")
        bars.add_row(span.name, Text(bar[:BAR].ljust(BAR), style="cyan"), f"{_s(span)} s")
    table.add_row(bars)
    if run.causes:
        shares = sorted(run.causes.items(), key=lambda item: -item[1])
        said = ", ".join(f"{cause} {seconds:.3f}" for cause, seconds in shares if seconds >= 5e-4)
        table.add_row(Text(f"seconds by cause, together {run.seconds or 0:.3f}: {said}"))
    return table


def _s(span: Part) -> str:
    return f"{span.end - span.start:.3f}".rjust(9)


def overview(traces: Iterable[Trace], ledger_only: Iterable[LedgerOnly]) -> RenderableType:
    """One line per document of a bundle."""
    table = Table.grid(padding=(0, 2))
    for trace in traces:
        images = f"{len(trace.manifest.images)} image(s)" if trace.manifest else ""
        table.add_row(
            trace.about.document_id,
            trace.state,
            images,
            f"{trace.about.pages} page(s)",
            trace.extraction_id,
        )
    for found in ledger_only:
        table.add_row(found.document_id or "", found.state, "", "", found.extraction_id or "")
    return table
