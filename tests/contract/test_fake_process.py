"""The Infrai stand-in as a process of its own, as the fault tests and benchmarks use it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import urllib3
from pydantic import SecretStr

from consumers.providers.errors import SubmitUnknown, Throttled
from consumers.providers.protocol import Document, JobState, Provider, SubmitOptions
from consumers.providers.regions import cuts_nothing
from consumers.providers.registry import build
from consumers.providers.settings import Kind, ProviderSettings
from tests import pdfs


@contextmanager
def running(log: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], Provider, str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.contract.fakes.infrai", "--log", str(log), *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        address = json.loads(process.stdout.readline())["listening"]
        settings = ProviderSettings(
            kind=Kind.INFRAI, base_url=address, token=SecretStr("fake-token")
        )
        provider = build(settings, cut_regions=cuts_nothing, environment={})
        yield process, provider, address
        provider.close()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def document(folder: Path, number: int = 0) -> Document:
    content = pdfs.one_page_scan(number)
    path = folder / f"{number}.pdf"
    path.write_bytes(content)
    return Document(path, hashlib.sha256(content).hexdigest(), len(content), 1)


def submit(provider: Provider, folder: Path, key: str, number: int = 0) -> str:
    return provider.submit(document(folder, number), key=key, options=SubmitOptions()).job_id


def accepted(log: Path) -> list[str]:
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return [event["key"] for event in events if event["event"] == "accepted"]


def test_accepted_jobs_survive_a_kill_and_are_the_same_under_their_keys(tmp_path: Path) -> None:
    log = tmp_path / "jobs.jsonl"
    with running(log, "--run-time", "0.2") as (process, provider, _):
        ids = [submit(provider, tmp_path, f"key-{number}", number) for number in range(5)]
        process.kill()
        process.wait()
    with running(log, "--run-time", "0.2") as (_, provider, _):
        again = [submit(provider, tmp_path, f"key-{number}", number) for number in range(5)]
        assert again == ids
        deadline = time.monotonic() + 30
        while provider.poll(ids[0]).state is JobState.RUNNING:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        image = provider.poll(ids[0]).images[0]
        assert image.sha256 is not None
        provider.fetch_image(ids[0], image, tmp_path / "image", max_bytes=10_000)
    assert accepted(log) == [f"key-{number}" for number in range(5)]


def test_full_slots_are_a_throttle_and_a_known_key_is_not(tmp_path: Path) -> None:
    with running(tmp_path / "log", "--run-time", "600", "--slots", "1") as (_, provider, _):
        first = submit(provider, tmp_path, "key-1")
        assert submit(provider, tmp_path, "key-1") == first
        with pytest.raises(Throttled) as caught:
            submit(provider, tmp_path, "key-2")
        assert caught.value.retry_after == 1.0


def test_faults_are_scripted_at_start_and_while_it_runs(tmp_path: Path) -> None:
    log = tmp_path / "log"
    lost = json.dumps({"operation": "submit", "kind": "lost"})
    with running(log, "--fault", lost) as (_, provider, address):
        with pytest.raises(SubmitUnknown):
            submit(provider, tmp_path, "key-1")
        assert accepted(log) == ["key-1"]
        submit(provider, tmp_path, "key-1")
        script = [{"operation": "submit", "status": 429, "headers": {"Retry-After": "3"}}]
        control = address.removesuffix("/v1") + "/_control/faults"
        answer = urllib3.request("POST", control, json=script)
        assert answer.status == 204
        with pytest.raises(Throttled) as caught:
            submit(provider, tmp_path, "key-1")
        assert caught.value.retry_after == 3.0
    assert accepted(log) == ["key-1"]
