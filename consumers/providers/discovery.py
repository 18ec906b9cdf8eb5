"""The public discovery document: is the capability available, and where is it processed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from consumers.providers import answers
from consumers.providers.errors import CallFailed, ProviderError
from consumers.providers.http import ApiClient
from consumers.providers.protocol import Objection

DOCUMENT_PATH = "discovery"


@dataclass(frozen=True, slots=True)
class Capability:
    """What the document says of one capability."""

    available: bool
    regions: frozenset[str]


def objections(
    api: ApiClient, capability_name: str, *, provider: str, forbidden_regions: Iterable[str]
) -> tuple[Objection, ...]:
    """What speaks against using the capability; empty when nothing does.

    While some regions are forbidden, not to know where documents go is as bad as to know that they
    go there.
    """
    forbidden = frozenset(forbidden_regions)
    try:
        capability = discover(api, capability_name)
    except ProviderError as error:
        text = f"{provider}: the discovery document cannot be read ({error.code})"
        return (Objection(text, forbids=bool(forbidden)),)
    if capability is None:
        text = f"{provider}: the discovery document does not list {capability_name}"
        return (Objection(text, forbids=bool(forbidden)),)
    found = []
    if not capability.available:
        found.append(Objection(f"{provider}: {capability_name} is not available at the moment"))
    return (*found, *by_region(capability.regions, forbidden, provider=provider))


def by_region(
    regions: frozenset[str], forbidden_regions: Iterable[str], *, provider: str
) -> tuple[Objection, ...]:
    """What speaks against a provider that processes in ``regions`` (empty: it does not tell)."""
    forbidden = frozenset(forbidden_regions)
    hit = sorted(regions & forbidden)
    if hit:
        text = (
            f"{provider}: documents may be processed in {', '.join(hit)}, which is in "
            "forbidden_regions; use another provider for these documents"
        )
    elif forbidden and not regions:
        text = (
            f"{provider}: it names no regions in which it processes, so forbidden_regions cannot "
            "be guaranteed"
        )
    else:
        return ()
    return (Objection(text, forbids=True),)


def discover(api: ApiClient, capability_name: str) -> Capability | None:
    """The capability's entry, or None where it has none.

    Raises:
        ProviderError: the document cannot be read.
    """
    answer = api.call("GET", DOCUMENT_PATH, operation="discovery")
    payload, failed = answers.unwrap(answer.json())
    if payload is None or failed:
        raise CallFailed("answer_not_json", status=answer.status, operation="discovery")
    entry = _entry(payload.get("capabilities", payload), capability_name)
    if entry is None:
        return None
    regions = entry.get("regions")
    words = regions if isinstance(regions, list) else []
    return Capability(
        entry.get("available") is True,
        frozenset(word for word in words if isinstance(word, str) and _REGION.fullmatch(word)),
    )


_REGION = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def _entry(capabilities: Any, name: str) -> dict[str, Any] | None:
    wanted = _plain(name)
    if isinstance(capabilities, dict):
        entries = [(key, value) for key, value in capabilities.items() if isinstance(value, dict)]
    elif isinstance(capabilities, list):
        entries = [
            (answers.first(value, "name", "id", "capability"), value)
            for value in capabilities
            if isinstance(value, dict)
        ]
    else:
        entries = []
    return next((value for key, value in entries if _plain(key) == wanted), None)


def _plain(name: Any) -> str:
    """The name without its punctuation: `pdf.extract_images` and `pdf/extract-images` are one."""
    return re.sub(r"[^a-z0-9]+", ".", name.lower()) if isinstance(name, str) else ""
