"""What the demo counts is not always zero: one thing planted, one counted."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.demo.count import Count

DONE, DEAD = ("bundle", "done"), ("bundle", "dead")


def clean() -> Count:
    found = Count(events=2, documents={DONE, DEAD})
    found.manifests[DONE].append("bundle/done/1/manifest.json")
    found.resulted.add(DONE)
    found.results["result-1"].add("hash")
    found.dead_lettered[DEAD].add("encrypted")
    found.submits["extraction-1"], found.jobs["extraction-1"] = 3, 3
    return found


def _lost(found: Count) -> None:
    found.documents.add(("bundle", "nobody knows"))


def _lost_manifest(found: Count) -> None:
    found.manifests.clear()


def _lost_result(found: Count) -> None:
    found.resulted.clear()


def _second_manifest(found: Count) -> None:
    found.manifests[DONE].append("bundle/done/2/manifest.json")


def _differing_result(found: Count) -> None:
    found.results["result-1"].add("another hash")


def _second_submit(found: Count) -> None:
    found.submits["extraction-1"] += 1


def _extra_job(found: Count) -> None:
    found.extra_jobs = 1


def test_nothing_is_counted_where_all_is_well() -> None:
    assert clean().clean
    assert clean().line() == (
        "demo: events=2 documents=2 manifests=1 results=1 dead_letters=1 "
        "lost=0 duplicated=0 resubmitted=0"
    )


@pytest.mark.parametrize(
    ("plant", "counted"),
    [
        (_lost, "lost=1 duplicated=0 resubmitted=0"),
        (_lost_manifest, "lost=1 duplicated=0 resubmitted=0"),
        (_lost_result, "lost=1 duplicated=0 resubmitted=0"),
        (_second_manifest, "lost=0 duplicated=1 resubmitted=0"),
        (_differing_result, "lost=0 duplicated=1 resubmitted=0"),
        (_second_submit, "lost=0 duplicated=0 resubmitted=1"),
        (_extra_job, "lost=0 duplicated=0 resubmitted=1"),
    ],
)
def test_what_is_planted_is_counted_and_not_clean(
    plant: Callable[[Count], None], counted: str
) -> None:
    found = clean()
    plant(found)
    assert found.line().endswith(counted)
    assert not found.clean


def test_ci_holds_the_last_line_to_its_shape_and_to_zeros() -> None:
    ci = (Path(__file__).parents[4] / ".ci" / "run").read_text()
    (pattern,) = re.findall(r'grep -Eqx "(demo: [^"]+)"', ci)
    pattern = pattern.replace("\\\n", "")
    assert re.fullmatch(pattern, clean().line())
    for plant in (_lost, _second_manifest, _extra_job):
        found = clean()
        plant(found)
        assert not re.fullmatch(pattern, found.line())
