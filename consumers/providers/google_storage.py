"""Google's errors, and the calls to Cloud Storage (JSON API) that Document AI jobs need."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from consumers.providers.answers import objects_in
from consumers.providers.errors import (
    CallFailed,
    DocumentRefused,
    JobNotFound,
    NotAuthorized,
    OutOfCredit,
    ProviderError,
    Throttled,
)
from consumers.providers.failures import COMMON_CODES, Codes, Meaning, bounded_code
from consumers.providers.http import Answer, ApiClient
from consumers.providers.protocol import Document
from consumers.providers.uploads import raw

CODES: Codes = {
    **COMMON_CODES,
    "resource_exhausted": Meaning(Throttled),
    "message_too_large": Meaning(DocumentRefused),
    "billing_disabled": Meaning(OutOfCredit),
    "invalid_argument": Meaning(DocumentRefused),
    "failed_precondition": Meaning(CallFailed),
    "internal": Meaning(CallFailed),
    "unavailable": Meaning(CallFailed),
    "deadline_exceeded": Meaning(CallFailed),
    "unauthenticated": Meaning(NotAuthorized),
    "permission_denied": Meaning(NotAuthorized),
}


def google_error_code(body: Any) -> str | None:
    """The status word of an error; a message over the size limit gets a word of its own."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return None
    word = bounded_code(error.get("status"), "", known=CODES)
    message = error.get("message")
    if word == "RESOURCE_EXHAUSTED" and isinstance(message, str) and "larger than max" in message:
        return "message_too_large"
    return word or None


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """One bucket."""

    api: ApiClient
    bucket: str

    def put_new(self, name: str, document: Document) -> None:
        """Create the object; one that is there already is the same, as the key is the content's."""
        query = urlencode({"uploadType": "media", "name": name, "ifGenerationMatch": "0"})
        try:
            self.api.call(
                "POST",
                f"upload/storage/v1/b/{quote(self.bucket, safe='')}/o?{query}",
                # Not `submit`: repeating an upload is safe.
                operation="upload",
                body=raw(document),
                codes=CODES,
            )
        except CallFailed as error:
            if error.status != 412:
                raise

    def names(self, prefix: str, *, operation: str) -> Iterator[str]:
        token = ""
        while True:
            query = urlencode(
                {"prefix": prefix, "fields": "items/name,nextPageToken"}
                | ({"pageToken": token} if token else {})
            )
            page = self._get(f"{self._objects}?{query}", operation).json()
            if not isinstance(page, dict):
                raise CallFailed("answer_not_json", operation=operation)
            for item in objects_in(page, "items", operation=operation):
                name = item.get("name")
                if isinstance(name, str) and name.startswith(prefix):
                    yield name
            before, token = token, page.get("nextPageToken") or ""
            if not token:
                return
            if token == before:
                raise CallFailed("pages_repeat", operation=operation)

    def read(self, name: str, *, operation: str) -> Any:
        return self._get(f"{self._object(name)}?alt=media", operation).json()

    def delete(self, name: str, *, operation: str) -> None:
        with contextlib.suppress(JobNotFound):
            self.api.call("DELETE", self._object(name), operation=operation, codes=CODES)

    @property
    def _objects(self) -> str:
        return f"storage/v1/b/{quote(self.bucket, safe='')}/o"

    def _object(self, name: str) -> str:
        return f"{self._objects}/{quote(name, safe='')}"

    def _get(self, path: str, operation: str) -> Answer:
        return self.api.call("GET", path, operation=operation, codes=CODES)


class GoogleToken:
    """An access token of the environment's own identity, by the google-auth library."""

    def __init__(self) -> None:
        import google.auth
        import google.auth.transport.requests

        self._credentials, _ = google.auth.default(
            scopes=["https://www.googleapis.com/auth/cloud-platform"]
        )
        self._request = google.auth.transport.requests.Request()

    def __call__(self) -> str:
        if not self._credentials.valid:
            self._refresh()
        return str(self._credentials.token)

    def _refresh(self) -> None:
        from google.auth.exceptions import GoogleAuthError

        problem: ProviderError | None = None
        try:
            self._credentials.refresh(self._request)  # type: ignore[no-untyped-call]
        except GoogleAuthError:
            problem = NotAuthorized("token_refresh_failed")
        if problem is not None:
            raise problem
