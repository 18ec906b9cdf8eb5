"""The docker and docker-compose commands of this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[2]
COMMAND_TIMEOUT_S = 120.0
UP_TIMEOUT_S = 900.0
PULL_TIMEOUT_S = 900.0
BUILD_TIMEOUT_S = 1800.0

Found = TypeVar("Found")


class CheckFailed(Exception):
    """The text says what was expected and what was found."""


class NoEngine(Exception):
    """There is no Docker engine to check on; the text says what is missing."""


def run(
    *command: str | Path,
    timeout: float = COMMAND_TIMEOUT_S,
    env: Mapping[str, str] | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """:raises CheckFailed: it failed (with its last lines), or took longer than ``timeout`` s."""
    named = " ".join(str(part) for part in command[:4])
    try:
        done = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=env,
            cwd=ROOT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CheckFailed(f"{named} ... took longer than {timeout:g} s") from None
    if check and done.returncode:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
        raise CheckFailed(f"{named} ... failed with exit code {done.returncode}:\n{last}")
    return done


def wait_for(look: Callable[[], Found | None], timeout_s: float, what: str) -> Found:
    """:raises TimeoutError: it did not come true within ``timeout_s`` seconds."""
    deadline = time.monotonic() + timeout_s
    while True:
        if found := look():
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so within {timeout_s:g} s: {what}")
        time.sleep(1.0)


def engine_version() -> str:
    """:raises NoEngine: no docker command, or no engine that answers it."""
    if shutil.which("docker") is None:
        raise NoEngine("there is no docker command on the PATH")
    done = run("docker", "version", "--format", "{{.Server.Version}}", check=False)
    if done.returncode:
        raise NoEngine(f"no Docker engine answers: {done.stderr.strip()}")
    return done.stdout.strip()


def has_image(name: str) -> bool:
    return run("docker", "image", "inspect", name, check=False).returncode == 0


def can_pull(name: str) -> bool:
    done = run("docker", "pull", "--quiet", name, timeout=PULL_TIMEOUT_S, check=False)
    return done.returncode == 0


def build(dockerfile: Path, context: Path, tag: str, **arguments: str) -> None:
    """On the host's network: what the build fetches comes the way it comes to the host."""
    command: list[str | Path] = ["docker", "build", "--quiet", "--network", "host"]
    for name, value in arguments.items():
        command += ["--build-arg", f"{name}={value}"]
    run(*command, "--file", dockerfile, "--tag", tag, context, timeout=BUILD_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class Container:
    id: str
    service: str
    status: str
    """created, running, exited, ..."""
    health: str
    """starting, healthy, unhealthy; empty without a health check."""
    exit_code: int
    address: str
    """Inside the project's network."""


class Compose:
    """One project of docker-compose.yml. ``variables`` fill in the file's ``${...}``."""

    def __init__(self, project: str, variables: Mapping[str, str]) -> None:
        """:raises NoEngine: neither `docker compose` nor `docker-compose` is there."""
        self.project = project
        self._env = {**os.environ, **variables}
        self._command = _compose_command()
        self.version = run(*self._command, "version", "--short").stdout.strip()

    @property
    def waits(self) -> bool:
        """Whether it knows `up --wait`."""
        return not self.version.lstrip("v").startswith("1.")

    def __call__(self, *arguments: str, timeout: float = COMMAND_TIMEOUT_S) -> str:
        return run(
            *(*self._command, "--project-name", self.project, *arguments),
            timeout=timeout,
            env=self._env,
        ).stdout

    def up(self, services: Sequence[str], workers: int) -> None:
        wait = ["--wait", "--wait-timeout", f"{UP_TIMEOUT_S:.0f}"] if self.waits else []
        scale = ["--scale", f"worker={workers}"]
        self("up", "--detach", *wait, *scale, *services, timeout=UP_TIMEOUT_S + 60)

    def down(self) -> None:
        """Stop and remove everything, data included."""
        self("down", "--volumes", "--remove-orphans", timeout=300)

    def containers(self) -> list[Container]:
        label = f"label=com.docker.compose.project={self.project}"
        ids = run("docker", "ps", "--all", "--quiet", "--filter", label).stdout.split()
        if not ids:
            return []
        found: list[dict[str, Any]] = json.loads(run("docker", "inspect", *ids).stdout)
        return [_container(one) for one in found]


def _container(one: Mapping[str, Any]) -> Container:
    state, networks = one["State"], one["NetworkSettings"]["Networks"]
    return Container(
        id=one["Id"],
        service=one["Config"]["Labels"]["com.docker.compose.service"],
        status=state["Status"],
        health=state.get("Health", {}).get("Status", ""),
        exit_code=state["ExitCode"],
        address=next((n["IPAddress"] for n in networks.values()), ""),
    )


def _compose_command() -> list[str]:
    """``COMPOSE``, where set, is the program to use."""
    if named := os.environ.get("COMPOSE"):
        return named.split()
    if run("docker", "compose", "version", check=False).returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    raise NoEngine("there is neither `docker compose` nor `docker-compose`")
