"""Small PDFs for tests, made here byte for byte the same on every run.

Each function returns the bytes of one file. Images of the multi-image files are lossless and one
colour each, `colour_of(page, image)`, so that a test can tell which image it was given.
"""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Sequence

import pikepdf
from PIL import Image, ImageDraw

A4_POINTS = (595, 842)
IMAGE_SIDE_PIXELS = 24


def colour_of(page: int, image: int) -> tuple[int, int, int]:
    """The RGB colour of image number `image` on page `page` (both 1-based)."""
    return (page * 37 % 256, image * 91 % 256, (page * 7 + image * 13) % 256)


def one_page_scan(seed: int = 0) -> bytes:
    """One A4 page that is one gray JPEG, as a scanner makes it. Another seed, other pixels."""
    pdf = pikepdf.new()
    jpeg = _scanned_page_jpeg(seed)
    width, height = Image.open(io.BytesIO(jpeg)).size
    scan = _image(pdf, jpeg, (width, height), Filter=pikepdf.Name.DCTDecode)
    add_page(pdf, b"q 595 0 0 842 0 0 cm /Scan Do Q", {"/Scan": scan})
    return saved(pdf)


def many_images_page(n: int) -> bytes:
    """One page that draws `n` images."""
    return pages(1, images_per_page=n)


def pages(n: int, images_per_page: int = 1) -> bytes:
    """`n` pages, each drawing its own `images_per_page` images."""
    pdf = pikepdf.new()
    for page in range(1, n + 1):
        images = {
            f"/Im{number}": solid_image(pdf, colour_of(page, number))
            for number in range(1, images_per_page + 1)
        }
        add_page(pdf, draw_in_a_grid(list(images)), images)
    return saved(pdf)


def shared_resources(n_pages: int) -> bytes:
    """Every page lists the images of all pages in one shared dictionary but draws only its own."""
    pdf = pikepdf.new()
    images = {f"/Im{page}": solid_image(pdf, colour_of(page, 1)) for page in range(1, n_pages + 1)}
    resources = pdf.make_indirect(pikepdf.Dictionary(XObject=pikepdf.Dictionary(images)))
    for name in images:
        add_page(pdf, draw_in_a_grid([name]), {})
        pdf.pages[-1].obj.Resources = resources
    return saved(pdf)


def encrypted(password: str) -> bytes:
    """One page with one image that opens with `password` only.

    RC4 of revision 4, because the AES revisions draw random bytes and the file would differ
    from run to run.
    """
    pdf = pikepdf.open(io.BytesIO(pages(1)))
    buffer = io.BytesIO()
    pdf.save(
        buffer,
        static_id=True,
        encryption=pikepdf.Encryption(
            user=password, owner=password, R=4, aes=False, metadata=False
        ),
    )
    return buffer.getvalue()


def with_undecodable_images(n: int, damaged: Sequence[int]) -> bytes:
    """`n` pages with an image each; the `damaged` ones draw a second that nobody can decode."""
    pdf = pikepdf.new()
    for page in range(1, n + 1):
        images = {"/Im1": solid_image(pdf, colour_of(page, 1))}
        if page in damaged:
            square = (IMAGE_SIDE_PIXELS, IMAGE_SIDE_PIXELS)
            images["/Im2"] = _image(pdf, b"no JPEG", square, Filter=pikepdf.Name.DCTDecode)
        add_page(pdf, draw_in_a_grid(list(images)), images)
    return saved(pdf)


def with_a_soft_mask() -> bytes:
    """One page with one image that has a soft mask."""
    with pikepdf.new() as pdf:
        image = solid_image(pdf, colour_of(1, 1))
        levels = bytes(range(IMAGE_SIDE_PIXELS)) * IMAGE_SIDE_PIXELS
        image.SMask = _image(pdf, levels, (IMAGE_SIDE_PIXELS, IMAGE_SIDE_PIXELS))
        add_page(pdf, draw_in_a_grid(["/Im1"]), {"/Im1": image})
        return saved(pdf)


def text_only() -> bytes:
    """One page of text that draws no image."""
    pdf = pikepdf.new()
    add_page(pdf, b"BT /F1 12 Tf 72 700 Td (No image on this page) Tj ET", {})
    pdf.pages[0].obj.Resources = pikepdf.Dictionary(
        Font=pikepdf.Dictionary(
            F1=pikepdf.Dictionary(
                Type=pikepdf.Name.Font,
                Subtype=pikepdf.Name.Type1,
                BaseFont=pikepdf.Name.Helvetica,
            )
        )
    )
    return saved(pdf)


