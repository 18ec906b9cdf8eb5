"""A document that hurts its worker fails alone, with a reason; the next one is unharmed."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.extractor.engines import SECRET, document
from tests.integration.extractor.running import PROJECT, TOKEN, Service, wait_until

MIB = 1024 * 1024
# Python runs a module of this name at its start. What the service may not do, its workers may not.
WITHOUT_NAMESPACES = """
import platform
from consumers import seccomp

machine = platform.machine()
calls_of_sockets = seccomp._CALLS.get(machine)
unshare = {"x86_64": 272, "aarch64": 97}
if calls_of_sockets is not None:
    seccomp._CALLS[machine] = (calls_of_sockets[0], (unshare[machine],))
    seccomp.forbid_sockets()
    seccomp._CALLS[machine] = calls_of_sockets
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(
        tmp_path_factory.mktemp("service"),
        job_wall_s=3,
        job_memory_bytes=256 * MIB,
        max_total_bytes=8 * MIB,
    ) as running:
        yield running


@pytest.mark.parametrize(
    ("verb", "error"),
    [
        ("hang", {"code": "timeout", "which": "job_wall_s"}),
        ("hog", {"code": "memory", "which": "address_space"}),
        ("segfault", {"code": "crashed", "which": "SIGSEGV"}),
        ("exit", {"code": "crashed", "which": "exit_7"}),
        ("garble", {"code": "crashed", "which": "answer"}),
        ("raise", {"code": "crashed", "which": "ValueError"}),
        ("big-file 9", {"code": "limit_exceeded", "which": "max_total_bytes"}),
        ("encrypted", {"code": "encrypted"}),
        ("unreadable", {"code": "unreadable"}),
        ("limit", {"code": "limit_exceeded", "which": "images"}),
    ],
)
def test_a_hostile_document_fails_with_its_reason_and_the_next_is_unharmed(
    service: Service, verb: str, error: dict[str, str]
) -> None:
    hostile = service.submitted(document(*verb.split(" ")))
    good = service.submitted(document("ok"))
    job = service.finished(hostile)
    assert job["status"] == "failed"
    assert job["error"] == error
    assert "images" not in job
    assert service.finished(good)["status"] == "completed"
    assert not (service.data_dir / "inputs" / f"{hostile}.pdf").exists()
    assert not (service.data_dir / "outputs" / hostile).exists()


def test_a_document_that_only_computes_is_ended_by_its_share_of_cpu_time(tmp_path: Path) -> None:
    with Service(tmp_path, job_cpu_s=0.5, job_wall_s=100) as own:
        job = own.extracted(document("spin"))
        assert job["error"] == {"code": "timeout", "which": "job_cpu_s"}
        assert own.extracted(document("ok"))["status"] == "completed"


def test_outcomes_and_ends_of_workers_are_counted(service: Service) -> None:
    counters = (
        'extractor_jobs_finished_total{outcome="crashed"}',
        'extractor_jobs_finished_total{outcome="completed"}',
        'extractor_worker_ends_total{reason="crashed"}',
    )
    before = [service.metric(counter) for counter in counters]
    service.extracted(document("segfault"))
    service.extracted(document("ok"))
    assert [service.metric(counter) for counter in counters] == [count + 1 for count in before]


def test_a_worker_is_reused_from_job_to_job(service: Service) -> None:
    assert (
        service.extracted(document("pid"))["problems"]
        == service.extracted(document("pid"))["problems"]
    )


def test_what_a_library_prints_does_not_disturb_the_answer(service: Service) -> None:
    assert service.extracted(document("print"))["status"] == "completed"


def test_no_secret_and_no_text_of_a_document_reaches_the_log_or_the_metrics(
    service: Service,
) -> None:
    for verb in ("raise", "print", "encrypted"):
        service.extracted(document(verb, SECRET))
    metrics = service.http.get(f"{service.url}/metrics", timeout=60).text
    for text in (service.log.read_text(), metrics):
        for secret in (TOKEN, SECRET, "Jane", "report.pdf", "/v1/files/"):
            assert secret not in text
    assert '"at": "engines.py:' in service.log.read_text(), "a crash must say where"


def test_a_worker_holds_no_setting_of_the_service(service: Service) -> None:
    (names,) = service.extracted(document("environment"))["problems"]
    assert "EXTRACTOR" not in names


def test_a_worker_cannot_reach_the_network(service: Service) -> None:
    assert not _reaches_the_network(service)


def test_a_worker_cannot_reach_the_network_where_namespaces_are_forbidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_NAMESPACES)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{PROJECT}")
    with Service(tmp_path) as service:
        assert not _reaches_the_network(service)


def _reaches_the_network(service: Service) -> bool:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        (outcome,) = service.extracted(document("connect", address))["problems"]
    health = service.http.get(f"{service.url}/health", timeout=60).json()
    if not health["network_isolated"] and platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip(f"no filter is known for {platform.machine()}, and no namespace permitted")
    assert health["network_isolated"] == (outcome != "connected")
    return str(outcome) == "connected"


def test_workers_die_with_a_killed_service(tmp_path: Path, hold: Path) -> None:
    with Service(tmp_path, job_wall_s=100) as own:
        own.submitted(document("hold", hold))
        wait_until(lambda: Path(f"{hold}.started").exists() and _pid(hold) > 0)
        pid = _pid(hold)
        assert Path(f"/proc/{pid}").exists()
        own.kill()
        wait_until(lambda: not _is_running(pid))


def _pid(hold: Path) -> int:
    return int(Path(f"{hold}.started").read_text() or 0)


def _is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # a zombie waits only to be reaped
