"""Mutated PDFs and images: each has to end as a verdict, in time, and without an accident.

    python -m tests.corpus.fuzz [--pdfs 2000] [--images 500] [--seed 1] [--from FOLDER]

Each PDF is inspected and, if it is accepted, cut to its first page. The last line is JSON:
`hangs` counts calls that took longer than the limits allow, `errors` anything raised that is
neither a rejection nor a limit, `worker_deaths` sandbox processes that crashed (which costs the
document only, and is counted as its verdict). Ends with 1 unless all three are 0.
"""

from __future__ import annotations

import argparse
import collections
import io
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from consumers.extraction.sandbox import (
    AssemblyPart,
    DocumentRejected,
    ImageLimits,
    InspectionLimits,
    RejectedImage,
    Sandbox,
    SandboxError,
    SandboxLimits,
)
from tests import documents_pdfs, pdfs

LIMITS = SandboxLimits(memory_bytes=512 << 20, cpu_seconds=5, wall_seconds=30)
# A kill, a new process, a second engine, and a machine that is busy with other things.
SLACK_SECONDS = 30.0

_WORDS = (
    *(b"/Count", b"/Kids", b"/Type/Pages", b"/Length 0", b"/Filter/FlateDecode", b"/Prev 9"),
    *(b"<<", b">>", b"[[[[[[[[", b"endobj", b"stream\n", b"endstream", b"1 0 R", b"/Root 3 0 R"),
    *(b"99999999999", b"-1", b"startxref\n0", b"/Encrypt 1 0 R", b"/ObjStm", b"/W[9 9 9]"),
    *(b"\x00", b"\xff\xff\xff\xff", b"%%EOF"),
)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One to eight random changes."""
    for _ in range(rng.randint(1, 8)):
        if not data:
            return data
        data = rng.choice(_MUTATIONS)(data, rng)
    return data


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 20)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _cut_off(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) // 2, len(data))]


def _cut_out(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randint(1, 200) :]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    block = data[start : start + rng.randint(1, 300)]
    return data[:start] + block * rng.randint(1, 5) + data[start:]


def _insert_word(data: bytes, rng: random.Random) -> bytes:
    position = rng.randrange(len(data))
    return data[:position] + rng.choice(_WORDS) + data[position:]


def _change_number(data: bytes, rng: random.Random) -> bytes:
    digits = [index for index, byte in enumerate(data) if 48 <= byte <= 57]
    if not digits:
        return data
    position = rng.choice(digits)
    number = str(rng.choice((0, 1, 2, 3, 7, 65536, 2**31, 10**18, rng.randrange(100)))).encode()
    return data[:position] + number + data[position + 1 :]


_MUTATIONS: Sequence[Callable[[bytes, random.Random], bytes]] = (
    _flip,
    _cut_off,
    _cut_out,
    _repeat,
    _insert_word,
    _change_number,
)


def seed_pdfs() -> list[bytes]:
    return [
        pdfs.pages(3, images_per_page=2),
        pdfs.shared_resources(4),
        pdfs.text_only(),
        pdfs.encrypted(""),
        documents_pdfs.lying_count(5, 5),
        documents_pdfs.deep_page_tree(20),
        documents_pdfs.deep_page_tree(150, leaves=3),
        documents_pdfs.images_drawn_indirectly(),
        documents_pdfs.links_between_pages(),
        documents_pdfs.hidden_layer(),
        documents_pdfs.forms_that_draw_each_other(5),
        documents_pdfs.object_stream_bomb(1 << 20),
    ]


def seed_images() -> list[bytes]:
    picture = Image.frombytes("RGB", (64, 48), random.Random(0).randbytes(64 * 48 * 3))
    images = []
    for kind, options in (
        ("PNG", {}),
        ("JPEG", {}),
        ("JPEG2000", {}),
        ("WEBP", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("TIFF", {"save_all": True, "append_images": [picture]}),
    ):
        buffer = io.BytesIO()
        picture.save(buffer, kind, **options)
        images.append(buffer.getvalue())
    return images


@dataclass(frozen=True)
class Outcome:
    verdict: str
    hung: bool


def try_pdf(sandbox: Sandbox, scratch: Path, data: bytes, number: int) -> list[Outcome]:
    path, child = scratch / f"{number}.pdf", scratch / f"{number}-child.pdf"
    path.write_bytes(data)
    try:
        outcomes = [_timed(lambda: str(bool(sandbox.inspect(path, InspectionLimits()))))]
        if outcomes[0].verdict == "True":
            part = AssemblyPart(path, 1, 1)
            outcomes.append(_timed(lambda: f"cut {sandbox.assemble([part], child).pages}"))
        return outcomes
    finally:
        path.unlink()
        child.unlink(missing_ok=True)


def try_image(sandbox: Sandbox, scratch: Path, data: bytes, number: int) -> list[Outcome]:
    path = scratch / f"{number}.image"
    path.write_bytes(data)

    def verdict() -> str:
        (result,) = sandbox.verify_images([path], ImageLimits(max_pixels=10_000_000))
        return result.reason if isinstance(result, RejectedImage) else "an image"

    try:
        return [_timed(verdict)]
    finally:
        path.unlink()


def _timed(call: Callable[[], str]) -> Outcome:
    started = time.monotonic()
    try:
        verdict = call()
    except (DocumentRejected, SandboxError) as error:
        verdict = error.reason
    except Exception as error:  # what must not happen, and is reported
        verdict = f"error: {type(error).__name__}"
    return Outcome(verdict, time.monotonic() - started > LIMITS.wall_seconds + SLACK_SECONDS)


def run(
    pdf_count: int, image_count: int, seed: int, more: Sequence[bytes] = ()
) -> dict[str, object]:
    """Try so many of each; the same seed gives the same files."""
    rng = random.Random(seed)
    pdf_seeds, image_seeds = [*seed_pdfs(), *more], seed_images()
    started = time.monotonic()
    kills: collections.Counter[str] = collections.Counter()
    with (
        tempfile.TemporaryDirectory() as directory,
        Sandbox(2, LIMITS, on_kill=lambda reason: kills.update([reason])) as sandbox,
        ThreadPoolExecutor(2) as pool,
    ):
        scratch = Path(directory)
        calls = [
            pool.submit(try_pdf, sandbox, scratch, mutate(rng.choice(pdf_seeds), rng), number)
            for number in range(pdf_count)
        ]
        calls += [
            pool.submit(try_image, sandbox, scratch, mutate(rng.choice(image_seeds), rng), number)
            for number in range(image_count)
        ]
        outcomes = [outcome for call in calls for outcome in call.result()]
        peak_mb = sandbox.peak_bytes / (1 << 20)
    verdicts = collections.Counter(outcome.verdict for outcome in outcomes)
    verdicts["accepted"] = verdicts.pop("True", 0)
    return {
        "pdfs": pdf_count,
        "images": image_count,
        "hangs": sum(outcome.hung for outcome in outcomes),
        "errors": sum(n for verdict, n in verdicts.items() if verdict.startswith("error")),
        "worker_deaths": kills["parse_crashed"],
        "killed_at_a_limit": sum(kills.values()) - kills["parse_crashed"],
        "peak_sandbox_mb": round(peak_mb, 1),
        "seconds": round(time.monotonic() - started, 1),
        "verdicts": dict(sorted(verdicts.items())),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.fuzz", description=__doc__)
    parser.add_argument("--pdfs", type=int, default=2000)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", type=Path, dest="folder", help="a folder of PDFs to mutate too")
    arguments = parser.parse_args()
    more = []
    if arguments.folder:
        more = [file.read_bytes() for file in sorted(arguments.folder.glob("*.pdf"))]
        more = [data for data in more if len(data) < 300_000]
    result = run(arguments.pdfs, arguments.images, arguments.seed, more)
    print(json.dumps(result))
    return int(bool(result["hangs"] or result["errors"] or result["worker_deaths"]))


if __name__ == "__main__":
    sys.exit(main())
