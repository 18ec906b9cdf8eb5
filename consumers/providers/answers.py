"""Reading JSON job answers whose exact shape is not promised. Pure.

Public clients of such services disagree on names, so every reader here accepts the spellings that
have been seen, bounds what it takes, and gives None for what it does not understand.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from consumers.providers.errors import CallFailed
from consumers.providers.failures import UNRECOGNISED, bounded_code
from consumers.providers.protocol import PAGE_NOT_TOLD, JobState, RemoteImage
from schemas.problems import Problem, ProblemCode

MAX_IMAGES = 100_000
MAX_PROBLEMS = 1_000

SUCCEEDED = frozenset({"completed", "complete", "succeeded", "success", "done", "finished"})
FAILED = frozenset({"failed", "failure", "error", "errored"})
STOPPED = frozenset({"cancelled", "canceled", "aborted", "expired"})
"""Ended without a verdict on the document: another job may succeed."""
PARTIAL = frozenset({"partial", "partial_success", "completed_with_errors"})
"""Some pages are missing, so it is not a success; another job may do better."""
RUNNING = frozenset(
    {
        "queued", "pending", "submitted", "accepted", "created", "scheduled", "waiting",
        "running", "started", "processing", "in_progress", "in progress", "notstarted",
    }
)  # fmt: skip

_JOB_ID = re.compile(r"[A-Za-z0-9._:~+=@/-]{1,512}")
_PROBLEM = re.compile(
    r"(?P<code>[a-z_]{1,40})(?: page=(?P<page>\d{1,9}))?(?: index=(?P<index>\d{1,9}))?"
    r"(?: count=(?P<count>\d{1,9}))?",
    re.ASCII,
)
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


def unwrap(answer: Any) -> tuple[dict[str, Any] | None, bool]:
    """The payload of a bare or an enveloped (`ok`/`data`/`error`/`metadata`) answer, and whether
    the envelope says that the call failed. None where the body is not a JSON object."""
    if not isinstance(answer, dict):
        return None, False
    if isinstance(answer.get("ok"), bool):
        data = answer.get("data")
        return (data if isinstance(data, dict) else {}), not answer["ok"]
    return answer, False


def job_id_of(payload: Mapping[str, Any] | None) -> str | None:
    """The job id in a payload, also one level down in `job`; None if absent or unusable."""
    if payload is None:
        return None
    nested = payload.get("job")
    value = first(payload, "job_id", "jobId", "id", "task_id", "request_id")
    if value is None and isinstance(nested, dict):
        value = first(nested, "id", "job_id")
    return usable_id(value if value is not None else nested)


def location_of(headers: Mapping[str, str]) -> str | None:
    """The URL in which an answer names its job; None if there is none."""
    return headers.get("operation-location") or headers.get("location")


def last_path_part(url: str) -> str | None:
    return usable_id(urlsplit(url).path.rstrip("/").rpartition("/")[2])


def usable_id(value: Any) -> str | None:
    """``value`` as an id that can be recorded, logged and put into a path; None if it cannot."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not _JOB_ID.fullmatch(value):
        return None
    return None if {".", ".."} & set(value.split("/")) else value


def state_of(word: Any) -> tuple[JobState, str, bool]:
    """State, the word where it may be shown, and whether we know it; unknown words count as
    running."""
    text = word.strip().lower() if isinstance(word, str) else ""
    shown = bounded_code(text.replace(" ", "_"), UNRECOGNISED)
    if text in SUCCEEDED:
        return JobState.SUCCEEDED, shown, True
    if text in FAILED | STOPPED | PARTIAL:
        return JobState.FAILED, shown, True
    return JobState.RUNNING, shown, text in RUNNING


def page_count_of(payload: Mapping[str, Any]) -> int | None:
    value = first(payload, "pages", "page_count", "num_pages", "total_pages")
    if isinstance(value, list):
        return len(value)
    return count_of(value)


def moment_of(payload: Mapping[str, Any]) -> str | None:
    """When the job finished by the service's clock, as RFC 3339 in UTC, or None."""
    value = first(payload, "finished_at", "completed_at", "ended_at")
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            moment = datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
        else:
            return None
        return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def problems_of(payload: Mapping[str, Any]) -> tuple[Problem, ...]:
    """What the service says it could not give, as `undecodable page=3 index=2` or `more count=7`.

    Another form, or a word that we do not know, may hold anything: of such an entry remains that
    there was one, and its place.
    """
    listed = payload.get("problems")
    entries = listed if isinstance(listed, list) else []
    problems = [_problem(entry) for entry in entries[:MAX_PROBLEMS]]
    if len(entries) > MAX_PROBLEMS:
        problems.append(Problem(code=ProblemCode.MORE, count=len(entries) - MAX_PROBLEMS))
    return tuple(problems)


def image_list_of(payload: Mapping[str, Any]) -> list[Any] | None:
    """The images as the payload lists them, also inside of `result`/`output`; None if it does not
    list any (an empty list is a list)."""
    for container in (payload, payload.get("result"), payload.get("output"), payload.get("data")):
        if isinstance(container, list):
            return container
        if isinstance(container, dict):
            images = first(container, "images", "extracted_images", "image_urls", "figures")
            if isinstance(images, list):
                return images
            if isinstance(images, dict):  # {name: base64}: the order that the service wrote
                return list(images.values())
    return None


