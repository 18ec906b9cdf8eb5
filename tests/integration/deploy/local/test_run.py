"""A whole test run as a process: what its servers leave behind, and what it says without them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from deploy.demo.count import read_topic
from tests.pipeline import wait_for
from tests.servers import S3, Kafka, MakeBucket, MakeTopic

_ROOT = Path(__file__).parents[4]
_PATIENCE = 150.0

_NEEDS_KAFKA = """
def test_needs_kafka(kafka):
    pass
"""

_WAITS = """
import json, os, pathlib, time

def test_waits(kafka, s3):
    cluster, server = kafka.cluster, s3.server
    told = {
        "processes": [cluster.pid(1), server.pid],
        "folders": [str(cluster.data_dir), str(server.data_dir)],
    }
    pathlib.Path(os.environ["TOLD"] + ".part").write_text(json.dumps(told))
    os.replace(os.environ["TOLD"] + ".part", os.environ["TOLD"])
    time.sleep(600)
"""


_USES_THEM = """
import io, os, pathlib
from confluent_kafka import Producer

def test_uses_them(kafka, s3, make_topic, make_bucket):
    assert kafka.cluster is None and s3.server is None
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(os.environ["TOPIC"], b"from the run")
    assert producer.flush(60) == 0
    s3.client().put_object(os.environ["BUCKET"], "from-the-run", io.BytesIO(b"x"), 1)
    made = make_topic(), make_bucket()
    s3.client().put_object(made[1], "not-empty", io.BytesIO(b"x"), 1)
    pathlib.Path(os.environ["TOLD"]).write_text(" ".join(made))
"""


def _as_in_the_background() -> None:
    """What a shell without job control does to a command with an ``&``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _start(tmp_path: Path, tests: str, **environment: str) -> subprocess.Popen[str]:
    file = tmp_path / "test_in_a_run.py"
    file.write_text(tests)
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in ("KAFKA_BOOTSTRAP", "S3_ENDPOINT", "TEST_SERVERS", "REQUIRE_REAL_KAFKA")
        and name != "MIN_INTEGRATION_TESTS"
    }
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.conftest", str(file), "-rs"),
            *(f"--rootdir={tmp_path}", "-c", "/dev/null", "-p", "no:cacheprovider"),
        ],
        env={**inherited, **environment},
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_as_in_the_background,
    )


def test_without_java_tests_of_kafka_are_skipped_saying_why(tmp_path: Path) -> None:
    run = _start(tmp_path, _NEEDS_KAFKA, JAVA_HOME=str(tmp_path))
    output, _ = run.communicate(timeout=_PATIENCE)
    assert run.returncode == 0, output
    assert "kafka: NONE. JAVA_HOME holds no Java" in output
    assert "1 skipped" in output
    assert "no Apache Kafka: JAVA_HOME" in output


def test_where_real_kafka_is_required_its_absence_is_a_failure(tmp_path: Path) -> None:
    run = _start(tmp_path, _NEEDS_KAFKA, JAVA_HOME=str(tmp_path), REQUIRE_REAL_KAFKA="1")
    output, _ = run.communicate(timeout=_PATIENCE)
    assert run.returncode == 1, output
    assert "REQUIRE_REAL_KAFKA=1, but there is no Apache Kafka. JAVA_HOME" in output


def test_without_a_docker_engine_the_header_says_what_is_used_instead_of_containers(
    tmp_path: Path,
) -> None:
    run = _start(
        tmp_path,
        "def test_needs_nothing():\n    pass\n",
        TEST_SERVERS="containers",
        DOCKER_HOST=f"unix://{tmp_path}/nobody-listens.sock",
    )
    output, _ = run.communicate(timeout=_PATIENCE)
    assert run.returncode == 0, output
    for server in ("kafka: Apache Kafka", "s3: SeaweedFS"):
        (line,) = [line for line in output.splitlines() if line.startswith(server)]
        assert line.endswith("(TEST_SERVERS=containers, but no Docker engine answers)")


@pytest.mark.integration
def test_servers_that_are_named_are_used_and_left_as_they_were(
    tmp_path: Path, kafka: Kafka, s3: S3, make_topic: MakeTopic, make_bucket: MakeBucket
) -> None:
    topic, bucket, told = make_topic(), make_bucket(), tmp_path / "made"
    run = _start(
        tmp_path,
        _USES_THEM,
        KAFKA_BOOTSTRAP=kafka.bootstrap,
        S3_ENDPOINT=s3.endpoint,
        S3_ACCESS_KEY=s3.access_key,
        S3_SECRET_KEY=s3.secret_key,
        JAVA_HOME=str(tmp_path),  # it could not start a Kafka of its own
        TOPIC=topic,
        BUCKET=bucket,
        TOLD=str(told),
    )
    output, _ = run.communicate(timeout=_PATIENCE)
    assert run.returncode == 0, output
    assert f"kafka: the one at KAFKA_BOOTSTRAP={kafka.bootstrap}" in output
    assert f"s3: the one at S3_ENDPOINT={s3.endpoint}" in output

    (record,) = read_topic({"bootstrap.servers": kafka.bootstrap}, topic)
    assert record.value() == b"from the run"
    assert s3.client().stat_object(bucket, "from-the-run").size == 1
    made_topic, made_bucket = told.read_text().split()
    admin = kafka.admin()  # a broker hears of the deletion a moment later
    wait_for(lambda: made_topic not in admin.list_topics(timeout=30).topics, 60, "its deletion")
    assert not s3.client().bucket_exists(made_bucket)


@pytest.mark.parametrize("missing", ["S3_ACCESS_KEY", "S3_SECRET_KEY"])
def test_an_s3_endpoint_without_keys_is_a_failure_that_names_the_variable(
    tmp_path: Path, missing: str
) -> None:
    environment = {"S3_ENDPOINT": "http://127.0.0.1:1", "S3_ACCESS_KEY": "a", "S3_SECRET_KEY": "s"}
    environment[missing] = ""
    run = _start(tmp_path, "def test_needs_s3(s3):\n    pass\n", **environment)
    output, _ = run.communicate(timeout=_PATIENCE)
    assert run.returncode == 1, output
    assert missing in output


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_ends_its_servers_and_removes_their_data(
    tmp_path: Path, end: signal.Signals
) -> None:
    told_file = tmp_path / "told.json"
    run = _start(tmp_path, _WAITS, TOLD=str(told_file))
    deadline = time.monotonic() + _PATIENCE
    while not told_file.exists():
        assert run.poll() is None, run.communicate()[0]
        assert time.monotonic() < deadline, "the servers of the run never started"
        time.sleep(0.05)
    told = json.loads(told_file.read_text())
    assert all(map(psutil.pid_exists, told["processes"]))
    assert all(map(os.path.exists, told["folders"]))

    run.send_signal(end)
    output, _ = run.communicate(timeout=_PATIENCE)

    assert run.returncode == pytest.ExitCode.INTERRUPTED, output
    assert not any(map(psutil.pid_exists, told["processes"]))
    assert not any(map(os.path.exists, told["folders"]))
