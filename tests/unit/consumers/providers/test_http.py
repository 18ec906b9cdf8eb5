"""Whose URL is it: the credential goes to the configured origin and to no other."""

from __future__ import annotations

import pytest

from consumers.providers.answers import last_path_part
from consumers.providers.errors import ResponseUnsafe
from consumers.providers.http import ApiClient
from consumers.providers.transport import Limits

BASE = "https://Name.cognitiveservices.azure.com"


@pytest.fixture
def api() -> ApiClient:
    return ApiClient(f"{BASE}/documentintelligence", credential=dict, limits=Limits())


@pytest.mark.parametrize(
    "url",
    [
        "https://name.cognitiveservices.azure.com/r/1",
        "https://NAME.COGNITIVESERVICES.AZURE.COM/r/1",
        "HTTPS://name.cognitiveservices.azure.com:443/r/1",
        "/r/1",
        "r/1",
        "//name.cognitiveservices.azure.com/r/1",
        "https:///r/1",
    ],
)
def test_a_url_of_the_own_origin_is_ones_own_however_it_is_written(
    api: ApiClient, url: str
) -> None:
    assert last_path_part(api.own_url(url, operation="submit")) == "1"


@pytest.mark.parametrize(
    "url",
    [
        "https://name.cognitiveservices.azure.com.evil.example/r/1",
        "https://evil.example/name.cognitiveservices.azure.com/r/1",
        "https://name.cognitiveservices.azure.com:8443/r/1",
        "https://name.cognitiveservices.azure.com:443@evil.example/r/1",
        "https://name.cognitiveservices.azure.com@evil.example/r/1",
        "https://me@name.cognitiveservices.azure.com/r/1",
        "https://evil.example\\@name.cognitiveservices.azure.com/r/1",
        "https://evil.example#@name.cognitiveservices.azure.com/r/1",
        "https://evil.example?name.cognitiveservices.azure.com/r/1",
        "https://name.cognitiveservices.azure.com./r/1",
        "https://name.cognitiveservices.azure.com%2eevil.example/r/1",
        "https://n\u0430me.cognitiveservices.azure.com/r/1",
        "http://name.cognitiveservices.azure.com/r/1",
        "ftp://name.cognitiveservices.azure.com/r/1",
        "//evil.example/r/1",
        "https://[::1/r/1",
        "https://name.cognitiveservices.azure.com:99999/r/1",
        "https://name.cognitiveservices.azure.com/" + "x" * 20_000,
    ],
)
def test_a_url_of_another_origin_is_refused_whatever_it_looks_like(
    api: ApiClient, url: str
) -> None:
    with pytest.raises(ResponseUnsafe) as caught:
        api.own_url(url, operation="submit")
    assert "evil" not in str(caught.value)


@pytest.mark.parametrize(
    "path", ["/r/", "/", "/r/..", "/r/.", "/r/a%2f..%2fb", "/r/a;b", "/r/a b", "/r/" + "x" * 600]
)
def test_a_job_id_that_could_lead_elsewhere_is_none(path: str) -> None:
    assert last_path_part(BASE + path) in (None, "r")
