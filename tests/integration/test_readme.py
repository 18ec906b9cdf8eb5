"""Every command of README.md is run: by CI, or here on a local stack in the README's own order."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.jars import KAFKA_VERSION, Jar, fetch_jars, kafka_class_path
from deploy.local.java import find_java
from tests.pipeline import wait_for

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```sh ?(\S*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONSOLE_TOOLS = Jar(
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
    "4eb9a7fbfd63badfd8d1a677aa2d54b47b2b2d442ff7d68fd223972afea1954c",
)
KINDS = {
    *(
        "",
        "local",
        "tour",
        "example",
        "example-node",
        "example-console",
        "infrai",
        "settings",
        "ci",
    ),
    "docker",  # what `make compose-check` does where there is a Docker engine
}


def commands(kind: str) -> list[str]:
    """The README's commands of one kind, in order."""
    text = (ROOT / "README.md").read_text()
    return [
        line
        for found, block in FENCE.findall(text)
        if found == kind
        for line in block.strip().splitlines()
    ]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """`bundles local` as the README starts it; gives a working directory and the environment."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / ".venv").symlink_to(Path(sys.prefix))
    (folder / "deploy").symlink_to(ROOT / "deploy")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("BUNDLES_")}
    environment = {
        **clean,
        "XDG_STATE_HOME": str(folder / "state"),
        "PYTHONPATH": str(ROOT),
    }
    (command,) = commands("local")
    with (folder / "local.log").open("w") as log:
        process = subprocess.Popen(
            command.split(), cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            wait_for(
                lambda: "everything is up" in (folder / "local.log").read_text(),
                120,
                "the local stack",
                (folder / "local.log").read_text,
            )
            yield folder, environment
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
    assert not (folder / "state" / "bundle-extractor" / "local.toml").exists()


def run(
    command: str, stack: tuple[Path, dict[str, str]], *, may_fail: bool = False
) -> subprocess.CompletedProcess[str]:
    folder, environment = stack
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert may_fail or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def _brokers(stack: tuple[Path, dict[str, str]]) -> str:
    text = (stack[0] / "state" / "bundle-extractor" / "local.toml").read_text()
    found = re.search(r'bootstrap_servers = "([^"]+)"', text)
    assert found is not None
    return found[1]


def test_the_readme_has_no_kind_of_command_that_nothing_runs() -> None:
    assert {found for found, _ in FENCE.findall((ROOT / "README.md").read_text())} <= KINDS
    ci = (ROOT / ".ci" / "run").read_text()
    ran = [line for line in ci.splitlines() if not line.lstrip().startswith(("#", "step"))]
    for command in commands(""):
        assert any(command in line for line in ran), command


def test_the_tour_works_as_written(stack: tuple[Path, dict[str, str]]) -> None:
    outputs = {command: run(command, stack).stdout for command in commands("tour")}
    submitted = [text for command, text in outputs.items() if " submit " in command]
    assert len(submitted) == 3
    assert all("0 dead-lettered" in text for text in submitted)
    (traced,) = [text for command, text in outputs.items() if " trace " in command]
    assert "page-002-image-001" in traced


def test_the_examples_send_events_and_consume_results(
    stack: tuple[Path, dict[str, str]],
) -> None:
    folder, _ = stack
    brokers = _brokers(stack)
    run(".venv/bin/python -m deploy.demo.documents scans", stack)
    submit = ".venv/bin/bundles submit scans/one.pdf --bundle for-its-key --wait --json"
    key = re.search(r'"key": ?"(uploads/[^"]+)"', run(_key_of(submit), stack).stdout)
    assert key is not None
    send, consume = [
        command.replace("BROKERS", brokers).replace("KEY", key[1])
        for command in commands("example")
    ]
    assert "announced bundle-from-python" in run(send, stack).stdout
    done = run(consume, stack).stdout
    assert len(done.splitlines()) == 2
    if shutil.which("node") and shutil.which("npm"):
        run(f"npm install --silent --no-audit --no-fund --prefix {folder} kafkajs", stack)
        shutil.copy(ROOT / "deploy/examples/send_event.mjs", folder / "send_event.mjs")
        (command,) = commands("example-node")
        command = command.replace("deploy/examples/", "").replace("BROKERS", brokers)
        assert "announced bundle-from-node" in run(command.replace("KEY", key[1]), stack).stdout
    fetch_jars([CONSOLE_TOOLS], folder / "jars")
    path = f"{folder / 'jars' / CONSOLE_TOOLS.file_name}:{kafka_class_path()}"
    tool = f"{find_java()} -cp '{path}' org.apache.kafka.tools.ConsoleProducer"
    (command,) = commands("example-console")
    command = command.replace("kafka-console-producer.sh", tool).replace("BROKERS", brokers)
    run(command.replace("KEY", key[1]), stack)
    read_on = (
        "timeout 10 .venv/bin/python -u deploy/examples/consume_results.py "
        f"{brokers} reading-on || true"
    )
    wait_for(lambda: "bundle-from-console" in run(read_on, stack).stdout, 60, "its result")


def _key_of(submit: str) -> str:
    """The upload's key: the manifest of the bundle names it."""
    return f"{submit} >/dev/null && .venv/bin/bundles trace for-its-key --json"


def test_the_commands_of_running_it_for_real_take_their_settings(
    stack: tuple[Path, dict[str, str]],
) -> None:
    for command in commands("settings"):
        if command.endswith(" run"):
            help_ = run(f"{command} --help", stack).stdout
            assert "Run a worker until SIGTERM" in help_
        else:
            run(command, stack)


def test_the_runbooks_housekeeping_commands_work_as_written(
    stack: tuple[Path, dict[str, str]],
) -> None:
    text = (ROOT / "deploy" / "observability" / "RUNBOOK.md").read_text()
    listed = [line for _, block in FENCE.findall(text) for line in block.strip().splitlines()]
    assert {command.split()[1] for command in listed} == {"doctor", "topics", "sweep", "verify"}
    run(".venv/bin/python -m deploy.demo.documents scans", stack)
    run(".venv/bin/bundles submit scans/one.pdf --bundle kept --wait", stack)
    said = {command: run(f".venv/bin/{command}", stack).stdout for command in listed}

    assert "0 failed" in said["bundles doctor"]
    assert ": no fault(s)" in said["bundles verify --all"]
    assert "would delete 0 object(s)" in said["bundles sweep"]
    rules = json.loads((stack[0] / "lifecycle.json").read_text())["Rules"]
    assert {rule["Status"] for rule in rules} == {"Enabled"}


def test_the_commands_for_infrai_name_the_service_and_the_file_of_its_key(
    stack: tuple[Path, dict[str, str]],
) -> None:
    """With the rest of the settings from the stack. Without a key nothing is sent anywhere."""
    local = f"--config {stack[0] / 'state' / 'bundle-extractor' / 'local.toml'}"
    export, show, run_ = commands("infrai")
    shown = json.loads(run(f"{export}; {show} {local}", stack).stdout)
    assert shown["policies"]["default"]["provider"] == "infrai"
    assert shown["providers"]["infrai"]["token_file"] == "infrai.key"
    refused = run(f"{export}; {run_} {local}", stack, may_fail=True)
    assert refused.returncode == 64
    assert "infrai" in refused.stderr
    assert "token_file" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_contract_matrix_of_the_readme_can_be_printed() -> None:
    (command,) = commands("ci")
    done = subprocess.run(
        [*command.replace(".venv/bin/python", sys.executable).split(), "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
