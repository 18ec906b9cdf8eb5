"""What the two AWS adapters share: clients that never retry, errors by their meaning, job folders.

botocore rather than own signing, because of the credentials: it knows all the ways in which AWS
hands them out. Its retries are off (`total_max_attempts` 1), waiting is the pipeline's business.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import botocore.exceptions as boto
import botocore.session
from botocore.config import Config

from consumers.providers import retry_after
from consumers.providers.aws_transport import BoundedSender
from consumers.providers.errors import (
    CallFailed,
    DocumentRefused,
    JobNotFound,
    NotAuthorized,
    OutOfCredit,
    ProviderError,
    ServiceUnavailable,
    SubmitUnknown,
    Throttled,
    Truncated,
)
from consumers.providers.failures import (
    COMMON_CODES,
    KEY_MISMATCH,
    SUBMIT,
    Codes,
    Meaning,
    bounded_code,
    failure,
)
from consumers.providers.files import ReceivedFile, receive
from consumers.providers.protocol import Document
from consumers.providers.settings import AwsSettings, ProviderSettings
from consumers.providers.transport import Limits, unusable

# botocore logs whole requests, signatures included.
logging.getLogger("botocore").setLevel(logging.ERROR)

_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_READ_BYTES = 64 * 1024
INPUT = "_INPUT.pdf"

CODES: Codes = {
    **COMMON_CODES,
    **dict.fromkeys(
        (
            "throttling",
            "throttlingexception",
            "throttledexception",
            "requestthrottled",
            "requestthrottledexception",
            "toomanyrequestsexception",
            "provisionedthroughputexceededexception",
            "limitexceededexception",
            "requestlimitexceeded",
            "slowdown",
            "bandwidthlimitexceeded",
            "ec2throttledexception",
            "serviceunavailable",
        ),
        Meaning(Throttled),
    ),
    **dict.fromkeys(
        (
            "accessdenied",
            "accessdeniedexception",
            "expiredtoken",
            "expiredtokenexception",
            "invalidaccesskeyid",
            "invalidclienttokenid",
            "invalidsignatureexception",
            "signaturedoesnotmatch",
            "unrecognizedclientexception",
            "missingauthenticationtoken",
            "missingauthenticationtokenexception",
        ),
        Meaning(NotAuthorized),
    ),
    **dict.fromkeys(
        (
            "nosuchbucket",
            "resourcenotfoundexception",
            # Lambda, while the function is changed.
            "resourceconflictexception",
            "resourcenotreadyexception",
            # Textract cannot read what was just put there: a region or a permission is wrong.
            "invalids3objectexception",
            "invalidkmskeyexception",
            "kmsaccessdeniedexception",
            "kmsdisabledexception",
            "kmsinvalidstateexception",
            "kmsnotfoundexception",
        ),
        Meaning(ServiceUnavailable),
    ),
    "optinrequired": Meaning(OutOfCredit),
    "subscriptionrequiredexception": Meaning(OutOfCredit),
    "idempotentparametermismatchexception": KEY_MISMATCH,
    "invalidjobidexception": Meaning(JobNotFound),
    "nosuchkey": Meaning(JobNotFound),
    **dict.fromkeys(
        (
            "baddocumentexception",
            "documenttoolargeexception",
            "unsupporteddocumentexception",
            "requesttoolargeexception",
            "entitytoolarge",
        ),
        Meaning(DocumentRefused),
    ),
    "internalservererror": Meaning(CallFailed),
    "serviceexception": Meaning(CallFailed),
    "internalerror": Meaning(CallFailed),
    "requesttimeout": Meaning(CallFailed),
}


@dataclass(frozen=True, slots=True)
class Clients:
    """Makes botocore clients for one configuration."""

    settings: ProviderSettings

    def s3(self) -> Any:
        return self._client("s3", self.settings.aws.s3_url)

    def functions(self) -> Any:
        return self._client("lambda", self.settings.aws.lambda_url)

    def textract(self) -> Any:
        return self._client("textract", self.settings.aws.textract_url)

    def _client(self, service: str, url: str | None) -> Any:
        client = _session().create_client(
            service,
            region_name=self.settings.aws.region,
            endpoint_url=url,
            verify=str(self.settings.ca_file) if self.settings.ca_file else None,
            config=Config(
                retries={"total_max_attempts": 1},
                connect_timeout=self.settings.connect_timeout_seconds,
                read_timeout=self.settings.read_timeout_seconds,
                max_pool_connections=self.settings.connections,
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                s3={"addressing_style": "path" if url else "auto"},
            ),
        )
        sender = BoundedSender(
            self.limits, connections=self.settings.connections, ca_file=self.settings.ca_file
        )
        client.meta.events.register(f"before-send.{service}", sender)
        return client

    @property
    def limits(self) -> Limits:
        return Limits(
            connect_seconds=self.settings.connect_timeout_seconds,
            read_seconds=self.settings.read_timeout_seconds,
            total_seconds=self.settings.total_timeout_seconds,
            max_json_bytes=self.settings.max_json_bytes,
        )


@functools.cache
def _session() -> Any:
    """One for the process: it reads its models and credentials once."""
    return botocore.session.get_session()


def call(operation: str, function: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
    """One API call.

    Raises:
        ProviderError: what went wrong, by its meaning.
    """
    problem: ProviderError | None = None
    answer: dict[str, Any] = {}
    try:
        answer = function(**arguments)
    except boto.ClientError as error:
        problem = _refused(error, operation)
    except ProviderError as error:
        problem = _during(error, operation)
    except (boto.BotoCoreError, OSError) as error:
        problem = _not_answered(error, operation)
    except Exception:
        # botocore's parsers fail in many ways on bodies that are not what they expect, and a
        # decoding error has the body in it.
        problem = unusable("answer_unreadable", operation)
    # Outside of the handlers: botocore's texts name keys, buckets and hosts.
    if problem is not None:
        raise problem
    return answer


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The objects of one job: everything below a prefix that is derived from the key."""

    client: Any
    settings: AwsSettings
    key: str

    @classmethod
    def of(cls, client: Any, settings: AwsSettings, key: str) -> JobFolder:
        """``key``: an idempotency key, or the ``key`` of a folder that was made of one. A further
        job's ends in `.2`, `.3`, ..., which a request token of Textract's must not.

        Raises:
            JobNotFound: ``key`` is no key that this adapter could have given.
        """
        name = key.replace(".", "_")
        if not _KEY.fullmatch(name):
            raise JobNotFound("job_id_invalid", operation="poll")
        return cls(client, settings, name)

    @property
    def prefix(self) -> str:
        return f"{self.settings.prefix}{self.key}/"

    @property
    def input_name(self) -> str:
        return self.prefix + INPUT

    def put_input(self, document: Document) -> None:
        """Store the document under the key, once.

        Raises:
            DocumentRefused: there is another document under this key.
        """
        try:
            body = document.path.open("rb")
        except OSError:
            raise CallFailed("document_file_unreadable", operation="upload") from None
        with body:
            try:
                call(
                    "upload",
                    self.client.put_object,
                    Bucket=self.settings.bucket,
                    Key=self.input_name,
                    Body=body,
                    ContentType="application/pdf",
                    IfNoneMatch="*",
                    Metadata={"sha256": document.sha256},
                )
                return
            except ProviderError as error:
                if error.status not in (409, 412):
                    raise
        self._check_is_there(document)

    def _check_is_there(self, document: Document) -> None:
        try:
            there = call(
                "upload", self.client.head_object, Bucket=self.settings.bucket, Key=self.input_name
            )
        except JobNotFound:  # deleted meanwhile, or another upload is under way
            raise CallFailed("upload_conflict", operation="upload") from None
        if there.get("Metadata", {}).get("sha256") != document.sha256:
            raise DocumentRefused("idempotency_mismatch", status=412, operation=SUBMIT)

    def names(self, *, at_most: int | None = None, operation: str) -> Iterator[str]:
        """Names of the folder's objects without the prefix, in S3's order."""
        return (name for name, _ in self.objects(at_most=at_most, operation=operation))

    def objects(
        self, *, at_most: int | None = None, operation: str
    ) -> Iterator[tuple[str, datetime]]:
        """Names and when each was written, by S3's clock."""
        more: dict[str, Any] = {"MaxKeys": at_most} if at_most else {}
        while True:
            page = call(
                operation,
                self.client.list_objects_v2,
                Bucket=self.settings.bucket,
                Prefix=self.prefix,
                **more,
            )
            if "IsTruncated" not in page:  # any XML or HTML is read as an empty list otherwise
                raise CallFailed("answer_not_a_listing", operation=operation)
            for item in page.get("Contents", []):
                if not (item.get("Key") and isinstance(item.get("LastModified"), datetime)):
                    raise CallFailed("answer_not_a_listing", operation=operation)
                yield item["Key"].removeprefix(self.prefix), item["LastModified"]
            if at_most or not page.get("IsTruncated"):
                return
            token = page.get("NextContinuationToken")
            if not token:
                raise CallFailed("answer_not_a_listing", operation=operation)
            if token == more.get("ContinuationToken"):
                raise CallFailed("pages_repeat", operation=operation)
            more = {"ContinuationToken": token}

    def read(self, name: str, *, max_bytes: int, operation: str) -> bytes:
        """A small object.

        Raises:
            CallFailed: it is larger than ``max_bytes``.
        """
        pieces = bytearray()
        with closing(self._get(name, operation)["Body"]) as body:
            for piece in _pieces(body, operation):
                pieces += piece
                if len(pieces) > max_bytes:
                    raise CallFailed("answer_too_large", operation=operation)
        return bytes(pieces)

    def download(
        self, name: str, destination: Path, *, max_bytes: int, sha256: str | None, size: int | None
    ) -> ReceivedFile:
        operation = "fetch_image"
        answer = self._get(name, operation)
        headers = {
            "content-length": str(answer.get("ContentLength", "")),
            "content-type": str(answer.get("ContentType", "")),
        }
        with closing(answer["Body"]) as body:
            return receive(
                _pieces(body, operation),
                headers,
                destination,
                max_bytes=max_bytes,
                operation=operation,
                expected_bytes=size,
                expected_sha256=sha256,
            )

    def delete_all(self) -> None:
        for name in list(self.names(operation="forget")):
            call(
                "forget",
                self.client.delete_object,
                Bucket=self.settings.bucket,
                Key=self.prefix + name,
            )

    def _get(self, name: str, operation: str) -> dict[str, Any]:
        return call(
            operation,
            self.client.get_object,
            Bucket=self.settings.bucket,
            Key=self.prefix + name,
        )


