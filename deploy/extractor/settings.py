"""Settings of the extraction service, from the environment (prefix `EXTRACTOR_`)."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.units import Bytes, Seconds

MIB = 1024 * 1024
DAY_S = 24 * 3600.0


class MissingToken(ValueError):
    """No bearer token is configured; an open extraction service must not start by accident."""


class Settings(BaseSettings):
    """Sizes are bytes, times are seconds. `EXTRACTOR_<NAME IN CAPITALS>` sets each of them."""

    model_config = SettingsConfigDict(env_prefix="EXTRACTOR_", extra="ignore", frozen=True)

    host: str = Field("127.0.0.1", description="the address to listen on")
    port: int = Field(8088, ge=0, le=65535, description="0 picks a free port")
    data_dir: Path = Field(
        Path("extractor-data"), description="jobs and their files; one service per folder"
    )
    public_url: str | None = Field(
        None, description="base of file URLs; by default taken from each request's Host header"
    )

    token: SecretStr | None = Field(None, description="bearer token(s), separated by whitespace")
    token_file: Path | None = Field(None, description="file with one or more tokens, one a line")

    engine: str = Field(
        "deploy.extractor.engine:extract",
        pattern=r"^[\w.]+:\w+$",
        description="what extracts: module:function",
    )
    workers: int = Field(
        default_factory=lambda: len(os.sched_getaffinity(0)),
        ge=1,
        le=256,
        description="documents extracted at the same time",
    )
    jobs_per_worker: int = Field(500, ge=1, description="a worker process is replaced after these")
    worker_start_s: Seconds = Field(60.0, gt=0, description="for a worker process to come up")
    job_wall_s: Seconds = Field(240.0, gt=0, description="time of one job")
    job_cpu_s: Seconds = Field(120.0, gt=0, description="processor time of one job")
    job_memory_bytes: Bytes = Field(
        2048 * MIB, ge=16 * MIB, description="address space of a job, on top of the idle worker's"
    )
    max_attempts: int = Field(
        3, ge=1, description="starts of one job, counting those ended by a crash of the service"
    )

    postpone_s: Seconds = Field(
        5.0, gt=0, description="pause before a job that found no room on the disk runs again"
    )

    max_upload_bytes: Bytes = Field(256 * MIB, ge=1024, description="a larger document gets 413")
    max_json_bytes: Bytes = Field(
        16 * MIB, ge=1024, description="body of a JSON submit, which is held in memory"
    )
    upload_timeout_s: Seconds = Field(300.0, gt=0, description="for the whole body of a submit")
    queue_capacity: int = Field(1000, ge=1, description="jobs waiting, uploads under way included")
    min_free_bytes: Bytes = Field(512 * MIB, ge=0, description="below this, submits get 503")

    max_pages: int = Field(5000, ge=1, description="of a document")
    max_images: int = Field(20_000, ge=1, description="of a document")
    max_pixels_per_image: int = Field(
        150_000_000, ge=1, description="decoding needs up to 8 bytes each: see job_memory_bytes"
    )
    max_total_bytes: Bytes = Field(4096 * MIB, ge=1, description="of all images of one job")

    file_url_ttl_s: Seconds = Field(900.0, gt=0, description="how long the URL of an image works")
    retention_s: Seconds = Field(DAY_S, gt=0, description="how long a finished job is kept")
    idempotency_window_s: Seconds = Field(
        DAY_S, gt=0, description="how long a repeated submit finds its job"
    )
    sweep_every_s: Seconds = Field(60.0, gt=0, description="how often what has expired is removed")

    @field_validator("public_url")
    @classmethod
    def _is_http_url(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"^https?://[^/\s]+", value):
            raise ValueError("must be an http(s) URL such as https://extractor.example.org")
        return value.rstrip("/") if value else None

    @model_validator(mode="after")
    def _has_a_token(self) -> Self:
        self.token_digests()
        return self

    @property
    def key_window_s(self) -> float:
        """How long an idempotency key is honoured: never longer than its job is kept."""
        return min(self.idempotency_window_s, self.retention_s)

    def token_digests(self) -> frozenset[bytes]:
        """SHA-256 of every accepted token, which is what requests are compared with.

        Raises MissingToken when neither setting gives one, OSError when the file is unreadable.
        """
        text = self.token.get_secret_value() if self.token else ""
        if self.token_file is not None:
            text += "\n" + self.token_file.read_text(encoding="utf-8")
        tokens = text.split()
        if not tokens:
            raise MissingToken(
                "no token: set EXTRACTOR_TOKEN, or EXTRACTOR_TOKEN_FILE to a file that holds one"
            )
        return frozenset(hashlib.sha256(token.encode()).digest() for token in tokens)

    def engine_limits(self) -> dict[str, Any]:
        """The limits every job gets, named as the engine's options name them."""
        return {
            "max_pages": self.max_pages,
            "max_images": self.max_images,
            "max_pixels_per_image": self.max_pixels_per_image,
            "max_total_bytes": self.max_total_bytes,
        }
