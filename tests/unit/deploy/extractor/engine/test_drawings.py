"""Which images are extracted from a page, and in which order."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pikepdf
import pytest

from deploy.extractor.engine import Extraction
from tests import pdfs
from tests.unit.deploy.extractor.engine.documents import Name, pixels, run

RED, GREEN, BLUE = (250, 10, 10), (10, 250, 10), (10, 10, 250)


def colours(extraction: Extraction) -> list[tuple[int, ...]]:
    """The colour of each image, of which the test documents have one each."""
    samples = (pixels(extraction, number) for number in range(len(extraction.images)))
    return [tuple(int(level) for level in image[0, 0]) for image in samples]


def places(extraction: Extraction) -> list[tuple[int, int]]:
    return [(image.page, image.index) for image in extraction.images]


def form(pdf: pikepdf.Pdf, content: bytes, xobjects: dict[str, Any] | None) -> pikepdf.Stream:
    stream = pdf.make_stream(content, Type=Name.XObject, Subtype=Name.Form, BBox=[0, 0, 100, 100])
    if xobjects is not None:
        stream.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(xobjects))
    return stream


def test_a_page_gets_only_the_images_it_draws_of_those_all_pages_list(tmp_path: Path) -> None:
    extraction = run(pdfs.shared_resources(5), tmp_path)
    assert places(extraction) == [(page, 1) for page in range(1, 6)]
    assert colours(extraction) == [pdfs.colour_of(page, 1) for page in range(1, 6)]


def test_images_come_in_the_order_of_first_drawing(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    images = {
        "/A": pdfs.solid_image(pdf, RED),
        "/B": pdfs.solid_image(pdf, GREEN),
        "/C": pdfs.solid_image(pdf, BLUE),
    }
    pdfs.add_page(pdf, b"/C Do /A Do /C Do /B Do", images)
    extraction = run(pdfs.saved(pdf), tmp_path)
    assert colours(extraction) == [BLUE, RED, GREEN]
    assert places(extraction) == [(1, 1), (1, 2), (1, 3)]


def test_an_image_drawn_twice_is_counted_twice_only_on_request(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    pdfs.add_page(pdf, b"/A Do /A Do", {"/A": pdfs.solid_image(pdf, RED)})
    document = pdfs.saved(pdf)
    assert places(run(document, tmp_path)) == [(1, 1)]
    repeated = run(document, tmp_path, repeat_drawings=True)
    assert places(repeated) == [(1, 1), (1, 2)]
    assert repeated.images[0].file == repeated.images[1].file


def test_an_image_on_two_pages_is_an_image_of_each(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    logo = pdfs.solid_image(pdf, RED)
    pdfs.add_page(pdf, b"/A Do", {"/A": logo})
    pdfs.add_page(pdf, b"/A Do", {"/A": logo})
    assert places(run(pdfs.saved(pdf), tmp_path)) == [(1, 1), (2, 1)]


def test_names_in_a_form_mean_what_the_form_says(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    inner = form(pdf, b"/Im Do", {"/Im": pdfs.solid_image(pdf, GREEN)})
    outer = form(pdf, b"/F Do /Im Do", {"/F": inner, "/Im": pdfs.solid_image(pdf, RED)})
    pdfs.add_page(pdf, b"/F Do /Im Do", {"/F": outer, "/Im": pdfs.solid_image(pdf, BLUE)})
    assert colours(run(pdfs.saved(pdf), tmp_path)) == [GREEN, RED, BLUE]


def test_a_form_without_resources_uses_those_around_it(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    inner = form(pdf, b"/Im Do", None)
    outer = form(pdf, b"/F Do", {"/F": inner, "/Im": pdfs.solid_image(pdf, RED)})
    pdfs.add_page(pdf, b"/F Do", {"/F": outer, "/Im": pdfs.solid_image(pdf, BLUE)})
    assert colours(run(pdfs.saved(pdf), tmp_path)) == [RED]


def test_inline_images_are_found_and_their_short_names_understood(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    pdfs.add_page(pdf, b"q BI /W 1 /H 1 /BPC 8 /CS /RGB /F /AHx ID FA0A0A> EI Q", {})
    assert colours(run(pdfs.saved(pdf), tmp_path)) == [RED]


@pytest.mark.parametrize("is_whole", [True, False])
def test_an_inline_image_in_compressed_content_is_found(tmp_path: Path, is_whole: bool) -> None:
    pdf = pikepdf.new()
    content = zlib.compress(b"q BI /W 1 /H 1 /BPC 8 /CS /RGB /F /AHx ID FA0A0A> EI Q\n")
    if not is_whole:
        content = content[:-4]  # without the checksum at the end
    pdfs.add_page(pdf, b"", {})
    pdf.pages[0].obj.Contents.write(content, filter=Name.FlateDecode)
    assert colours(run(pdfs.saved(pdf), tmp_path)) == [RED]


def test_an_inline_image_may_use_a_colour_space_of_the_page(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    pdfs.add_page(pdf, b"q BI /W 1 /H 1 /BPC 8 /CS /Mine /F /AHx ID 01> EI Q", {})
    palette = pikepdf.Array(
        [Name.Indexed, Name.DeviceRGB, 1, pikepdf.String(bytes([0] * 3) + bytes(RED))]
    )
    pdf.pages[0].obj.Resources.ColorSpace = pikepdf.Dictionary(Mine=palette)
    assert colours(run(pdfs.saved(pdf), tmp_path)) == [RED]


def test_the_images_of_a_tiling_pattern_are_drawn(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    pattern = form(pdf, b"/Im Do", {"/Im": pdfs.solid_image(pdf, RED)})
    pattern.PatternType = 1
    pdfs.add_page(pdf, b"/Pattern cs /P scn 0 0 50 50 re f", {})
    pdf.pages[0].obj.Resources.Pattern = pikepdf.Dictionary(P=pattern)
    assert colours(run(pdfs.saved(pdf), tmp_path)) == [RED]


def test_the_images_of_a_soft_mask_group_are_drawn(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    group = form(pdf, b"/Im Do", {"/Im": pdfs.solid_image(pdf, RED)})
    state = pikepdf.Dictionary(SMask=pikepdf.Dictionary(S=Name.Luminosity, G=group))
    pdfs.add_page(pdf, b"/G gs 0 0 50 50 re f", {})
    pdf.pages[0].obj.Resources.ExtGState = pikepdf.Dictionary(G=state)
    assert colours(run(pdfs.saved(pdf), tmp_path)) == [RED]


@pytest.mark.parametrize(("flags", "found"), [(4, [RED]), (2, []), (32, [])])
def test_stamps_are_drawn_unless_they_are_hidden(
    tmp_path: Path, flags: int, found: list[tuple[int, ...]]
) -> None:
    pdf = pikepdf.new()
    pdfs.add_page(pdf, b"", {})
    stamp = pikepdf.Dictionary(
        Type=Name.Annot,
        Subtype=Name.Stamp,
        Rect=[0, 0, 50, 50],
        F=flags,
        AP=pikepdf.Dictionary(N=form(pdf, b"/Im Do", {"/Im": pdfs.solid_image(pdf, RED)})),
    )
    pdf.pages[0].obj.Annots = pikepdf.Array([pdf.make_indirect(stamp)])
    assert colours(run(pdfs.saved(pdf), tmp_path)) == found


def test_of_an_annotation_with_states_the_current_one_is_drawn(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    pdfs.add_page(pdf, b"", {})
    states = pikepdf.Dictionary(
        On=form(pdf, b"/Im Do", {"/Im": pdfs.solid_image(pdf, RED)}),
        Off=form(pdf, b"/Im Do", {"/Im": pdfs.solid_image(pdf, BLUE)}),
    )
    box = pikepdf.Dictionary(
        Type=Name.Annot, Subtype=Name.Widget, Rect=[0, 0, 9, 9], AS=Name.On, AP={"/N": states}
    )
    pdf.pages[0].obj.Annots = pikepdf.Array([box])
    assert colours(run(pdfs.saved(pdf), tmp_path)) == [RED]


def with_layer(content: bytes, *, on_image: bool, shown: bool) -> bytes:
    pdf = pikepdf.new()
    layer = pdf.make_indirect(pikepdf.Dictionary(Type=Name.OCG, Name=pikepdf.String("layer")))
    images = {"/A": pdfs.solid_image(pdf, RED), "/B": pdfs.solid_image(pdf, BLUE)}
    if on_image:
        images["/A"].OC = layer
    pdfs.add_page(pdf, content, images)
    pdf.pages[0].obj.Resources.Properties = pikepdf.Dictionary(L=layer)
    pdf.Root.OCProperties = pikepdf.Dictionary(
        OCGs=[layer], D=pikepdf.Dictionary(OFF=[] if shown else [layer])
    )
    return pdfs.saved(pdf)


@pytest.mark.parametrize(("shown", "found"), [(True, [RED, BLUE]), (False, [BLUE])])
def test_an_image_in_a_hidden_layer_is_not_drawn(
    tmp_path: Path, shown: bool, found: list[tuple[int, ...]]
) -> None:
    document = with_layer(b"/A Do /B Do", on_image=True, shown=shown)
    assert colours(run(document, tmp_path)) == found


@pytest.mark.parametrize(("shown", "found"), [(True, [RED, BLUE]), (False, [BLUE])])
def test_content_marked_as_a_hidden_layer_is_not_drawn(
    tmp_path: Path, shown: bool, found: list[tuple[int, ...]]
) -> None:
    content = b"/OC /L BDC /Span BMC /A Do EMC EMC /B Do"
    document = with_layer(content, on_image=False, shown=shown)
    assert colours(run(document, tmp_path)) == found


@pytest.mark.parametrize("mark", [b"BDC", b"/OC BDC", b"BMC", b"EMC"])
def test_a_mark_without_its_operands_hides_nothing(tmp_path: Path, mark: bytes) -> None:
    document = with_layer(mark + b" /A Do EMC /B Do", on_image=False, shown=False)
    assert colours(run(document, tmp_path)) == [RED, BLUE]


def test_glyphs_of_type_3_fonts_are_text(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    glyph = pdf.make_stream(b"10 0 d0 BI /W 1 /H 1 /BPC 8 /CS /G /F /AHx ID 00> EI")
    font = pikepdf.Dictionary(
        Type=Name.Font,
        Subtype=Name.Type3,
        FontBBox=[0, 0, 10, 10],
        FontMatrix=[0.1, 0, 0, 0.1, 0, 0],
        CharProcs=pikepdf.Dictionary(a=glyph),
        Encoding=pikepdf.Dictionary(Differences=[97, Name.a]),
        FirstChar=97,
        LastChar=97,
        Widths=[10],
    )
    pdfs.add_page(pdf, b"BT /T 12 Tf (a) Tj ET", {})
    pdf.pages[0].obj.Resources.Font = pikepdf.Dictionary(T=font)
    assert run(pdfs.saved(pdf), tmp_path).images == ()


def test_a_form_that_draws_itself_ends(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    loop = form(pdf, b"/Im Do /Self Do", {"/Im": pdfs.solid_image(pdf, RED)})
    loop.Resources.XObject["/Self"] = loop
    pdfs.add_page(pdf, b"/F Do", {"/F": loop})
    assert colours(run(pdfs.saved(pdf), tmp_path)) == [RED]


@pytest.mark.parametrize("draws_an_image", [True, False])
def test_forms_that_multiply_to_ten_billion_drawings_end(
    tmp_path: Path, draws_an_image: bool
) -> None:
    pdf = pikepdf.new()
    image = pdfs.solid_image(pdf, RED)
    level = form(pdf, b"/Im Do" if draws_an_image else b"0 0 m", {"/Im": image})
    for _ in range(10):
        level = form(pdf, b"/F Do " * 10, {"/F": level, "/Im": image})
    pdfs.add_page(pdf, b"/F Do", {"/F": level})
    assert len(run(pdfs.saved(pdf), tmp_path).images) == int(draws_an_image)


@pytest.mark.parametrize("coding", ["/NoSuchFilter", "/JBIG2Decode", "/DCTDecode"])
def test_a_damaged_content_stream_costs_only_its_page(tmp_path: Path, coding: str) -> None:
    pdf = pikepdf.new()
    pdfs.add_page(pdf, b"/A Do", {"/A": pdfs.solid_image(pdf, RED)})
    pdfs.add_page(pdf, b"/B Do", {"/B": pdfs.solid_image(pdf, BLUE)})
    broken = pdf.make_stream(b"not compressed at all")
    broken.write(b"not compressed at all", filter=Name(coding))
    pdf.pages[0].obj.Contents = broken
    extraction = run(pdfs.saved(pdf), tmp_path)
    assert places(extraction) == [(2, 1)]
    assert extraction.problems == ("unreadable_content page=1",)


def test_content_at_which_the_parser_stumbles_costs_only_its_page(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    pdfs.add_page(pdf, b"BI EI /A Do", {"/A": pdfs.solid_image(pdf, RED)})
    pdfs.add_page(pdf, b"/B Do", {"/B": pdfs.solid_image(pdf, BLUE)})
    extraction = run(pdfs.saved(pdf), tmp_path)
    assert places(extraction) == [(2, 1)]
    assert extraction.problems == ("unreadable_content page=1",)


def test_the_readable_parts_of_damaged_content_are_read(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    pdfs.add_page(pdf, b"", {"/A": pdfs.solid_image(pdf, RED), "/B": pdfs.solid_image(pdf, BLUE)})
    broken = pdf.make_stream(b"")
    broken.write(b"not compressed at all", filter=Name.FlateDecode)
    parts = [pdf.make_stream(b"q /A Do"), broken, pdf.make_stream(b"/B Do Q")]
    pdf.pages[0].obj.Contents = pikepdf.Array(parts)
    extraction = run(pdfs.saved(pdf), tmp_path)
    assert colours(extraction) == [RED, BLUE]
    assert extraction.problems == ("unreadable_content page=1",)


@pytest.mark.parametrize("shown", [True, False])
def test_a_name_may_be_any_bytes(tmp_path: Path, shown: bool) -> None:
    content = b"/OC /\xe9 BDC /\xe4 Do EMC /B Do"  # Latin-1, which is no UTF-8
    document = with_layer(content, on_image=False, shown=shown)
    document = document.replace(b"/L ", b"/\xe9 ").replace(b"/A ", b"/\xe4 ")  # in the resources
    extraction = run(document, tmp_path)
    assert colours(extraction) == ([RED, BLUE] if shown else [BLUE])
    assert extraction.problems == ()


def test_an_inline_image_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    pdfs.add_page(pdf, b"q BI /W 1 /W 2 /H 1 /BPC 8 /CS /G /F /AHx ID 00> EI Q", {})
    extraction = run(pdfs.saved(pdf), tmp_path)
    assert extraction.problems == ("unreadable_content page=1",)
