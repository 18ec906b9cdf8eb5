"""How a call to a remote service can fail, by what it means for the job.

``kind`` is what the retry table (`consumers.extraction.retries`) decides on:

* ``throttled``: control flow, not a failed attempt; every job of the provider slows down.
* ``attempt``: this call failed, the next may not; costs an attempt.
* ``ambiguous``: a submit whose answer was lost; the job may exist.
* ``document``: this document cannot succeed; a dead letter with its reason.
* ``systemic``: nothing can succeed now (credentials, credit, outage); opens the breaker.

``code`` is safe to log: our own, or a service's that is known or only words
(`failures.bounded_code`) and does not repeat our secret; no message text, URL, header or body is
ever in one of these.
"""

from __future__ import annotations

from typing import ClassVar, Literal

ErrorKind = Literal["throttled", "attempt", "ambiguous", "document", "systemic"]


class ProviderError(Exception):
    kind: ClassVar[ErrorKind] = "attempt"

    def __init__(
        self,
        code: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        operation: str = "",
    ) -> None:
        where = f" during {operation}" if operation else ""
        http = f" (HTTP {status})" if status is not None else ""
        super().__init__(f"extraction service: {code}{http}{where}")
        self.code = code
        self.status = status
        self.retry_after = retry_after
        self.operation = operation


class Throttled(ProviderError):
    """429, 503 with Retry-After, or a throttle in a 4xx's clothing."""

    kind = "throttled"


class CallFailed(ProviderError):
    """5xx, reset, time-out on a call that is safe to repeat, or an answer that makes no sense."""

    kind = "attempt"


class Truncated(CallFailed):
    """A body shorter than announced, or not matching its announced checksum."""


class SubmitUnknown(ProviderError):
    """The document was sent (or may have been) and no usable answer came back."""

    kind = "ambiguous"


class JobNotFound(ProviderError):
    """The service does not know the job: not yet, not any more, or never."""

    kind = "attempt"


class ResultGone(JobNotFound):
    """The only result came with the submit's answer. A submit under the same key gives it again and
    makes no other job; a submit under another key would."""


class ImageExpired(ProviderError):
    """The image's URL no longer works: read the job again for a fresh one."""

    kind = "attempt"


class DocumentRefused(ProviderError):
    """The service will never take this document (not a PDF, too large, key mismatch, ...)."""

    kind = "document"


class ResponseUnsafe(ProviderError):
    """An answer asked for something we do not do: a redirect, another host, a private address."""

    kind = "document"


class ServiceUnavailable(ProviderError):
    """Cannot be reached at all: connection refused, DNS, TLS."""

    kind = "systemic"


class NotAuthorized(ProviderError):
    """401/403: the credential is wrong, expired or may not do this."""

    kind = "systemic"


class OutOfCredit(ProviderError):
    """402 and quota errors that waiting does not cure."""

    kind = "systemic"
