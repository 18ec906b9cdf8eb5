"""A service that is killed or stopped loses no accepted job and runs none for ever."""

from __future__ import annotations

import contextlib
import threading
from functools import partial
from pathlib import Path

import pytest
import requests

from tests.integration.extractor.engines import document
from tests.integration.extractor.running import PATIENCE_S, Service, wait_until


def started(hold: Path) -> bool:
    return Path(f"{hold}.started").exists()


def test_running_and_waiting_jobs_complete_after_a_kill(tmp_path: Path, hold: Path) -> None:
    with Service(tmp_path) as service:
        running = service.submitted(document("hold", hold), key="running")
        waiting = service.submitted(document("ok"), key="waiting")
        wait_until(lambda: started(hold))
        before = service.poll(waiting).json()["submitted_at"]
        service.kill()
        hold.touch()

        service.start()
        assert service.finished(running)["status"] == "completed"
        assert service.finished(waiting)["status"] == "completed"
        assert service.finished(waiting)["submitted_at"] == before
        assert service.submit(document("ok"), key="waiting").json()["job_id"] == waiting


def test_a_kill_straight_after_the_answer_loses_nothing(tmp_path: Path, hold: Path) -> None:
    with Service(tmp_path, workers=1) as service:
        accepted = [service.submitted(document("hold", hold))]
        for number in range(20):
            accepted.append(service.submitted(document("ok", number)))
        service.kill()
        hold.touch()
        service.start()
        assert {service.finished(job_id)["status"] for job_id in accepted} == {"completed"}


def test_kills_in_the_middle_of_traffic_lose_no_job_and_make_none_twice(tmp_path: Path) -> None:
    keys = [f"key-{number}" for number in range(60)]
    job_ids: dict[str, set[str]] = {key: set() for key in keys}
    with Service(tmp_path, workers=2) as service:
        every_job_has_an_id = threading.Event()

        def submit_until_all_are_accepted() -> None:
            while not every_job_has_an_id.is_set():
                for key in keys:
                    with contextlib.suppress(requests.ConnectionError):
                        answer = requests.post(
                            f"{service.url}/v1/pdf/extract_images",
                            headers=service.headers(key),
                            files={"file": ("x.pdf", document("ok", key), "application/pdf")},
                            timeout=PATIENCE_S,
                        )
                        assert answer.status_code in (200, 202), answer.text
                        job_ids[key].add(answer.json()["job_id"])

        def at_least(count: int) -> bool:
            return sum(map(bool, job_ids.values())) >= count

        client = threading.Thread(target=submit_until_all_are_accepted)
        client.start()
        try:
            for share in (10, 30, 50):
                wait_until(partial(at_least, share))
                service.kill()
                service.start()
            wait_until(partial(at_least, len(keys)))
        finally:
            every_job_has_an_id.set()
            client.join()
        assert {len(ids) for ids in job_ids.values()} == {1}
        for (job_id,) in job_ids.values():
            assert service.finished(job_id)["status"] == "completed"


def test_results_and_their_urls_outlive_a_restart(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        job_id = service.submitted(document("ok"))
        job = service.finished(job_id)
        service.kill()
        service.start()
        again = service.finished(job_id)
        assert again["finished_at"] == job["finished_at"]
        token = job["images"][0]["url"].rpartition("/")[2]
        answer = requests.get(f"{service.url}/v1/files/{token}", timeout=PATIENCE_S)
        assert answer.status_code == 200


def test_an_orderly_stop_answers_long_polls_and_gives_the_job_back_uncharged(
    tmp_path: Path, hold: Path
) -> None:
    with Service(tmp_path, max_attempts=1) as service:
        job_id = service.submitted(document("hold", hold))
        wait_until(lambda: started(hold))
        assert service.stop() == 0
        hold.touch()
        service.start()
        assert service.finished(job_id)["status"] == "completed"


def test_a_job_that_was_running_at_every_crash_is_given_up(tmp_path: Path, hold: Path) -> None:
    with Service(tmp_path, max_attempts=2) as service:
        job_id = service.submitted(document("hold", hold))
        for _ in range(2):
            wait_until(lambda: started(hold))
            service.kill()
            Path(f"{hold}.started").unlink()
            (service.data_dir / "outputs" / job_id / "partial.png").write_bytes(b"half an ima")
            service.start()
        job = service.finished(job_id)
        assert (job["status"], job["error"]) == ("failed", {"code": "crashed", "which": "attempts"})
        assert service.files() == []


def test_the_document_of_a_job_that_had_completed_is_removed_at_the_next_start(
    tmp_path: Path,
) -> None:
    with Service(tmp_path) as service:
        job_id = service.submitted(document("ok"))
        image = service.finished(job_id)["images"][0]["url"].rpartition("/")[2]
        service.kill()
        # As if the kill had come between the record of the end and the removal.
        (service.data_dir / "inputs" / f"{job_id}.pdf").write_bytes(document("ok"))
        service.start()
        assert service.files() == ["image-1.png"]
        answer = requests.get(f"{service.url}/v1/files/{image}", timeout=PATIENCE_S)
        assert answer.status_code == 200


def test_a_partial_upload_of_a_killed_service_is_swept_at_the_next_start(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        orphan = service.data_dir / "inputs" / f"{'a' * 32}.pdf"
        service.kill()
        orphan.write_bytes(b"%PDF-1.7 half a docum")
        service.start()
        assert not orphan.exists()


def test_a_full_disk_postpones_the_job_and_does_not_fail_it(tmp_path: Path) -> None:
    room = tmp_path / "room"
    with Service(tmp_path, postpone_s=0.1) as service:
        job_id = service.submitted(document("disk-full-until", room))
        wait_until(Path(f"{room}.started").exists)
        assert service.poll(job_id).json()["status"] in ("queued", "running")
        room.touch()
        assert service.finished(job_id)["status"] == "completed"


def test_a_second_service_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with Service(tmp_path):
        second = Service(tmp_path)
        with pytest.raises(AssertionError, match="another extraction service uses this data"):
            second.start()
        assert second.process is not None
        assert second.process.wait(PATIENCE_S) == 2
