"""The quick way through content streams finds what the parser of the PDF library finds."""

from __future__ import annotations

import zlib

import pikepdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.extractor.engine.content import named_resources, read_content

NAMES = [b"/A", b"/Im1", b"/A-b.c", b"/Do"]
OPERATORS = [b"Do", b"gs", b"scn", b"SCN", b"Do/Im1 gs", b"Dog", b"q", b"f*", b"'"]
OPERANDS = [b"0", b"-1.5", b"[]", b"[1 -2.5]", b"(a\\)b)", b"(BI % /A gs)", b"<0A 1b>", b"[(a) 3]"]
ODD = [b"(a(/A Do)b)", b"% (\n", b"<</A 1>>", b"/A#42", b"[/A Do]", b"(", b")", b"]", b"<", b"BI"]
SPACES = [b" ", b"\n", b"\r\n", b"\t", b"\0", b"\f"]
pieces = st.tuples(*map(st.sampled_from, (NAMES, SPACES, OPERATORS, SPACES)))
contents = st.lists(
    st.one_of(
        pieces.map(b"".join),
        pieces.map(b"".join),
        st.sampled_from([name + b" " for name in NAMES]),
        st.sampled_from(OPERANDS),
        st.sampled_from([b" Do ", b" gs "]),
        st.sampled_from(ODD),
    ),
    max_size=8,
).map(b"".join)


def parsed(content: bytes) -> list[tuple[str, str]]:
    """What the parser of the PDF library finds."""
    pdf = pikepdf.new()
    return [
        (str(instruction.operator), str(instruction.operands[-1]))
        for instruction in pikepdf.parse_content_stream(pdf.make_stream(content), "Do gs scn SCN")
        if len(instruction.operands) and isinstance(instruction.operands[-1], pikepdf.Name)
    ]


@pytest.mark.filterwarnings("ignore:Unexpected end of stream")
@given(contents)
def test_whatever_is_found_is_what_the_parser_finds(content: bytes) -> None:
    found = named_resources(content, may_be_marked=True)
    assert found is None or found == parsed(content)


def test_drawings_and_texts_are_plain() -> None:
    content = b"q [3 2] 0 d 1 0 0 1 5 5 cm /GS0 gs /Im1 Do/Im2 Do Q BT [(50 %) -20 <00>] TJ ET"
    found = named_resources(content, may_be_marked=False)
    assert found == [("gs", "/GS0"), ("Do", "/Im1"), ("Do", "/Im2")]


def test_a_name_counts_only_right_before_the_operator() -> None:
    content = b"/A [1] Do /A (a) Do /A <00> Do /A 1 Do /A/B Do"
    assert named_resources(content, may_be_marked=False) == [("Do", "/B")]


@pytest.mark.parametrize("mark", [b"/OC /L BDC", b"/OC/L BDC", b"/P BMC"])
def test_marked_content_is_left_to_the_parser_where_it_matters(mark: bytes) -> None:
    content = mark + b" /A Do EMC"
    assert named_resources(content, may_be_marked=False) is None
    assert named_resources(content, may_be_marked=True) == [("Do", "/A")]


@pytest.mark.parametrize(
    "content",
    [
        b"(a(/A Do)b) Tj",
        b"% (\n/A Do % )",
        b"/P <</A 1>> DP",
        b"BI /W 1 ID x EI",
        b"/A#42 Do",
        b"(",
    ],
)
def test_what_a_pattern_cannot_tell_is_left_to_the_parser(content: bytes) -> None:
    assert named_resources(content, may_be_marked=True) is None


@pytest.mark.parametrize("size", [0, -4])
def test_content_is_read_whole_or_as_the_library_reads_it(size: int) -> None:
    """Cut off at the end it is what the library makes of it."""
    compressed = zlib.compress(b"/A Do " * 100)
    pdf = pikepdf.new()
    stream = pdf.make_stream(b"")
    stream.write(compressed[:size] if size < 0 else compressed, filter=pikepdf.Name.FlateDecode)
    assert read_content(stream) == stream.read_bytes() == b"/A Do " * 100
