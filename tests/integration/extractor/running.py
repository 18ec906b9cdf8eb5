"""Starts the real service as a process, and talks to it as any client would."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

PROJECT = Path(__file__).parents[3]
COMMAND = (sys.executable, "-m", "deploy.extractor", "--port", "0")
TOKEN = "token-of-this-test-run"
FAKE_ENGINE = "tests.integration.extractor.engines:by_document"
PATIENCE_S = 60.0


class Service:
    """One data directory, and the process that serves it; `start` may be called again."""

    def __init__(self, root: Path, **settings: object) -> None:
        root.mkdir(exist_ok=True)
        self.data_dir = root / "data"
        self.log = root / "service.log"
        self.settings = {"engine": FAKE_ENGINE, "workers": 1, "min_free_bytes": 0, **settings}
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.http = requests.Session()

    def start(self) -> None:
        environment = {
            **os.environ,
            "EXTRACTOR_TOKEN": TOKEN,
            **{f"EXTRACTOR_{name.upper()}": str(value) for name, value in self.settings.items()},
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "--data-dir", str(self.data_dir)],
                cwd=PROJECT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
        line = self.process.stdout.readline() if readable else b""
        assert line, f"the service did not start: {self.log.read_text()}"
        self.url = json.loads(line)["listening"]

    def kill(self) -> None:
        """As a power cut or the kernel would: no chance to clean up."""
        assert self.process is not None
        self.process.kill()
        self._reap()

    def stop(self) -> int:
        """As an operator would; returns the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self._reap()

    def _reap(self) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        code = self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        self.http.close()
        return code

    def __enter__(self) -> Service:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()

    # Requests

    def headers(self, key: str | None = None) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return headers if key is None else {**headers, "Idempotency-Key": key}

    def submit(
        self, document: bytes, key: str | None = None, **fields: object
    ) -> requests.Response:
        return self.http.post(
            f"{self.url}/v1/pdf/extract_images",
            headers=self.headers(key),
            files={"file": ("report.pdf", document, "application/pdf")},
            data={name: str(value) for name, value in fields.items()},
            timeout=PATIENCE_S,
        )

    def submitted(self, document: bytes, key: str | None = None, **fields: Any) -> str:
        answer = self.submit(document, key, **fields)
        assert answer.status_code == 202, answer.text
        job_id: str = answer.json()["job_id"]
        return job_id

    def poll(self, job_id: str, wait: float | str | None = None) -> requests.Response:
        return self.http.get(
            f"{self.url}/v1/pdf/job/get/{job_id}",
            params={} if wait is None else {"wait": wait},
            headers=self.headers(),
            timeout=PATIENCE_S,
        )

    def finished(self, job_id: str) -> dict[str, Any]:
        """The job's last answer, as soon as it has one."""
        answers: list[dict[str, Any]] = []

        def is_finished() -> bool:
            answer = self.poll(job_id, wait=5)
            assert answer.status_code == 200, answer.text
            answers.append(answer.json())
            return answers[-1]["status"] in ("completed", "failed")

        wait_until(is_finished)
        return answers[-1]

    def extracted(self, document: bytes, **fields: Any) -> dict[str, Any]:
        return self.finished(self.submitted(document, **fields))

    def delete(self, job_id: str) -> requests.Response:
        return self.http.delete(
            f"{self.url}/v1/pdf/job/{job_id}", headers=self.headers(), timeout=PATIENCE_S
        )

    def metric(self, line_start: str) -> float:
        text = self.http.get(f"{self.url}/metrics", timeout=PATIENCE_S).text
        for line in text.splitlines():
            if line.startswith(line_start + " "):
                return float(line.split()[-1])
        return 0.0

    def settled_files(self) -> list[str]:
        """What is on disk when no job is under way."""
        wait_until(
            lambda: (
                self.metric("extractor_jobs_queued") == self.metric("extractor_jobs_running") == 0
            )
        )
        return self.files()

    def files(self) -> list[str]:
        """Every document and image on disk, by name."""
        folders = (self.data_dir / "inputs", self.data_dir / "outputs")
        return sorted(
            path.name for folder in folders for path in folder.rglob("*") if path.is_file()
        )


def wait_until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
