"""Encodes and writes an image while the next one is being decoded.

For scanned pages both take about as long, nearly all of it in libraries that let other threads run:
with a free processor a document takes little more than half the time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from deploy.extractor.engine.encoding import DecodedImage
from deploy.extractor.engine.model import BadImage, ExtractedImage, ProblemCode

_FEW_BYTES = 1 << 18  # encoded sooner than handed over

Write = Callable[[DecodedImage, bytes], ExtractedImage]


class Encoding:
    """One image on its way to a file; `result` is for the thread that decodes."""

    def __init__(self, image: DecodedImage, write: Write) -> None:
        self.pixels = image.width * image.height
        self._image: DecodedImage | None = image
        self._write = write
        self._outcome: ExtractedImage | Exception | None = None
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        try:
            self._outcome = self._written()
        except Exception as error:
            self._outcome = error

    def run_beside(self) -> None:
        self._thread = threading.Thread(target=self.run, name="encode")
        try:
            self._thread.start()
        except RuntimeError:  # the process may have no more threads
            self._thread = None
            self.run()

    def wait(self) -> None:
        """Raises what writing raises."""
        self.join()
        if isinstance(self._outcome, Exception) and not isinstance(self._outcome, BadImage):
            raise self._outcome

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        # Not before, and not by the other thread: with it go bitmaps of PDFium, which is for one
        # thread alone, even where it frees them.
        self._image = None

    def result(self) -> ExtractedImage:
        """Raises BadImage, and what writing raises."""
        self.join()
        assert self._outcome is not None
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def _written(self) -> ExtractedImage:
        assert self._image is not None
        problem: ProblemCode | None = None
        try:
            content = self._image.encode()
        except MemoryError:
            problem = "out_of_memory"
        except Exception:  # whatever an encoder stumbles over is that image's problem
            problem = "undecodable"
        if problem is not None:
            # Not from within a handler: the exception there has the pixels in its frames.
            raise BadImage(problem)
        return self._write(self._image, content)


class Encoder:
    """Images one after another, the larger ones in a thread beside the caller's.

    Two are in memory at a time, the one being encoded and the one being decoded: together no more
    than `max_pixels`, which is what one alone may have.
    """

    def __init__(self, max_pixels: int) -> None:
        self._max_pixels = max_pixels
        self._beside: Encoding | None = None

    def close(self) -> None:
        """Wait for what is under way."""
        if self._beside is not None:
            self._beside.join()

    def start(self, image: DecodedImage, write: Write) -> Encoding:
        """Encode an image and give its content to `write`, which another thread may call.

        Raises what writing this one or the one before raises.
        """
        encoding = Encoding(image, write)
        if image.samples_bytes < _FEW_BYTES:
            encoding.run()
            encoding.wait()
        else:
            self._finish()
            encoding.run_beside()
            self._beside = encoding
        return encoding

    def make_room(self, pixels: int) -> None:
        """To be called before so many pixels are decoded."""
        if self._beside is not None and self._beside.pixels + pixels > self._max_pixels:
            self._beside.join()

    def _finish(self) -> None:
        if self._beside is not None:
            beside, self._beside = self._beside, None
            beside.wait()
