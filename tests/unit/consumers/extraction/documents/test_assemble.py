import errno
import hashlib
import io
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pikepdf
import pypdf
import pytest

from consumers.extraction.documents import source as source_module
from consumers.extraction.documents.assemble import AssembledParts, assemble_pdf
from consumers.extraction.documents.model import AssemblyLimits, DocumentRejected
from consumers.extraction.documents.source import OpenPart
from tests import documents_pdfs, pdfs
from tests.pdfs import colour_of

LIMITS = AssemblyLimits()


def part(
    pdf: bytes,
    first: int | None = None,
    last: int | None = None,
    password: str | None = None,
    rebuild: bool = False,
) -> OpenPart:
    return OpenPart(documents_pdfs.in_a_file(pdf), first, last, password, rebuild)


def assemble(*parts: OpenPart, limits: AssemblyLimits = LIMITS) -> bytes:
    return assemble_with_report(*parts, limits=limits)[0]


def assemble_with_report(
    *parts: OpenPart, limits: AssemblyLimits = LIMITS
) -> tuple[bytes, AssembledParts]:
    destination = io.BytesIO()
    report = assemble_pdf(parts, destination, limits)
    return destination.getvalue(), report


def rejection(*parts: OpenPart, limits: AssemblyLimits = LIMITS) -> DocumentRejected:
    with pytest.raises(DocumentRejected) as rejected:
        assemble_pdf(parts, io.BytesIO(), limits)
    return rejected.value


def opened(pdf: bytes) -> pikepdf.Pdf:
    return pikepdf.open(io.BytesIO(pdf))


def test_pages_of_several_sources_come_in_the_order_asked_for() -> None:
    first, second = pdfs.pages(3), pdfs.pages(5, images_per_page=2)
    merged, report = assemble_with_report(part(second, 4, 5), part(first), part(second, 1, 1))
    pdf = opened(merged)
    drawn = [tuple(page.obj.Resources.XObject["/Im1"].read_bytes()[:3]) for page in pdf.pages]
    assert drawn == [colour_of(page, 1) for page in (4, 5, 1, 2, 3, 1)]
    assert report.ranges == ((4, 5), (1, 3), (1, 1))


def test_pages_of_a_tree_deeper_than_the_engines_go_keep_what_they_inherit() -> None:
    source = documents_pdfs.deep_page_tree_with_pages(1000)
    child, report = assemble_with_report(part(source, 499, 502))
    assert report.ranges == ((499, 502),)
    with opened(child) as pdf:
        boxes = [[int(value) for value in page.mediabox] for page in pdf.pages]
        assert boxes == [[0, 0, 200, height] for height in (499, 500, 501, 502)]
        assert [int(page.obj.Rotate) for page in pdf.pages] == [90, 90, 180, 180]
    assert assemble(part(source, 499, 502)) == child


def test_a_page_that_a_deep_tree_lists_twice_becomes_two() -> None:
    source = documents_pdfs.deep_page_tree(101, leaves=2)
    with opened(assemble(part(source))) as pdf:
        assert len(pdf.pages) == 2


def test_what_is_reported_is_what_was_written() -> None:
    child, report = assemble_with_report(part(pdfs.pages(3), 2, 2))
    assert report.bytes == len(child)
    assert report.sha256 == hashlib.sha256(child).hexdigest()


def test_a_page_of_a_shared_dictionary_takes_its_own_image_and_no_byte_of_the_others() -> None:
    source = pdfs.shared_resources(10)
    others = documents_pdfs.raw_images(source)
    child = assemble(part(source, 3, 3))
    assert documents_pdfs.image_colours(child) == {colour_of(3, 1)}
    assert len(documents_pdfs.raw_images(child)) == 1
    assert sum(raw in child for raw in others) == 1


def test_several_pages_of_a_shared_dictionary_take_theirs() -> None:
    child = assemble(part(pdfs.shared_resources(10), 4, 6))
    assert documents_pdfs.image_colours(child) == {colour_of(page, 1) for page in (4, 5, 6)}
    pdf = opened(child)
    for page in pdf.pages:
        assert len(page.obj.Resources.XObject.keys()) == 1


def test_images_in_forms_patterns_soft_masks_and_annotations_are_kept() -> None:
    child = assemble(part(documents_pdfs.images_drawn_indirectly(), 1, 1))
    assert documents_pdfs.image_colours(child) == {colour_of(1, number) for number in range(1, 7)}


def test_what_forms_list_but_do_not_draw_is_left_behind() -> None:
    child = assemble(part(documents_pdfs.images_drawn_indirectly(), 2, 2))
    assert documents_pdfs.image_colours(child) == {colour_of(1, 7)}


