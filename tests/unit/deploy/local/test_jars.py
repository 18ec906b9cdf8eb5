"""The cache of Kafka's jars, against a repository of our own on the loopback address."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from deploy.local.jars import (
    Jar,
    JarsUnavailable,
    cache_folder,
    fetch_jars,
    kafka_class_path,
    locked_jars,
)


class Repository:
    """A Maven repository that counts what it is asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: Counter[str] = Counter()
        repository = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                repository.asked[self.path] += 1
                body = repository.files.get(self.path)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.server.server_port}/maven"

    def add(self, name: str, content: bytes) -> Jar:
        self.files[f"/maven/org/example/{name}/1.0/{name}-1.0.jar"] = content
        return Jar(f"org.example:{name}:1.0", hashlib.sha256(content).hexdigest())


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    repository = Repository()
    thread = threading.Thread(target=repository.server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("BUNDLES_MAVEN_REPOSITORY", repository.base)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield repository
    repository.server.shutdown()
    repository.server.server_close()


def test_jars_that_are_missing_are_fetched_and_the_rest_is_left_alone(
    repository: Repository, tmp_path: Path
) -> None:
    first, second = repository.add("first", b"1" * 200_000), repository.add("second", b"2")
    fetch_jars([first], tmp_path)
    seen: list[tuple[int, int, str]] = []

    fetch_jars([first, second], tmp_path, lambda *step: seen.append(step))

    assert (tmp_path / "first-1.0.jar").read_bytes() == b"1" * 200_000
    assert (tmp_path / "second-1.0.jar").read_bytes() == b"2"
    assert seen == [(2, 2, "second-1.0.jar")]
    assert set(repository.asked.values()) == {1}


def test_a_fetch_that_is_interrupted_does_not_fetch_all_others_first(
    repository: Repository, tmp_path: Path
) -> None:
    jars = [repository.add(f"jar-{number}", b"x") for number in range(200)]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_jars(jars, tmp_path, interrupted)
    assert sum(repository.asked.values()) < len(jars)
    assert not list(tmp_path.glob(".jar-*"))


def test_a_full_cache_needs_no_repository(
    tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = repository.add("one", b"1")
    fetch_jars([jar], tmp_path)
    monkeypatch.setenv("BUNDLES_MAVEN_REPOSITORY", "http://127.0.0.1:1/nothing-listens-here")

    fetch_jars([jar], tmp_path)


def test_a_jar_that_is_not_what_the_list_says_is_deleted_and_reported(
    repository: Repository, tmp_path: Path
) -> None:
    good = repository.add("good", b"good")
    bad = Jar(repository.add("bad", b"tampered with").coordinate, "0" * 64)

    with pytest.raises(JarsUnavailable, match=r"org\.example:bad:1\.0.*SHA-256.*deleted"):
        fetch_jars([good, bad], tmp_path)

    assert sorted(path.name for path in tmp_path.glob("*.jar*")) == ["good-1.0.jar"]
    assert not list(tmp_path.glob(".*.jar.*"))


def test_a_jar_damaged_in_the_cache_is_fetched_again(
    repository: Repository, tmp_path: Path
) -> None:
    jar = repository.add("one", b"intact")
    (tmp_path / jar.file_name).write_bytes(b"cut of")

    fetch_jars([jar], tmp_path)

    assert (tmp_path / jar.file_name).read_bytes() == b"intact"


def test_a_repository_that_lacks_a_jar_is_reported_with_what_to_do(
    repository: Repository, tmp_path: Path
) -> None:
    with pytest.raises(JarsUnavailable, match=r"answered 404.*BUNDLES_MAVEN_REPOSITORY"):
        fetch_jars([Jar("org.example:absent:1.0", "0" * 64)], tmp_path)
    assert not list(tmp_path.glob("*.jar*"))


def test_the_report_does_not_repeat_the_address_which_may_hold_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUNDLES_MAVEN_REPOSITORY", "http://user:canary@127.0.0.1:1/maven")

    with pytest.raises(JarsUnavailable) as raised:
        fetch_jars([Jar("org.example:one:1.0", "0" * 64)], tmp_path)

    assert "canary" not in str(raised.value)


def test_a_cache_folder_that_cannot_be_written_is_named_with_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JarsUnavailable, match="BUNDLES_CACHE"):
        fetch_jars([], tmp_path / "file" / "cache")


def test_two_processes_that_start_together_fetch_each_jar_once(
    repository: Repository, tmp_path: Path
) -> None:
    jars = [repository.add(f"jar{number}", b"x" * 100_000 * (number + 1)) for number in range(6)]
    program = (
        "import sys; from pathlib import Path; from deploy.local.jars import Jar, fetch_jars\n"
        "fetch_jars([Jar(*a.split()) for a in sys.argv[2:]], Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    command += [f"{jar.coordinate} {jar.sha256}" for jar in jars]
    root = Path(__file__).parents[4]
    processes = [subprocess.Popen(command, cwd=root) for _ in range(2)]

    assert [process.wait(60) for process in processes] == [0, 0]
    assert sorted(repository.asked.values()) == [1] * 6


def test_the_cache_folder_follows_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("BUNDLES_CACHE", raising=False)
    assert cache_folder().parent == tmp_path / "xdg" / "bundle-extractor"
    monkeypatch.setenv("BUNDLES_CACHE", str(tmp_path / "own"))
    assert cache_folder().parent == tmp_path / "own"


def test_the_checked_in_list_is_complete_enough_to_start_and_to_say_why_not() -> None:
    jars = locked_jars()

    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in jars)
    assert len({jar.file_name for jar in jars}) == len(jars)
    names = {jar.coordinate.rsplit(":", 1)[0] for jar in jars}
    assert {"org.apache.kafka:kafka_2.13", "org.slf4j:slf4j-simple"} <= names
    # Two bindings of the logging facade would make it a matter of luck which one logs.
    assert not {name for name in names if "log4j-slf4j" in name or "logback" in name}


def test_only_the_listed_jars_are_on_the_class_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Repository
) -> None:
    monkeypatch.setenv("BUNDLES_CACHE", str(tmp_path))
    jar = repository.add("one", b"1")
    monkeypatch.setattr("deploy.local.jars.locked_jars", lambda: [jar])
    cache_folder().mkdir(parents=True)
    (cache_folder() / "stranger.jar").write_bytes(b"")

    assert kafka_class_path().split(os.pathsep) == [str(cache_folder() / "one-1.0.jar")]
