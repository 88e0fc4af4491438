"""Makes the binary sources of the demo corpus (PDF, DOCX, PPTX, XLSX, EPUB) from the texts in data/document_texts/.

Run by hand after a text changes: `.venv/bin/python data/make_documents.py`; the results are checked in beside the other
sources. The same texts give the same bytes: dates come from each text's front matter, never from the clock.
"""

import io
import os
import re
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from unittest import mock
from xml.sax.saxutils import escape

import frontmatter
from docx import Document
from openpyxl import Workbook
from openpyxl.styles import Font
from pptx import Presentation
from pptx.util import Inches
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Flowable, PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

DATA = Path(__file__).resolve().parent
TEXTS = DATA / "document_texts"
ZIP_TIME = (2026, 1, 1, 0, 0, 0)


class Block(NamedTuple):
    """One piece of a text: kind is title, heading, paragraph, step, note, table or page; rows are for tables only."""

    kind: str
    text: str = ""
    rows: tuple[tuple[str, ...], ...] = ()


def blocks(text: str) -> Iterator[Block]:
    """Yields the blocks of a text in our small Markdown: #, ##, paragraphs, 1., >, | tables |, ===page===.

    In slides each `#` begins a slide, paragraphs are its points and `>` is what the speaker says; in a workbook each
    `#` begins a sheet and a paragraph is a row of one cell.
    """
    for piece in (p.strip() for p in text.replace("===page===", "\n\n===page===\n\n").split("\n\n")):
        if not piece:
            continue
        if piece == "===page===":
            yield Block("page")
        elif piece.startswith("# "):
            yield Block("title", piece[2:])
        elif piece.startswith("## "):
            yield Block("heading", piece[3:])
        elif piece.startswith("|"):
            lines = [tuple(c.strip() for c in line.strip("|").split("|")) for line in piece.splitlines()]
            yield Block("table", rows=tuple(row for row in lines if not set("".join(row)) <= {"-"}))
        elif piece.startswith("> "):
            yield Block("note", " ".join(piece[2:].split()))
        elif piece.startswith("1. "):
            yield from (Block("step", line.split(". ", 1)[1]) for line in piece.splitlines())
        else:
            yield Block("paragraph", " ".join(piece.split()))


def write_pdf(path: Path, title: str, author: str, date: datetime, parts: list[Block]) -> None:
    """Writes an A4 PDF whose creation date is `date`; reportlab reads it from SOURCE_DATE_EPOCH."""
    styles = getSampleStyleSheet()
    named = {"title": "Title", "heading": "Heading2", "paragraph": "BodyText", "step": "BodyText"}
    flow: list[Flowable] = []
    step = 0
    for part in parts:
        step = step + 1 if part.kind == "step" else 0
        if part.kind == "page":
            flow.append(PageBreak())
        elif part.kind == "table":
            style = [("GRID", (0, 0), (-1, -1), 0.5, colors.grey), ("FONTNAME", (0, 0), (-1, 0), "Helvetica-Bold")]
            flow += [
                Spacer(1, 6),
                Table([list(r) for r in part.rows], style=TableStyle(style), hAlign="LEFT"),
                Spacer(1, 6),
            ]
        else:
            lead = f"{step}. " if step else ""
            flow.append(Paragraph(lead + escape(part.text), styles[named[part.kind]]))
    template = SimpleDocTemplate(
        str(path), pagesize=A4, title=title, author=author, subject=f"{date:%Y-%m-%d}", invariant=1
    )
    with mock.patch.dict(os.environ, SOURCE_DATE_EPOCH=str(int(date.timestamp()))):
        template.build(flow)


def write_docx(path: Path, title: str, author: str, date: datetime, parts: list[Block]) -> None:
    """Writes a Word file whose core properties carry `date`, with fixed times inside the archive."""
    doc = Document()
    core = doc.core_properties
    core.title, core.author, core.last_modified_by = title, author, author
    core.created = core.modified = date.replace(tzinfo=None)
    for part in parts:
        if part.kind == "title":
            doc.add_heading(part.text, 1)
        elif part.kind == "heading":
            doc.add_heading(part.text, 2)
        elif part.kind == "page":
            doc.add_page_break()
        elif part.kind == "table":
            table = doc.add_table(0, len(part.rows[0]), style="Table Grid")
            for row in part.rows:
                for cell, text in zip(table.add_row().cells, row, strict=True):
                    cell.text = text
        else:
            doc.add_paragraph(part.text, style="List Number" if part.kind == "step" else None)
    buffer = io.BytesIO()
    doc.save(buffer)
    rewrite_zip(path, buffer, date)


def write_pptx(path: Path, title: str, author: str, date: datetime, parts: list[Block]) -> None:
    """Writes a slide deck: title, points, tables and the speaker's notes of each slide."""
    deck = Presentation()
    core = deck.core_properties
    core.title, core.author, core.last_modified_by = title, author, author
    core.created = core.modified = date.replace(tzinfo=None)
    for number, slide_parts in enumerate(divided(parts)):
        slide = deck.slides.add_slide(deck.slide_layouts[1 if number else 0])
        slide.shapes.title.text = slide_parts[0].text
        points = [p.text for p in slide_parts if p.kind in ("paragraph", "step")]
        slide.placeholders[1].text_frame.text = "\n".join(points)
        for part in slide_parts:
            if part.kind == "note":
                slide.notes_slide.notes_text_frame.text = part.text
            elif part.kind == "table":
                size = len(part.rows), len(part.rows[0])
                frame = slide.shapes.add_table(*size, Inches(0.6), Inches(4), Inches(8.8), Inches(0.4 * size[0]))
                for r, row in enumerate(part.rows):
                    for c, text in enumerate(row):
                        frame.table.cell(r, c).text = text
    buffer = io.BytesIO()
    deck.save(buffer)
    rewrite_zip(path, buffer, date)


