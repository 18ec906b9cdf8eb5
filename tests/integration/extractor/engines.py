"""An engine that does what the document says: `%PDF-1.7 <verb> <argument>`.

Runs in the service's worker process, named by EXTRACTOR_ENGINE.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import signal
import socket
import time
from pathlib import Path

from deploy.extractor.engine.model import (
    EncryptedDocument,
    ExtractedImage,
    Extraction,
    ExtractOptions,
    LimitExceeded,
    UnreadableDocument,
)

IMAGE = b"\x89PNG\r\n\x1a\n the image"
SECRET = "Jane Doe, born 1970-01-01"


def document(verb: str, argument: object = "") -> bytes:
    return f"%PDF-1.7 {verb} {argument}\n%%EOF\n".encode()


def by_document(source: Path, out_dir: Path, options: ExtractOptions) -> Extraction:
    with source.open("rb") as file:
        _, verb, argument = file.readline().decode("latin-1").rstrip("\n").split(" ", 2)
    problems: tuple[str, ...] = ()
    match verb:
        case "ok":
            pass
        case "options":
            problems = (repr(options),)
        case "pid":
            problems = (str(os.getpid()),)
        case "environment":
            problems = (repr(sorted(os.environ)),)
        case "print":
            os.write(1, SECRET.encode())
            os.write(2, SECRET.encode())
            print(SECRET)
        case "hold":
            Path(argument + ".started").write_text(str(os.getpid()))
            while not Path(argument).exists():
                time.sleep(0.01)
        case "hang":
            while True:
                time.sleep(60)
        case "spin":
            while True:
                pass
        case "hog":
            hoard = []
            while True:
                hoard.append(bytearray(16 * 1024 * 1024))
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(7)
        case "garble":
            for descriptor in range(3, 32):
                with contextlib.suppress(OSError):
                    os.write(descriptor, b'{"pages": "many"}\n')
        case "raise":
            raise ValueError(f"cannot parse {SECRET}")
        case "encrypted":
            raise EncryptedDocument(SECRET)
        case "unreadable":
            raise UnreadableDocument(SECRET)
        case "limit":
            raise LimitExceeded("images")
        case "big-file":
            with (out_dir / "big").open("wb") as big:
                for _ in range(int(argument)):
                    big.write(bytes(1024 * 1024))
        case "disk-full-until":
            if not Path(argument).exists():
                Path(argument + ".started").write_text("")
                raise OSError(errno.ENOSPC, SECRET)
        case "connect":
            host, port = argument.split(":")
            try:
                socket.create_connection((host, int(port)), timeout=5).close()
                problems = ("connected",)
            except OSError as refused:
                problems = (f"errno {refused.errno}",)
    return _one_image(out_dir, int(argument) if verb == "images" else 1, problems)


def _one_image(out_dir: Path, count: int, problems: tuple[str, ...]) -> Extraction:
    images = []
    for index in range(1, count + 1):
        content = IMAGE + str(index).encode()
        path = out_dir / f"image-{index}.png"
        path.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        images.append(ExtractedImage(1, index, path, "image/png", 3, 2, digest, len(content)))
    return Extraction(pages=1, images=tuple(images), problems=problems)
