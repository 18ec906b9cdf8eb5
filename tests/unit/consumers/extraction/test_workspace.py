import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from consumers.extraction.workspace import (
    DocumentFiles,
    LargerThanQuota,
    Swept,
    Workspace,
    WorkspaceFull,
    sweep,
)
from sinks.objectstore.bodies import PrivateFile

MIB = 1024 * 1024

WRITE_FOR_EVER = """
import sys
from pathlib import Path
from consumers.extraction.workspace import Workspace
from sinks.objectstore.bodies import PrivateFile

workspace = Workspace(Path(sys.argv[1]), quota_bytes=1 << 40)
document = workspace.document_files("doc")
with (
    document.growing("source.pdf") as before_write,
    PrivateFile(document.file("source.pdf")) as file,
):
    before_write(12)
    file.write(b"patient data")
    print(workspace.path, flush=True)
    while True:
        before_write(4)
        file.write(b"more")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "work"


class Written:
    """A file as a download writes it."""

    def __init__(self, file: PrivateFile, before_write: Callable[[int], None]) -> None:
        self._file = file
        self._before_write = before_write

    def write(self, data: bytes) -> None:
        self._before_write(len(data))
        self._file.write(data)

    def write_all(self, *sizes: int) -> None:
        for size in sizes:
            self.write(bytes(size))


@contextmanager
def create(document: DocumentFiles, name: str) -> Iterator[Written]:
    with document.growing(name) as before_write, PrivateFile(document.file(name)) as file:
        yield Written(file, before_write)
        file.keep()


class WorkFailed(Exception):
    pass


def fail_after_writing(document: DocumentFiles) -> None:
    with create(document, "source.pdf") as file:
        file.write(b"x")
    raise WorkFailed


def fail_while_writing(document: DocumentFiles) -> None:
    with create(document, "source.pdf") as file:
        file.write(b"half")
        raise WorkFailed


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def kill_while_writing(root: Path) -> Path:
    """Run a worker that is killed in the middle of a write; returns its directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE_FOR_EVER, str(root)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[4],
    )
    assert process.stdout is not None
    directory = Path(process.stdout.readline().strip())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    return directory


def test_directories_and_files_are_private_whatever_the_umask(root: Path) -> None:
    before = os.umask(0)
    try:
        with Workspace(root, MIB) as workspace, workspace.document_files("doc") as document:
            with create(document, "source.pdf") as file:
                file.write(b"x")
            assert mode_of(root) == 0o700
            assert mode_of(workspace.path) == 0o700
            assert mode_of(document.file("source.pdf")) == 0o600
    finally:
        os.umask(before)


def test_an_existing_root_keeps_its_permissions(root: Path) -> None:
    root.mkdir(mode=0o755)
    root.chmod(0o755)
    Workspace(root, MIB).close()
    assert mode_of(root) == 0o755


def test_closing_a_document_removes_its_files_and_releases_their_bytes(root: Path) -> None:
    with Workspace(root, MIB) as workspace:
        with workspace.document_files("doc") as document:
            with create(document, "source.pdf") as file:
                file.write(bytes(1000))
            assert workspace.used_bytes == 1000
        assert list(workspace.path.iterdir()) == []
        assert workspace.used_bytes == 0


def test_a_document_is_removed_when_its_work_fails(root: Path) -> None:
    with Workspace(root, MIB) as workspace:
        with pytest.raises(WorkFailed), workspace.document_files("doc") as document:
            fail_after_writing(document)
        assert list(workspace.path.iterdir()) == []
        assert workspace.used_bytes == 0


def test_a_file_whose_writing_fails_is_removed_at_once(root: Path) -> None:
    with Workspace(root, MIB) as workspace, workspace.document_files("doc") as document:
        with pytest.raises(WorkFailed):
            fail_while_writing(document)
        assert not document.file("source.pdf").exists()
        assert workspace.used_bytes == 0


def test_two_documents_of_one_name_do_not_meet(root: Path) -> None:
    with (
        Workspace(root, MIB) as workspace,
        workspace.document_files("doc") as first,
        workspace.document_files("doc") as second,
    ):
        assert first.file("source.pdf") != second.file("source.pdf")


@pytest.mark.parametrize("name", ["../x", "", ".", "..", "a/b", "a\nb", "-x", ".x", "x" * 101])
def test_names_that_could_leave_the_directory_are_refused(root: Path, name: str) -> None:
    with Workspace(root, MIB) as workspace:
        with pytest.raises(ValueError):
            workspace.document_files(name)
        with workspace.document_files("doc") as document, pytest.raises(ValueError):
            document.file(name)


