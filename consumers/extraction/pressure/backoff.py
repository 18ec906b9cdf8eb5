"""Exponential back-off with full jitter."""

from __future__ import annotations

import random


def backoff_s(attempt: int, *, first_s: float, ceiling_s: float, rng: random.Random) -> float:
    """Seconds before attempt ``attempt + 1`` (``attempt`` >= 1): uniform in [half, whole] of
    ``first_s * 2**(attempt - 1)``, never above ``ceiling_s``."""
    whole = min(ceiling_s, first_s * 2.0 ** min(attempt - 1, 30))
    return rng.uniform(whole / 2, whole)