def write_xlsx(path: Path, title: str, author: str, date: datetime, parts: list[Block]) -> None:
    """Writes a workbook of plain values; a cell that reads as a number or an ISO date becomes one."""
    book = Workbook()
    book.remove(book.active)
    book.properties.title, book.properties.creator, book.properties.lastModifiedBy = title, author, author
    book.properties.created = date.replace(tzinfo=None)
    for sheet_parts in divided(parts):
        sheet = book.create_sheet(sheet_parts[0].text)
        for number, part in enumerate(sheet_parts[1:]):
            if number:
                sheet.append([])
            for i, row in enumerate(part.rows or ((part.text,),)):
                sheet.append([cell_value(text) for text in row])
                if part.rows and i == 0:
                    for cell in sheet[sheet.max_row]:
                        cell.font = Font(bold=True)
    buffer = io.BytesIO()
    book.save(buffer)
    rewrite_zip(path, buffer, date)


def divided(parts: list[Block]) -> Iterator[list[Block]]:
    """Yields the parts from each title to the next."""
    starts = [i for i, p in enumerate(parts) if p.kind == "title"]
    yield from (parts[a:b] for a, b in pairwise([*starts, len(parts)]))


def cell_value(text: str) -> str | int | float | datetime:
    """Returns the number or the date that a cell's text is, else the text."""
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return datetime.fromisoformat(text)
    if re.fullmatch(r"-?\d+(\.\d+)?", text):
        return float(text) if "." in text else int(text)
    return text


def rewrite_zip(path: Path, buffer: io.BytesIO, date: datetime) -> None:
    """Writes the archive again without the time at which the library saved it."""
    saved = re.compile(rb"(<dcterms:modified[^>]*>)[^<]*")
    with zipfile.ZipFile(buffer) as old:
        members = [(name, old.read(name)) for name in old.namelist()]
    stamp = f"{date:%Y-%m-%dT%H:%M:%SZ}".encode()
    write_zip(path, [(n, saved.sub(rb"\g<1>" + stamp, b) if n == "docProps/core.xml" else b) for n, b in members])


def write_epub(path: Path, title: str, author: str, date: datetime, parts: list[Block]) -> None:
    """Writes a minimal EPUB 3 with one chapter for each `title` block."""
    tags = {"title": "h1", "heading": "h2", "paragraph": "p", "step": "p"}
    chapters: list[list[str]] = []
    for part in parts:
        if part.kind == "title":
            chapters.append([])
        if part.kind in tags:
            chapters[-1].append(f"<{tags[part.kind]}>{escape(part.text)}</{tags[part.kind]}>")
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    names = [f"chapter{i}.xhtml" for i in range(1, len(chapters) + 1)]
    page = '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>{}</title></head><body>\n{}\n</body></html>\n'
    manifest = "".join(f'<item id="c{i}" href="{n}" media-type="application/xhtml+xml"/>' for i, n in enumerate(names))
    spine = "".join(f'<itemref idref="c{i}"/>' for i in range(len(names)))
    toc = "".join(f'<li><a href="{n}">{escape(c[0][4:-5])}</a></li>' for n, c in zip(names, chapters, strict=True))
    nav = f'<nav xmlns:epub="http://www.idpf.org/2007/ops" epub:type="toc"><ol>{toc}</ol></nav>'
    nav_item = '<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
    package = (
        f'{head}<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id">'
        f'<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="id">{path.stem}</dc:identifier>'
        f"<dc:title>{escape(title)}</dc:title><dc:creator>{escape(author)}</dc:creator><dc:language>en</dc:language>"
        f"<dc:date>{date:%Y-%m-%d}</dc:date>"
        f'<meta property="dcterms:modified">{date:%Y-%m-%dT%H:%M:%SZ}</meta></metadata>'
        f"<manifest>{nav_item}{manifest}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        f'{head}<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/content.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    files = {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "OEBPS/content.opf": package}
    files["OEBPS/nav.xhtml"] = head + page.format(escape(title), nav)
    files |= {
        f"OEBPS/{n}": head + page.format(escape(title), "\n".join(c)) for n, c in zip(names, chapters, strict=True)
    }
    write_zip(path, [(name, text.encode()) for name, text in files.items()])


def write_zip(path: Path, members: list[tuple[str, bytes]]) -> None:
    """Writes the members in order with one fixed time, so that equal contents give equal bytes."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name, ZIP_TIME)
            info.compress_type = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(info, content)


WRITERS = {".pdf": write_pdf, ".docx": write_docx, ".pptx": write_pptx, ".xlsx": write_xlsx, ".epub": write_epub}


def make(text: Path, root: Path = DATA) -> Path:
    """Makes the file that the text's `output` names, below `root`, and returns its path."""
    post = frontmatter.loads(text.read_text(encoding="utf-8"))
    path = root / str(post["output"])
    path.parent.mkdir(parents=True, exist_ok=True)
    date = datetime.fromisoformat(str(post["date"])).replace(hour=9, tzinfo=UTC)
    WRITERS[path.suffix](path, str(post["title"]), str(post["author"]), date, list(blocks(post.content)))
    return path


if __name__ == "__main__":
    for source in sorted(TEXTS.rglob("*.md")):
        print(make(source).relative_to(DATA))
