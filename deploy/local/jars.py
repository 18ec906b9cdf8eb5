"""Apache Kafka's jars: fetched by coordinate into a user cache, checked against a list.

`kafka-jars.txt` names every jar that runs in the broker's JVM with its SHA-256; nothing else is
ever put on the class path, and a jar with another checksum is deleted and reported.

Environment:

* ``BUNDLES_CACHE``: cache folder, instead of ``$XDG_CACHE_HOME/bundle-extractor``;
* ``BUNDLES_MAVEN_REPOSITORY``: base address of the Maven repository to use, instead of the
  default of the `maven-artifact` package (a mirror inside a company, for instance);
* the usual proxy and certificate variables (``HTTPS_PROXY``, ``REQUESTS_CA_BUNDLE``, ...).

To move to another Kafka version: change `KAFKA_VERSION` and run ``python -m deploy.local.jars
--lock`` with Maven (``mvn``) on the PATH; it resolves the runtime closure and writes the list.
``python -m deploy.local.jars`` alone fills the cache.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import requests

from deploy.local.process import ServerFailed

KAFKA_VERSION = "4.4.0"
LOCK_FILE = Path(__file__).with_name("kafka-jars.txt")

# Kafka logs through slf4j 1.7; without a binding it logs nothing, and a start that fails would
# not say why. This one writes to standard error and needs no configuration file.
_ROOTS = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36")

_PARALLEL_DOWNLOADS = 8
_ATTEMPTS = 3
_TIMEOUT = (15.0, 60.0)  # seconds to connect, seconds without a byte

# jars there, jars in all, name of the one that just arrived
Progress = Callable[[int, int, str], None]


class JarsUnavailable(ServerFailed):
    """Kafka's jars are not in the cache and could not be fetched; the text says why."""


@dataclass(frozen=True)
class Jar:
    """One line of the list."""

    coordinate: str  # group:artifact:version
    sha256: str

    @property
    def file_name(self) -> str:
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"


def locked_jars(lock_file: Path = LOCK_FILE) -> list[Jar]:
    """The checked-in list."""
    lines = (line.split("#")[0].split() for line in lock_file.read_text("ascii").splitlines())
    return [Jar(coordinate, sha256) for coordinate, sha256 in filter(None, lines)]


def cache_folder() -> Path:
    """Where the jars are kept: outside the project, shared by all checkouts of one user."""
    base = os.environ.get("BUNDLES_CACHE")
    if base:
        return Path(base) / f"kafka-{KAFKA_VERSION}"
    xdg = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(xdg) / "bundle-extractor" / f"kafka-{KAFKA_VERSION}"


def kafka_class_path(progress: Progress | None = None) -> str:
    """Class path with all of Kafka's jars, fetched first where they are missing.

    Raises JarsUnavailable when a jar cannot be fetched or is not what the list says.
    """
    jars = locked_jars()
    folder = cache_folder()
    fetch_jars(jars, folder, progress)
    return os.pathsep.join(str(folder / jar.file_name) for jar in jars)


def fetch_jars(jars: Sequence[Jar], folder: Path, progress: Progress | None = None) -> None:
    """Make ``folder`` hold every jar of the list with the right checksum.

    Raises JarsUnavailable; what arrived intact stays for the next try.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _locked(folder / ".lock")
    except OSError as error:
        raise JarsUnavailable(
            f"The cache folder {folder} cannot be used ({error.strerror}). "
            "Set BUNDLES_CACHE to a folder that can be written."
        ) from error
    with lock:
        missing = [jar for jar in jars if not _intact(folder / jar.file_name, jar.sha256)]
        if not missing:
            return
        fetch = _fetcher()
        failures: list[str] = []
        have = len(jars) - len(missing)
        with ThreadPoolExecutor(_PARALLEL_DOWNLOADS, thread_name_prefix="jars") as pool:
            running = {pool.submit(_fetch_one, fetch, jar, folder): jar for jar in missing}
            try:
                for done in as_completed(running):
                    jar = running[done]
                    try:
                        done.result()
                    except JarsUnavailable as error:
                        failures.append(str(error))
                        continue
                    have += 1
                    if progress is not None:
                        progress(have, len(jars), jar.file_name)
            except BaseException:  # Ctrl-C: not all the others first
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        if failures:
            raise JarsUnavailable(
                f"{len(failures)} of Kafka's {len(jars)} jars could not be fetched, the first: "
                f"{failures[0]} Check the network, the proxy and certificate variables, or set "
                "BUNDLES_MAVEN_REPOSITORY to a Maven repository that can be reached."
            )


Fetch = Callable[[str, Path], str]  # coordinate, file to write -> SHA-256 of what was written


def _fetcher() -> Fetch:
    """Download by coordinate, from the configured repository or maven-artifact's own default."""
    try:
        from maven_artifact import Artifact, Downloader
    except ImportError as error:
        raise JarsUnavailable(
            "The package 'maven-artifact' is missing; install the local extra "
            "(pip install 'bundle-extractor[local]')."
        ) from error
    base = os.environ.get("BUNDLES_MAVEN_REPOSITORY")
    downloader = Downloader(base) if base else Downloader()

    def fetch(coordinate: str, target: Path) -> str:
        address = downloader.resolver.uri_for_artifact(Artifact.parse(coordinate))
        digest = hashlib.sha256()
        # Not Downloader.download: it has no time-out and reads the address into its messages.
        with (
            downloader.requestor.request(address, None, stream=True, timeout=_TIMEOUT) as response,
            target.open("wb") as file,
        ):
            for chunk in response.iter_content(1 << 16):
                digest.update(chunk)
                file.write(chunk)
        return digest.hexdigest()

    return fetch


