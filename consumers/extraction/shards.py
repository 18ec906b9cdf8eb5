"""How a large document is cut into jobs: pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from consumers.providers.protocol import Abilities
from schemas.policy import Sharding

Ranges = tuple[tuple[int, int], ...]
"""First and last pages, 1-based and inclusive, in order."""


def max_bytes(sharding: Sharding, abilities: Abilities) -> int | None:
    """Of one job, by the policy and by the service."""
    bounds = (sharding.max_bytes_per_job, abilities.max_bytes_per_job)
    return min((bound for bound in bounds if bound), default=None)


def plan_shards(pages: int, size_bytes: int, sharding: Sharding, abilities: Abilities) -> Ranges:
    """Page ranges (1-based, inclusive) of even size, as few as the policy and the service allow.

    A bound on bytes is turned into one on pages by the document's average page, which is only where
    to begin: `to_measure` and `halved` make it hold.
    """
    bounds = [b for b in (sharding.max_pages_per_job, abilities.max_pages_per_job) if b]
    bound = max_bytes(sharding, abilities)
    if bound is not None and size_bytes > bound:
        bounds.append(max(1, math.floor(bound / (size_bytes / pages))))
    per_job = min([*bounds, pages])
    count = math.ceil(pages / per_job)
    smaller, larger = divmod(pages, count)
    ranges, first = [], 1
    for index in range(count):
        size = smaller + (1 if index < larger else 0)
        ranges.append((first, first + size - 1))
        first += size
    return tuple(ranges)


def to_measure(ranges: Ranges, sizes: Mapping[tuple[int, int], int]) -> Ranges:
    """The ranges whose size decides whether they are cut finer: a single page cannot be, so one
    that is too large becomes a job, and it is for the service to refuse it."""
    return tuple(r for r in ranges if r[0] < r[1] and r not in sizes)


def halved(ranges: Ranges, sizes: Mapping[tuple[int, int], int], bound: int) -> Ranges:
    """The ranges, and the two halves of each that was measured to be larger than the bound."""
    finer: list[tuple[int, int]] = []
    for first, last in ranges:
        if first < last and sizes[first, last] > bound:
            middle = (first + last) // 2
            finer += [(first, middle), (middle + 1, last)]
        else:
            finer.append((first, last))
    return tuple(finer)