def test_a_form_without_resources_goes_on_using_its_page_s() -> None:
    child = opened(assemble(part(documents_pdfs.images_drawn_indirectly(), 1, 1)))
    xobjects = child.pages[0].obj.Resources.XObject
    assert "/Resources" not in xobjects["/Inheriting"]
    assert "/Im3" in xobjects


def test_no_link_from_a_page_leads_to_what_other_pages_draw() -> None:
    child = assemble(part(documents_pdfs.links_between_pages(), 1, 1))
    assert documents_pdfs.raw_images(child) == []
    opened_child = opened(child)
    assert sum(obj.get("/Type") == pikepdf.Name.Page for obj in dictionaries(opened_child)) == 1


def dictionaries(pdf: pikepdf.Pdf) -> list[pikepdf.Object]:
    return [obj for obj in pdf.objects if isinstance(obj, pikepdf.Dictionary)]


def test_a_form_field_keeps_how_it_looks() -> None:
    child = opened(assemble(part(documents_pdfs.links_between_pages(), 2, 2)))
    (annotation,) = child.pages[0].obj.Annots
    assert annotation.Subtype == pikepdf.Name.Stamp
    image = annotation.AP.N.Resources.XObject["/Im1"]
    assert tuple(image.read_bytes()[:3]) == colour_of(2, 1)


def test_boxes_rotation_and_resources_are_inherited_from_the_source_s_tree() -> None:
    child = assemble(part(documents_pdfs.inherited_attributes(), 2, 2))
    pdf = opened(child)
    page = pdf.pages[0].obj
    assert [int(side) for side in page.MediaBox] == [0, 0, 300, 400]
    assert [int(side) for side in page.CropBox] == [10, 10, 290, 390]
    assert page.Rotate == 90
    assert documents_pdfs.image_colours(child) == {colour_of(2, 1)}


def test_a_layer_that_is_switched_off_stays_so_and_other_pages_layers_are_left_behind() -> None:
    source = documents_pdfs.hidden_layer()
    first = opened(assemble(part(source, 1, 1)))
    (layer,) = first.Root.OCProperties.OCGs
    assert str(layer.Name) == "layer 1"
    assert [off.objgen for off in first.Root.OCProperties.D.OFF] == [layer.objgen]
    assert first.pages[0].obj.Resources.XObject["/Im1"].OC.objgen == layer.objgen
    assert b"layer 1" not in assemble(part(source, 2, 2))


def test_the_same_parts_give_the_same_bytes() -> None:
    source = documents_pdfs.images_drawn_indirectly()
    once = assemble(part(source, 1, 2), part(pdfs.pages(2)))
    again = assemble(part(source, 1, 2), part(pdfs.pages(2)))
    assert once == again
    assert once != assemble(part(source, 1, 1), part(pdfs.pages(2)))


def test_an_encrypted_source_is_written_decrypted() -> None:
    child = opened(assemble(part(pdfs.encrypted("secret"), password="secret"), part(pdfs.pages(1))))
    assert not child.is_encrypted
    assert len(child.pages) == 2


def test_an_encrypted_source_without_its_password_names_the_segment() -> None:
    rejected = rejection(part(pdfs.pages(1)), part(pdfs.encrypted("secret")))
    assert (rejected.reason, rejected.detail) == ("encrypted", {"segment": 1, "password_given": 0})


@pytest.mark.parametrize(("first", "last"), [(0, 1), (2, 1), (1, 4), (4, 4), (-1, 2)])
def test_a_range_outside_of_the_document_is_refused_with_the_numbers(first: int, last: int) -> None:
    rejected = rejection(part(pdfs.pages(3), first, last))
    assert rejected.reason == "page_range"
    assert rejected.detail == {"segment": 0, "first": first, "last": last, "pages": 3}


def test_an_open_range_ends_with_the_document() -> None:
    assert assemble_with_report(part(pdfs.pages(5), 3, None))[1].ranges == ((3, 5),)
    assert assemble_with_report(part(pdfs.pages(5), None, 2))[1].ranges == ((1, 2),)


def test_a_source_that_is_no_pdf_names_the_segment() -> None:
    rejected = rejection(part(pdfs.pages(1)), part(pdfs.not_a_pdf("png")))
    assert (rejected.reason, rejected.detail) == ("unreadable", {"segment": 1})


def test_a_source_without_pages_is_refused() -> None:
    assert rejection(part(documents_pdfs.no_pages())).reason == "no_pages"


def test_no_parts_are_no_pages() -> None:
    assert rejection().reason == "no_pages"


def test_more_pages_than_allowed_are_refused() -> None:
    limits = AssemblyLimits(max_pages=5)
    assert rejection(part(pdfs.pages(3)), part(pdfs.pages(3)), limits=limits).reason == (
        "too_many_pages"
    )


def test_a_child_larger_than_allowed_is_refused() -> None:
    assert rejection(part(pdfs.pages(3)), limits=AssemblyLimits(max_bytes=500)).reason == (
        "too_large"
    )


