"""``python -m tests.compose``: brings up docker-compose.yml with three workers, kills one of them
while it has work, and counts what came out, as the demo does.

Needs a Docker engine. Images that cannot be pulled are stood in for (see `images`), and the last
line, one JSON document, says which. Everything has a project name and ports of its own, and is
removed at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import urllib3
import yaml

from consumers.client import BundleClient
from consumers.settings import load
from deploy.demo.count import count_all
from deploy.local.process import free_ports
from tests.compose import images, traffic
from tests.compose.engine import (
    ROOT,
    CheckFailed,
    Compose,
    Container,
    NoEngine,
    engine_version,
    run,
    wait_for,
)
from tests.compose.group import Group

WORKERS = 3
PORTS = ("KAFKA_PORT", "S3_PORT", "EXTRACTOR_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT")
READY_TIMEOUT_S = 600.0
SCRAPE_TIMEOUT_S = 180.0


def main() -> int:
    try:
        engine = engine_version()
        prepared = images.prepare(say)
        ports = {name: str(port) for name, port in zip(PORTS, free_ports(len(PORTS)), strict=True)}
        compose = Compose(f"bundles-check-{os.getpid()}", prepared.variables | ports)
    except NoEngine as error:
        say(f"compose-check needs a Docker engine: {error}")
        return 2
    except CheckFailed as error:
        say(f"compose-check: {error}")
        return 1
    services = ["kafka", "store", "setup", "extractor", "worker", "prometheus"]
    not_verified = ["grafana: provisioning parsed only"]
    if "GRAFANA_IMAGE" not in prepared.missing:
        services, not_verified = [*services, "grafana"], []
    say(f"engine {engine}, compose {compose.version}: {', '.join(services)}")
    try:
        parse_grafana()
        found = check(compose, services, ports)
    except (CheckFailed, TimeoutError) as error:
        say(f"compose-check: {error}")
        say_logs(compose)
        return 1
    finally:
        compose.down()
    found |= {"stood_in": prepared.stood_in, "not_verified": not_verified}
    found |= {"engine": engine, "compose": compose.version}
    print(json.dumps(found), flush=True)
    return 1 if found["lost"] or found["duplicated"] or found["resubmitted"] else 0


def check(compose: Compose, services: list[str], ports: dict[str, str]) -> dict[str, Any]:
    compose.up(services, WORKERS)
    healthy = wait_for(lambda: all_well(compose, services), READY_TIMEOUT_S, "all are healthy")
    say(f"healthy: {', '.join(healthy)}")
    with tempfile.TemporaryDirectory(prefix="compose-check-") as name:
        folder = Path(name)
        settings_file = write_host_settings(folder, ports)
        settings = load(config=settings_file, environment={})
        group = Group(
            settings.kafka.bootstrap_servers, settings.kafka.group_id, settings.topics.events
        )
        shared = wait_for(
            lambda: shares(group), READY_TIMEOUT_S, "the workers share the partitions"
        )
        say(f"partitions of the workers: {shared}")
        traffic.submit_from_host(settings_file, folder)
        targets = wait_for(
            lambda: scraped(ports["PROMETHEUS_PORT"]), SCRAPE_TIMEOUT_S, "Prometheus reaches them"
        )
        with BundleClient(settings) as client:
            announced, held = traffic.send_and_kill_one(client, folder, settings, compose, group)
            say(f"killed a worker that had {held} events in progress")
            traffic.await_results(client, announced)
        found = count_all(settings)
    accepted = traffic.jobs_accepted(ports["EXTRACTOR_PORT"])
    found.extra_jobs = max(0, accepted - sum(found.jobs.values()))
    stop_workers(compose)
    print(found.line(), flush=True)
    return {
        "services_healthy": len(healthy),
        "workers": len(shared),
        "partitions": shared,
        "scraped": targets,
        "killed_with_events": held,
        "documents": len(found.documents),
        "lost": found.lost,
        "duplicated": found.duplicated,
        "resubmitted": found.resubmitted,
    }


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def all_well(compose: Compose, services: list[str]) -> list[str] | None:
    """The services that are healthy, once all are; `setup` has to have ended well.

    :raises CheckFailed: a container ended that should not have.
    """
    found = compose.containers()
    for one in found:
        ended_well = one.service == "setup" and one.exit_code == 0
        if one.status == "exited" and not ended_well:
            raise CheckFailed(f"{one.service} ended with exit code {one.exit_code}")
    lasting = [one for one in found if one.service != "setup"]
    if {one.service for one in found} != set(services):
        return None
    if any(one.health != "healthy" for one in lasting):
        return None
    return sorted({one.service for one in lasting})


def write_host_settings(folder: Path, ports: dict[str, str]) -> Path:
    """deploy/compose/host.toml as it is, with the ports of this run."""
    text = (ROOT / "deploy/compose/host.toml").read_text()
    text = text.replace(":9092", f":{ports['KAFKA_PORT']}").replace(":9000", f":{ports['S3_PORT']}")
    tomllib.loads(text)
    file = folder / "host.toml"
    file.write_text(text)
    return file


def shares(group: Group) -> list[int] | None:
    """How many partitions each worker has, once all have some."""
    held = sorted(len(member.partitions) for member in group.members())
    return held if len(held) == WORKERS and held[0] > 0 else None


def scraped(port: str) -> int | None:
    """Workers that Prometheus has scraped, once it is all of them."""
    answer = urllib3.request("GET", f"http://127.0.0.1:{port}/api/v1/query?query=up", timeout=10)
    up = [one for one in answer.json()["data"]["result"] if one["value"][1] == "1"]
    return len(up) if len(up) >= WORKERS else None


def stop_workers(compose: Compose) -> None:
    """SIGTERM reaches the worker, and it ends by itself within its grace.

    :raises CheckFailed: one had to be killed.
    """

    def running() -> list[Container]:
        found = compose.containers()
        return [one for one in found if one.service == "worker" and one.status == "running"]

    stopped = {one.id for one in running()}
    compose("stop", "worker")
    for one in compose.containers():
        if one.id in stopped and one.exit_code != 0:
            raise CheckFailed(f"a worker without work ended with {one.exit_code} after SIGTERM")


def parse_grafana() -> None:
    """What Grafana would read, as far as that shows without Grafana."""
    folder = ROOT / "deploy/observability/grafana"
    for file in (folder / "provisioning").rglob("*.yaml"):
        if yaml.safe_load(file.read_text())["apiVersion"] != 1:
            raise CheckFailed(f"{file.name}: not of apiVersion 1")
    dashboards = [json.loads(file.read_text()) for file in (folder / "dashboards").glob("*.json")]
    if not dashboards or not all(one.get("uid") and one.get("panels") for one in dashboards):
        raise CheckFailed("a dashboard without uid or panels")


def say_logs(compose: Compose) -> None:
    for one in compose.containers():
        done = run("docker", "logs", "--tail", "15", one.id, check=False)
        say(f"--- {one.service}: {one.status}, {one.health}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.SubprocessError as error:
        sys.exit(str(error))
