"""One way to write JSON, so that equal values are equal bytes whoever writes them."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical_json(value: BaseModel | dict[str, Any] | list[Any]) -> bytes:
    """UTF-8, keys sorted, no insignificant space, no null members of models, one final newline.

    A model must have no fractions. They are all on which the two libraries differ, in that of
    1e-07 for example; the models that are written this way have none (a test sees to it).
    """
    if isinstance(value, BaseModel):
        import orjson  # late: a command that only reads is to start quickly

        plain = value.model_dump(mode="json", exclude_none=True)
        return orjson.dumps(plain, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    return _ENCODER.encode(value).encode() + b"\n"
