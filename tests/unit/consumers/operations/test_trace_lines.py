"""What is made of a document's ledger lines."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from consumers.operations.trace_lines import LedgerOnly, by_extraction, dead_letters, runs
from consumers.operations.trace_report import as_dict, ledger_only_as_dict
from consumers.operations.trace_view import overview, show, show_ledger_only
from schemas.identity import dead_letter_id
from schemas.problems import Problem
from tests.unit.consumers.operations.stored import ADocument, Stored


def line(event: str, *, offset: int = 7, second: int = 0, **fields: Any) -> dict[str, Any]:
    known = {"bundle_id": "bundle", "document_id": "document", "stage": "fetch"} | fields
    place = {"topic": "events", "partition": 3, "offset": offset}
    at = f"2026-01-31T12:00:{second:02d}.000Z"
    return {k: v for k, v in ({"at": at, "event": event} | place | known).items() if v is not None}


REFUSED = [
    line("fetched"),
    line("attempt_failed", second=1, code="http_500", attempt=1),
    line("dead_lettered", second=2, stage="validate", code="not_a_pdf"),
    line("ended", second=3, code="dead_lettered", seconds=4.0, causes={"fetch": 4.0}),
]


def test_a_dead_letters_id_is_told_without_reading_its_topic() -> None:
    (letter,) = dead_letters(REFUSED)
    assert letter.identifier == dead_letter_id("events", 3, 7, "document", "not_a_pdf")
    assert (letter.reason, letter.stage, letter.place) == ("not_a_pdf", "validate", "events/3@7")


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        (REFUSED, "not_a_pdf"),
        (REFUSED[:2], "running"),
        ([*REFUSED, line("accepted", offset=8), line("held_back", offset=8)], "not_a_pdf"),
    ],
)
def test_its_state_is_the_reason_of_its_last_dead_letter(
    lines: list[dict[str, Any]], state: str
) -> None:
    assert LedgerOnly(lines).state == state


def test_lines_from_before_an_extraction_had_its_id_go_to_it_and_to_no_other() -> None:
    first = [line("fetched"), line("accepted", extraction_id="one")]
    again = [line("fetched", offset=8), line("accepted", offset=8, extraction_id="two")]
    never = [line("fetched", offset=9, document_id="other")]
    whole = [line("bundle_result_published", offset=9, document_id=None)]

    assert by_extraction([*first, *again, *never, *whole]) == [
        ("one", first),
        ("two", again),
        (None, never),
    ]


def test_an_event_without_documents_is_told_as_a_whole() -> None:
    rejected = [line("rejected", document_id=None, code="policy_unknown")]
    assert by_extraction(rejected) == [(None, rejected)]
    assert LedgerOnly(rejected).document_id is None


def test_machines_get_the_same_keys_as_for_a_document_with_a_record() -> None:
    from consumers.operations.trace import Trace
    from schemas.job_record import JobRecord

    stored = Stored()
    body = stored.store.get(stored.bucket, ADocument(stored).write_record(), max_bytes=2**20).body
    with_record = Trace("id", JobRecord.model_validate_json(body), None, None)

    assert ledger_only_as_dict(LedgerOnly(REFUSED)).keys() == as_dict(with_record).keys()


@pytest.mark.parametrize("missing", [0, 1, 12])
def test_what_the_service_could_not_give_is_told(missing: int) -> None:
    from consumers.operations.trace import Trace
    from schemas.manifest import Manifest

    stored = Stored()
    problems = [Problem(code="undecodable", page=page, index=2) for page in range(1, missing + 1)]
    key = ADocument(stored, problems=tuple(problems)).write_manifest()
    body = stored.store.get(stored.bucket, key, max_bytes=2**20).body
    found = Trace("id", None, Manifest.model_validate_json(body), key, lines=[])
    shown = io.StringIO()

    show(found, Console(file=shown, width=120, color_system=None))

    told = as_dict(found)["manifest"]["problems"]
    assert told == [p.model_dump(mode="json", exclude_none=True) for p in problems]
    assert ("not given" in shown.getvalue()) == bool(missing)
    if missing:
        assert f"{missing} by the service: undecodable page 1 image 2" in shown.getvalue()
    assert ("and 2 more" in shown.getvalue()) == (missing == 12)


def test_people_get_event_reason_dead_letter_and_a_bar_for_each_part() -> None:
    shown = io.StringIO()
    lines = [line("accepted", wait_s=2.0), *REFUSED[1:]]

    show_ledger_only(LedgerOnly(lines), Console(file=shown, width=120, color_system=None))

    text = shown.getvalue()
    for said in (
        *("document: not_a_pdf", "events/3@7", "not_a_pdf in validate", "from the ledger alone"),
        f"bundles replay --id {dead_letters(lines)[0].identifier}",
        "code=http_500 attempt=1",
    ):
        assert said in text
    parts = [part.name for part in runs(lines)[0].spans]
    assert parts == ["queue", "end"]
    bars = [row for row in text.splitlines() if row.split(" ")[0] in parts]
    assert len(bars) == len(parts)
    assert all("━" in bar for bar in bars)


def test_many_are_one_line_each() -> None:
    shown = io.StringIO()
    found = [LedgerOnly([line("fetched", document_id=f"document-{n}")]) for n in range(3)]

    Console(file=shown, width=120).print(overview([], found))

    assert [row.split() for row in shown.getvalue().splitlines()] == [
        [f"document-{n}", "running"] for n in range(3)
    ]
