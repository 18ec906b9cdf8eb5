"""PDFs that are hard on a reader or easy to cut wrongly, made here. Plain ones: `tests.pdfs`."""

from __future__ import annotations

import io
import random
import tempfile
import zlib
from typing import BinaryIO, cast

import pikepdf
from pikepdf import Array, Dictionary, Name

from tests.pdfs import add_page, colour_of, draw_in_a_grid, saved, solid_image


def in_a_file(pdf: bytes) -> BinaryIO:
    """Open, without a name, and gone with the last reference."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - whoever asked closes it, or drops it
    file.write(pdf)
    file.flush()
    return cast(BinaryIO, file)


def raw_pdf(objects: dict[int, bytes], root: int = 1) -> bytes:
    """A PDF of these objects, by number, with a correct cross-reference table."""
    out = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    offsets: dict[int, int] = {}
    for number, body in objects.items():
        offsets[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    size = max(objects) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n" % size
    for number in range(1, size):
        out += b"%010d 00000 n \n" % offsets.get(number, 0)
    out += b"trailer\n<</Size %d/Root %d 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (size, root, start)
    return bytes(out)


def _page(parent: int = 2) -> bytes:
    return b"<</Type/Page/Parent %d 0 R/MediaBox[0 0 200 200]>>" % parent


def lying_count(real_pages: int, claimed: int) -> bytes:
    kids = b" ".join(b"%d 0 R" % (3 + page) for page in range(real_pages))
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        2: b"<</Type/Pages/Count %d/Kids[%s]>>" % (claimed, kids),
    }
    objects.update({3 + page: _page() for page in range(real_pages)})
    return raw_pdf(objects)


def cyclic_page_tree() -> bytes:
    return raw_pdf(
        {
            1: b"<</Type/Catalog/Pages 2 0 R>>",
            2: b"<</Type/Pages/Count 2/Kids[3 0 R]>>",
            3: b"<</Type/Pages/Count 2/Parent 2 0 R/Kids[2 0 R]>>",
        }
    )


def deep_page_tree(depth: int, leaves: int = 1) -> bytes:
    """One page at the end of a chain of nodes, the last of which lists it so many times."""
    objects = {1: b"<</Type/Catalog/Pages 2 0 R>>"}
    for node in range(2, depth + 2):
        objects[node] = b"<</Type/Pages/Count 1/Kids[%d 0 R]>>" % (node + 1)
    objects[depth + 1] = b"<</Type/Pages/Kids[%s]>>" % (b" %d 0 R" % (depth + 2) * leaves)
    objects[depth + 2] = _page(depth + 1)
    return raw_pdf(objects)


def deep_page_tree_with_pages(depth: int) -> bytes:
    """A page and the next node in each node: `depth` pages, so many points high as their number.

    All are 200 points wide and turned by 90 degrees, those of the lower half by 180, as their nodes
    say and not they.
    """
    objects = {1: b"<</Type/Catalog/Pages 2 0 R>>"}
    for level in range(1, depth + 1):
        node, page = 2 * level, 2 * level + 1
        more = b""
        if level in (1, depth // 2 + 1):
            more = b"/Rotate %d" % (90 if level == 1 else 180)
        below = b"%d 0 R" % (node + 2) if level < depth else b""
        objects[node] = b"<</Type/Pages/Count %d%s/MediaBox[0 0 200 %d]/Kids[%d 0 R %s]>>" % (
            depth + 1 - level,
            more,
            level,
            page,
            below,
        )
        objects[page] = b"<</Type/Page/Parent %d 0 R>>" % node
    return raw_pdf(objects)


def deep_page_tree_with_a_cycle(depth: int) -> bytes:
    objects = {1: b"<</Type/Catalog/Pages 2 0 R>>"}
    for node in range(2, depth + 2):
        objects[node] = b"<</Type/Pages/Count 1/Kids[%d 0 R %d 0 R]>>" % (depth + 2, node + 1)
    objects[depth + 1] = b"<</Type/Pages/Count 1/Kids[2 0 R]>>"
    objects[depth + 2] = _page(2)
    return raw_pdf(objects)


def page_tree_of_shared_nodes(levels: int) -> bytes:
    """10 ** levels pages in a few hundred bytes: each node lists the next one ten times."""
    objects = {1: b"<</Type/Catalog/Pages 2 0 R>>"}
    for node in range(2, levels + 2):
        objects[node] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (
            10 ** (levels + 2 - node),
            b" ".join([b"%d 0 R" % (node + 1)] * 10),
        )
    objects[levels + 2] = _page(levels + 1)
    return raw_pdf(objects)


def no_pages() -> bytes:
    return raw_pdf({1: b"<</Type/Catalog/Pages 2 0 R>>", 2: b"<</Type/Pages/Count 0/Kids[]>>"})


def object_stream_bomb(decoded_bytes: int) -> bytes:
    """Its page tree is in an object stream that decodes to this many zeros."""
    compressor = zlib.compressobj(9)
    block = bytes(1 << 20)
    data = b"".join(compressor.compress(block) for _ in range(decoded_bytes >> 20))
    data += compressor.flush()
    out = bytearray(b"%PDF-1.7\n")
    first = len(out)
    out += b"1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n"
    stream = len(out)
    out += b"3 0 obj\n<</Type/ObjStm/N 1/First 5/Filter/FlateDecode/Length %d>>\nstream\n" % len(
        data
    )
    out += data + b"\nendstream\nendobj\n"
    xref = len(out)
    entries = b"".join(
        bytes([kind]) + position.to_bytes(4, "big") + bytes([extra])
        for kind, position, extra in (
            (0, 0, 0),
            (1, first, 0),
            (2, 3, 0),
            (1, stream, 0),
            (1, xref, 0),
        )
    )
    out += b"4 0 obj\n<</Type/XRef/Size 5/W[1 4 1]/Root 1 0 R/Length %d>>\nstream\n" % len(entries)
    out += entries + b"\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n" % xref
    return bytes(out)


def xref_that_takes_long(sections: int, entries: int = 200_000) -> bytes:
    """One page, and a chain of cross-reference streams: of so many entries each, all of them free,
    in some hundred bytes. Every engine reads them all: a hundred sections take seconds of CPU and
    hardly any memory."""
    free = zlib.compress(bytes(2 * entries))
    out = bytearray(b"%PDF-1.7\n")
    offsets = []
    for number, body in enumerate(
        (
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>",
        ),
        start=1,
    ):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    used = b"".join(bytes([1]) + offset.to_bytes(4, "big") for offset in offsets)
    dictionary = b"<</Type/XRef/Root 1 0 R/Size %d" % (entries + 4)
    position = 0
    for section in range(sections + 1):
        content, more = free, b"/Index[4 %d]/W[1 1 0]/Filter/FlateDecode" % entries
        if section == sections:
            content, more = used, b"/Index[1 3]/W[1 4 0]"
        if section:
            more += b"/Prev %d" % position
        position = len(out)
        out += b"4 0 obj\n" + dictionary + more + b"/Length %d>>\nstream\n" % len(content)
        out += content + b"\nendstream\nendobj\n"
    out += b"startxref\n%d\n%%%%EOF\n" % position
    return bytes(out)


def without_startxref(pdf: bytes) -> bytes:
    """pypdf gives up on it, qpdf rebuilds the table."""
    return pdf[: pdf.rindex(b"startxref")]


def with_a_broken_page(pdf: bytes) -> bytes:
    """qpdf cannot parse the first page's dictionary and leaves the page out, pypdf reads it.

    For PDFs of `tests.pdfs` and those here that qpdf wrote."""
    return _replaced(pdf, b"/Type /Page >>", b"/Type /Page >")


def with_a_lost_branch() -> bytes:
    """Two pages in two branches of the page tree. The table has a wrong generation for the second:
    qpdf drops it without a warning, pypdf reads it."""
    pdf = raw_pdf(
        {
            1: b"<</Type/Catalog/Pages 2 0 R>>",
            2: b"<</Type/Pages/Count 2/Kids[3 0 R 4 0 R]>>",
            3: b"<</Type/Pages/Count 1/Parent 2 0 R/Kids[5 0 R]>>",
            4: b"<</Type/Pages/Count 1/Parent 2 0 R/Kids[6 0 R]>>",
            5: _page(3),
            6: _page(4),
        }
    )
    entry = b"%010d %%05d n" % pdf.index(b"4 0 obj")
    return _replaced(pdf, entry % 0, entry % 7)


def without_root(pdf: bytes) -> bytes:
    """qpdf gives up on it, pypdf finds the catalog. For PDFs that qpdf wrote."""
    return _replaced(pdf, b"/Root ", b"/Rxxt ")


def _replaced(pdf: bytes, old: bytes, new: bytes) -> bytes:
    assert old in pdf
    return pdf.replace(old, new, 1)


def _form(pdf: pikepdf.Pdf, content: bytes, resources: Dictionary | None) -> pikepdf.Stream:
    form = pdf.make_stream(
        content, Type=Name.XObject, Subtype=Name.Form, BBox=Array([0, 0, 200, 200])
    )
    if resources is not None:
        form.Resources = resources
    return form


def images_drawn_indirectly() -> bytes:
    """Page 1 draws six images, none of them by its own content; page 2 draws the seventh.

    By a form, by a form in a form, by a form that uses the page's resources, by a tiling pattern,
    by a soft mask and by an annotation. All seven are in one resource dictionary that both pages
    and all of these share.
    """
    pdf = pikepdf.new()
    shared = pdf.make_indirect(Dictionary())
    images = {f"/Im{number}": solid_image(pdf, colour_of(1, number)) for number in range(1, 8)}
    inner = _form(pdf, draw_in_a_grid(["/Im2"]), shared)
    pattern = pdf.make_stream(
        draw_in_a_grid(["/Im4"]),
        Type=Name.Pattern,
        PatternType=1,
        PaintType=1,
        TilingType=1,
        BBox=Array([0, 0, 50, 50]),
        XStep=50,
        YStep=50,
        Resources=shared,
    )
    mask = _form(pdf, draw_in_a_grid(["/Im5"]), shared)
    mask.Group = Dictionary(S=Name.Transparency, CS=Name.DeviceGray)
    shared.XObject = Dictionary(
        {
            **images,
            "/Outer": _form(pdf, draw_in_a_grid(["/Im1"]) + b" /Inner Do", shared),
            "/Inner": inner,
            "/Inheriting": _form(pdf, draw_in_a_grid(["/Im3"]), None),
        }
    )
    shared.Pattern = Dictionary(P1=pattern)
    shared.ExtGState = Dictionary(G1=Dictionary(SMask=Dictionary(S=Name.Luminosity, G=mask)))
    add_page(
        pdf,
        b"/Outer Do /Inheriting Do /Pattern cs /P1 scn 0 0 50 50 re f /G1 gs 0 0 9 9 re f",
        {},
    )
    add_page(pdf, draw_in_a_grid(["/Im7"]), {})
    for page in pdf.pages:
        page.obj.Resources = shared
    pdf.pages[0].obj.Annots = Array(
        [
            pdf.make_indirect(
                Dictionary(
                    Type=Name.Annot,
                    Subtype=Name.Stamp,
                    Rect=Array([0, 0, 50, 50]),
                    AP=Dictionary(N=_form(pdf, draw_in_a_grid(["/Im6"]), shared)),
                )
            )
        ]
    )
    return saved(pdf)


def links_between_pages() -> bytes:
    """Page 1 draws nothing, and leads in many ways to images that only page 2 draws."""
    pdf = pikepdf.new()
    secret = solid_image(pdf, colour_of(2, 1))
    add_page(pdf, b"", {})
    add_page(pdf, draw_in_a_grid(["/Im1"]), {"/Im1": secret})
    first, second = pdf.pages[0].obj, pdf.pages[1].obj
    appearance = _form(pdf, draw_in_a_grid(["/Im1"]), Dictionary(XObject={"/Im1": secret}))
    widget_on_second = pdf.make_indirect(
        Dictionary(
            Type=Name.Annot,
            Subtype=Name.Widget,
            Rect=Array([0, 0, 9, 9]),
            P=second,
            AP=Dictionary(N=appearance),
        )
    )
    empty = _form(pdf, b"", Dictionary(XObject={"/Im1": secret}))
    widget_on_first = pdf.make_indirect(
        Dictionary(
            Type=Name.Annot,
            Subtype=Name.Widget,
            Rect=Array([0, 0, 9, 9]),
            P=first,
            AS=Name.Off,
            AP=Dictionary(N=Dictionary(Off=empty, On=appearance), D=appearance, R=appearance),
            MK=Dictionary(I=appearance),
            Dest=Array([second, Name.Fit]),
            A=Dictionary(S=Name.GoTo, D=Array([second, Name.Fit])),
        )
    )
    field = pdf.make_indirect(
        Dictionary(FT=Name.Btn, T="radio", Kids=Array([widget_on_first, widget_on_second]))
    )
    widget_on_first.Parent = field
    widget_on_second.Parent = field
    pdf.Root.AcroForm = Dictionary(Fields=Array([field]))
    first.Annots = Array([widget_on_first])
    second.Annots = Array([widget_on_second])
    first.Thumb = secret
    first.PieceInfo = Dictionary(App=Dictionary(Private=secret))
    first.B = Array([pdf.make_indirect(Dictionary(P=second, Image=secret))])
    return saved(pdf)


def inherited_attributes() -> bytes:
    """Two pages that have their boxes, rotation and resources from the parent node."""
    pdf = pikepdf.new()
    for number in (1, 2):
        add_page(pdf, draw_in_a_grid([f"/Im{number}"]), {})
        page = pdf.pages[-1].obj
        del page["/MediaBox"]
        del page["/Resources"]
    pdf.Root.Pages.MediaBox = Array([0, 0, 300, 400])
    pdf.Root.Pages.CropBox = Array([10, 10, 290, 390])
    pdf.Root.Pages.Rotate = 90
    pdf.Root.Pages.Resources = Dictionary(
        XObject={f"/Im{number}": solid_image(pdf, colour_of(number, 1)) for number in (1, 2)}
    )
    return saved(pdf)


def hidden_layer() -> bytes:
    """Two pages with a layer each; the one on page 1 is switched off."""
    pdf = pikepdf.new()
    layers = [
        pdf.make_indirect(Dictionary(Type=Name.OCG, Name=f"layer {number}")) for number in (1, 2)
    ]
    for layer in layers:
        image = solid_image(pdf, colour_of(1, 1))
        image.OC = layer
        add_page(pdf, draw_in_a_grid(["/Im1"]), {"/Im1": image})
    pdf.Root.OCProperties = Dictionary(OCGs=Array(layers), D=Dictionary(OFF=Array(layers[:1])))
    return saved(pdf)


def content_cut_short() -> bytes:
    """The page's compressed content ends early, after it has drawn the first of its two images."""
    pdf = pikepdf.new()
    images = {f"/Im{number}": solid_image(pdf, colour_of(1, number)) for number in (1, 2)}
    add_page(pdf, b"", images)
    padding = b"\n".join(b"%d %d m" % (n * 7919 % 997, n * 104729 % 991) for n in range(4000))
    content = draw_in_a_grid(["/Im1"]) + b"\n" + padding + b"\n" + draw_in_a_grid(["/Im2"])
    compressed = bytearray(zlib.compress(content))
    compressed[len(compressed) // 2 :] = b"\xff" * (len(compressed) // 2)
    stream = pdf.make_stream(bytes(compressed))
    stream.Filter = Name.FlateDecode
    pdf.pages[0].obj.Contents = stream
    return saved(pdf)


def content_in_unknown_filter() -> bytes:
    """Nobody can tell what this page draws."""
    pdf = pikepdf.new()
    add_page(pdf, b"", {"/Im1": solid_image(pdf, colour_of(1, 1))})
    stream = pdf.make_stream(b"\x00\x01\x02")
    stream.Filter = Name.NoSuchDecode
    pdf.pages[0].obj.Contents = stream
    return saved(pdf)


def forms_that_draw_each_other(levels: int) -> bytes:
    """Every form draws the next one ten times and itself: 10 ** levels draws."""
    pdf = pikepdf.new()
    image = solid_image(pdf, colour_of(1, 1))
    resources = Dictionary(XObject={"/Im1": image})
    form = _form(pdf, draw_in_a_grid(["/Im1"]), resources)
    for _ in range(levels):
        outer = _form(pdf, b"/Next Do " * 10 + b"/Self Do", None)
        outer.Resources = Dictionary(XObject={"/Next": form, "/Self": outer})
        form = outer
    add_page(pdf, b"/Form Do", {"/Form": form})
    return saved(pdf)


def scans_that_do_not_compress(pages: int = 50) -> bytes:
    """A MiB per page: an image of RGB."""
    pdf, rng, side = pikepdf.new(), random.Random(1), 591
    for _ in range(pages):
        image = pdf.make_stream(
            rng.randbytes(side * side * 3),
            Type=Name.XObject,
            Subtype=Name.Image,
            Width=side,
            Height=side,
            ColorSpace=Name.DeviceRGB,
            BitsPerComponent=8,
        )
        add_page(pdf, b"q 595 0 0 842 0 0 cm /Scan Do Q", {"/Scan": image})
    out = io.BytesIO()
    pdf.save(out, compress_streams=False)
    return out.getvalue()


def raw_images(pdf: bytes) -> list[bytes]:
    """The encoded bytes of every image that is in the file, drawn or not."""
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        return [bytes(image.read_raw_bytes()) for image in _images(opened)]


def image_colours(pdf: bytes) -> set[tuple[int, ...]]:
    """The colours of the one-colour images that are in the file, drawn or not."""
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        return {tuple(image.read_bytes()[:3]) for image in _images(opened)}


def _images(pdf: pikepdf.Pdf) -> list[pikepdf.Stream]:
    return [
        obj
        for obj in pdf.objects
        if isinstance(obj, pikepdf.Stream) and obj.get("/Subtype") == Name.Image
    ]


def field_that_its_reader_has_to_draw(value: str) -> bytes:
    """A text field with a value and no appearance, and the flag that readers are to make one."""
    pdf = pikepdf.new()
    add_page(pdf, b"", {})
    field = pdf.make_indirect(
        Dictionary(
            Type=Name.Annot,
            Subtype=Name.Widget,
            FT=Name.Tx,
            T="name",
            V=value,
            DA="/Helv 12 Tf 0 g",
            Rect=Array([10, 10, 200, 30]),
        )
    )
    pdf.pages[0].obj.Annots = Array([field])
    helvetica = Dictionary(Type=Name.Font, Subtype=Name.Type1, BaseFont=Name.Helvetica)
    pdf.Root.AcroForm = Dictionary(
        Fields=Array([field]), NeedAppearances=True, DR=Dictionary(Font={"/Helv": helvetica})
    )
    return saved(pdf)