def images_of(listed: Sequence[Any]) -> tuple[RemoteImage, ...]:
    """The images, ordered by what identifies them and not by the list, whose order may change from
    one answer to the next: index or position on the page, else checksum, else the list's order.

    Raises:
        ValueError: an entry is no image, or there are too many. Leaving one out would lose it.
    """
    if len(listed) > MAX_IMAGES:
        raise ValueError("too many images")
    entries = [_image(entry) for entry in listed]
    if any(isinstance(entry, dict) and entry.get("page") == 0 for entry in listed):
        # Pages counted from 0, or 0 for "unknown"? A guess could put a page into the wrong file.
        entries = [(replace(image, page=PAGE_NOT_TOLD), facts) for image, facts in entries]
    ordered: list[RemoteImage] = []
    for page in sorted({image.page for image, _ in entries}):
        on_page = [(image, facts) for image, facts in entries if image.page == page]
        for images in (_sorted_by(on_page, fact) for fact in ("index", "position", "sha256")):
            if images is not None:
                break
        else:
            images = [image for image, _ in on_page]
        ordered += images
    return numbered(ordered)


def numbered(images: Iterable[RemoteImage]) -> tuple[RemoteImage, ...]:
    """The images, which come page by page, with their place on the page as ``order``."""
    ordered: list[RemoteImage] = []
    for image in images:
        follows = bool(ordered) and ordered[-1].page == image.page
        ordered.append(replace(image, order=ordered[-1].order + 1 if follows else 0))
    return tuple(ordered)


def object_in(payload: Mapping[str, Any], name: str, *, operation: str) -> dict[str, Any]:
    """The object under ``name``; empty where there is none.

    Raises:
        CallFailed: something else is there, and what it should have held would be lost.
    """
    value = payload.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise CallFailed("answer_misshapen", operation=operation)
    return value


def objects_in(payload: Mapping[str, Any], name: str, *, operation: str) -> list[dict[str, Any]]:
    """The objects in the list under ``name``; empty where there is none.

    Raises:
        CallFailed: something else is there, or in it.
    """
    value = payload.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise CallFailed("answer_misshapen", operation=operation)
    return value


def first(payload: Mapping[str, Any], *names: str) -> Any:
    """The value of the first of ``names`` that is there and not null."""
    for name in names:
        value = payload.get(name)
        if value is not None:
            return value
    return None


def _sorted_by(
    entries: list[tuple[RemoteImage, dict[str, Any]]], fact: str
) -> list[RemoteImage] | None:
    keys = [facts[fact] for _, facts in entries]
    if None in keys or len(set(keys)) < len(keys):
        return None
    return [image for image, facts in sorted(entries, key=lambda entry: entry[1][fact])]


def _image(entry: Any) -> tuple[RemoteImage, dict[str, Any]]:
    if isinstance(entry, str):
        entry = {"url": entry} if entry.startswith(("http://", "https://")) else {"data": entry}
    if not isinstance(entry, dict):
        raise ValueError("an image is neither a text nor an object")
    url = first(entry, "url", "image_url", "download_url", "presigned_url", "href")
    content = first(entry, "data", "base64", "b64", "b64_json", "content", "image", "image_base64")
    ref = first(entry, "id", "image_id", "ref", "asset_id")
    if isinstance(url, str) and url.startswith("data:"):
        url, content = None, url
    url = url if isinstance(url, str) else None
    data = None
    if url is None and isinstance(content, str):
        data = _decoded(content)
    if url is None and data is None and usable_id(ref) is None:
        raise ValueError("an image has neither a URL nor content nor an id")
    sha256 = first(entry, "sha256", "checksum_sha256")
    sha256 = sha256.lower() if isinstance(sha256, str) and _SHA256.fullmatch(sha256) else None
    media_type = first(entry, "media_type", "mime_type", "content_type", "mimeType")
    image = RemoteImage(
        page=_page(entry),
        order=0,
        url=url,
        data=data,
        ref=usable_id(ref) if url is None and data is None else None,
        media_type=media_type if isinstance(media_type, str) and len(media_type) <= 100 else None,
        sha256=sha256,
        bytes=count_of(first(entry, "bytes", "size", "size_bytes")),
        is_mask=entry.get("is_mask") is True,
    )
    index = count_of(first(entry, "index", "order", "image_index", "position"))
    return image, {"index": index, "position": _top_left(entry), "sha256": sha256}


def _problem(entry: Any) -> Problem:
    said = _PROBLEM.fullmatch(entry) if isinstance(entry, str) else None
    if said is None:
        return Problem(code=ProblemCode.UNRECOGNISED)
    known = said["code"] in set(ProblemCode)
    code = ProblemCode(said["code"]) if known else ProblemCode.UNRECOGNISED
    if code is ProblemCode.MORE:
        return Problem(code=code, count=max(1, int(said["count"] or 1)))
    return Problem(
        code=code,
        page=int(said["page"] or PAGE_NOT_TOLD) or None,
        index=None if said["index"] is None else int(said["index"]),
    )


def _page(entry: Mapping[str, Any]) -> int:
    number = count_of(first(entry, "page", "page_number", "page_no", "pageNumber"))
    if number is not None:
        return number
    index = count_of(first(entry, "page_index", "page_idx"))
    return PAGE_NOT_TOLD if index is None else index + 1


def _top_left(entry: Mapping[str, Any]) -> tuple[float, float] | None:
    box = first(entry, "bbox", "bounding_box", "box")
    if isinstance(box, list) and len(box) >= 2:
        x, y = box[0], box[1]
        if isinstance(x, int | float) and isinstance(y, int | float):
            return (float(y), float(x))
    return None


def _decoded(text: str) -> bytes:
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("an image's content is not base64") from None


def count_of(value: Any) -> int | None:
    """``value`` where it is a count; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1 << 53:
        return None
    return value