def _pieces(body: Any, operation: str) -> Iterator[bytes]:
    while True:
        problem: ProviderError | None = None
        piece = b""
        try:
            piece = body.read(_READ_BYTES)
        except ProviderError as error:
            problem = _during(error, operation)
        except (boto.BotoCoreError, boto.HTTPClientError, OSError) as error:
            problem = _not_answered(error, operation)
        if problem is not None:
            raise problem
        if not piece:
            return
        yield piece


def _during(error: ProviderError, operation: str) -> ProviderError:
    """What `BoundedSender` found, now that the operation is known."""
    if operation == SUBMIT and isinstance(error, CallFailed):
        return SubmitUnknown(error.code, operation=operation)
    return type(error)(error.code, operation=operation)


def _refused(error: boto.ClientError, operation: str) -> ProviderError:
    answer = error.response
    metadata = answer.get("ResponseMetadata", {})
    status = int(metadata.get("HTTPStatusCode", 500))
    code = bounded_code(answer.get("Error", {}).get("Code"), "", known=CODES)
    # Without a body botocore makes the status the code.
    named = code if code and not code.isdigit() else None
    return failure(
        status,
        named,
        operation=operation,
        retry_after=retry_after.from_headers(metadata.get("HTTPHeaders", {})),
        codes=CODES,
    )


def _not_answered(error: Exception, operation: str) -> ProviderError:
    if isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError):
        return NotAuthorized("no_credentials", operation=operation)
    if isinstance(error, boto.CredentialRetrievalError | boto.TokenRetrievalError):
        return NotAuthorized("credentials_refused", operation=operation)
    if isinstance(error, boto.ConnectTimeoutError):
        return ServiceUnavailable("connect_timeout", operation=operation)
    if isinstance(error, boto.SSLError):
        return ServiceUnavailable("tls_failed", operation=operation)
    if isinstance(error, boto.ReadTimeoutError):
        return unusable("read_timeout", operation)
    if isinstance(error, boto.EndpointConnectionError):
        return ServiceUnavailable("connect_failed", operation=operation)
    if isinstance(error, boto.IncompleteReadError | boto.ResponseStreamingError):
        return Truncated("body_truncated", operation=operation)
    return unusable("connection_broken", operation)
