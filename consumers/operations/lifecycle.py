"""Bucket life-cycle rules from the policies, for what a store may expire by itself.

S3 rules know prefixes and ages only. So there is none for manifests and images: their keys begin
with the bundle's id, a rule would expire images before the manifest that names them, and it cannot
honour one policy's hold. Those are `bundles sweep`'s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from consumers.operations.layout import DEAD_LETTERS, REPLAYS
from consumers.operations.retention import DAY_S
from schemas.policy import Policy
from sinks.objectstore.probe import PROBE_PREFIX


def lifecycle(policies: Mapping[str, Policy], *, claim_check_s: float) -> dict[str, Any]:
    """The rules as S3's PutBucketLifecycleConfiguration takes them."""
    rules = [
        {
            "ID": "bundles-abort-uploads",
            "Status": "Enabled",
            "Filter": {"Prefix": ""},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
        },
        _expire("bundles-probe", PROBE_PREFIX, 1),
    ]
    if not any(policy.retention.legal_hold for policy in policies.values()):
        days = math.ceil(claim_check_s / DAY_S)
        rules += [
            _expire("bundles-dead-letters", DEAD_LETTERS, days),
            _expire("bundles-replays", REPLAYS, days),
        ]
    return {"Rules": rules}


def notes(policies: Mapping[str, Policy]) -> list[str]:
    """What the rules leave to `bundles sweep`, as sentences."""
    said = [
        "job records, manifests and images have no rule: a record must outlive its manifest and a "
        "manifest must go before its images, which only `bundles sweep` keeps"
    ]
    held = sorted(name for name, policy in policies.items() if policy.retention.legal_hold)
    if held:
        said.append(f"nothing expires by rule while there is a legal hold ({', '.join(held)})")
    return said


def _expire(name: str, prefix: str, days: int) -> dict[str, Any]:
    return {
        "ID": name,
        "Status": "Enabled",
        "Filter": {"Prefix": prefix},
        "Expiration": {"Days": days},
    }
