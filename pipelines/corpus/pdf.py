"""PDF: the text layer page by page, through PDFium. PDFium is not thread-safe: read one PDF at a time in a process."""

import re
from dataclasses import replace
from typing import Any

from pipelines.corpus.builder import TextBuilder, clean, first_date, one_line, title_from_uri
from pipelines.corpus.limits import Limits, Source, listed
from pipelines.corpus.text import text_segments
from pipelines.corpus.types import ExtractedDocument, Extraction
from pipelines.errors import Rejected

_ERR_PASSWORD, _ERR_SECURITY = 4, 5  # FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY
# PDFium marks a hyphen that only divides a word at the end of a line.
_DIVIDED = re.compile(r"[\x02\ufffe\u00ad][ \t]*\n?")
_NO_TITLE = re.compile(
    r"untitled.*|microsoft (word|powerpoint) - .*|.*\.(docx?|pptx?|pdf|tex|dvi|indd|qxd)|[\W\d_]*", re.IGNORECASE
)
_METADATA = ("Author", "Subject", "Keywords")


def read_pdf(source: Source, limits: Limits) -> Extraction:
    """Reads the text of each page; a segment is a paragraph where blank lines show them, and never leaves its page.

    A page that holds only pictures becomes a problem.

    Raises:
        Rejected: encrypted, corrupt, too many pages, or no text layer on any page.
    """
    import pypdfium2 as pdfium

    try:
        pdf = pdfium.PdfDocument(source.data)
    except pdfium.PdfiumError as e:
        if e.err_code in (_ERR_PASSWORD, _ERR_SECURITY):
            raise Rejected("encrypted PDF: it needs a password; save a copy without one") from None
        raise Rejected("corrupt PDF: it cannot be opened; export it again") from None
    try:
        if len(pdf) > limits.max_pages:
            raise Rejected(f"too large: {len(pdf):,} pages, the limit is {limits.max_pages:,}; split the PDF")
        builder, problems = TextBuilder(limits.max_chars), list[str]()
        for index in range(len(pdf)):
            try:
                text, pictures = _page(pdf, index)
            except pdfium.PdfiumError as e:
                problems.append(f"page {index + 1}: cannot be read: {one_line(str(e))[:100]}")
                continue
            if text:
                builder.add(text, "prose", page=index + 1)
            elif pictures:
                problems.append(f"page {index + 1}: no text layer, only pictures; run OCR on it")
        info = {k: one_line(clean(v)) for k, v in pdf.get_metadata_dict(skip_empty=True).items()}
    finally:
        pdf.close()
    if not builder.segments:
        if problems and "cannot be read" in problems[0]:
            raise Rejected(f"corrupt PDF: {problems[0]}; export it again")
        raise Rejected("no text layer; run OCR on the PDF first")
    return Extraction((_document(source, builder, info),), listed(problems, limits))


def _page(pdf: Any, index: int) -> tuple[str, bool]:
    """Returns the page's text and whether it holds pictures."""
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE

    page = pdf[index]
    try:
        textpage = page.get_textpage()
        try:
            text = _DIVIDED.sub("", clean(textpage.get_text_bounded()))
        finally:
            textpage.close()
        text = "\n".join(line.rstrip() for line in text.split("\n")).strip()
        pictures = not text and next(page.get_objects(filter=[FPDF_PAGEOBJ_IMAGE], max_depth=3), None) is not None
        return text, pictures
    finally:
        page.close()


def _document(source: Source, builder: TextBuilder, info: dict[str, str]) -> ExtractedDocument:
    segments = [
        replace(s, char_start=s.char_start + page.char_start, char_end=s.char_end + page.char_start)
        for page in builder.segments
        # Dashes under a line are a table's rule more often than a heading's in a PDF.
        for s in text_segments(builder.text[page.char_start : page.char_end], page.page, headings=False)
    ]
    title = info.get("Title", "")
    return ExtractedDocument(
        uri=source.uri,
        media_type="application/pdf",
        text=builder.text,
        title=title_from_uri(source.uri) if _NO_TITLE.fullmatch(title) else title,
        source_time=first_date(info, "ModDate", "CreationDate"),
        metadata={k.lower(): info[k] for k in _METADATA if info.get(k)} | {"pages": builder.segments[-1].page},
        segments=tuple(segments),
    )
