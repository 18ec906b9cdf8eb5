"""`bundles local` as a process: nothing is left behind however it ends, everything is kept with
`--data`, and a server that dies is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import urllib3
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from consumers.client import BundleClient
from consumers.settings import load
from deploy.demo.count import Count, count_all
from tests import pdfs
from tests.pipeline import wait_for

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(400),
    pytest.mark.usefixtures("not_under_nohup"),
]

_MARK = "STARTED_BY_TEST"
_START_S = 120.0
_END_S = 90.0


class LocalCommand:
    """One run of the command; all that it starts inherits a mark in its environment."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.temporary = folder / "tmp"
        self.state = folder / "state"
        self._log = folder / "local.log"
        self._mark = uuid.uuid4().hex
        self.temporary.mkdir(exist_ok=True)
        clean = {k: v for k, v in os.environ.items() if not k.startswith("BUNDLES_")}
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "consumers.cli", "local", *arguments],
                env={
                    **clean,
                    "TMPDIR": str(self.temporary),
                    "XDG_STATE_HOME": str(self.state),
                    _MARK: self._mark,
                },
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def said(self) -> str:
        return self._log.read_text()

    def wait_until_it_says(self, text: str) -> None:
        def there() -> bool:
            assert self.process.poll() is None, self.said()
            return text in self.said()

        wait_for(there, _START_S, text, self.said)

    def wait_end(self) -> int:
        return self.process.wait(_END_S)

    def end(self, *numbers: signal.Signals) -> int:
        for number in numbers:
            self.process.send_signal(number)
        return self.wait_end()

    def processes(self) -> list[psutil.Process]:
        """All that run with the mark, whoever their parent is."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(_MARK) == self._mark:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def kill(self, word: str) -> None:
        """SIGKILL the one process whose command line has ``word``."""
        (found,) = [p for p in self.processes() if any(word in part for part in p.cmdline())]
        found.kill()

    def left_behind(self) -> list[str]:
        files = [*self.temporary.iterdir(), *self.state.rglob("*.toml")]
        return [*(" ".join(p.cmdline()) for p in self.processes()), *map(str, files)]

    # -- what stands in it ---------------------------------------------------------------------

    @property
    def settings_file(self) -> Path:
        return self.state / "bundle-extractor" / "local.toml"

    def extract(self, file: Path) -> dict[str, object] | None:
        with BundleClient(load(config=self.settings_file, environment={})) as client:
            return client.wait(client.announce([file], bundle_id="kept"), timeout_s=60)

    def count(self) -> Count:
        return count_all(load(config=self.settings_file, environment={}))

    def committed(self) -> int:
        """Events whose offset has been committed, over all partitions."""
        settings = load(config=self.settings_file, environment={})
        admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap_servers})
        group = settings.kafka.group_id
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        return sum(max(0, one.offset) for one in asked[group].result(30).topic_partitions)

    def jobs_of_this_life(self) -> float:
        """Jobs that the extraction service accepted since it was started."""
        (line,) = [x for x in self.said().splitlines() if x.startswith("  extraction service: ")]
        text = urllib3.request("GET", f"{line.split(': ')[1]}/metrics", timeout=10).data.decode()
        accepted = 'extractor_submits_total{outcome="accepted"}'
        return sum(float(x.split()[-1]) for x in text.splitlines() if x.startswith(accepted))


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[LocalCommand]:
    command = LocalCommand(folder, *arguments)
    try:
        yield command
    finally:
        for process in command.processes():
            with suppress(psutil.Error):
                process.kill()
        command.process.wait(_END_S)


@pytest.mark.parametrize(
    ("kafka", "moment", "numbers"),
    [
        ("apache", "starting Kafka", [signal.SIGTERM]),
        ("embedded", "Kafka: ", [signal.SIGHUP]),
        ("embedded", "extraction service: ", [signal.SIGTERM, signal.SIGINT]),
    ],
)
def test_nothing_is_left_behind_by_a_start_that_is_told_to_end(
    tmp_path: Path, kafka: str, moment: str, numbers: list[signal.Signals]
) -> None:
    with running(tmp_path, "--kafka", kafka) as command:
        command.wait_until_it_says(moment)
        assert command.end(*numbers) - 128 in numbers, command.said()
        assert command.left_behind() == []
        assert "before everything was up" in command.said()
        assert "Traceback" not in command.said()


@pytest.mark.slow
def test_with_a_data_folder_a_bundle_that_was_done_is_done_after_a_restart(tmp_path: Path) -> None:
    scan = tmp_path / "scan.pdf"
    scan.write_bytes(pdfs.one_page_scan(1))
    data = tmp_path / "data"
    with running(tmp_path, "--data", str(data)) as command:
        command.wait_until_it_says("everything is up")
        first = command.extract(scan)
        before = command.count()
        assert command.jobs_of_this_life() == 1
        assert command.end(signal.SIGTERM) == 0, command.said()
        assert command.left_behind() == []
    assert first is not None

    with running(tmp_path, "--data", str(data)) as command:
        command.wait_until_it_says("everything is up")
        assert command.count() == before
        assert command.extract(scan) == first
        after = command.count()
        assert (after.manifests, after.results) == (before.manifests, before.results)
        assert (after.submits, after.resubmitted) == (before.submits, 0)
        assert command.jobs_of_this_life() == 0

        # With an offset to commit, the worker would wait for Kafka until its grace period ends.
        wait_for(lambda: command.committed() == 2, _END_S, "both events to be committed")
        command.kill("kafka.Kafka")
        assert command.wait_end() == 1
        assert "Kafka broker 1 ended with exit code -9. Its last lines:" in command.said()
        assert command.left_behind() == []
