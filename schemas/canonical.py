"""One way to write JSON, so that equal values are equal bytes whoever writes them."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel


def canonical_json(value: BaseModel | dict[str, Any] | list[Any]) -> bytes:
    """UTF-8, keys sorted, no insignificant space, no null members of models, one final newline."""
    plain = (
        value.model_dump(mode="json", exclude_none=True) if isinstance(value, BaseModel) else value
    )
    text = json.dumps(
        plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode() + b"\n"