def test_a_source_without_its_table_is_cut() -> None:
    damaged = documents_pdfs.without_startxref(pdfs.pages(3))
    assert documents_pdfs.image_colours(assemble(part(damaged, 2, 2))) == {colour_of(2, 1)}


def test_a_source_that_only_pypdf_reads_is_cut() -> None:
    source = pdfs.shared_resources(3).replace(b"/Type /Catalog", b"/Type /Cbtblog")
    source = source.replace(b"/Root ", b"/Rxxt ").replace(b"/Cbtblog", b"/Catalog")
    with pytest.raises(pikepdf.PdfError):
        opened(source)
    assert documents_pdfs.image_colours(assemble(part(source, 2, 2))) == {colour_of(2, 1)}


def test_a_page_that_qpdf_leaves_out_is_in_a_merge() -> None:
    source = documents_pdfs.with_a_broken_page(pdfs.pages(3))
    assert len(opened(source).pages) == 2
    merged, report = assemble_with_report(part(source), part(pdfs.pages(1)))
    assert report.ranges == ((1, 3), (1, 1))
    pdf = opened(merged)
    drawn = [tuple(page.obj.Resources.XObject["/Im1"].read_bytes()[:3]) for page in pdf.pages]
    assert drawn == [colour_of(page, 1) for page in (1, 2, 3, 1)]


def test_page_numbers_count_a_page_that_qpdf_leaves_out() -> None:
    source = documents_pdfs.with_a_broken_page(pdfs.pages(3))
    for page in (1, 2, 3):
        child = assemble(part(source, page, page))
        assert documents_pdfs.image_colours(child) == {colour_of(page, 1)}


def test_a_branch_of_the_tree_that_qpdf_drops_without_a_warning_is_in() -> None:
    source = documents_pdfs.with_a_lost_branch()
    assert len(opened(source).pages) == 1
    assert assemble_with_report(part(source))[1].ranges == ((1, 2),)


@pytest.mark.parametrize(
    ("source", "pages"),
    [
        (pdfs.pages(3), 3),
        (documents_pdfs.lying_count(3, 1), 3),
        (documents_pdfs.lying_count(3, 9), 3),
        (documents_pdfs.without_startxref(pdfs.pages(3)), 3),
        (pdfs.pages(3).replace(b"/Type /Page >>", b"/Type /Pnge >>", 1), 3),
    ],
    ids=["healthy", "count too low", "count too high", "no table", "pypdf sees fewer"],
)
@pytest.mark.parametrize("rebuild", [False, True])
def test_the_pages_are_qpdf_s_unless_pypdf_sees_more(
    monkeypatch: pytest.MonkeyPatch, source: bytes, pages: int, rebuild: bool
) -> None:
    def fail(*_arguments: object) -> None:
        raise AssertionError("copied for nothing")

    monkeypatch.setattr(pypdf, "PdfWriter", fail)
    report = assemble_with_report(part(source, rebuild=rebuild))[1]
    assert report.ranges == ((1, pages),)


def test_a_healthy_source_is_read_by_qpdf_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(pypdf, "PdfReader")
    assert assemble_with_report(part(pdfs.pages(2)))[1].ranges == ((1, 2),)


