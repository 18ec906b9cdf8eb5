"""A pipeline of its own for each test (or module) that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.pipeline import Pipeline
from tests.servers import S3, Kafka


class MakePipeline(Protocol):
    """A started `Pipeline` on the run's servers; keywords are its fields."""

    def __call__(self, **fields: Any) -> Pipeline: ...


@pytest.fixture
def make_pipeline(kafka: Kafka, s3: S3, tmp_path: Path) -> Iterator[MakePipeline]:
    with ExitStack() as stack:
        made = 0

        def make(**fields: Any) -> Pipeline:
            nonlocal made
            made += 1
            folder = tmp_path / f"pipeline-{made}"
            folder.mkdir()
            return stack.enter_context(
                Pipeline(
                    bootstrap=kafka.bootstrap,
                    s3_endpoint=s3.endpoint,
                    s3_access_key=s3.access_key,
                    s3_secret_key=s3.secret_key,
                    folder=folder,
                    **fields,
                )
            )

        yield make