def test_the_quota_stops_a_write_before_the_bytes_are_on_the_disk(root: Path) -> None:
    with (
        Workspace(root, 1000) as workspace,
        workspace.document_files("other") as other,
        workspace.document_files("doc") as document,
    ):
        with create(other, "source.pdf") as file:
            file.write(bytes(500))
        with pytest.raises(WorkspaceFull), create(document, "source.pdf") as file:
            file.write_all(500, 1)
        assert workspace.used_bytes == 500
        assert workspace.has_room(500)


def test_a_document_larger_than_the_quota_is_told_apart_from_one_that_can_wait(root: Path) -> None:
    with Workspace(root, 1000) as workspace, workspace.document_files("doc") as document:
        assert document.reserve({"source.pdf": 600})
        with pytest.raises(LargerThanQuota), create(document, "source.pdf") as file:
            file.write_all(1000, 1)
        assert workspace.used_bytes == 600, "the reservation stays for another attempt"


def test_bytes_count_while_they_come_and_not_twice_what_was_reserved(root: Path) -> None:
    with Workspace(root, 1000) as workspace, workspace.document_files("doc") as document:
        assert document.reserve({"source.pdf": 300})
        with create(document, "source.pdf") as file:
            file.write(bytes(200))
            assert workspace.used_bytes == 300
            file.write(bytes(200))
            assert workspace.used_bytes == 400
        assert document.account("source.pdf") == 400
        assert workspace.used_bytes == 400


def test_there_is_no_room_when_the_quota_would_be_exceeded(root: Path) -> None:
    with Workspace(root, 1000) as workspace, workspace.document_files("doc") as document:
        with create(document, "source.pdf") as file:
            file.write(bytes(600))
        assert workspace.has_room(400)
        assert not workspace.has_room(401)


def test_there_is_no_room_when_the_disk_is_nearly_full(root: Path) -> None:
    with Workspace(root, MIB, min_free_bytes=1 << 62) as workspace:
        assert not workspace.has_room()


def test_a_file_written_by_another_process_counts_once_it_is_accounted(root: Path) -> None:
    with Workspace(root, 1000) as workspace, workspace.document_files("doc") as document:
        document.file("assembled.pdf").write_bytes(bytes(700))
        assert document.account("assembled.pdf") == 700
        assert document.account("assembled.pdf") == 700
        assert workspace.used_bytes == 700
        document.remove("assembled.pdf")
        assert workspace.used_bytes == 0


def test_a_file_of_another_process_that_exceeds_the_quota_is_removed(root: Path) -> None:
    with Workspace(root, 1000) as workspace, workspace.document_files("doc") as document:
        document.file("assembled.pdf").write_bytes(bytes(1001))
        with pytest.raises(WorkspaceFull):
            document.account("assembled.pdf")
        assert not document.file("assembled.pdf").exists()


def test_bytes_written_from_many_threads_are_all_counted_and_released(root: Path) -> None:
    with Workspace(root, 100 * MIB) as workspace:
        barrier = threading.Barrier(8)

        def work(number: int) -> None:
            barrier.wait()
            for _ in range(20):
                with workspace.document_files(f"doc{number}") as document:
                    for name in ("a", "b"):
                        with create(document, name) as file:
                            file.write(bytes(100))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert workspace.used_bytes == 0
        assert list(workspace.path.iterdir()) == []


def test_only_documents_past_their_lifetime_are_removed(root: Path) -> None:
    now = [0.0]
    with Workspace(root, MIB, clock=lambda: now[0]) as workspace:
        forgotten = workspace.document_files("forgotten", lifetime_seconds=10)
        with create(forgotten, "source.pdf") as file:
            file.write(bytes(10))
        current = workspace.document_files("current", lifetime_seconds=100)
        endless = workspace.document_files("endless")
        now[0] = 10.0
        assert workspace.remove_expired() == 1
        assert forgotten.closed
        assert not current.closed
        assert not endless.closed
        assert list(workspace.path.iterdir()) == []
        assert workspace.used_bytes == 0


def test_a_write_into_an_expired_document_fails_and_is_not_counted(root: Path) -> None:
    now = [0.0]
    with Workspace(root, MIB, clock=lambda: now[0]) as workspace:
        document = workspace.document_files("doc", lifetime_seconds=1)
        now[0] = 2.0
        with create(document, "source.pdf") as file:
            workspace.remove_expired()
            with pytest.raises(FileNotFoundError):
                file.write(b"late")
        assert workspace.used_bytes == 0


