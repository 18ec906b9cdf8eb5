"""What an extraction service could not give of a document, by place. The codes are the contract.

A service's own word may be anything, so one that is not here is `unrecognised` to everybody after
the adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from pydantic import Field

from schemas.base import Contract

MAX_PROBLEMS = 100
"""Listed of one document; how many more there were stands in a last entry, `more`."""


class ProblemCode(StrEnum):
    BAD_DIMENSIONS = "bad_dimensions"
    """An image without a usable width and height."""
    TOO_MANY_PIXELS = "too_many_pixels"
    """An image beyond the service's own bound."""
    UNDECODABLE = "undecodable"
    """An image that no decoder of the service can read."""
    OUT_OF_MEMORY = "out_of_memory"
    """An image that needs more memory than the service gives it."""
    UNREADABLE_CONTENT = "unreadable_content"
    """A page whose content cannot be read: what it draws from there on is not known."""
    FIGURE_WITHOUT_ID = "figure_without_id"
    """A figure that was found and cannot be asked for."""
    PICTURE_WITHOUT_IMAGE = "picture_without_image"
    """A picture that was found and came without its image."""
    UNRECOGNISED = "unrecognised"
    """The service says so in words of its own."""
    MORE = "more"
    """As many more as ``count`` says, which are not listed."""


class Problem(Contract):
    """An image or a page that a service could not give, of a job that succeeded."""

    code: ProblemCode
    page: int | None = Field(None, ge=1)
    """Page of the document (1-based), where the service tells it."""
    index: int | None = Field(None, ge=0)
    """The service's own number of the image on that page."""
    count: int | None = Field(None, ge=1)
    """Of ``more`` only: how many it stands for."""


def number_of(problems: Sequence[Problem]) -> int:
    """How many there are, those included that are not listed."""
    return sum(problem.count or 1 for problem in problems)
