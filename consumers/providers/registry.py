"""Builds the adapter that a configuration names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, Protocol, runtime_checkable

from consumers.providers import azure, docling, google, google_storage, infrai, selfhosted
from consumers.providers.credentials import CredentialMissing, TokenSource, token_source
from consumers.providers.discovery import by_region
from consumers.providers.downloads import DownloadClient, DownloadRules
from consumers.providers.failures import error_code
from consumers.providers.http import ApiClient
from consumers.providers.jobs_api import JobsApi
from consumers.providers.protocol import Objection, Provider
from consumers.providers.regions import RegionCutter
from consumers.providers.settings import Kind, ProviderSettings
from consumers.providers.transport import Limits, origin_of


class SettingsInvalid(ValueError):
    """A provider cannot be built from its settings. The text names the setting and the fix."""


@runtime_checkable
class ChecksItself(Protocol):
    """A provider that can tell at start whether it is usable at all."""

    def check(self, *, forbidden_regions: Iterable[str] = ()) -> tuple[Objection, ...]:
        """Empty where nothing speaks against it."""
        ...


def build(
    settings: ProviderSettings,
    *,
    cut_regions: RegionCutter,
    environment: Mapping[str, str] | None = None,
) -> Provider:
    """The adapter for ``settings``.

    ``cut_regions`` renders untrusted documents, for a service that tells boxes only.

    Raises:
        SettingsInvalid: a setting is missing or cannot work.
    """
    try:
        if settings.kind is Kind.TEXTRACT:
            return _textract(settings, cut_regions)
        build_kind = _BUILDERS[settings.kind]
        return build_kind(settings, os.environ if environment is None else environment)
    except CredentialMissing as error:
        raise SettingsInvalid(f"provider {settings.name or settings.kind}: {error}") from None


def problems_at_start(
    provider: Provider, *, forbidden_regions: Iterable[str] = ()
) -> tuple[Objection, ...]:
    """What makes every job of this provider fail or be forbidden."""
    if isinstance(provider, ChecksItself):
        return provider.check(forbidden_regions=forbidden_regions)
    return by_region(frozenset(), forbidden_regions, provider=provider.name)


def _infrai(settings: ProviderSettings, environment: Mapping[str, str]) -> Provider:
    base_url = settings.base_url or infrai.DEFAULT_BASE_URL
    token = required_token(settings, environment, infrai.TOKEN_VARIABLE)
    jobs = _jobs_api(settings, base_url, token, download_hosts=infrai.DEFAULT_DOWNLOAD_HOSTS)
    return infrai.InfraiProvider(jobs, settings.infrai, name=settings.name or "infrai")


def _selfhosted(settings: ProviderSettings, environment: Mapping[str, str]) -> Provider:
    base_url = required_base_url(settings, "http://extractor:8080/v1")
    token = token_source(
        settings.token,
        settings.token_file,
        environment=environment,
        variable=selfhosted.TOKEN_VARIABLE,
    )
    jobs = _jobs_api(settings, base_url, token)
    return selfhosted.SelfHostedProvider(
        jobs, settings.selfhosted, name=settings.name or "selfhosted"
    )


def _azure(settings: ProviderSettings, environment: Mapping[str, str]) -> Provider:
    base_url = required_base_url(settings, "https://NAME.cognitiveservices.azure.com")
    token = required_token(settings, environment, azure.TOKEN_VARIABLE)
    by_key = settings.azure.auth == "key"
    api = api_client(
        settings,
        base_url,
        header("Ocp-Apim-Subscription-Key", token) if by_key else bearer(token),
        code_of=azure.azure_error_code,
        max_json_bytes=settings.azure.max_result_bytes,
    )
    return azure.AzureProvider(api, settings.azure, name=settings.name or "azure")


def _google(settings: ProviderSettings, environment: Mapping[str, str]) -> Provider:
    _require(settings, "google", ("project", "processor", "bucket"))
    location = settings.google.location
    token = token_source(
        settings.token, settings.token_file, environment=environment, variable=google.TOKEN_VARIABLE
    )
    if token is None:
        token = _google_identity(settings)

    def client(url: str) -> ApiClient:
        return api_client(
            settings,
            url,
            bearer(token),
            code_of=google_storage.google_error_code,
            max_json_bytes=settings.google.max_result_bytes,
        )

    return google.GoogleProvider(
        client(settings.base_url or f"https://{location}-documentai.googleapis.com"),
        client(settings.google.storage_url or google.STORAGE_URL),
        settings.google,
        name=settings.name or "google",
    )


def _google_identity(settings: ProviderSettings) -> TokenSource:
    who = f"provider {settings.name or settings.kind}"
    try:
        return google_storage.GoogleToken()
    except ImportError:
        fix = "install the extra bundle-extractor[google] to use the environment's identity"
    except Exception as error:  # google-auth's own kinds can only be named where it is installed
        fix = f"the environment gives no identity ({type(error).__name__})"
    raise SettingsInvalid(f"{who}: no token or token_file is set, and {fix}")


def _aws_lambda(settings: ProviderSettings, _: Mapping[str, str]) -> Provider:
    _require(settings, "aws", ("bucket", "function"))
    _check_aws_urls(settings)
    with _botocore(settings):
        from consumers.providers.aws_lambda import AwsLambdaProvider

        return AwsLambdaProvider(settings, name=settings.name or "aws-lambda")


def _textract(settings: ProviderSettings, cut_regions: RegionCutter) -> Provider:
    _require(settings, "aws", ("bucket",))
    _check_aws_urls(settings)
    with _botocore(settings):
        from consumers.providers.textract import TextractProvider

        return TextractProvider(settings, cut_regions, name=settings.name or "textract")


def _check_aws_urls(settings: ProviderSettings) -> None:
    for name in ("s3_url", "lambda_url", "textract_url"):
        url = getattr(settings.aws, name)
        if url is not None:
            _check_base_url(settings, url, secret=True, setting=f"aws.{name}")


@contextmanager
def _botocore(settings: ProviderSettings) -> Iterator[None]:
    """botocore is an extra, and its clients check their region when they are made."""
    who = f"provider {settings.name or settings.kind}"
    try:
        yield
    except ImportError:
        raise SettingsInvalid(f"{who}: install the extra bundle-extractor[aws]") from None
    except Exception as error:
        if type(error).__module__ != "botocore.exceptions":
            raise
        raise SettingsInvalid(
            f"{who}: AWS refuses the settings ({type(error).__name__}): check aws.region and the "
            "aws.*_url settings"
        ) from None


def _docling(settings: ProviderSettings, environment: Mapping[str, str]) -> Provider:
    token = token_source(
        settings.token,
        settings.token_file,
        environment=environment,
        variable=docling.TOKEN_VARIABLE,
    )
    api = api_client(
        settings,
        required_base_url(settings, "http://docling:5001"),
        header("X-Api-Key", token),
        max_json_bytes=settings.docling.max_result_bytes,
    )
    return docling.DoclingProvider(api, settings.docling, name=settings.name or "docling")


_BUILDERS: Mapping[Kind, Callable[[ProviderSettings, Mapping[str, str]], Provider]] = {
    Kind.INFRAI: _infrai,
    Kind.SELFHOSTED: _selfhosted,
    Kind.AZURE: _azure,
    Kind.GOOGLE: _google,
    Kind.AWS_LAMBDA: _aws_lambda,
    Kind.DOCLING: _docling,
}


def _require(settings: ProviderSettings, group: str, names: Iterable[str]) -> None:
    for name in names:
        if not getattr(getattr(settings, group), name):
            raise SettingsInvalid(
                f"provider {settings.name or settings.kind}: {group}.{name} is not set"
            )


def _jobs_api(
    settings: ProviderSettings,
    base_url: str,
    token: TokenSource | None,
    *,
    download_hosts: tuple[str, ...] = (),
) -> JobsApi:
    return JobsApi(
        api_client(settings, base_url, bearer(token)),
        download_client(settings, own_origin=base_url, hosts=download_hosts),
    )


def header(name: str, token: TokenSource | None) -> Callable[[], Mapping[str, str]]:
    return dict if token is None else lambda: {name: token()}


def bearer(token: TokenSource | None) -> Callable[[], Mapping[str, str]]:
    if token is None:
        return dict
    return lambda: {"Authorization": f"Bearer {token()}"}


def api_client(
    settings: ProviderSettings,
    base_url: str,
    credential: Callable[[], Mapping[str, str]],
    *,
    code_of: Callable[[Any], str | None] = error_code,
    max_json_bytes: int | None = None,
) -> ApiClient:
    _check_base_url(settings, base_url, secret=credential is not dict)
    return ApiClient(
        base_url,
        credential=credential,
        limits=limits_of(settings, max_json_bytes=max_json_bytes),
        connections=settings.connections,
        ca_file=settings.ca_file,
        code_of=code_of,
    )


def download_client(
    settings: ProviderSettings, *, own_origin: str | None, hosts: tuple[str, ...] = ()
) -> DownloadClient:
    rules = DownloadRules(
        hosts=settings.allowed_download_hosts or hosts,
        own_origin=own_origin,
        private_addresses=settings.allow_private_downloads,
    )
    return DownloadClient(
        rules,
        limits=limits_of(settings),
        connections=settings.connections,
        ca_file=settings.ca_file,
    )


def limits_of(settings: ProviderSettings, *, max_json_bytes: int | None = None) -> Limits:
    return Limits(
        connect_seconds=settings.connect_timeout_seconds,
        read_seconds=settings.read_timeout_seconds,
        total_seconds=settings.total_timeout_seconds,
        max_json_bytes=max_json_bytes or settings.max_json_bytes,
    )


def required_base_url(settings: ProviderSettings, example: str) -> str:
    if not settings.base_url:
        raise SettingsInvalid(
            f"provider {settings.name or settings.kind}: base_url is not set: "
            f"give the service's address, for example {example}"
        )
    return settings.base_url


def required_token(
    settings: ProviderSettings, environment: Mapping[str, str], variable: str
) -> TokenSource:
    token = token_source(
        settings.token, settings.token_file, environment=environment, variable=variable
    )
    if token is None:
        raise CredentialMissing(
            f"no API key: set token or token_file, or the environment variable {variable} "
            f"or {variable}_FILE"
        )
    return token


def _check_base_url(
    settings: ProviderSettings, base_url: str, *, secret: bool, setting: str = "base_url"
) -> None:
    who = f"provider {settings.name or settings.kind}"
    try:
        scheme, host, _ = origin_of(base_url)
    except ValueError:
        raise SettingsInvalid(
            f"{who}: {setting} must be an http(s) URL with a host and without a user name"
        ) from None
    if scheme == "http" and secret and not (settings.allow_plain_http or _is_this_machine(host)):
        raise SettingsInvalid(
            f"{who}: {setting} is plain http, which would send the API key readable for anyone on "
            "the way: use https, or set allow_plain_http for a private network"
        )


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
