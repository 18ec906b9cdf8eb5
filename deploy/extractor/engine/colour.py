"""Colour spaces, as far as the engine must know them (ISO 32000-2, 8.6).

Gray, RGB and palettes of these are written as PNG as they are; every other space ("other") is left
to the renderer, which knows them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pikepdf

from deploy.extractor.engine.profiles import is_like_srgb

Kind = Literal["gray", "rgb", "cmyk", "indexed", "other"]

_DEEPEST_NESTING = 6  # a palette of an alternate of a profile is three; more is an attack
_DEVICE: dict[str, Kind] = {
    "/DeviceGray": "gray",
    "/G": "gray",
    "/DeviceRGB": "rgb",
    "/RGB": "rgb",
    "/DeviceCMYK": "cmyk",
    "/CMYK": "cmyk",
}
_BY_COMPONENTS: dict[int, Kind] = {1: "gray", 3: "rgb", 4: "cmyk"}


@dataclass(frozen=True)
class ColourSpace:
    """`palette` holds RGB triples and is set where `kind` is "indexed".

    `profile` is set where a gray or RGB space has a profile that makes a visible difference.
    """

    kind: Kind
    components: int | None = None
    palette: bytes | None = None
    profile: bytes | None = None


_OTHER = ColourSpace("other")


def read_colour_space(value: Any, depth: int = 0) -> ColourSpace:
    """Classify a colour space. Whatever cannot be understood is "other"."""
    if depth > _DEEPEST_NESTING:
        return _OTHER
    if isinstance(value, pikepdf.Name):
        kind = _DEVICE.get(str(value))
        return _device(kind) if kind else _OTHER
    if not isinstance(value, pikepdf.Array) or not len(value):
        return _OTHER
    family = str(value[0])
    if family in _DEVICE and len(value) == 1:
        return _device(_DEVICE[family])
    if len(value) < 2:
        return _OTHER
    if family == "/ICCBased":
        return _from_profile(value[1])
    if family in ("/Indexed", "/I") and len(value) >= 4:
        return _indexed(value, depth)
    return _OTHER


def _device(kind: Kind) -> ColourSpace:
    return ColourSpace(kind, {"gray": 1, "rgb": 3, "cmyk": 4}[kind])


def _from_profile(profile: Any) -> ColourSpace:
    if not isinstance(profile, pikepdf.Stream):
        return _OTHER
    components = int(profile.get("/N", 0))
    kind = _BY_COMPONENTS.get(components)
    if kind is None:
        return _OTHER
    if kind != "cmyk":
        data = profile.read_bytes()
        if not is_like_srgb(data, components):
            return ColourSpace(kind, components, profile=data)
    return _device(kind)


def _indexed(value: pikepdf.Array, depth: int) -> ColourSpace:
    base = read_colour_space(value[1], depth + 1)
    if base.kind not in ("gray", "rgb") or base.profile is not None:
        return ColourSpace("other", 1)
    table = value[3]
    entries = table.read_bytes() if isinstance(table, pikepdf.Stream) else bytes(table)
    if base.kind == "gray":
        entries = bytes(level for level in entries for _ in range(3))
    colours = min(int(value[2]), 255) + 1
    return ColourSpace("indexed", 1, entries[: 3 * colours].ljust(3 * colours, b"\0"))