def test_a_file_that_is_finished_after_its_document_was_closed_is_removed(root: Path) -> None:
    with Workspace(root, MIB) as workspace:
        document = workspace.document_files("doc")
        document.close()
        document.file("source.pdf").write_bytes(b"late")
        with pytest.raises(FileNotFoundError):
            document.account("source.pdf")
        assert list(workspace.path.iterdir()) == []
        assert workspace.used_bytes == 0


def test_closing_the_workspace_leaves_nothing_under_the_root(root: Path) -> None:
    workspace = Workspace(root, MIB)
    document = workspace.document_files("doc")
    with create(document, "source.pdf") as file:
        file.write(b"x")
    workspace.close()
    assert list(root.iterdir()) == []


def test_what_a_worker_killed_in_the_middle_of_a_write_left_is_swept(root: Path) -> None:
    directory = kill_while_writing(root)
    assert list(directory.rglob("*source.pdf")) != []
    swept = sweep(root)
    assert (swept.owners, swept.files, swept.live) == (1, 1, 0)
    assert swept.bytes >= len(b"patient data")
    assert list(root.iterdir()) == []


def test_a_live_owner_is_never_swept(root: Path) -> None:
    kill_while_writing(root)
    with Workspace(root, MIB) as workspace, workspace.document_files("doc") as document:
        with create(document, "source.pdf") as file:
            file.write(b"x")
        swept = sweep(root)
        assert (swept.owners, swept.live) == (1, 1)
        assert document.file("source.pdf").read_bytes() == b"x"
        assert sweep(root) == Swept(live=1)


def test_a_directory_without_a_lock_is_an_orphan(root: Path) -> None:
    (root / "worker-1-00000000" / "doc-x").mkdir(parents=True)
    assert sweep(root).owners == 1
    assert list(root.iterdir()) == []


def test_sweeping_touches_nothing_else_under_a_shared_root(root: Path) -> None:
    root.mkdir()
    (root / "other").mkdir()
    (root / "file").write_text("x")
    assert sweep(root) == Swept()
    assert sorted(path.name for path in root.iterdir()) == ["file", "other"]


def test_sweeping_a_missing_root_finds_nothing(root: Path) -> None:
    assert sweep(root) == Swept()


def test_workspaces_that_start_while_others_sweep_keep_their_directories(root: Path) -> None:
    stop = threading.Event()

    def sweep_all_the_time() -> None:
        while not stop.is_set():
            sweep(root)

    sweepers = [threading.Thread(target=sweep_all_the_time) for _ in range(2)]
    for sweeper in sweepers:
        sweeper.start()
    try:
        for _ in range(100):
            with Workspace(root, MIB) as workspace, workspace.document_files("doc") as document:
                with create(document, "source.pdf") as file:
                    file.write(b"x")
                assert document.file("source.pdf").read_bytes() == b"x"
    finally:
        stop.set()
        for sweeper in sweepers:
            sweeper.join()


def test_room_is_reserved_for_all_files_or_none(root: Path) -> None:
    with Workspace(root, 1000) as workspace:
        with (
            workspace.document_files("first") as first,
            workspace.document_files("second") as second,
        ):
            assert first.reserve({"a": 300, "b": 400})
            assert not second.reserve({"a": 200, "b": 200})
            assert workspace.used_bytes == 700
            assert second.reserve({"a": 300})
        assert workspace.used_bytes == 0


def test_a_reserved_file_counts_as_large_as_it_became(root: Path) -> None:
    with Workspace(root, 1000) as workspace, workspace.document_files("doc") as document:
        assert document.reserve({"source.pdf": 1000})
        document.file("source.pdf").write_bytes(bytes(400))
        document.account("source.pdf")
        assert workspace.used_bytes == 400


def test_no_room_is_reserved_on_a_disk_that_is_nearly_full(root: Path) -> None:
    with Workspace(root, MIB, min_free_bytes=1 << 62) as workspace:
        assert not workspace.document_files("doc").reserve({"source.pdf": 1})


def test_only_documents_that_rest_for_too_long_are_removed(root: Path) -> None:
    now = [0.0]
    with Workspace(root, MIB, clock=lambda: now[0], idle_seconds=10) as workspace:
        resting, woken = workspace.document_files("resting"), workspace.document_files("woken")
        for document in (resting, woken):
            document.rests()
        woken.wakes()
        now[0] = 10.0
        assert workspace.remove_expired() == 1
        assert resting.closed
        assert not woken.closed
