"""What the check sends through the containers, and what came of it."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import urllib3

from consumers.client import Announcement, BundleClient
from consumers.settings import Settings
from consumers.stores import open_store
from deploy.demo.documents import scan
from tests.compose.engine import CheckFailed, Compose, run, wait_for
from tests.compose.group import Group

BUNDLES = 36
"""In each round of announcements."""
ROUNDS = 5
PAGES = 30
SENDERS = 4
END_TIMEOUT_S = 600.0


def submit_from_host(settings_file: Path, folder: Path) -> None:
    """`bundles submit` as a user of this machine would call it."""
    document = folder / "submitted.pdf"
    document.write_bytes(scan(1, pages=2))
    command = [sys.executable, "-m", "consumers.cli", "submit", "--wait", "--json"]
    done = run(*command, "--config", settings_file, document, timeout=END_TIMEOUT_S)
    result = json.loads(done.stdout.splitlines()[-1])["result"]
    if result["extracted"] != 1:
        raise CheckFailed(f"bundles submit from the host: {result}")


def send_and_kill_one(
    client: BundleClient, folder: Path, settings: Settings, compose: Compose, group: Group
) -> tuple[list[Announcement], int]:
    """Announce until a worker can be killed that has work; how many events it had in progress.

    :raises CheckFailed: they are always done before one can be killed: the run shows nothing.
    """
    announced: list[Announcement] = []
    for _ in range(ROUNDS):
        announced += announce(client, folder, first=len(announced))
        ids = {one.bundle_id for one in announced}
        wait_for(partial(all_submitted, settings, ids), END_TIMEOUT_S, "every job is submitted")
        if held := kill_one_with_work(compose, group):
            return announced, held
    raise CheckFailed("no worker had work in progress when one was to be killed")


def announce(client: BundleClient, folder: Path, *, first: int) -> list[Announcement]:
    """One document each, made beforehand and sent side by side, to have much in progress."""
    files = []
    for number in range(first, first + BUNDLES):
        files.append(folder / f"check-{number:03d}.pdf")
        files[-1].write_bytes(scan(100 + number, pages=PAGES))
    with ThreadPoolExecutor(SENDERS) as senders:
        return list(senders.map(lambda f: client.announce([f], bundle_id=f.stem), files))


def all_submitted(settings: Settings, bundle_ids: set[str]) -> bool:
    """Whether the service has taken every job and the job records say so.

    A worker killed between the two would rightly submit once more with the same idempotency key,
    and the count would show it.
    """
    submitted = set()
    store = open_store(settings.store)
    try:
        for listed in store.list(settings.store.output_bucket, "_jobs/"):
            stored = store.get(settings.store.output_bucket, listed.key, max_bytes=2**23)
            record = json.loads(stored.body)
            if all(shard.get("job_id") for shard in record["shards"]):
                submitted.add(record["bundle_id"])
    finally:
        store.close()
    return bundle_ids <= submitted


def kill_one_with_work(compose: Compose, group: Group) -> int:
    """SIGKILL to the worker with most events in progress; how many that were (0: none)."""
    lag = group.lag()
    by_address = {
        member.address: sum(lag.get(number, 0) for number in member.partitions)
        for member in group.members()
    }
    workers = [one for one in compose.containers() if one.service == "worker"]
    victim = max(workers, key=lambda one: by_address.get(one.address, 0))
    held = by_address.get(victim.address, 0)
    if held:
        run("docker", "kill", "--signal", "KILL", victim.id)
    return held


def await_results(client: BundleClient, announced: list[Announcement]) -> None:
    for one in announced:
        if client.wait(one, timeout_s=END_TIMEOUT_S) is None:
            raise CheckFailed(f"{one.bundle_id} did not end within {END_TIMEOUT_S:g} s")


def jobs_accepted(port: str) -> int:
    """Jobs that the extraction service has accepted, by its own count."""
    answer = urllib3.request("GET", f"http://127.0.0.1:{port}/metrics", timeout=10)
    name = 'extractor_submits_total{outcome="accepted"}'
    lines = answer.data.decode().splitlines()
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines if line.startswith(name))
