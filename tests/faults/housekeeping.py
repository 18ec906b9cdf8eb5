"""`bundles sweep` and `bundles verify` as an operator runs them when a run has ended."""

from __future__ import annotations

import hashlib
from itertools import islice

from schemas.identity import image_key, image_name, manifest_prefix
from tests.faults.stage import Stage
from tests.integration.operations.commands import bundles

MANIFEST = "/manifest.json"
PLANTED = b"an image that no manifest names"


def plant_orphans(stage: Stage) -> None:
    """What a worker leaves that died between its images and its manifest, its record long gone:
    one image where nothing else stands, and one beside a manifest."""
    checksum = hashlib.sha256(PLANTED).hexdigest()
    prefixes = [manifest_prefix("planted", "document-001", checksum, f"default-{'0' * 12}")]
    stored = (item.key for item in stage.store.list(stage.output_bucket, ""))
    manifests = (key for key in stored if key.endswith(MANIFEST))
    prefixes += [key.removesuffix(MANIFEST) for key in islice(manifests, 1)]
    for prefix in prefixes:
        key = image_key(prefix, image_name(1, 999), checksum, "image/png")
        stage.store.put(stage.output_bucket, key, PLANTED, content_type="image/png")


def sweep(stage: Stage) -> int:
    """Orphans that `bundles sweep --apply` took. It takes all ages: nothing else is running."""
    ran = bundles(stage, "sweep", "--apply", "--min-age", "0s", "--json")
    assert ran.code == 0, ran.out + ran.err
    taken: int = ran.last["deleted_by"].get("documents/orphan", 0)
    return taken


def verify_faults(stage: Stage) -> int:
    """What `bundles verify --all` finds wrong with the stored objects, every image read."""
    ran = bundles(stage, "verify", "--all", "--json")
    *at_fault, summary = ran.lines
    faults = sum(len(document["faults"]) for document in at_fault)
    assert (ran.code == 0) == (faults == 0 and summary["documents"] > 0), ran.out + ran.err
    return faults
