"""`bundles local` where Apache Kafka, Java or the S3 server's program cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from consumers.cli.common import Problem
from consumers.cli.local import KafkaMode, local
from consumers.client import BundleClient
from consumers.settings import load
from deploy.local import stack as stack_module
from deploy.local.jars import JarsUnavailable
from deploy.local.java import JavaMissing
from deploy.local.process import ServerFailed
from deploy.local.s3 import WeedMissing
from deploy.local.stack import LocalStack, StackOptions
from tests import pdfs


@pytest.mark.integration
def test_on_the_built_in_broker_bundles_get_results_and_the_end_of_a_server_is_told(
    tmp_path: Path,
) -> None:
    file = tmp_path / "scan.pdf"
    file.write_bytes(pdfs.one_page_scan(1))
    bad = tmp_path / "bad.pdf"
    bad.write_bytes(b"no PDF")

    def submit(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "consumers.cli", "submit", *arguments, "--wait"],
            env={**os.environ, **stack.environment()},
            capture_output=True,
            text=True,
            timeout=120,
        )

    with LocalStack(StackOptions(kafka="embedded"), lambda _: None) as stack:
        shown = submit(str(file), "--bundle", "b")
        assert shown.returncode == 0, shown.stderr
        assert "1 extracted, 0 dead-lettered" in shown.stdout

        shown = submit(str(file), str(bad), "--bundle", "with-a-dead-letter")
        assert shown.returncode == 1
        assert "document-002: dead letter, not_a_pdf" in shown.stdout
        assert "1 extracted, 1 dead-lettered" in shown.stdout

        # Waited for the other way round: the first has its result before anybody looks for it.
        with BundleClient(load(environment=stack.environment())) as client:
            first, second = (client.announce([file], bundle_id=f"{n}-of-two") for n in (1, 2))
            for announced in (second, first):
                assert client.wait(announced, timeout_s=30) is not None

        stack.s3.kill()
        with pytest.raises(ServerFailed, match=r"S3 server \(weed mini\) ended .* last lines:\n"):
            stack.wait()


@pytest.mark.parametrize("missing", [JavaMissing, JarsUnavailable, WeedMissing])
def test_what_is_missing_is_said_in_a_sentence(
    missing: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise missing("install this")

    monkeypatch.setattr(stack_module, "start_kafka", fail)
    with pytest.raises(Problem, match="install this"):
        local(kafka=KafkaMode.APACHE, workers=0)
