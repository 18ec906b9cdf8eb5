"""The trace of an event reaches the service that works on its documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.providers.protocol import SubmitOptions
from tests.contract.subjects import KEY, Infrai, SelfHosted

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("kind", [Infrai, SelfHosted])
@pytest.mark.parametrize("given", [TRACEPARENT, None])
def test_a_submit_carries_the_traceparent_it_was_given(
    kind: type[Infrai], given: str | None, tmp_path: Path
) -> None:
    subject = kind(tmp_path)
    try:
        options = SubmitOptions(traceparent=given)
        subject.provider.submit(subject.document(), key=KEY, options=options)
        (sent,) = [r for name, r in subject.service.requests if name == "submit"]
    finally:
        subject.close()
    assert sent.headers.get("traceparent") == given
