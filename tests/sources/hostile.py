"""Files that a careless or hostile person could put into a collection, made here."""

import io
import struct
import zipfile
import zlib
from email.message import EmailMessage

import docx
import openpyxl
import pptx
from reportlab.pdfgen.canvas import Canvas

LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">'
    + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
    + "]>"
)


# Low, so that small files cross them.
HOSTILE_LIMITS = {
    "max_expanded_bytes": 4_000_000, "max_archive_members": 1_000, "max_pages": 200, "max_seconds": 30,
    "max_memory_bytes": 400_000_000,
}  # fmt: skip


def saved(document) -> bytes:
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def zipped(members: dict[str, bytes | str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def repacked(data: bytes, part: str, change) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        return zipped({i.filename: change(old.read(i)) if i.filename == part else old.read(i) for i in old.infolist()})


def small_docx(text: str = "Words.") -> bytes:
    made = docx.Document()
    made.add_paragraph(text)
    return saved(made)


def small_xlsx() -> bytes:
    book = openpyxl.Workbook()
    book.active.append(["name", "value"])
    return saved(book)


def small_pptx() -> bytes:
    deck = pptx.Presentation()
    deck.slides.add_slide(deck.slide_layouts[0]).shapes.title.text = "Words"
    return saved(deck)


def understated(data: bytes, part: str, size: int) -> bytes:
    """Lets the directory of a zip say that a member unpacks to `size` bytes."""
    out = bytearray(data)
    for signature, name_at, size_at in ((b"PK\x01\x02", 46, 24), (b"PK\x03\x04", 30, 22)):
        at = data.find(signature)
        while at >= 0:
            if data[at + name_at : at + name_at + len(part)] == part.encode():
                out[at + size_at : at + size_at + 4] = struct.pack("<I", size)
            at = data.find(signature, at + 1)
    return bytes(out)


def laughing_docx() -> bytes:
    def laugh(data: bytes) -> bytes:
        return LAUGHS.encode() + data.split(b"?>", 1)[1].replace(b"Words.", b"Words. &a9;")

    return repacked(small_docx(), "word/document.xml", laugh)


def laughing_xlsx() -> bytes:
    sheet = (
        LAUGHS + '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row r="1">'
        '<c r="A1" t="inlineStr"><is><t>Words &a9;</t></is></c></row></sheetData></worksheet>'
    )
    return repacked(small_xlsx(), "xl/worksheets/sheet1.xml", lambda _: sheet.encode())


def empty_rows_xlsx() -> bytes:
    rows = "".join(f'<row r="{i}"/>' for i in range(1, 50_001))
    sheet = (
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><dimension ref="A1:XFD1048576"/>'
        f'<sheetData>{rows}<row r="1048576"><c r="XFD1048576"><v>7</v></c></row></sheetData></worksheet>'
    )
    return repacked(small_xlsx(), "xl/worksheets/sheet1.xml", lambda _: sheet.encode())


def many_pages_pdf(pages: int) -> bytes:
    out = io.BytesIO()
    canvas = Canvas(out, pageCompression=0, invariant=True)
    for number in range(pages):
        canvas.drawString(72, 700, f"Page {number + 1}.")
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def deflated_pdf(letters: int, pages: int = 1) -> bytes:
    """A small PDF, each page of which is the same stream that inflates to many letters on one spot."""
    stream = zlib.compress(b"BT /F1 12 Tf " + b"1 0 0 1 9 9 Tm(a)Tj " * letters + b"ET", 9)
    bodies = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[" + b"3 0 R " * pages + b"]/Count %d>>" % pages,
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n" % len(stream) + stream + b"\nendstream",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    out, table = b"%PDF-1.4\n", b"0000000000 65535 f \n"
    for number, body in enumerate(bodies, 1):
        table += b"%010d 00000 n \n" % len(out)
        out += b"%d 0 obj" % number + body + b"endobj\n"
    return out + b"xref\n0 6\n%strailer<</Root 1 0 R/Size 6>>\nstartxref\n%d\n%%%%EOF\n" % (table, len(out))


def hostile_names() -> list[bytes]:
    """Names of files that try to leave the folder, to be taken for an option or to write to the terminal."""
    return [
        b"x..%2f..%2fetc%2fpasswd.txt",
        b"x\\..\\..\\etc\\passwd.txt",
        b"-rf.txt",
        b"$(touch x);`touch y`|z.txt",
        b"two\nlines.txt",
        b"\x1b[2Jclears the screen.txt",
        "\u202etxt.fdp.txt".encode(),
        b"caf\xe9.txt",
        b"caf\\xe9.txt",
        "caf\u00e9.txt".encode(),
        b"<img src=x onerror=alert(1)>.txt",
        b"' OR 1=1 --.txt",
        b"a" * 251 + b".txt",
    ]


def looping_pdf() -> bytes:
    """A PDF whose page tree has itself as its kid."""
    return (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Count 3/Kids[2 0 R 2 0 R]>>"
        b"endobj\ntrailer<</Root 1 0 R/Size 3>>\n%%EOF\n"
    )


def mail(attachments: int = 0) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "Ana <ana@example.org>", "bo@example.org", "Plans"
    message["Date"] = "Tue, 05 Mar 2024 10:00:00 +0100"
    message.set_content("The words of the mail.\n")
    for i in range(attachments):
        message.add_attachment(f"Attachment {i}.", filename=f"a{i}.txt")
    return message


def nested_mail(depth: int) -> bytes:
    message = mail()
    for _ in range(depth):
        outer = mail()
        outer.add_attachment(message)
        message = outer
    return message.as_bytes()


def path_tricks_mail() -> bytes:
    message = mail()
    for name in ("../../../etc/passwd.txt", "C:\\Windows\\evil.txt", "/abs/olute.md", "..", "a\0b.txt", "x#y.txt"):
        message.add_attachment("Harmless words.", filename=name)
    return message.as_bytes()


def path_tricks_epub() -> bytes:
    return zipped(
        {
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="c.opf"/></rootfiles></container>',
            "c.opf": "<package><manifest><item id='a' href='../../../etc/passwd' media-type='application/xhtml+xml'/>"
            "<item id='b' href='b.xhtml' media-type='application/xhtml+xml'/></manifest>"
            "<spine><itemref idref='a'/><itemref idref='b'/></spine></package>",
            "b.xhtml": "<html><body><p>Harmless words.</p></body></html>",
            "../../evil.sh": "rm",
        }
    )


def hostile_files() -> dict[str, tuple[bytes, str]]:
    """Returns name -> (bytes, expected): `read`, a pattern of the reason, or `any` of the two, under HOSTILE_LIMITS."""
    main = "word/document.xml"
    big = b"\0" * 6_000_000
    return {
        "bomb.docx": (zipped({"word/document.xml": big, "[Content_Types].xml": "x"}), "unpacks to"),
        "bomb-in-media.pptx": (zipped({"ppt/presentation.xml": "x", "ppt/media/a.png": big}), "unpacks to"),
        "lying-bomb.docx": (
            understated(repacked(small_docx(), main, lambda _: b" " * 2_000_000), main, 9),
            "corrupt",
        ),
        "nested.zip": (zipped({"inner.zip": zipped({"inner.zip": zipped({"a.txt": b"x" * 1000})})}), "zip archive"),
        "many-members.zip": (zipped({f"{i}.txt": "" for i in range(1_001)}), "1,001 parts"),
        "long-line.txt": (b"word " * 500_000, "read"),
        "long-line.md": (b"*[(" * 700_000, "read"),
        "long-line.jsonl": (b'{"a": "' + b"x" * 3_000_000, "no line is a JSON object"),
        "long-line.csv": (b'"' + b"x" * 3_000_000, "read"),
        "laughs.docx": (laughing_docx(), "any"),
        "laughs.xlsx": (laughing_xlsx(), "any"),
        "laughs.html": (LAUGHS.encode() + b"<html><body><p>Words &a9;</p></body></html>", "read"),
        "wrong-suffix.pdf": (small_docx(), "read"),
        "wrong-suffix.docx": (b"\x89PNG\r\n\x1a\n" + b"\0" * 100, "PNG picture"),
        "wrong-suffix.xlsx": (b"just words", "named .xlsx but holds no XLSX"),
        "nuls.txt": (b"\0" * 1_000_000, "binary"),
        "nuls-inside.txt": (b"Some words.\0\0 And more of the words that make it text." * 10, "any"),
        "300-pages.pdf": (many_pages_pdf(300), "300 pages, the limit is 200"),
        "memory.pdf": (deflated_pdf(5_000_000), "ended the reader process"),
        "looping.pdf": (looping_pdf(), "any"),
        "empty-rows.xlsx": (empty_rows_xlsx(), "any"),
        "deep.html": (b"<div>" * 200_000 + b"words", "any"),
        "deep.json": (b"[" * 1_000_000, "nested too deeply|not JSON"),
        "deep.eml": (nested_mail(12), "read"),
        "deep-parts.eml": (
            b"Subject: x\nContent-Type: multipart/mixed; boundary=b0\n\n"
            + b"".join(b"--b%d\nContent-Type: multipart/mixed; boundary=b%d\n\n" % (i, i + 1) for i in range(2_000)),
            "any",
        ),
        "200-attachments.eml": (mail(200).as_bytes(), "read"),
        "paths.eml": (path_tricks_mail(), "read"),
        "paths.epub": (path_tricks_epub(), "read"),
        "anchors.md": (
            b"---\na: &a [x,x,x,x,x,x,x,x,x]\n"
            + b"".join(b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 9)) for i in range(8))
            + b"---\nWords.\n",
            "read",
        ),
        "quotes.csv": (b'"' * 5_000_000, "any"),
        "tags.vtt": (b"WEBVTT\n\n00:00.000 --> 00:01.000\n" + b"<v " * 1_000_000, "any"),
        "attributes.html": (b"<p " + b"a=1 " * 500_000 + b">Words.</p>", "any"),
        "tables.html": (b"<table><tr><td>" * 3_000 + b"words", "any"),
    }
