"""Holds manifests against the objects that stand. See `bundles verify`."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from consumers.operations.layout import StoredDocument, documents, without_reserved
from consumers.operations.storage import Sleep, listed, patiently, read_ahead
from schemas.events import Pages
from schemas.identity import extraction_id, image_key, manifest_key
from schemas.manifest import Manifest, ManifestImage
from schemas.problems import number_of
from sinks.manifests import ManifestStore
from sinks.objectstore import ListedObject, ObjectNotFound, ObjectStore, ObjectTooLarge
from sinks.stored_models import UnreadableObject


class Fault(StrEnum):
    MISSING = "missing"
    """The manifest names an image that is not there."""
    DIFFERS = "differs"
    """An image's bytes are not those that the manifest says."""
    EXTRA = "extra"
    """An image beside a manifest that does not name it: `bundles sweep` removes it."""
    UNREADABLE = "unreadable"
    """The manifest is damaged, or of a newer version."""
    MISPLACED = "misplaced"
    """A key or id in the manifest is not the one that its own contents lead to."""


@dataclass(frozen=True, slots=True)
class Finding:
    fault: Fault
    key: str


@dataclass(slots=True)
class Verified:
    """One document version. ``finished``: it has a manifest; images without one are a job that is
    under way or was given up, no fault."""

    prefix: str
    bundle_id: str
    document_id: str
    finished: bool = True
    extraction_id: str | None = None
    images: int = 0
    bytes: int = 0
    problems: int = 0
    """What the service could not give, by the manifest: no fault of what is stored."""
    faults: list[Finding] = field(default_factory=list)


def verify(
    store: ObjectStore,
    bucket: str,
    *,
    bundle_id: str | None,
    document_id: str | None = None,
    read: bool = True,
    threads: int = 8,
    sleep: Sleep = time.sleep,
) -> Iterator[Verified]:
    """Every document version of a bundle (None: of all) or of one document in it, in key order.

    Without ``read`` images are held against the listing only: there, and of the right size.

    :raises StoreError: the store failed for longer than patience lasts.
    """
    if bundle_id is None:
        objects = without_reserved(
            lambda after: listed(store, bucket, start_after=after, sleep=sleep), None
        )
    else:
        prefix = f"{bundle_id}/" if document_id is None else f"{bundle_id}/{document_id}/"
        objects = listed(store, bucket, prefix, sleep=sleep)
    check = partial(_verify, store, bucket, read, sleep)
    for _, verified in read_ahead(documents(objects), check, threads=threads):
        yield verified


def _verify(
    store: ObjectStore, bucket: str, read: bool, sleep: Sleep, document: StoredDocument
) -> Verified:
    result = Verified(document.prefix, document.bundle_id, document.document_id)
    if document.manifest is None:
        result.finished = False
        return result
    try:
        found = patiently(
            lambda: ManifestStore(store, bucket).find(document.manifest_key), sleep=sleep
        )
    except UnreadableObject:
        result.faults.append(Finding(Fault.UNREADABLE, document.manifest_key))
        return result
    if found is None:
        result.finished = False  # swept since it was listed
        return result
    manifest = found.manifest
    result.extraction_id = manifest.extraction_id
    result.problems = number_of(manifest.problems)
    if not _in_place(manifest, document):
        result.faults.append(Finding(Fault.MISPLACED, document.manifest_key))
    stored = {item.key: item for item in document.images}
    for image in manifest.images:
        result.images += 1
        result.bytes += image.bytes
        fault = _fault(store, bucket, read, sleep, document.prefix, image, stored.get(image.key))
        if fault is not None:
            result.faults.append(Finding(fault, image.key))
    named = {image.key for image in manifest.images}
    result.faults += [Finding(Fault.EXTRA, key) for key in stored if key not in named]
    return result


def _in_place(manifest: Manifest, document: StoredDocument) -> bool:
    segments = [
        (
            s.sha256,
            Pages(first=s.first_page, last=s.last_page)
            if s.first_page is not None and s.last_page is not None
            else None,
        )
        for s in manifest.segments
    ]
    ids = manifest.bundle_id, manifest.document_id
    return document.manifest_key == manifest_key(
        *ids, manifest.submitted_sha256, manifest.policy_version
    ) and manifest.extraction_id == extraction_id(*ids, segments, manifest.policy_version)


def _fault(
    store: ObjectStore,
    bucket: str,
    read: bool,
    sleep: Sleep,
    prefix: str,
    image: ManifestImage,
    listed_as: ListedObject | None,
) -> Fault | None:
    if image.key != image_key(prefix, image.name, image.sha256, image.media_type):
        return Fault.MISPLACED
    if listed_as is None:
        return Fault.MISSING
    if listed_as.size != image.bytes:
        return Fault.DIFFERS
    if not read:
        return None
    try:
        found = patiently(lambda: store.get(bucket, image.key, max_bytes=image.bytes), sleep=sleep)
    except ObjectNotFound:
        return Fault.MISSING
    except ObjectTooLarge:
        return Fault.DIFFERS
    return None if hashlib.sha256(found.body).hexdigest() == image.sha256 else Fault.DIFFERS
