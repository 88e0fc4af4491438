"""PDF, made here by the library that people use to make it."""

import io
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from PIL import Image
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from palimpsest.core.errors import Rejected


def pdf(
    pages: Sequence[Sequence[str]], *, title: str = "", password: str | None = None, picture: bool = False
) -> bytes:
    out = io.BytesIO()
    canvas = Canvas(out, encrypt=StandardEncryption(password) if password else None, invariant=True)
    canvas.setTitle(title)
    for lines in pages:
        for i, line in enumerate(lines):
            canvas.drawString(72, 760 - 14 * i, line)
        if picture and not lines:
            canvas.drawImage(ImageReader(Image.new("RGB", (20, 20), "red")), 72, 72, 200, 200)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def test_a_pdf_gives_text_by_page_and_its_title_unless_a_program_made_it_up(read) -> None:
    data = pdf([["The Kestrel budget is 40,000.", "It was agreed in May."], [], ["Page three."]], title="Kestrel")
    extraction = read("kestrel.pdf", data)
    (document,) = extraction.documents
    assert extraction.problems == ()
    assert (document.title, document.media_type, document.metadata["pages"]) == ("Kestrel", "application/pdf", 3)
    assert [(document.text[s.char_start : s.char_end], s.page) for s in document.segments] == [
        ("The Kestrel budget is 40,000.\nIt was agreed in May.", 1),
        ("Page three.", 3),
    ]
    assert document.source_time == datetime(2000, 1, 1, tzinfo=UTC)
    assert read("q3-report.pdf", pdf([["x"]], title="untitled")).documents[0].title == "q3 report"
    assert read("q3-report.pdf", pdf([["x"]], title="Microsoft Word - a.docx")).documents[0].title == "q3 report"
    extraction = read("a.pdf", pdf([["Text."], []], picture=True))
    assert extraction.problems == ("page 2: no text layer, only pictures; run OCR on it",)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pdf([["secret"]], password="pw"), "encrypted PDF"),
        (pdf([[]]), "no text layer"),
        (pdf([["x"]] * 6), "6 pages, the limit is 5"),
        (b"%PDF-1.4\n" + b"garbage " * 50, "corrupt PDF"),
        (b"plain words", "named .pdf but holds no PDF"),
        (b"<html><body>404</body></html>", "named .pdf but holds no PDF"),
    ],
)
def test_an_unreadable_pdf_is_rejected_with_its_reason(read, data: bytes, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        read("a.pdf", data, max_pages=5)


@pytest.mark.parametrize("strength", [40, 128])
@pytest.mark.parametrize("may_copy", [0, 1])
def test_a_pdf_that_opens_without_a_password_is_read_whatever_its_owner_allows(read, strength, may_copy) -> None:
    protection = StandardEncryption("", ownerPassword="owner", canCopy=may_copy, strength=strength)
    out = io.BytesIO()
    canvas = Canvas(out, encrypt=protection)
    canvas.drawString(72, 760, "The Kestrel budget is 40,000.")
    canvas.save()
    assert read("a.pdf", out.getvalue()).documents[0].text == "The Kestrel budget is 40,000."


def test_a_truncated_pdf_is_read_or_rejected_but_never_fails_otherwise(read) -> None:
    data = pdf([["Some words here."], ["And more."]])
    for cut in range(10, len(data), 97):
        try:
            assert read("a.pdf", data[:cut]).documents
        except Rejected as e:
            assert str(e)


def drawn(lines: Sequence[Sequence[tuple[float, str]]]) -> bytes:
    """A page whose lines are drawn one after the other, each as parts at given x."""
    out = io.BytesIO()
    canvas = Canvas(out, invariant=True)
    for i, line in enumerate(lines):
        for x, text in line:
            canvas.drawString(x, 760 - 14 * i, text)
    canvas.save()
    return out.getvalue()


def test_tables_and_columns_are_read_in_their_order(read) -> None:
    rows = [("Year", "Days", "Note"), ("2023", "24", "old"), ("2024", "25", "new rule")]
    table = [list(zip((72, 200, 300), row, strict=True)) for row in rows]
    (document,) = read("a.pdf", drawn([[(72, "The days of leave by year:")], *table, [(72, "That is all.")]])).documents
    assert [(s.kind, s.page, document.text[s.char_start : s.char_end]) for s in document.segments] == [
        ("prose", 1, "The days of leave by year:"),
        ("table", 1, "| Year | Days | Note |\n| 2023 | 24 | old |\n| 2024 | 25 | new rule |"),
        ("prose", 1, "That is all."),
    ]
    left = [f"left line number {i} of the text" for i in range(8)]
    right = [f"right line number {i} of the text" for i in range(8)]
    lines = [[(72, "A title over both of the columns that follows no gutter at all and is long")]]
    lines += [[(72, a), (330, b)] for a, b in zip(left, right, strict=True)]
    text = read("a.pdf", drawn(lines)).documents[0].text.split("\n")
    assert text[1:] == [*left, *right]
    out = io.BytesIO()
    canvas = Canvas(out, invariant=True)
    for x in (72, 330):
        for i in range(8):
            canvas.drawString(x, 760 - 14 * i, f"column at {x} line {i} of the text")
    canvas.save()
    lines = read("a.pdf", out.getvalue()).documents[0].text.split("\n")
    assert lines == [f"column at {x} line {i} of the text" for x in (72, 330) for i in range(8)]
