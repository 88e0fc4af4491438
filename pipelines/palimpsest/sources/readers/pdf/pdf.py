"""PDF: the text layer page by page, through PDFium. PDFium is not thread-safe: read one PDF at a time in a process."""

import re
from dataclasses import replace
from typing import Any

from palimpsest.core.errors import Rejected
from palimpsest.sources.readers.common.clean_text import clean_text, first_date, one_line, title_from_uri
from palimpsest.sources.readers.common.text_builder import TextBuilder
from palimpsest.sources.readers.pdf.page_layout import page_blocks
from palimpsest.sources.readers.text_files.plain_text import text_segments
from palimpsest.sources.records.extracted import ExtractedDocument, Extraction, Segment
from palimpsest.sources.records.source import Source, limit_problems
from palimpsest.store.limits import Limits

_ERR_PASSWORD, _ERR_SECURITY = 4, 5  # FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY
# PDFium marks a hyphen that only divides a word at the end of a line.
_DIVIDED = re.compile(r"[\x02\ufffe\u00ad][ \t]*\n?")
_NO_TITLE = re.compile(
    r"untitled.*|microsoft (word|powerpoint) - .*|.*\.(docx?|pptx?|pdf|tex|dvi|indd|qxd)|[\W\d_]*", re.IGNORECASE
)
_METADATA = ("Author", "Subject", "Keywords")


def read_pdf(source: Source, limits: Limits) -> Extraction:
    """Reads the text of each page; a segment is a table, or a paragraph where blank lines show them, on one page.

    A page of pictures only becomes a problem.

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
                blocks, pictures = _page(pdf, index)
            except pdfium.PdfiumError as e:
                problems.append(f"page {index + 1}: cannot be read: {one_line(str(e))[:100]}")
                continue
            for text, table in blocks:
                builder.add(text, "table" if table else "prose", page=index + 1)
            if not blocks and pictures:
                problems.append(f"page {index + 1}: no text layer, only pictures; run OCR on it")
        info = {k: one_line(clean_text(v)) for k, v in pdf.get_metadata_dict(skip_empty=True).items()}
    finally:
        pdf.close()
    if not builder.segments:
        if problems and "cannot be read" in problems[0]:
            raise Rejected(f"corrupt PDF: {problems[0]}; export it again")
        raise Rejected("no text layer; run OCR on the PDF first")
    return Extraction((_document(source, builder, info),), limit_problems(problems, limits))


def _page(pdf: Any, index: int) -> tuple[list[tuple[str, bool]], bool]:
    """Returns the page's blocks as (text, whether it is a table) and whether a page without text has pictures."""
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE

    page = pdf[index]
    try:
        textpage = page.get_textpage()
        try:
            blocks = page_blocks(textpage) or [(textpage.get_text_bounded(), False)]
        finally:
            textpage.close()
        blocks = [(words, table) for text, table in blocks if (words := _trimmed(text))]
        pictures = not blocks and next(page.get_objects(filter=[FPDF_PAGEOBJ_IMAGE], max_depth=3), None) is not None
        return blocks, pictures
    finally:
        page.close()


def _trimmed(text: str) -> str:
    text = _DIVIDED.sub("", clean_text(text))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def _document(source: Source, builder: TextBuilder, info: dict[str, str]) -> ExtractedDocument:
    segments: list[Segment] = []
    for block in builder.segments:
        if block.kind == "table":
            segments.append(block)
            continue
        # Dashes under a line are a table's rule more often than a heading's in a PDF.
        parts = text_segments(builder.text[block.char_start : block.char_end], block.page, headings=False)
        start = block.char_start
        segments += [replace(s, char_start=s.char_start + start, char_end=s.char_end + start) for s in parts]
    title = info.get("Title", "")
    return ExtractedDocument(
        uri=source.uri,
        media_type="application/pdf",
        text=builder.text,
        title=title_from_uri(source.uri) if _NO_TITLE.fullmatch(title) else title,
        source_time=first_date(info, "ModDate", "CreationDate", order=source.dates),
        metadata={k.lower(): info[k] for k in _METADATA if info.get(k)} | {"pages": builder.segments[-1].page},
        segments=tuple(segments),
    )
