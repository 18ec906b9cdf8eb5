"""How a large document is cut into jobs: pure."""

from __future__ import annotations

import math

from consumers.providers.protocol import Abilities
from schemas.policy import Sharding


def plan_shards(
    pages: int, size_bytes: int, sharding: Sharding, abilities: Abilities
) -> tuple[tuple[int, int], ...]:
    """Page ranges (1-based, inclusive) of even size, as few as the policy and the service allow.

    A bound on bytes is turned into one on pages by the document's average page; a single page that
    is larger still becomes one job, and it is for the service to refuse it.
    """
    bounds = [b for b in (sharding.max_pages_per_job, abilities.max_pages_per_job) if b]
    byte_bounds = [b for b in (sharding.max_bytes_per_job, abilities.max_bytes_per_job) if b]
    for bound in byte_bounds:
        if size_bytes > bound:
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
