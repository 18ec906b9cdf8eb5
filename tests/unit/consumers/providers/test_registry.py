from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from consumers.providers.infrai import InfraiProvider
from consumers.providers.regions import cuts_nothing
from consumers.providers.registry import SettingsInvalid, build
from consumers.providers.selfhosted import SelfHostedProvider
from consumers.providers.settings import AwsSettings, GoogleSettings, Kind, ProviderSettings

TOKEN = SecretStr("a-token")


def complaint(settings: ProviderSettings) -> str:
    with pytest.raises(SettingsInvalid) as caught:
        build(settings, cut_regions=cuts_nothing, environment={})
    return str(caught.value)


def test_infrai_needs_only_its_key(tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("from-a-file\n")
    settings = ProviderSettings(kind=Kind.INFRAI)
    for environment in ({"INFRAI_API_KEY": "k"}, {"INFRAI_API_KEY_FILE": str(key_file)}):
        provider = build(settings, cut_regions=cuts_nothing, environment=environment)
        assert isinstance(provider, InfraiProvider)
        provider.close()


def test_the_self_hosted_service_may_be_without_a_token() -> None:
    settings = ProviderSettings(kind=Kind.SELFHOSTED, base_url="http://extractor:8080/v1")
    provider = build(settings, cut_regions=cuts_nothing, environment={})
    assert isinstance(provider, SelfHostedProvider)
    assert provider.name == "selfhosted"
    provider.close()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (ProviderSettings(kind=Kind.INFRAI), ("INFRAI_API_KEY", "token_file")),
        (ProviderSettings(kind=Kind.SELFHOSTED), ("base_url", "http://")),
        (ProviderSettings(kind=Kind.SELFHOSTED, base_url="extractor:80"), ("base_url",)),
        (ProviderSettings(kind=Kind.AZURE, token=TOKEN), ("base_url", "cognitiveservices")),
        (ProviderSettings(kind=Kind.GOOGLE, token=TOKEN), ("google.project",)),
        (ProviderSettings(kind=Kind.AWS_LAMBDA), ("aws.bucket",)),
        (ProviderSettings(kind=Kind.TEXTRACT), ("aws.bucket",)),
        (
            ProviderSettings(kind=Kind.SELFHOSTED, base_url="http://h/v1", token=TOKEN),
            ("allow_plain_http", "https"),
        ),
        *(
            (
                ProviderSettings(
                    kind=Kind.AWS_LAMBDA, aws=AwsSettings(bucket="b", **{name: "http://h"})
                ),
                (f"aws.{name}", "allow_plain_http"),
            )
            for name in ("s3_url", "lambda_url")
        ),
        (
            ProviderSettings(
                kind=Kind.TEXTRACT, aws=AwsSettings(bucket="b", textract_url="http://h")
            ),
            ("aws.textract_url", "allow_plain_http"),
        ),
        (
            ProviderSettings(kind=Kind.INFRAI, token_file=Path("/does/not/exist")),
            ("token_file", "cannot be read"),
        ),
        (ProviderSettings(kind=Kind.INFRAI, token=SecretStr("")), ("token", "empty")),
    ],
)
def test_a_setting_that_cannot_work_is_named_with_its_fix(
    settings: ProviderSettings, words: tuple[str, ...]
) -> None:
    text = complaint(settings)
    assert all(word in text for word in words), text


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in list(sys.modules):
        if module.startswith(("consumers.providers.aws", "botocore")):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "botocore", None)
    settings = ProviderSettings(kind=Kind.AWS_LAMBDA, aws=AwsSettings(bucket="b"))
    assert "bundle-extractor[aws]" in complaint(settings)


def test_google_without_any_identity_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.auth", None)
    options = GoogleSettings(project="p", processor="x", bucket="b")
    assert "bundle-extractor[google]" in complaint(
        ProviderSettings(kind=Kind.GOOGLE, google=options)
    )


def test_a_misspelt_setting_is_refused() -> None:
    with pytest.raises(ValidationError):
        ProviderSettings.model_validate({"kind": "infrai", "base_ulr": "https://x"})


def test_a_prefix_cannot_leave_its_bucket_folder() -> None:
    with pytest.raises(ValidationError):
        AwsSettings(bucket="b", prefix="x")
    with pytest.raises(ValidationError):
        AwsSettings(bucket="b", prefix="/x/")