def _fetch_one(fetch: Fetch, jar: Jar, folder: Path) -> None:
    """Download to a name of its own, check, then rename: a reader never sees half a jar."""
    handle, name = tempfile.mkstemp(prefix=f".{jar.file_name}.", dir=folder)
    os.close(handle)
    partial = Path(name)
    try:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                sha256 = fetch(jar.coordinate, partial)
                break
            except (requests.RequestException, OSError) as error:
                if attempt == _ATTEMPTS:
                    raise JarsUnavailable(f"{jar.coordinate}: {_reason(error)}.") from error
        if sha256 != jar.sha256:
            raise JarsUnavailable(
                f"{jar.coordinate}: what the repository sent has SHA-256 {sha256}, the list says "
                f"{jar.sha256}; it was deleted."
            )
        partial.replace(folder / jar.file_name)
    finally:
        partial.unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    """Short, and without the address: one that is configured may hold a password."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"the repository answered {response.status_code}"
    return type(error).__name__


def _intact(path: Path, sha256: str) -> bool:
    try:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == sha256:
                return True
    except FileNotFoundError:
        return False
    path.unlink(missing_ok=True)  # damaged: fetch it again
    return False


@contextlib.contextmanager
def _held(file_descriptor: int) -> Iterator[None]:
    try:
        fcntl.flock(file_descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file_descriptor)


def _locked(path: Path) -> contextlib.AbstractContextManager[None]:
    """Two processes that find the cache empty: one fetches, the other waits for it."""
    return _held(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))


# --- regenerating the list -------------------------------------------------------------------


def write_lock_file(lock_file: Path = LOCK_FILE) -> int:
    """Resolve the closure of Kafka with Maven and write the list; returns the number of jars."""
    with tempfile.TemporaryDirectory(prefix="kafka-closure-") as name:
        work = Path(name)
        (work / "pom.xml").write_text(_pom())
        subprocess.run(
            [
                *("mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies"),
                *("-DincludeScope=runtime", "-Dmdep.useRepositoryLayout=true"),
                "-DoutputDirectory=jars",
            ],
            cwd=work,
            check=True,
        )
        jars = sorted(
            f"{_coordinate(path.relative_to(work / 'jars'))} "
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}"
            for path in (work / "jars").rglob("*.jar")
        )
    head = [
        f"# Runtime closure of Apache Kafka {KAFKA_VERSION}, one logging binding: coordinate and",
        "# SHA-256. Written by: python -m deploy.local.jars --lock",
    ]
    lock_file.write_text("\n".join([*head, *jars]) + "\n", "ascii")
    return len(jars)


def _pom() -> str:
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
        "</dependency>".format(*root.split(":"))
        for root in _ROOTS
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>lock</groupId><artifactId>lock</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


def _coordinate(path: Path) -> str:
    """org/apache/kafka/kafka-raft/4.4.0/kafka-raft-4.4.0.jar -> org.apache.kafka:kafka-raft:4.4.0

    Raises ValueError for a jar with a classifier: the list has no room for one.
    """
    *group, artifact, version, file_name = path.parts
    if file_name != f"{artifact}-{version}.jar":
        raise ValueError(f"{file_name} has a classifier; the list of jars cannot name it")
    return f"{'.'.join(group)}:{artifact}:{version}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m deploy.local.jars", description=__doc__)
    parser.add_argument("--lock", action="store_true", help="write the list anew (needs mvn)")
    if parser.parse_args().lock:
        if shutil.which("mvn") is None:
            sys.exit("Writing the list needs Maven: there is no 'mvn' on the PATH.")
        print(f"{write_lock_file()} jars in {LOCK_FILE.name}")
        return
    try:
        kafka_class_path(lambda have, total, name: print(f"{have}/{total} {name}", flush=True))
    except JarsUnavailable as error:
        sys.exit(str(error))
    print(f"Apache Kafka {KAFKA_VERSION} is in {cache_folder()}")


if __name__ == "__main__":
    main()
