"""The options a submit may carry, from form fields (text) or JSON members, made canonical."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from deploy.extractor.contract import ApiError, RequestError

# The engine's own names; not imported, so that the service never loads the native PDF libraries.
SoftMasks = Literal["composite", "separate", "ignore"]
_LAST_PAGE = 2**31 - 1


class SubmitOptions(BaseModel):
    """Pages are 1-based and inclusive. Unknown fields are ignored, as forms carry others too."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    soft_masks: SoftMasks = "composite"
    repeat_drawings: bool = False
    first_page: int | None = Field(None, ge=1)
    last_page: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _pages_in_order(self) -> SubmitOptions:
        if self.first_page and self.last_page and self.first_page > self.last_page:
            raise ValueError("first_page is after last_page")
        return self

    def for_engine(self) -> str:
        """The engine's options as canonical JSON: equal options give equal text."""
        page_range = None
        if self.first_page is not None or self.last_page is not None:
            page_range = [self.first_page or 1, self.last_page or _LAST_PAGE]
        return json.dumps(
            {
                "soft_masks": self.soft_masks,
                "repeat_drawings": self.repeat_drawings,
                "page_range": page_range,
            },
            sort_keys=True,
        )


def parse_options(fields: dict[str, Any]) -> SubmitOptions:
    """Raises ApiError 400 that names the field, never its value."""
    try:
        return SubmitOptions.model_validate(fields)
    except ValidationError as problem:
        first = problem.errors(include_input=False, include_url=False)[0]
        which = str(first["loc"][0]) if first["loc"] else "first_page"
        raise ApiError(
            400, RequestError.INVALID_REQUEST, f"{which}: {first['msg']}", which=which
        ) from None
