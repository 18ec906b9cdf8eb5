"""A real Prometheus as a child process, with the shipped configuration at a quicker pace."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import urllib3
import yaml

from deploy.local.process import LOOPBACK, ChildProcess, free_ports
from tests.observe.expressions import OBSERVABILITY, RULE_FILES

JOB = "bundle-extractor"
READY_S = 60.0
SCRAPE_S = 1


def missing() -> str | None:
    """Why there is no Prometheus here; None where there is one."""
    programs = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
    if not programs:
        return None
    return f"no {' and no '.join(programs)} (Debian: apt-get install prometheus)"


def promtool(*arguments: str, given: str | None = None, cwd: Path | None = None) -> str:
    """Its output.

    :raises AssertionError: it found something wrong; the text is what it said.
    """
    done = subprocess.run(
        ["promtool", *arguments],
        input=given,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"promtool {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@dataclass(frozen=True, slots=True)
class Prometheus:
    url: str
    process: ChildProcess

    def _get(self, path: str, **fields: str) -> Any:
        answer = urllib3.request(
            "GET", f"{self.url}/api/v1/{path}", fields=fields, timeout=60, retries=False
        )
        body = answer.json()
        assert body["status"] == "success", f"{path} {fields}: {body.get('error')}"
        return body["data"]

    def samples(self, query: str) -> list[float]:
        """The values of an instant query, without those that are not a number.

        :raises AssertionError: the query is wrong.
        """
        data = self._get("query", query=query)
        if data["resultType"] == "scalar":
            values = [float(data["result"][1])]
        else:
            values = [float(sample["value"][1]) for sample in data["result"]]
        return [value for value in values if not isnan(value)]

    def value(self, query: str) -> float:
        """Of a query with one result at most; 0.0 for none."""
        return sum(self.samples(query))

    def exemplars(self, query: str, start: float, end: float) -> list[dict[str, str]]:
        """The labels of the exemplars of a series."""
        found = self._get("query_exemplars", query=query, start=str(start), end=str(end))
        return [e["labels"] for series in found for e in series["exemplars"]]

    def alerts(self) -> list[dict[str, Any]]:
        """Pending and firing, with their annotations filled in."""
        found: list[dict[str, Any]] = self._get("alerts")["alerts"]
        return found

    def targets_up(self) -> int:
        found = self._get("targets", state="active")["activeTargets"]
        return sum(target["health"] == "up" for target in found)

    def rule_problems(self) -> list[str]:
        """What rules said when they were last evaluated."""
        groups = self._get("rules")["groups"]
        every = [rule for group in groups for rule in group["rules"]]
        return [f"{rule['name']}: {rule['lastError']}" for rule in every if rule.get("lastError")]


@contextmanager
def running(folder: Path, targets: Sequence[str]) -> Iterator[Prometheus]:
    """Scrapes ``targets`` (host:port) every second and evaluates the shipped rules as often; alerts
    do not wait for their time."""
    folder.mkdir(parents=True, exist_ok=True)
    config = yaml.safe_load((OBSERVABILITY / "prometheus" / "prometheus.yml").read_text("utf-8"))
    config["global"] |= {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": "1s"}
    for scrape in config["scrape_configs"]:
        assert scrape["job_name"] == JOB
        del scrape["dns_sd_configs"]
        scrape["static_configs"] = [{"targets": list(targets)}]
    for file in RULE_FILES:
        text = re.sub(r"^( +interval:) \S+$", r"\1 2s", file.read_text("utf-8"), flags=re.M)
        text = re.sub(r"^( +for:) \S+$", r"\1 0s", text, flags=re.M)
        (folder / file.name).write_text(text)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_ports(1)[0]
    url = f"http://{LOOPBACK}:{port}"
    process = ChildProcess(
        "prometheus",
        [
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={LOOPBACK}:{port}",
            "--enable-feature=exemplar-storage",
            "--log.level=warn",
        ],
        log_file=folder / "prometheus.log",
        cwd=folder,
    )
    process.start()
    try:
        process.wait_ready(lambda: _ready(url), READY_S)
        yield Prometheus(url, process)
    finally:
        process.kill()


def _ready(url: str) -> bool:
    try:
        answer = urllib3.request("GET", f"{url}/-/ready", timeout=5, retries=False)
    except (urllib3.exceptions.HTTPError, OSError):
        return False
    return answer.status == 200
