"""PDFs for the demonstration, made here: scans of nothing, of every kind that may come."""

from __future__ import annotations

import io
import random
import sys
from pathlib import Path

import pikepdf
from PIL import Image, ImageDraw

A4 = (595, 842)


def scan(seed: int, *, pages: int = 1, images_per_page: int = 1) -> bytes:
    """A document of JPEG "scans", ``images_per_page`` on each page."""
    pdf = pikepdf.new()
    for page in range(1, pages + 1):
        names = {
            f"/Im{index}": _jpeg_stream(pdf, seed * 10_000 + page * 100 + index)
            for index in range(images_per_page)
        }
        _add_page(pdf, names)
    return _saved(pdf)


def encrypted(seed: int) -> bytes:
    """A one-page scan that needs a password."""
    pdf = pikepdf.new()
    _add_page(pdf, {"/Im0": _jpeg_stream(pdf, seed)})
    out = io.BytesIO()
    pdf.save(out, encryption=pikepdf.Encryption(owner="owner", user="secret", R=6))
    return out.getvalue()


def not_a_pdf() -> bytes:
    """A picture that calls itself a PDF."""
    out = io.BytesIO()
    Image.new("RGB", (64, 64), "white").save(out, "PNG")
    return out.getvalue()


def _jpeg_stream(pdf: pikepdf.Pdf, seed: int) -> pikepdf.Stream:
    rng = random.Random(seed)
    width, height = 300, 420
    image = Image.new("L", (width, height), 245)
    draw = ImageDraw.Draw(image)
    for line in range(24):
        y = 20 + line * 16
        draw.line((20, y, rng.randint(120, width - 20), y), fill=rng.randint(20, 90), width=5)
    draw.text((20, height - 24), f"specimen {seed}", fill=0)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=70)
    return pikepdf.Stream(
        pdf,
        out.getvalue(),
        Type=pikepdf.Name.XObject,
        Subtype=pikepdf.Name.Image,
        Width=width,
        Height=height,
        ColorSpace=pikepdf.Name.DeviceGray,
        BitsPerComponent=8,
        Filter=pikepdf.Name.DCTDecode,
    )


def _add_page(pdf: pikepdf.Pdf, images: dict[str, pikepdf.Stream]) -> None:
    columns = 1 if len(images) == 1 else 3
    width, height = (A4[0] - 40) / columns, (A4[1] - 40) / max(1, -(-len(images) // columns))
    drawing = []
    for index, name in enumerate(images):
        x, y = 20 + (index % columns) * width, 20 + (index // columns) * height
        drawing.append(f"q {width:.2f} 0 0 {height:.2f} {x:.2f} {y:.2f} cm {name} Do Q")
    pdf.add_blank_page(page_size=A4)
    page = pdf.pages[-1]
    page.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(images))
    page.Contents = pikepdf.Stream(pdf, "\n".join(drawing).encode())


def _saved(pdf: pikepdf.Pdf) -> bytes:
    out = io.BytesIO()
    pdf.save(out, deterministic_id=True)
    return out.getvalue()


def main() -> int:
    """``python -m deploy.demo.documents FOLDER``: writes one.pdf, many.pdf, long.pdf."""
    if len(sys.argv) != 2:
        print("usage: python -m deploy.demo.documents FOLDER", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    made = {
        "one.pdf": scan(1),
        "many.pdf": scan(2, pages=2, images_per_page=6),
        "long.pdf": scan(3, pages=9),
    }
    for name, content in made.items():
        (folder / name).write_bytes(content)
    print(f"wrote {', '.join(made)} to {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
