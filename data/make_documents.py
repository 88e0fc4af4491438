"""Makes the binary sources of the demo corpus (PDF, DOCX, EPUB) from the checked-in texts in data/document_texts/.

Run by hand after a text changes: `.venv/bin/python data/make_documents.py`; the results are checked in beside the other
sources. The same texts give the same bytes: dates come from each text's front matter, never from the clock.
"""

import io
import os
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import frontmatter
from docx import Document
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Flowable, PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

DATA = Path(__file__).resolve().parent
TEXTS = DATA / "document_texts"
ZIP_TIME = (2026, 1, 1, 0, 0, 0)


class Block(NamedTuple):
    """One piece of a text: kind is title, heading, paragraph, step, table or page; rows are for tables only."""

    kind: str
    text: str = ""
    rows: tuple[tuple[str, ...], ...] = ()


def blocks(text: str) -> Iterator[Block]:
    """Yields the blocks of a text in our small subset of Markdown: #, ##, paragraphs, 1., | tables |, ===page===."""
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
        elif piece.startswith("1. "):
            yield from (Block("step", line.split(". ", 1)[1]) for line in piece.splitlines())
        else:
            yield Block("paragraph", " ".join(piece.split()))


def write_pdf(path: Path, title: str, author: str, date: datetime, parts: list[Block]) -> None:
    """Writes an A4 PDF whose creation date is `date`; reportlab reads it from SOURCE_DATE_EPOCH."""
    os.environ["SOURCE_DATE_EPOCH"] = str(int(date.timestamp()))
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
    SimpleDocTemplate(
        str(path), pagesize=A4, title=title, author=author, subject=f"{date:%Y-%m-%d}", invariant=1
    ).build(flow)


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
    with zipfile.ZipFile(buffer) as old:
        write_zip(path, [(name, old.read(name)) for name in old.namelist()])


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


WRITERS = {".pdf": write_pdf, ".docx": write_docx, ".epub": write_epub}


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
