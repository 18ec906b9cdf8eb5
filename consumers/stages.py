"""The stages of a document and the causes that its time is split by: defined once."""

from __future__ import annotations

STAGES = (
    "accept",
    "fetch",
    "validate",
    "submit",
    "poll",
    "persist",
    "publish",
    "clean_up",
)

CAUSES = (
    "queue",  # in Kafka, and waiting here for a place
    "fetch",
    "validate",
    "submit",
    "provider",  # at the service
    "poll_lag",  # done at the service, not yet seen here
    "storage",  # images, manifest and job record
    "publish",
    "clean_up",
    "throttled",  # waiting because a service said so
    "retry",  # backing off after a failed attempt
    "outage",  # waiting behind an open breaker
)
"""Exactly one cause holds at any moment of a document, so they add up to its end-to-end time."""
