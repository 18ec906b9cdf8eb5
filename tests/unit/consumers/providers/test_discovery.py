from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from consumers.providers.regions import cuts_nothing
from consumers.providers.registry import build, problems_at_start
from consumers.providers.settings import InfraiSettings, Kind, ProviderSettings
from tests.contract.fakes.infrai import FakeInfrai
from tests.contract.fakes.server import Reply, instead, json_reply


@pytest.fixture
def service() -> Iterator[FakeInfrai]:
    made = FakeInfrai()
    made.start()
    yield made
    made.stop()


def problems(service: FakeInfrai, document: Any, *forbidden: str) -> tuple[str, ...]:
    service.misbehave("discovery", instead(json_reply(document)))
    return asked(service, *forbidden)


def asked(service: FakeInfrai, *forbidden: str) -> tuple[str, ...]:
    settings = ProviderSettings(
        kind=Kind.INFRAI,
        base_url=service.base_url,
        token=SecretStr("fake-token"),
        infrai=InfraiSettings(forbidden_regions=frozenset({"china"})),
    )
    provider = build(settings, cut_regions=cuts_nothing, environment={})
    found = problems_at_start(provider, forbidden_regions=forbidden)
    provider.close()
    return found


def entry(**changes: Any) -> dict[str, Any]:
    return {"available": True, "regions": ["western"]} | changes


@pytest.mark.parametrize(
    "document",
    [
        {"capabilities": {"pdf.extract_images": entry()}},
        {"capabilities": [{"name": "pdf/extract_images"} | entry()]},
        {"pdf_extract_images": entry()},
        {"ok": True, "data": {"capabilities": {"pdf.extract-images": entry()}}, "error": None},
    ],
)
def test_an_available_capability_in_allowed_regions_is_no_problem(
    service: FakeInfrai, document: Any
) -> None:
    assert problems(service, document) == ()


@pytest.mark.parametrize(
    ("document", "forbidden", "words"),
    [
        ({"capabilities": {}}, (), "does not list"),
        ({"capabilities": {"pdf.extract_images": entry(available=False)}}, (), "not available"),
        ({"capabilities": {"pdf.extract_images": entry(available=None)}}, (), "not available"),
        (
            {"capabilities": {"pdf.extract_images": entry(regions=["western", "china"])}},
            (),
            "processed in china",
        ),
        (
            {"capabilities": {"pdf.extract_images": entry()}},
            ("western",),
            "processed in western",
        ),
        ({"capabilities": {"pdf.extract_images": entry(regions=None)}}, (), "names no regions"),
        (["nothing"], (), "cannot be read"),
    ],
)
def test_what_speaks_against_the_service_is_said(
    service: FakeInfrai, document: Any, forbidden: tuple[str, ...], words: str
) -> None:
    (problem,) = problems(service, document, *forbidden)
    assert words in problem


def test_a_document_that_cannot_be_had_is_a_problem_and_no_exception(service: FakeInfrai) -> None:
    service.misbehave("discovery", instead(Reply(500)))
    (problem,) = asked(service)
    assert "cannot be read" in problem
