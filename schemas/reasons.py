"""Every reason for which a document or an event is dead-lettered. This file is the contract.

A reason is about *this* event or document: nothing that would hit the next one just as well
(credentials, an outage, a full disk) is ever a reason; those pause the intake instead.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    def __new__(cls, code: str, meaning: str = "") -> Reason:
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    meaning: str

    # accept
    EVENT_UNPARSABLE = (
        "event_unparsable",
        "The record is not a bundle event: not JSON, or not of its shape.",
    )
    EVENT_INVALID = (
        "event_invalid",
        "A member of the event breaks its rule (missing, wrong type, out of bounds).",
    )
    EVENT_BAD_ID = (
        "event_bad_id",
        "A bundle or document id has characters, a length or a '..' that ids may not have.",
    )
    EVENT_BAD_KEY = (
        "event_bad_key",
        "A source object key is not acceptable (control characters, '..', too long).",
    )
    EVENT_TOO_LARGE = (
        "event_too_large",
        "The event has more documents or segments than its policy allows.",
    )
    EVENT_SCHEMA_FRAMED = (
        "event_schema_framed",
        "The value starts with a schema-registry frame (0x00); send plain JSON.",
    )
    POLICY_UNKNOWN = "policy_unknown", "The event names a policy that this worker does not have."
    BUCKET_NOT_ALLOWED = (
        "bucket_not_allowed",
        "A source names a bucket that this worker may not read.",
    )
    # fetch / assemble
    SOURCE_MISSING = "source_missing", "A source object does not exist."
    SOURCE_DENIED = (
        "source_denied",
        "A source may not be read by this worker although other sources can.",
    )
    CHECKSUM_MISMATCH = (
        "checksum_mismatch",
        "A source's bytes do not have the checksum that the event gave.",
    )
    SIZE_MISMATCH = "size_mismatch", "A source does not have the size that the event gave."
    TOO_LARGE = "too_large", "The document is larger than the policy allows."
    PAGE_RANGE = "page_range", "A page range lies outside of its source document."
    # validate
    NOT_A_PDF = "not_a_pdf", "The bytes carry no PDF signature."
    FOREIGN_CONTAINER = "foreign_container", "The bytes start as another kind of file."
    HEADER_OFFSET = "header_offset", "The PDF signature does not stand where the policy allows it."
    UNREADABLE = "unreadable", "No engine can read the document's structure."
    NO_PAGES = "no_pages", "The document has no pages."
    ENCRYPTED = (
        "encrypted",
        "The document needs a password that the event did not refer to, or it was wrong.",
    )
    SECRET_UNKNOWN = (
        "secret_unknown",
        "The event refers to a password secret that this worker does not have.",
    )
    TOO_MANY_PAGES = "too_many_pages", "The document has more pages than the policy allows."
    PARSE_TIMEOUT = "parse_timeout", "Parsing did not end within its time limit."
    PARSE_MEMORY = "parse_memory", "Parsing needed more memory than its limit."
    PARSE_CRASHED = "parse_crashed", "Parsing crashed its process."
    # submit / poll
    PROVIDER_REFUSED = "provider_refused", "The extraction service will not take this document."
    PROVIDER_FAILED = "provider_failed", "The extraction service worked on the document and failed."
    PROVIDER_UNSAFE = (
        "provider_unsafe",
        "The service's answer asked for something unsafe (redirect, foreign host).",
    )
    PROVIDER_INCOMPLETE = (
        "provider_incomplete",
        "The service covered fewer pages than were submitted, or could not give an image or a page "
        "and the policy has no use for the rest.",
    )
    DEADLINE = (
        "deadline",
        "The job did not finish within the policy's deadline; its record can be resumed.",
    )
    ATTEMPTS_EXHAUSTED = "attempts_exhausted", "Every allowed attempt failed."
    JOB_FORGOTTEN = "job_forgotten", "The service no longer knows the job and no resubmit is left."
    SUBMIT_UNCERTAIN = (
        "submit_uncertain",
        "Submits without a usable answer used up what the policy allows.",
    )
    # persist
    IMAGE_NOT_AN_IMAGE = "image_not_an_image", "A result does not decode as an image."
    IMAGE_TYPE_NOT_ALLOWED = (
        "image_type_not_allowed",
        "A result is an image of a type that the policy does not allow.",
    )
    IMAGE_TOO_LARGE = "image_too_large", "A result image is larger than the policy allows."
    IMAGE_TOO_MANY_PIXELS = (
        "image_too_many_pixels",
        "A result image has more pixels than the policy allows.",
    )
    TOO_MANY_IMAGES = "too_many_images", "The result has more images than the policy allows."
    STORE_CONFLICT = (
        "store_conflict",
        "Something else stands under a key of this document: damage, or a foreign writer.",
    )
    # any
    REPLAY_LOOP = "replay_loop", "The event has been replayed more often than allowed."
    INTERNAL_ERROR = (
        "internal_error",
        "An unexpected error in the worker; the details are in its log.",
    )


RESUMABLE = frozenset({Reason.DEADLINE, Reason.ATTEMPTS_EXHAUSTED, Reason.SUBMIT_UNCERTAIN})
"""Reasons whose job record lets `bundles replay` go on with the remote job."""


FROM_THE_SERVICE = frozenset(
    {
        Reason.PROVIDER_REFUSED,
        Reason.PROVIDER_FAILED,
        Reason.PROVIDER_UNSAFE,
        Reason.PROVIDER_INCOMPLETE,
        Reason.ATTEMPTS_EXHAUSTED,
        Reason.JOB_FORGOTTEN,
        Reason.SUBMIT_UNCERTAIN,
        Reason.IMAGE_NOT_AN_IMAGE,
        Reason.IMAGE_TYPE_NOT_ALLOWED,
        Reason.SOURCE_MISSING,
        Reason.SOURCE_DENIED,
        Reason.INTERNAL_ERROR,
    }
)
"""Reasons that, when they hit everything, are not the documents' fault: they count towards a
dead-letter storm and are held back during one."""

RETRIABLE_AFTER_STORM = frozenset(
    {
        Reason.PROVIDER_REFUSED,
        Reason.ATTEMPTS_EXHAUSTED,
        Reason.SUBMIT_UNCERTAIN,
        Reason.IMAGE_NOT_AN_IMAGE,
        Reason.IMAGE_TYPE_NOT_ALLOWED,
        Reason.PROVIDER_INCOMPLETE,
        Reason.SOURCE_MISSING,
        Reason.SOURCE_DENIED,
        Reason.INTERNAL_ERROR,
    }
)
"""Of those, what costs no further job to try once more when the storm is over."""
