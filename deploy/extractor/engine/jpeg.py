"""What the header of a JPEG file says, without decoding it (ITU-T T.81 Annex B)."""

from __future__ import annotations

from dataclasses import dataclass

_START_OF_IMAGE = b"\xff\xd8"
_END_OF_IMAGE = b"\xff\xd9"
_STANDALONE = {0x00, 0x01, *range(0xD0, 0xD9)}
_START_OF_SCAN = 0xDA
_FRAMES = {0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}
_COMMON_FRAMES = {0xC0, 0xC1, 0xC2}  # baseline, extended sequential, progressive


@dataclass(frozen=True)
class JpegHeader:
    """`adobe_transform` is None without an Adobe marker. `is_common`: what every viewer reads."""

    width: int
    height: int
    components: int
    component_ids: bytes
    is_common: bool
    is_complete: bool
    has_jfif: bool
    has_profile: bool
    adobe_transform: int | None

    @property
    def viewer_sees_ycc(self) -> bool:
        """Whether viewers take three components for YCbCr (the rule of libjpeg)."""
        if self.has_jfif:
            return True
        if self.adobe_transform is not None:
            return self.adobe_transform == 1
        return self.component_ids != b"RGB"


def read_header(data: bytes) -> JpegHeader | None:
    """The header of a JPEG file, None where the bytes are no JPEG file."""
    if not data.startswith(_START_OF_IMAGE):
        return None
    frame: tuple[int, bytes] | None = None
    has_jfif, has_profile, adobe_transform = False, False, None
    position = 2
    while position + 4 <= len(data):
        if data[position] != 0xFF:
            position += 1
            continue
        marker = data[position + 1]
        if marker == 0xFF or marker in _STANDALONE:
            position += 1 if marker == 0xFF else 2
            continue
        if marker == _START_OF_SCAN:
            break
        length = int.from_bytes(data[position + 2 : position + 4], "big")
        segment = data[position + 4 : position + 2 + length]
        if marker in _FRAMES and frame is None:
            frame = (marker, segment)
        elif marker == 0xE0 and segment.startswith(b"JFIF\0"):
            has_jfif = True
        elif marker == 0xE2 and segment.startswith(b"ICC_PROFILE\0"):
            has_profile = True
        elif marker == 0xEE and segment.startswith(b"Adobe") and len(segment) >= 12:
            adobe_transform = segment[11]
        position += 2 + max(2, length)
    if frame is None or len(frame[1]) < 6:
        return None
    marker, segment = frame
    components = segment[5]
    return JpegHeader(
        width=int.from_bytes(segment[3:5], "big"),
        height=int.from_bytes(segment[1:3], "big"),
        components=components,
        component_ids=segment[6 : 6 + 3 * components : 3],
        is_common=marker in _COMMON_FRAMES and segment[0] == 8,
        is_complete=data.rfind(_END_OF_IMAGE) > position,
        has_jfif=has_jfif,
        has_profile=has_profile,
        adobe_transform=adobe_transform,
    )
