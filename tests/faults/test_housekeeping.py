"""That the fault suite's judge would see it if a sweep took too much, or too little."""

from __future__ import annotations

import pytest

from tests.faults.__main__ import ALWAYS_ZERO, problems
from tests.faults.housekeeping import plant_orphans, sweep, verify_faults
from tests.faults.stage import Servers, stage_on
from tests.unit.consumers.operations.stored import ADocument, Stored


@pytest.mark.integration
def test_planted_orphans_are_swept_and_a_lost_image_is_a_fault(servers: Servers) -> None:
    with stage_on(servers) as stage:
        into = Stored(bucket=stage.output_bucket)
        into.store = stage.store  # type: ignore[assignment]
        document = ADocument(into)
        document.write_all()
        plant_orphans(stage)

        assert verify_faults(stage) == 1  # the orphan beside the manifest
        assert sweep(stage) == 2
        assert verify_faults(stage) == 0
        stage.store.delete(stage.output_bucket, document.image(1).key)
        assert verify_faults(stage) == 1


@pytest.mark.parametrize("number", ALWAYS_ZERO)
def test_a_run_with_any_of_the_forbidden_numbers_fails(number: str) -> None:
    assert problems({number: 0}) == []
    assert problems({number: 1}) == [number]
