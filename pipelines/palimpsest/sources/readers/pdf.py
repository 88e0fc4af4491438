"""PDF: the text layer page by page, through PDFium. PDFium is not thread-safe: read one PDF at a time in a process."""

import re
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from palimpsest.core.errors import Rejected
from palimpsest.sources.extracted import ExtractedDocument, Extraction, Segment, Source, limit_problems
from palimpsest.sources.readers.encodings import clean_text, first_date, one_line, title_from_uri
from palimpsest.sources.readers.text_builder import TextBuilder, looks_like_header, table_blocks
from palimpsest.sources.readers.text_files import text_segments
from palimpsest.store.collection_config import Limits

# The layout of a PDF page: columns that were drawn line by line across, and tables, by the positions of the words.

_GAP_HEIGHTS = 1.2  # white space inside a line wider than this many letter heights divides cells
_MIN_TABLE_ROWS, _MIN_COLUMN_LINES, _MIN_COLUMN_WORDS, _MIN_PROSE_WORDS = 3, 6, 4.0, 2.0
_ALIGNED, _ALIGNED_POINTS = 0.6, 3.0  # of the cells of a row are under cells of the row above, to 3 points
_MAX_CHARS = 60_000
_MARKER = re.compile(r"[^\w\s]|[\w]{1,3}[.)]|\uf0b7|o")
_LEADER = re.compile(r"[.·_\s]{4,}")


@dataclass(frozen=True, slots=True)
class Cell:
    """Adjacent words without a wide gap between them; points, y grows upwards."""

    text: str
    x0: float
    x1: float
    y0: float
    y1: float
    words: int


Line = list[Cell]


def page_blocks(textpage: Any) -> list[tuple[str, bool]] | None:
    """Returns (text, whether it is a table) of a page in reading order, null where the text as drawn is in order.

    A table gives a line `| a | b |` for each row. Only pages with tables, or with columns that were drawn line by line
    across, are reordered: PDFium's own order is right elsewhere, and knows scripts that run from right to left.
    """
    if textpage.count_chars() > _MAX_CHARS:
        return None
    lines = _lines(textpage)
    ordered = _uncolumned(lines)
    blocks = _blocks(ordered)
    if ordered is lines and not any(table for _, table in blocks):
        return None
    return blocks


def _lines(textpage: Any) -> list[Line]:
    """Returns the lines in the order drawn, each as its cells from left to right."""
    words = _words(textpage)
    rows: list[list[Cell]] = []
    for word in words:
        if rows and _same_line(rows[-1][-1], word):
            rows[-1].append(word)
        else:
            rows.append([word])
    return [_cells(row) for row in rows]


def _words(textpage: Any) -> list[Cell]:
    import ctypes

    from pypdfium2 import raw

    handle = textpage.raw
    rectangle = raw.FS_RECTF()
    reference = ctypes.byref(rectangle)
    words: list[Cell] = []
    letters: list[str] = []
    box = [0.0, 0.0, 0.0, 0.0]

    def end() -> None:
        if letters:
            words.append(Cell("".join(letters), box[0], box[1], box[2], box[3], 1))
            letters.clear()

    for i in range(textpage.count_chars()):
        code = raw.FPDFText_GetUnicode(handle, i)
        letter = chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
        if letter.isspace() or code == 0:
            end()
            continue
        if code in (0x02, 0xFFFE):  # a hyphen that only divides a word
            letters.append("\x02")
            continue
        raw.FPDFText_GetLooseCharBox(handle, i, reference)  # as high as the font, whatever the letter
        x0, x1, y0, y1 = rectangle.left, rectangle.right, rectangle.bottom, rectangle.top
        height = max(y1 - y0, box[3] - box[2], 1.0)
        if letters and (x0 - box[1] > height or box[0] - x0 > height or y0 > box[3] or y1 < box[2]):
            end()
        wider = [min(box[0], x0), max(box[1], x1), min(box[2], y0), max(box[3], y1)]
        box = wider if letters else [x0, x1, y0, y1]
        letters.append(letter)
    end()
    return words


def _same_line(a: Cell, b: Cell) -> bool:
    overlap = min(a.y1, b.y1) - max(a.y0, b.y0)
    return b.x0 >= a.x1 - (a.y1 - a.y0) and overlap >= 0.4 * min(a.y1 - a.y0, b.y1 - b.y0)