@pytest.mark.parametrize("error", [MemoryError, AssertionError, RecursionError])
def test_no_page_is_lost_in_silence_where_no_copy_has_them_all(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def fail(*_arguments: object) -> None:
        raise error

    monkeypatch.setattr(pypdf, "PdfWriter", fail)
    source = documents_pdfs.with_a_broken_page(pdfs.pages(3))  # of which qpdf sees two
    with pytest.raises(MemoryError if error is MemoryError else DocumentRejected) as caught:
        assemble(part(source))
    if isinstance(caught.value, DocumentRejected):
        assert caught.value.reason == "unreadable"


def test_a_rebuilt_document_is_what_pypdf_sees_of_what_qpdf_does_not_open() -> None:
    source = documents_pdfs.without_root(pdfs.pages(3))
    rebuilt = opened(assemble(part(source, rebuild=True)))
    assert len(rebuilt.pages) == 3


def test_a_copy_keeps_layers_hidden_and_the_values_of_fields_visible() -> None:
    layers = opened(
        assemble(part(documents_pdfs.with_a_broken_page(documents_pdfs.hidden_layer())))
    )
    assert len(layers.pages) == 2
    (off,) = layers.Root.OCProperties.D.OFF
    assert str(off.Name) == "layer 1"
    assert layers.pages[0].obj.Resources.XObject["/Im1"].OC.objgen == off.objgen

    form = documents_pdfs.field_that_its_reader_has_to_draw("four mg")
    child = opened(assemble(part(documents_pdfs.without_root(form))))
    (annotation,) = child.pages[0].obj.Annots
    assert b"four mg" in annotation.AP.N.read_bytes()


def test_a_copy_has_the_same_bytes_in_every_process() -> None:
    program = (
        "import hashlib, io; from tests import documents_pdfs, pdfs;"
        "from tests.unit.consumers.extraction.documents.test_assemble import assemble, part;"
        "sources = [pdfs.shared_resources(5), pdfs.pages(3, 4), documents_pdfs.hidden_layer()];"
        "made = [assemble(part(documents_pdfs.with_a_broken_page(s))) for s in sources];"
        "print(hashlib.sha256(b''.join(made)).hexdigest())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1


def test_damaged_content_keeps_what_its_readable_beginning_names() -> None:
    child = assemble(part(documents_pdfs.content_cut_short()))
    assert documents_pdfs.image_colours(child) == {colour_of(1, 1)}


def test_a_page_of_which_nobody_can_tell_what_it_draws_is_refused_by_its_number() -> None:
    source = documents_pdfs.content_in_unknown_filter()
    rejected = rejection(part(pdfs.pages(1)), part(source))
    assert (rejected.reason, rejected.detail) == ("unreadable", {"segment": 1, "page": 1})


def test_forms_that_multiply_and_recurse_are_visited_once() -> None:
    child = assemble(part(documents_pdfs.forms_that_draw_each_other(30)))
    assert documents_pdfs.image_colours(child) == {colour_of(1, 1)}


def test_forms_nested_without_end_are_refused() -> None:
    assert rejection(part(documents_pdfs.forms_that_draw_each_other(200))).reason == "unreadable"


def test_an_inline_image_keeps_the_colour_space_that_it_names() -> None:
    pdf = pikepdf.new()
    pdfs.add_page(pdf, b"BI /W 1 /H 1 /BPC 8 /CS /Own ID \x00 EI Q", {})
    pdf.pages[0].obj.Resources.ColorSpace = pikepdf.Dictionary(
        Own=pikepdf.Array([pikepdf.Name.Indexed, pikepdf.Name.DeviceRGB, 0, pikepdf.String("abc")])
    )
    child = opened(assemble(part(pdfs.saved(pdf))))
    assert "/Own" in child.pages[0].obj.Resources.ColorSpace


def test_any_split_of_a_shared_dictionary_holds_exactly_the_images_of_its_pages() -> None:
    source = pdfs.shared_resources(12)
    rng = random.Random(1)
    for _ in range(20):
        first = rng.randint(1, 12)
        last = rng.randint(first, 12)
        child = assemble(part(source, first, last))
        assert documents_pdfs.image_colours(child) == {
            colour_of(page, 1) for page in range(first, last + 1)
        }


def test_the_value_of_a_field_without_an_appearance_stays_visible() -> None:
    child = opened(assemble(part(documents_pdfs.field_that_its_reader_has_to_draw("four mg"))))
    (annotation,) = child.pages[0].obj.Annots
    assert b"four mg" in annotation.AP.N.read_bytes()
    assert "/Helv" in annotation.AP.N.Resources.Font


MEASURED = """
import io, sys
import pikepdf
from consumers.extraction.documents.assemble import assemble_pdf
from consumers.extraction.documents.model import AssemblyLimits
from consumers.extraction.documents.source import OpenPart

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))

with open(sys.argv[1], "rb") as source, open(sys.argv[2], "w+b") as out:
    before = peak()
    assemble_pdf([OpenPart(source, None, None, None)], out, AssemblyLimits())
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc")
def test_a_document_that_must_be_repaired_is_in_memory_once(tmp_path: Path) -> None:
    """In the engine that repairs it; a second copy is room that another document may need."""
    size, source = 24 << 20, tmp_path / "damaged.pdf"
    scans = documents_pdfs.scans_that_do_not_compress(pages=24)
    source.write_bytes(documents_pdfs.without_root(scans))
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(source), str(tmp_path / "out.pdf")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (tmp_path / "out.pdf").stat().st_size > 0.99 * size
    assert int(done.stdout) < 1.5 * size


def test_a_source_that_cannot_be_read_to_its_end_any_more_is_refused() -> None:
    class Truncating(io.BytesIO):
        def write(self, data: Any) -> int:
            os.ftruncate(source.file.fileno(), 0)
            return super().write(data)

    source = part(documents_pdfs.scans_that_do_not_compress(pages=2))
    with pytest.raises(DocumentRejected) as rejected:
        assemble_pdf([source], Truncating(), LIMITS)
    assert rejected.value.reason == "unreadable"


def test_a_process_that_can_open_no_more_files_is_no_fault_of_the_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(errno.EMFILE, "")

    monkeypatch.setattr(source_module, "open_for_copying", fail)
    with pytest.raises(OSError, match=str(errno.EMFILE)):
        assemble(part(pdfs.pages(1)))
