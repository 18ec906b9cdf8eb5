"""A few hundred of what `python -m tests.corpus.pipeline` sends by the thousand."""

import random

import pytest

from tests.corpus.events import fuzzed
from tests.corpus.pipeline import (
    fuzzed_events,
    mutated_pdfs,
    seed_event,
    settings,
    through_parser,
    through_worker,
)
from tests.integration.conftest import MakePipeline, make_pipeline

__all__ = ["make_pipeline"]  # a fixture, found here by its name

NEVER = ("crashes", "internal_errors", "worker_deaths", "not_ended")
EVENT = {"bundle_id": "b", "documents": [{"document_id": "d", "segments": [{"source": {}}]}]}


def test_the_parser_rejects_fuzzed_events_and_never_fails() -> None:
    report = through_parser(fuzzed_events([EVENT], 3000, seed=2))
    assert report["crashes"] == 0, report
    assert len(report["verdicts"]) > 3, "the events are all alike"


def test_the_same_seed_makes_the_same_event() -> None:
    once, again, other = (fuzzed(EVENT, random.Random(seed)) for seed in (3, 3, 4))
    assert once == again != other


@pytest.mark.integration
def test_fuzzed_events_and_mutated_pdfs_end_as_results_or_dead_letters(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline(**settings())
    pipeline.start_fake_provider()
    seeds = [seed_event(pipeline, number) for number in range(2)]
    sent = [*fuzzed_events(seeds, 200, seed=2), *mutated_pdfs(pipeline, 100, seed=2)]
    random.Random(2).shuffle(sent)
    report = through_worker(pipeline, sent, timeout_s=240)
    found = {name: report[name] for name in NEVER}
    assert found == dict.fromkeys(NEVER, 0), report