def _cells(words: list[Cell]) -> Line:
    height = median(w.y1 - w.y0 for w in words)
    cells = [words[0]]
    for word in words[1:]:
        last = cells[-1]
        marker = len(cells) == 1 and _MARKER.fullmatch(last.text)
        if not marker and word.x0 - last.x1 > _GAP_HEIGHTS * max(height, 4.0):
            cells.append(word)
        else:
            cells[-1] = Cell(
                f"{last.text} {word.text}",
                last.x0,
                max(last.x1, word.x1),
                min(last.y0, word.y0),
                max(last.y1, word.y1),
                last.words + 1,
            )
    return cells


def _runs_on(pairs: list[Line]) -> bool:
    """Returns whether the lines of each side are one running text: most begin in the middle of a sentence."""
    sides = ([pair[side].text for pair in pairs[1:]] for side in (0, 1))
    return all(2 * sum(text[:1].islower() for text in texts) > len(texts) for texts in sides)


def _uncolumned(lines: list[Line]) -> list[Line]:
    """Returns the lines with two columns that were drawn across put one under the other, else the same list."""
    pairs = [line for line in lines if len(line) == 2]
    is_prose = _runs_on(pairs)
    least, words = (_MIN_TABLE_ROWS, _MIN_PROSE_WORDS) if is_prose else (_MIN_COLUMN_LINES, _MIN_COLUMN_WORDS)
    if len(pairs) < least or 2 * len(pairs) < len(lines):
        return lines
    gutter = (max(a.x1 for a, _ in pairs), min(b.x0 for _, b in pairs))
    if gutter[0] >= gutter[1]:
        gutter = (median(a.x1 for a, _ in pairs), median(b.x0 for _, b in pairs))
        middle = sum(gutter) / 2
        pairs = [p for p in pairs if p[0].x1 < middle < p[1].x0]
        if len(pairs) < least:
            return lines
    middle = sum(gutter) / 2
    if min(median(c[side].words for c in pairs) for side in (0, 1)) < words:
        return lines  # short cells are a table's
    out: list[Line] = []
    left: list[Line] = []
    right: list[Line] = []
    for line in lines:
        if any(c.x0 < middle < c.x1 for c in line):  # across both columns: what is above is complete
            out += [*left, *right, line]
            left, right = [], []
            continue
        for side, cells in ((left, [c for c in line if c.x1 <= middle]), (right, [c for c in line if c.x0 >= middle])):
            if cells:
                side.append(cells)
    return [*out, *left, *right]


def _blocks(lines: list[Line]) -> list[tuple[str, bool]]:
    blocks: list[tuple[str, bool]] = []
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and len(lines[end]) > 1 and (end == at or _follows(lines[end - 1], lines[end])):
            end += 1
        rows = lines[at:end]
        if len(rows) >= _MIN_TABLE_ROWS and not _is_contents(rows):
            text = "\n".join("| " + " | ".join(c.text for c in row) + " |" for row in rows)
            blocks.append((text, True))
        else:
            end = max(end, at + 1)
            text = "\n".join(" ".join(c.text for c in line) for line in lines[at:end])
            if blocks and not blocks[-1][1]:
                blocks[-1] = (f"{blocks[-1][0]}\n{text}", False)
            else:
                blocks.append((text, False))
        at = end
    return blocks


def _follows(above: Line, below: Line) -> bool:
    """Whether a row belongs to the same table as the one above: next below it, cells under cells."""
    height = max(c.y1 - c.y0 for c in (*above, *below))
    if not 0 < above[0].y1 - below[0].y1 <= 4 * height:
        return False
    few, many = sorted((above, below), key=len)
    under = sum(any(_aligned(a, b) for b in many) for a in few)
    return under >= _ALIGNED * len(few) and under > 1


def _aligned(a: Cell, b: Cell) -> bool:
    edges = (a.x0 - b.x0, a.x1 - b.x1, (a.x0 + a.x1 - b.x0 - b.x1) / 2)
    return min(map(abs, edges)) <= _ALIGNED_POINTS


def _is_contents(rows: list[Line]) -> bool:
    """A table of contents has leaders of dots; two columns of long text are no table."""
    leaders = sum(any(_LEADER.fullmatch(c.text) or c.text.count("....") for c in row) for row in rows)
    long = sum(sum(c.words for c in row) > 12 * len(row) for row in rows)
    return 2 * leaders > len(rows) or 2 * long > len(rows)


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
                rows = text.split("\n") if table else []
                for block in table_blocks(rows, has_header=looks_like_header(rows)):
                    builder.add("\n".join(block), "table", page=index + 1)
                if not table:
                    builder.add(text, "prose", page=index + 1)
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
