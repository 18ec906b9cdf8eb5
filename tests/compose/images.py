"""The images of docker-compose.yml: the real ones where they can be pulled, else stand-ins.

A stand-in has a name of its own (``bundles-standin/...``), so that nobody takes it for the real
one later, and the same interface: variables, ports, paths, health check.
"""

from __future__ import annotations

import os
import re
import shutil
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local.jars import cache_folder, kafka_class_path, locked_jars
from deploy.local.java import find_java
from deploy.local.s3 import weed_program
from tests.compose.engine import ROOT, CheckFailed, build, can_pull, has_image, run

HERE = Path(__file__).parent / "standins"
PYTHON = "bundles-standin/python"
OURS = "bundle-extractor:compose-check"
DEBOOTSTRAP_TIMEOUT_S = 1800.0
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"

Say = Callable[[str], None]


@dataclass(slots=True)
class Images:
    """``variables`` for docker-compose.yml; ``stood_in``: what is not what it is called."""

    variables: dict[str, str] = field(default_factory=dict)
    stood_in: list[str] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)
    """Variables whose image can be neither pulled nor stood in for."""


def defaults() -> dict[str, str]:
    """Variable -> default, of every ``${NAME_IMAGE:-default}`` of docker-compose.yml."""
    text = (ROOT / "docker-compose.yml").read_text()
    return dict(re.findall(r"\$\{([A-Z0-9]+_IMAGE):-([^}]+)\}", text))


def prepare(say: Say) -> Images:
    """Pull or build all images, and build ours from the working tree."""
    images = Images()
    standins = {"KAFKA_IMAGE": _kafka, "S3_IMAGE": _store, "PROMETHEUS_IMAGE": _prometheus}
    for variable, default in defaults().items():
        if variable == "BUNDLES_IMAGE":
            continue
        wanted = os.environ.get(variable, default)
        if has_image(wanted) or can_pull(wanted):
            images.variables[variable] = wanted
            say(f"{wanted}: the real one")
        elif variable == "BASE_IMAGE":
            images.variables[variable] = _python(say)
            images.stood_in.append(f"{wanted}: Debian's Python")
        elif variable in standins:
            say(f"{wanted}: cannot be pulled, building a stand-in")
            images.variables[variable], inside = standins[variable](_python(say))
            images.stood_in.append(f"{wanted}: {inside}")
        else:
            say(f"{wanted}: cannot be pulled, and there is no stand-in")
            images.missing.add(variable)
    say("building our image")
    arguments = {"BASE_IMAGE": images.variables["BASE_IMAGE"]}
    if "PIP_INDEX_URL" in os.environ:
        arguments["PIP_INDEX_URL"] = os.environ["PIP_INDEX_URL"]
    build(ROOT / "deploy/Dockerfile", ROOT, OURS, **arguments)
    images.variables["BUNDLES_IMAGE"] = OURS
    return images


def _python(say: Say) -> str:
    """A minimal Debian with Python, that trusts whom this machine trusts."""
    if has_image(PYTHON):
        return PYTHON
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise CheckFailed(
            "no image can be pulled; to build stand-ins, install debootstrap and be root"
        )
    say("building a base with debootstrap")
    with tempfile.TemporaryDirectory(prefix="compose-base-") as name:
        root, archive = Path(name) / "root", Path(name) / "root.tar"
        packages = "python3,python3-venv,ca-certificates"
        run(
            *("debootstrap", "--variant=minbase", f"--include={packages}", _release(), root),
            timeout=DEBOOTSTRAP_TIMEOUT_S,
        )
        for cache in (
            *root.glob("var/cache/apt/archives/*.deb"),
            *root.glob("var/lib/apt/lists/*"),
        ):
            cache.unlink() if cache.is_file() else shutil.rmtree(cache)
        trusted = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
        if trusted:
            shutil.copyfile(trusted, root / CERTIFICATES)
        run("tar", "-C", root, "-cf", archive, ".")
        run(
            *("docker", "import", "--change", f"ENV PIP_CERT=/{CERTIFICATES}"),
            *("--change", "ENV DEBIAN_FRONTEND=noninteractive", archive, PYTHON),
            timeout=600,
        )
    return PYTHON


def _release() -> str:
    """This machine's Debian release, else the current stable."""
    found = dict(
        line.split("=", 1)
        for line in Path("/etc/os-release").read_text().splitlines()
        if "=" in line
    )
    return found.get("VERSION_CODENAME", "stable") if found.get("ID") == "debian" else "stable"


def _kafka(base: str) -> tuple[str, str]:
    kafka_class_path()
    with tempfile.TemporaryDirectory(prefix="compose-kafka-") as name:
        context = Path(name)
        (context / "jars").mkdir()
        for jar in locked_jars():
            copied = context / "jars" / jar.file_name
            shutil.copyfile(cache_folder() / jar.file_name, copied)
            copied.chmod(0o644)
        shutil.copytree(find_java().resolve().parents[1], context / "java")
        shutil.copy(HERE / "kafka.py", context)
        return _standin("kafka", context, base), "Apache Kafka's jars, another entry point"


def _store(base: str) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="compose-store-") as name:
        context = Path(name)
        shutil.copy(weed_program(), context / "weed")
        shutil.copy(HERE / "store.py", context)
        return _standin("store", context, base), "SeaweedFS"


def _prometheus(base: str) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="compose-prometheus-") as name:
        return _standin("prometheus", Path(name), base), "Debian's Prometheus"


def _standin(name: str, context: Path, base: str) -> str:
    tag = f"bundles-standin/{name}"
    build(HERE / f"{name}.Dockerfile", context, tag, BASE_IMAGE=base)
    return tag
