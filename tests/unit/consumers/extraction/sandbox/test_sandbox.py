"""Real processes, real limits. A signal stands in for a bug in an engine's native code."""

import contextlib
import errno
import hashlib
import io
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pikepdf
import psutil
import pytest
from pikepdf import Name
from PIL import Image

from consumers.extraction.retries import Verdict, classify
from consumers.extraction.sandbox import (
    Assembled,
    AssemblyLimits,
    AssemblyPart,
    DocumentRejected,
    ImageLimits,
    InspectionLimits,
    RejectedImage,
    Sandbox,
    SandboxClosed,
    SandboxCrashed,
    SandboxLimits,
    SandboxMemory,
    SandboxTimeout,
    VerifiedImage,
)
from consumers.extraction.sandbox import pool as pool_module
from consumers.extraction.sandbox.channel import ChannelClosed
from consumers.extraction.sandbox.child import _answer
from consumers.extraction.sandbox.files import open_for_reading
from consumers.extraction.sandbox.process import SandboxProcess
from tests import documents_pdfs, pdfs

MIB = 1024 * 1024
LIMITS = InspectionLimits()


@pytest.fixture(scope="module")
def shared_sandbox() -> Iterator[Sandbox]:
    """For tests that do its processes no harm."""
    with Sandbox(2) as sandbox:
        yield sandbox


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return written(tmp_path / "small.pdf", pdfs.pages(2))


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@contextlib.contextmanager
def open_for_writing(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def with_image_of(size: int) -> bytes:
    pdf = pikepdf.new()
    image = pdf.make_stream(bytes(size), Type=Name.XObject, Subtype=Name.Image)
    pdfs.add_page(pdf, b"/Im1 Do", {"/Im1": image})
    buffer = io.BytesIO()
    pdf.save(buffer, compress_streams=False)
    return buffer.getvalue()


def processes_of(sandbox: Sandbox) -> list[psutil.Process]:
    return list(psutil.Process(sandbox._nursery._process.pid).children())


@contextlib.contextmanager
def stopped(*processes: psutil.Process) -> Iterator[None]:
    """Processes that do not run, so that a request to them hangs."""
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


def hang_and_signal(
    sandbox: Sandbox, path: Path, signal_number: int, pool: ThreadPoolExecutor
) -> "Future[object]":
    """Send a request to the one process of a sandbox, which dies of a signal before it answers."""
    (process,) = processes_of(sandbox)
    process.suspend()
    call: Future[object] = pool.submit(sandbox.inspect, path, LIMITS)
    while sandbox._idle:  # the request is under way when the process is taken
        pass
    process.send_signal(signal_number)
    with contextlib.suppress(psutil.NoSuchProcess):  # some signals do not wait for that
        process.resume()
    return call


def test_a_document_is_inspected(shared_sandbox: Sandbox, small: Path) -> None:
    inspection = shared_sandbox.inspect(small, LIMITS)
    assert (inspection.pages, inspection.engine) == (2, "pypdf")
    assert 0 < shared_sandbox.peak_bytes < 256 * MIB


def test_a_checksum_that_is_known_stays(shared_sandbox: Sandbox, small: Path) -> None:
    known = "c" * 64
    assert shared_sandbox.inspect(small, LIMITS, sha256=known).sha256 == known
    made = shared_sandbox.inspect(small, LIMITS).sha256
    assert made == hashlib.sha256(small.read_bytes()).hexdigest()


def test_a_rejection_keeps_its_reason_and_numbers(shared_sandbox: Sandbox, small: Path) -> None:
    with pytest.raises(DocumentRejected) as rejected:
        shared_sandbox.inspect(small, InspectionLimits(max_pages=1))
    assert rejected.value.reason == "too_many_pages"
    assert rejected.value.detail == {"pages": 2, "max_pages": 1}


def test_a_password_opens(shared_sandbox: Sandbox, tmp_path: Path) -> None:
    path = written(tmp_path / "locked.pdf", pdfs.encrypted("secret"))
    assert shared_sandbox.inspect(path, LIMITS, password="secret").encrypted
    with pytest.raises(DocumentRejected, match="encrypted"):
        shared_sandbox.inspect(path, LIMITS)


def test_parts_are_assembled_to_a_private_file(
    shared_sandbox: Sandbox, small: Path, tmp_path: Path
) -> None:
    destination = tmp_path / "child.pdf"
    parts = [AssemblyPart(small, 2, 2), AssemblyPart(small), AssemblyPart(small, None, 1)]
    assembled = shared_sandbox.assemble(parts, destination)
    assert assembled == Assembled(
        sha256=shared_sandbox.inspect(destination, LIMITS).sha256,
        bytes=destination.stat().st_size,
        pages=4,
        page_map=((0, 2), (1, 1), (1, 2), (2, 1)),
    )
    assert stat.S_IMODE(destination.stat().st_mode) == 0o600


def test_a_rebuilt_document_has_the_pages_that_were_counted(
    shared_sandbox: Sandbox, tmp_path: Path
) -> None:
    damaged = documents_pdfs.with_a_broken_page(pdfs.pages(3))
    path = written(tmp_path / "damaged.pdf", damaged)
    assert shared_sandbox.inspect(path, LIMITS).seen_differently
    rebuilt = tmp_path / "rebuilt.pdf"
    assert shared_sandbox.assemble([AssemblyPart(path, rebuild=True)], rebuilt).pages == 3
    inspection = shared_sandbox.inspect(rebuilt, LIMITS)
    assert (inspection.pages, inspection.seen_differently) == (3, False)


def test_nothing_is_left_at_the_destination_of_a_failed_assembly(
    shared_sandbox: Sandbox, small: Path, tmp_path: Path
) -> None:
    destination = tmp_path / "child.pdf"
    with pytest.raises(DocumentRejected, match="page_range"):
        shared_sandbox.assemble([AssemblyPart(small, 3, 3)], destination)
    with pytest.raises(DocumentRejected, match="too_large"):
        shared_sandbox.assemble([AssemblyPart(small)], destination, AssemblyLimits(max_bytes=10))
    assert not destination.exists()


def test_an_existing_file_is_never_overwritten(
    shared_sandbox: Sandbox, small: Path, tmp_path: Path
) -> None:
    destination = written(tmp_path / "child.pdf", b"precious")
    with pytest.raises(FileExistsError):
        shared_sandbox.assemble([AssemblyPart(small)], destination)
    assert destination.read_bytes() == b"precious"


def test_images_are_judged_one_by_one_and_in_order(shared_sandbox: Sandbox, tmp_path: Path) -> None:
    files = []
    for number in range(120):
        path = tmp_path / f"{number}.png"
        if number % 7 == 0:
            path.write_bytes(b"no image")
        else:
            buffer = io.BytesIO()
            Image.new("RGB", (number, 1)).save(buffer, "PNG")
            path.write_bytes(buffer.getvalue())
        files.append(path)
    verdicts = shared_sandbox.verify_images(files, ImageLimits())
    assert len(verdicts) == 120
    for number, verdict in enumerate(verdicts):
        if number % 7 == 0:
            assert verdict == RejectedImage("image_not_an_image")
        else:
            assert isinstance(verdict, VerifiedImage)
            assert (verdict.media_type, verdict.width) == ("image/png", number)


def test_no_images_need_no_process(shared_sandbox: Sandbox) -> None:
    assert shared_sandbox.verify_images([], ImageLimits()) == []


def test_a_missing_file_is_the_callers_error(shared_sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        shared_sandbox.inspect(tmp_path / "missing.pdf", LIMITS)


def test_many_threads_share_few_processes(shared_sandbox: Sandbox, tmp_path: Path) -> None:
    files = [written(tmp_path / f"{n}.pdf", pdfs.pages(n)) for n in range(1, 21)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda file: shared_sandbox.inspect(file, LIMITS).pages, files))
    assert found == list(range(1, 21))
    assert len(processes_of(shared_sandbox)) == 2


def test_too_much_cpu_time_is_a_timeout_and_the_process_is_replaced(
    tmp_path: Path, small: Path
) -> None:
    path = written(tmp_path / "many.pdf", documents_pdfs.lying_count(20_000, 1))
    kills: list[str] = []
    with Sandbox(1, SandboxLimits(cpu_seconds=0.1), on_kill=kills.append) as sandbox:
        before = processes_of(sandbox)
        with pytest.raises(SandboxTimeout) as timeout:
            sandbox.inspect(path, LIMITS)
        assert timeout.value.reason == "parse_timeout"
        assert kills == ["parse_timeout"]
        assert len(processes_of(sandbox)) == 1
        assert processes_of(sandbox) != before
        assert sandbox.inspect(small, LIMITS).pages == 2


def test_a_process_that_hangs_without_using_cpu_is_a_timeout(small: Path) -> None:
    with Sandbox(1, SandboxLimits(wall_seconds=0.3)) as sandbox:
        (process,) = processes_of(sandbox)
        with stopped(process), pytest.raises(SandboxTimeout):
            sandbox.inspect(small, LIMITS)
        process.wait(10)
        assert sandbox.inspect(small, LIMITS).pages == 2


def test_too_much_memory_is_its_own_reason(tmp_path: Path, small: Path) -> None:
    # More page objects than fit; the limit on CPU time is out of the way on a slow machine.
    path = written(tmp_path / "many.pdf", documents_pdfs.lying_count(180_000, 1))
    kills: list[str] = []
    limits = SandboxLimits(memory_bytes=256 * MIB, cpu_seconds=60, wall_seconds=120)
    with Sandbox(1, limits, on_kill=kills.append) as sandbox:
        with pytest.raises(SandboxMemory):
            sandbox.assemble([AssemblyPart(path)], tmp_path / "child.pdf")
        assert kills == ["parse_memory"]
        assert sandbox.inspect(small, LIMITS).pages == 2
        assert sandbox.peak_bytes < limits.memory_bytes


def test_a_cut_and_a_merge_of_50_mib_hold_hardly_any_of_them(tmp_path: Path, small: Path) -> None:
    large = written(tmp_path / "large.pdf", documents_pdfs.scans_that_do_not_compress())
    with Sandbox(1) as sandbox:
        sandbox.assemble([AssemblyPart(small)], tmp_path / "warm.pdf")
        before = sandbox.peak_bytes
        cut = sandbox.assemble([AssemblyPart(large, 2, 50)], tmp_path / "cut.pdf")
        parts = [AssemblyPart(large, 26, 50), AssemblyPart(small), AssemblyPart(large, 1, 25)]
        merged = sandbox.assemble(parts, tmp_path / "merged.pdf")
        assert min(cut.bytes, merged.bytes) > 48 * MIB
        assert sandbox.peak_bytes - before < 15 * MIB


def test_a_merge_holds_the_pages_of_one_source_at_a_time(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    for _ in range(2000):
        pdf.add_blank_page()
    path = written(tmp_path / "many.pdf", pdfs.saved(pdf))
    with Sandbox(1, SandboxLimits(cpu_seconds=60)) as sandbox:
        sandbox.assemble([AssemblyPart(path, 1, 1)], tmp_path / "one.pdf")
        before = sandbox.peak_bytes
        sandbox.assemble([AssemblyPart(path, 1, 1)] * 20, tmp_path / "merged.pdf")
        assert sandbox.peak_bytes - before < 15 * MIB


def test_a_document_may_have_more_segments_than_processes_usually_have_files(
    shared_sandbox: Sandbox, tmp_path: Path, small: Path
) -> None:
    parts = [AssemblyPart(small, 1, 1)] * 300
    assert shared_sandbox.assemble(parts, tmp_path / "merged.pdf").pages == 300


def test_an_object_that_decodes_to_more_than_the_memory_is_refused(tmp_path: Path) -> None:
    # Which of the two it is depends on which allocation fails first: an engine may hide it.
    path = written(tmp_path / "bomb.pdf", documents_pdfs.object_stream_bomb(256 * MIB))
    limits = SandboxLimits(memory_bytes=256 * MIB)
    with Sandbox(1, limits) as sandbox:
        with pytest.raises((DocumentRejected, SandboxMemory)) as refused:
            sandbox.inspect(path, LIMITS)
        error = refused.value
        assert isinstance(error, DocumentRejected | SandboxMemory)
        assert error.reason in ("unreadable", "parse_memory")
        assert sandbox.peak_bytes < limits.memory_bytes


def test_a_crash_is_its_own_reason(small: Path) -> None:
    kills: list[str] = []
    with Sandbox(1, on_kill=kills.append) as sandbox, ThreadPoolExecutor(1) as pool:
        call = hang_and_signal(sandbox, small, signal.SIGSEGV, pool)
        with pytest.raises(SandboxCrashed):
            call.result(30)
        assert kills == ["parse_crashed"]
        assert sandbox.inspect(small, LIMITS).pages == 2


def test_a_full_disk_is_no_fault_of_the_document(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills: list[str] = []
    with Sandbox(1, on_kill=kills.append) as sandbox:
        with monkeypatch.context() as patch:
            patch.setattr(pool_module, "created", lambda path: open_for_writing("/dev/full"))
            with pytest.raises(OSError, match="No space left") as full:
                sandbox.assemble([AssemblyPart(small)], tmp_path / "child.pdf")
        assert classify(full.value).verdict is Verdict.SYSTEMIC
        assert kills == []
        assert sandbox.assemble([AssemblyPart(small)], tmp_path / "child.pdf").pages == 2


def test_a_document_larger_than_a_process_may_write_is_too_large(tmp_path: Path) -> None:
    path = written(tmp_path / "large.pdf", with_image_of(2 * MIB))
    with Sandbox(1, SandboxLimits(file_bytes=MIB)) as sandbox:
        with pytest.raises(DocumentRejected, match="too_large"):
            sandbox.assemble([AssemblyPart(path)], tmp_path / "child.pdf")
        assert not (tmp_path / "child.pdf").exists()


def test_a_process_that_only_says_that_the_disk_is_full_is_not_believed(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Sandbox(1) as sandbox:
        monkeypatch.setattr(SandboxProcess, "receive", lambda self: {"os_error": errno.ENOSPC})
        with pytest.raises(SandboxCrashed):
            sandbox.assemble([AssemblyPart(small)], tmp_path / "child.pdf")
        with pytest.raises(SandboxCrashed):
            sandbox.inspect(small, LIMITS)


def test_a_second_attempt_writes_its_file_anew(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = SandboxProcess.receive
    answered: list[object] = []

    def lost_at_first(process: SandboxProcess) -> dict[str, object]:
        answer = received(process)
        answered.append(answer)
        if len(answered) == 1:  # it has written all of its file
            os.kill(process.process_id, signal.SIGKILL)
            raise ChannelClosed
        return answer

    child = tmp_path / "child.pdf"
    with Sandbox(1) as sandbox:
        with monkeypatch.context() as patch:
            patch.setattr(SandboxProcess, "receive", lost_at_first)
            assembled = sandbox.assemble([AssemblyPart(small)], child)
        assert len(answered) == 2
        assert hashlib.sha256(child.read_bytes()).hexdigest() == assembled.sha256


def test_a_process_killed_from_outside_costs_the_document_nothing(small: Path) -> None:
    kills: list[str] = []
    with Sandbox(1, on_kill=kills.append) as sandbox, ThreadPoolExecutor(1) as pool:
        call = hang_and_signal(sandbox, small, signal.SIGKILL, pool)
        assert getattr(call.result(30), "pages", None) == 2
        assert kills == []


def test_idle_processes_and_even_the_nursery_may_be_killed(small: Path) -> None:
    with Sandbox(2) as sandbox:
        for process in processes_of(sandbox):
            process.kill()
        assert sandbox.inspect(small, LIMITS).pages == 2
        os.kill(sandbox._nursery._process.pid, signal.SIGKILL)
        assert sandbox.inspect(small, LIMITS).pages == 2


def test_one_document_that_hangs_does_not_hold_up_the_others(small: Path) -> None:
    with (
        Sandbox(2, SandboxLimits(wall_seconds=3)) as sandbox,
        ThreadPoolExecutor(1) as pool,
    ):
        # The process that is taken next is the one that was given back last.
        hanging = psutil.Process(sandbox._idle[-1].process_id)
        with stopped(hanging):
            bad = pool.submit(sandbox.inspect, small, LIMITS)
            while len(sandbox._idle) == 2:
                pass
            for _ in range(20):
                assert sandbox.inspect(small, LIMITS).pages == 2
            assert not bad.done()
            with pytest.raises(SandboxTimeout):
                bad.result(30)


def test_more_documents_that_hang_than_processes_do_not_hold_up_the_others(small: Path) -> None:
    limits = SandboxLimits(wall_seconds=10, slow_after_seconds=0.05)
    with Sandbox(1, limits, slow_processes=3) as sandbox, ThreadPoolExecutor(3) as pool:
        hanging: list[Future[object]] = []
        for _ in range(3):
            (process,) = (psutil.Process(process.process_id) for process in sandbox._idle)
            process.suspend()
            hanging.append(pool.submit(sandbox.inspect, small, LIMITS))
            while [idle.process_id for idle in sandbox._idle] in ([], [process.pid]):
                pass  # until it has been moved aside and replaced
        assert sandbox.inspect(small, LIMITS).pages == 2
        assert not any(call.done() for call in hanging)
        for call in hanging:
            with pytest.raises(SandboxTimeout):
                call.result(30)
        assert len(processes_of(sandbox)) == 1


def test_a_document_stays_where_it_is_when_there_is_no_room_beside(small: Path) -> None:
    limits = SandboxLimits(wall_seconds=0.5, slow_after_seconds=0.01)
    with Sandbox(1, limits, slow_processes=0) as sandbox:
        with stopped(*processes_of(sandbox)), pytest.raises(SandboxTimeout):
            sandbox.inspect(small, LIMITS)
        assert sandbox.inspect(small, LIMITS).pages == 2
        assert len(processes_of(sandbox)) == 1


def test_a_process_that_answers_nonsense_is_not_used_again(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills: list[str] = []
    with Sandbox(1, on_kill=kills.append) as sandbox:
        before = processes_of(sandbox)
        with monkeypatch.context() as patch:
            patch.setattr(SandboxProcess, "receive", lambda self: {"inspection": {"pages": "2"}})
            with pytest.raises(SandboxCrashed):
                sandbox.inspect(small, LIMITS)
        assert kills == ["parse_crashed"]
        assert processes_of(sandbox) != before
        assert sandbox.inspect(small, LIMITS).pages == 2


def test_a_process_is_replaced_after_so_many_requests(small: Path) -> None:
    kills: list[str] = []
    with Sandbox(1, SandboxLimits(requests_per_process=3), on_kill=kills.append) as sandbox:
        seen: set[int] = set()
        for _ in range(7):
            seen.update(process.pid for process in processes_of(sandbox))
            sandbox.inspect(small, LIMITS)
        assert len(seen) == 3
        assert kills == []


def test_a_process_that_grew_is_replaced(tmp_path: Path) -> None:
    path = written(tmp_path / "large.pdf", documents_pdfs.lying_count(16_000, 1))
    with Sandbox(1, SandboxLimits(memory_bytes=256 * MIB, cpu_seconds=60)) as sandbox:
        before = processes_of(sandbox)
        sandbox.inspect(path, InspectionLimits(max_pages=16_000))
        assert sandbox.peak_bytes > 64 * MIB
        assert processes_of(sandbox) != before


def test_a_process_has_limits_and_nothing_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, small: Path
) -> None:
    monkeypatch.setenv("INFRAI_API_KEY", "secret-of-the-worker")
    limits = SandboxLimits(memory_bytes=300 * MIB, file_bytes=5 * MIB)
    with Sandbox(1, limits) as sandbox:
        sandbox.inspect(small, LIMITS)  # so that the process has started
        (process,) = processes_of(sandbox)
        assert resource.prlimit(process.pid, resource.RLIMIT_AS) == (300 * MIB, 300 * MIB)
        assert resource.prlimit(process.pid, resource.RLIMIT_FSIZE) == (5 * MIB, 5 * MIB)
        assert resource.prlimit(process.pid, resource.RLIMIT_NPROC) == (0, 0)
        assert "secret-of-the-worker" not in str(process.environ())
        assert Path(f"/proc/{process.pid}/oom_score_adj").read_text().strip() == "1000"
        assert os.getsid(process.pid) != os.getsid(0)


def test_a_process_holds_no_file_of_the_worker_open(tmp_path: Path, small: Path) -> None:
    with (tmp_path / "open.txt").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        with Sandbox(1) as sandbox:
            sandbox.inspect(small, LIMITS)  # it is done with what it opens at its start
            (process,) = processes_of(sandbox)
            targets = {
                os.readlink(f"/proc/{process.pid}/fd/{number}")
                for number in os.listdir(f"/proc/{process.pid}/fd")
            }
    assert str(tmp_path / "open.txt") not in targets
    assert not [target for target in targets if target.startswith("/") and "/dev/" not in target]


def test_closing_ends_all_processes_and_removes_the_temporary_directory(tmp_path: Path) -> None:
    sandbox = Sandbox(2, SandboxLimits(temporary_directory=tmp_path))
    processes = processes_of(sandbox)
    assert len(list(tmp_path.iterdir())) == 1
    sandbox.close()
    sandbox.close()
    psutil.wait_procs(processes, timeout=10)
    assert not [process for process in processes if process.is_running()]
    assert list(tmp_path.iterdir()) == []


def test_a_call_during_and_after_closing_is_told_so(small: Path) -> None:
    sandbox = Sandbox(1)
    with stopped(*processes_of(sandbox)), ThreadPoolExecutor(1) as pool:
        call = pool.submit(sandbox.inspect, small, LIMITS)
        while sandbox._idle:
            pass
        sandbox.close()
        with pytest.raises(SandboxClosed):
            call.result(30)
    with pytest.raises(SandboxClosed):
        sandbox.inspect(small, LIMITS)


KILLED_WORKER = """
import os, signal, sys
from pathlib import Path
from consumers.extraction.sandbox import Sandbox, SandboxLimits

sandbox = Sandbox(2, SandboxLimits(temporary_directory=Path(sys.argv[1])))
nursery = sandbox._nursery._process.pid
print(nursery, *(process.process_id for process in sandbox._idle), flush=True)
signal.pause()
"""


def test_no_process_and_no_file_outlives_a_killed_worker(tmp_path: Path) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", KILLED_WORKER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[5],
    )
    assert worker.stdout is not None
    processes = [psutil.Process(int(pid)) for pid in worker.stdout.readline().split()]
    assert len(processes) == 3
    worker.kill()
    worker.wait()
    worker.stdout.close()
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
    assert list(tmp_path.iterdir()) == []


def test_a_thread_that_started_the_sandbox_may_end(small: Path) -> None:
    started: list[Sandbox] = []
    starter = threading.Thread(target=lambda: started.append(Sandbox(1)))
    starter.start()
    starter.join()
    with started[0] as sandbox:
        assert sandbox.inspect(small, LIMITS).pages == 2


@pytest.mark.parametrize(
    "wrong",
    [{"memory_bytes": MIB}, {"cpu_seconds": 0}, {"wall_seconds": -1}, {"requests_per_process": 0}],
)
def test_limits_that_cannot_work_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SandboxLimits(**wrong)  # type: ignore[arg-type]


def test_a_document_is_read_from_its_beginning_wherever_an_attempt_before_has_left_it(
    tmp_path: Path,
) -> None:
    document = tmp_path / "document.pdf"
    document.write_bytes(pdfs.one_page_scan(1))
    with open_for_reading([document]) as (descriptor,):
        os.lseek(descriptor, 0, os.SEEK_END)
        request = {
            "operation": "inspect",
            "limits": {"max_bytes": 1 << 20, "max_pages": 9, "accept_header_offset": False},
            "password": None,
            "sha256": None,
            "cpu_seconds": 5.0,
        }
        answer = _answer(request, [os.dup(descriptor)])
    assert answer["inspection"]["pages"] == 1