def not_a_pdf(kind: str) -> bytes:
    """Bytes that are no readable PDF.

    `kind` is one of "empty", "text", "png", "zip", "header_only", "html_after_header",
    "truncated".
    """
    match kind:
        case "empty":
            return b""
        case "text":
            return b"This is a plain text file that somebody named .pdf\n"
        case "png":
            buffer = io.BytesIO()
            Image.new("RGB", (8, 8), (200, 30, 30)).save(buffer, "PNG")
            return buffer.getvalue()
        case "zip":
            # The end record of an archive without entries, after a local header's signature.
            return b"PK\x03\x04" + bytes(26) + b"PK\x05\x06" + bytes(18)
        case "header_only":
            return b"%PDF-1.7\n"
        case "html_after_header":
            return b"%PDF-1.4\n<html><body>Service unavailable</body></html>\n"
        case "truncated":
            return one_page_scan()[:100]  # before the page tree, which readers would recover
        case _:
            raise ValueError(f"no such kind of file: {kind!r}")


def solid_image(
    pdf: pikepdf.Pdf, colour: tuple[int, int, int], side: int = IMAGE_SIDE_PIXELS
) -> pikepdf.Stream:
    """A square, lossless RGB image XObject of one colour, `side` pixels wide."""
    return _image(
        pdf,
        zlib.compress(bytes(colour) * (side * side)),
        (side, side),
        ColorSpace=pikepdf.Name.DeviceRGB,
        Filter=pikepdf.Name.FlateDecode,
    )


def _image(
    pdf: pikepdf.Pdf, data: bytes, size: tuple[int, int], **entries: object
) -> pikepdf.Stream:
    """An image XObject of 8-bit samples, gray unless ``entries`` say otherwise."""
    dictionary = {
        "/Type": pikepdf.Name.XObject,
        "/Subtype": pikepdf.Name.Image,
        "/Width": size[0],
        "/Height": size[1],
        "/ColorSpace": pikepdf.Name.DeviceGray,
        "/BitsPerComponent": 8,
        **{f"/{name}": entry for name, entry in entries.items()},
    }
    return pdf.make_stream(data, dictionary)


def draw_in_a_grid(names: list[str]) -> bytes:
    """A content stream that draws the XObjects of these names (with their "/"), in this order."""
    return b"\n".join(
        b"q 20 0 0 20 %d %d cm %s Do Q"
        % (20 + 25 * (number % 22), 800 - 25 * (number // 22 % 32), name.encode())
        for number, name in enumerate(names)
    )


def add_page(pdf: pikepdf.Pdf, content: bytes, xobjects: dict[str, pikepdf.Stream]) -> None:
    """Append an A4 page with this content stream and these XObjects (names with their "/")."""
    page = pikepdf.Dictionary(
        Type=pikepdf.Name.Page,
        MediaBox=[0, 0, *A4_POINTS],
        Resources=pikepdf.Dictionary(XObject=pikepdf.Dictionary(xobjects)),
        Contents=pdf.make_stream(content),
    )
    pdf.pages.append(pikepdf.Page(page))


def saved(pdf: pikepdf.Pdf) -> bytes:
    """The file as bytes, the same bytes for the same content."""
    buffer = io.BytesIO()
    pdf.save(buffer, deterministic_id=True)
    return buffer.getvalue()


def _scanned_page_jpeg(seed: int) -> bytes:
    """A gray page at 100 dpi: paper tint, lines of "text" as dark bars, specks of dust."""
    rng = random.Random(seed)
    page = Image.new("L", (827, 1169), 245 - seed % 10)
    draw = ImageDraw.Draw(page)
    for top in range(90, 1080, 24):
        left = 80
        while left < 700:
            width = rng.randint(15, 90)
            draw.rectangle((left, top, left + width, top + 10), fill=rng.randint(10, 60))
            left += width + 12
    for _ in range(150):
        page.putpixel((rng.randrange(827), rng.randrange(1169)), rng.randint(0, 120))
    buffer = io.BytesIO()
    page.save(buffer, "JPEG", quality=60)
    return buffer.getvalue()
