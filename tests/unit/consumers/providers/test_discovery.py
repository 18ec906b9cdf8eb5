from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from consumers.providers.protocol import Objection
from consumers.providers.regions import cuts_nothing
from consumers.providers.registry import build, problems_at_start
from consumers.providers.settings import (
    AwsSettings,
    GoogleSettings,
    InfraiSettings,
    Kind,
    ProviderSettings,
)
from tests.contract.fakes.infrai import FakeInfrai
from tests.contract.fakes.server import Reply, instead, json_reply


@pytest.fixture
def service() -> Iterator[FakeInfrai]:
    made = FakeInfrai()
    made.start()
    yield made
    made.stop()


def problems(service: FakeInfrai, document: Any, *forbidden: str) -> tuple[Objection, ...]:
    service.misbehave("discovery", instead(json_reply(document)))
    return asked(service, *forbidden)


def asked(
    service: FakeInfrai, *forbidden: str, own_rule: frozenset[str] = frozenset({"china"})
) -> tuple[Objection, ...]:
    settings = ProviderSettings(
        kind=Kind.INFRAI,
        base_url=service.base_url,
        token=SecretStr("fake-token"),
        infrai=InfraiSettings(forbidden_regions=own_rule),
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
    ("document", "forbidden", "words", "forbids"),
    [
        ({"capabilities": {}}, (), "does not list", True),
        (
            {"capabilities": {"pdf.extract_images": entry(available=False)}},
            (),
            "not available",
            False,
        ),
        (
            {"capabilities": {"pdf.extract_images": entry(available=None)}},
            (),
            "not available",
            False,
        ),
        (
            {"capabilities": {"pdf.extract_images": entry(regions=["western", "china"])}},
            (),
            "processed in china",
            True,
        ),
        (
            {"capabilities": {"pdf.extract_images": entry()}},
            ("western",),
            "processed in western",
            True,
        ),
        (
            {"capabilities": {"pdf.extract_images": entry(regions=None)}},
            (),
            "names no regions",
            True,
        ),
        (["nothing"], (), "cannot be read", True),
    ],
)
def test_what_speaks_against_the_service_is_said(
    service: FakeInfrai, document: Any, forbidden: tuple[str, ...], words: str, forbids: bool
) -> None:
    (problem,) = problems(service, document, *forbidden)
    assert words in problem.text
    assert problem.forbids is forbids


@pytest.mark.parametrize("forbidden", [(), ("china",)])
def test_a_document_that_cannot_be_had_is_a_problem_and_no_exception(
    service: FakeInfrai, forbidden: tuple[str, ...]
) -> None:
    service.misbehave("discovery", instead(Reply(500)))
    (problem,) = asked(service, *forbidden, own_rule=frozenset())
    assert "cannot be read" in problem.text
    assert problem.forbids is bool(forbidden)


KEY = SecretStr("a-token")
IN_EUROPE = [
    (
        ProviderSettings(
            kind=Kind.GOOGLE,
            token=KEY,
            google=GoogleSettings(project="p", processor="x", bucket="b", location="eu"),
        ),
        "eu",
    ),
    *(
        (
            ProviderSettings(kind=kind, aws=AwsSettings(bucket="b", region="eu-central-1")),
            "eu-central-1",
        )
        for kind in (Kind.AWS_LAMBDA, Kind.TEXTRACT)
    ),
]


@pytest.mark.parametrize(("settings", "region"), IN_EUROPE, ids=lambda given: str(given)[:25])
def test_a_service_that_is_in_one_region_is_forbidden_by_its_name(
    settings: ProviderSettings, region: str
) -> None:
    provider = build(settings, cut_regions=cuts_nothing, environment={})
    (objection,) = problems_at_start(provider, forbidden_regions=(region,))
    assert objection.forbids
    assert problems_at_start(provider, forbidden_regions=("elsewhere",)) == ()
    provider.close()


def test_a_service_that_does_not_tell_its_region_is_forbidden_by_any_rule() -> None:
    base_url = "https://name.cognitiveservices.azure.com"
    settings = ProviderSettings(kind=Kind.AZURE, base_url=base_url, token=KEY)
    provider = build(settings, cut_regions=cuts_nothing, environment={})
    assert problems_at_start(provider) == ()
    (objection,) = problems_at_start(provider, forbidden_regions=("anywhere",))
    assert objection.forbids
    provider.close()
