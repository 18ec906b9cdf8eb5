"""Our signatures are those of minio's signer."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import SplitResult, quote

from hypothesis import given
from hypothesis import strategies as st
from minio.credentials.credentials import Credentials
from minio.signer import sign_v4_s3

from sinks.objectstore.signing import Signer

# Header values as they can be sent: no line break, no two blanks in a row.
VALUES = st.lists(st.text("abcXYZ019-_=;/\"'", min_size=1), max_size=4).map(" ".join)


@given(
    method=st.sampled_from(["GET", "PUT", "HEAD", "DELETE"]),
    key=st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable()),
    headers=st.dictionaries(st.from_regex(r"x-amz-meta-[a-z]{1,8}", fullmatch=True), VALUES),
    more=st.fixed_dictionaries(
        {}, optional={"If-None-Match": st.just("*"), "Content-Type": VALUES}
    ),
    secret=st.text(min_size=1),
    token=st.none() | st.from_regex(r"[A-Za-z0-9+/=]{1,20}", fullmatch=True),
    now=st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
)
def test_signatures_are_those_of_minio(
    method: str,
    key: str,
    headers: dict[str, str],
    more: dict[str, str],
    secret: str,
    token: str | None,
    now: datetime,
) -> None:
    path, sha256 = f"/bucket/{quote(key, safe='/~')}", "0" * 64
    ours = {**headers, **more, "Host": "store:9000"}
    signer = Signer("access", secret, "eu-west-1", token)
    for _ in range(2):  # the second time with the key of the first
        mine = dict(ours)
        signer.sign(method, path, mine, sha256=sha256, now=now)
    theirs = {name: value for name, value in mine.items() if name != "Authorization"}
    sign_v4_s3(
        method=method,
        url=SplitResult("http", "store:9000", path, "", ""),
        region="eu-west-1",
        headers=theirs,  # type: ignore[arg-type]
        credentials=Credentials("access", secret, token),
        content_sha256=sha256,
        date=now,
    )
    assert mine == theirs


def test_a_new_day_has_a_new_key() -> None:
    signer = Signer("access", "secret", "us-east-1", None)
    signatures = []
    for day in (1, 2, 1):
        headers = {"Host": "h"}
        signer.sign("GET", "/a", headers, sha256="0" * 64, now=datetime(2026, 1, day, tzinfo=UTC))
        signatures.append(headers["Authorization"])
    assert signatures[0] == signatures[2] != signatures[1]
