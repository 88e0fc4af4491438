"""DOCX and other Office files, made here by the libraries that people use to make them."""

import io
import zipfile
from datetime import UTC, datetime

import docx
import pytest

from palimpsest.core.errors import Rejected
from tests.sources.hostile import small_pptx, small_xlsx
from tests.sources.hostile import zipped as zip_of
from tests.sources.samples import pdf


def docx_bytes(document) -> bytes:
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def test_content_beats_the_suffix_and_strict_open_xml_is_read(read) -> None:
    assert read("a.txt", pdf()).documents[0].media_type == "application/pdf"
    document = docx.Document()
    document.add_paragraph("Words.")
    assert read("a.md", docx_bytes(document)).documents[0].media_type.endswith("wordprocessingml.document")

    def strict(_: str, part: bytes) -> bytes:
        for name in (b"wordprocessingml", b"officeDocument"):
            old = b"http://schemas.openxmlformats.org/" + name + b"/2006/"
            part = part.replace(old, b"http://purl.oclc.org/ooxml/" + name + b"/")
        return part

    assert read("a.docx", rezipped(small_docx(), strict)).documents[0].text == "Words."


def test_a_docx_keeps_headings_paragraphs_lists_tables_and_merged_cells_in_order(read) -> None:
    made = docx.Document()
    made.core_properties.title = "Handbook"
    made.core_properties.author = "Ana"
    made.core_properties.created = datetime(2024, 1, 5, 9, 0)
    made.core_properties.modified = datetime(2024, 3, 1, 12, 30)
    made.add_heading("Handbook", 0)
    made.add_heading("Leave", 1)
    made.add_paragraph("Everyone has 25 days.")
    table = made.add_table(2, 2)
    for cell, text in zip(
        (c for row in table.rows for c in row.cells), ("Year", "Days", "2024", "25\nor 26"), strict=True
    ):
        cell.text = text
    made.add_heading("Travel", 1)
    made.add_paragraph("Book early.")
    made.add_paragraph("")
    (document,) = read("handbook.docx", docx_bytes(made)).documents
    assert document.title == "Handbook" and document.metadata["author"] == "Ana"
    assert document.source_time == datetime(2024, 3, 1, 12, 30, tzinfo=UTC)
    assert [(s.kind, s.heading, document.text[s.char_start : s.char_end]) for s in document.segments] == [
        ("heading", "Handbook", "Handbook"), ("heading", "Leave", "Leave"), ("prose", "Leave", "Everyone has 25 days."),
        ("table", "Leave", "| Year | Days |\n| 2024 | 25 or 26 |"), ("heading", "Travel", "Travel"),
        ("prose", "Travel", "Book early."),
    ]  # fmt: skip
    made = docx.Document()
    table = made.add_table(1, 3)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
    table.cell(0, 2).text = "narrow"
    assert read("a.docx", docx_bytes(made)).documents[0].text == "| wide | narrow |"


def zipped(**members: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_xml", ".xml"), content)
    return out.getvalue()


def small_docx() -> bytes:
    made = docx.Document()
    made.add_paragraph("Words.")
    return docx_bytes(made)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (zipped(a="x"), "zip archive"),
        (zipped(word__document_xml="<broken"), "DOCX"),
        (zipped(word__document_xml="x" * 3_000_000), "unpacks to 3,000,000 bytes"),
        (small_docx()[:-200], "corrupt archive"),
        (docx_bytes(docx.Document()), "holds no text"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 100, "old binary Office"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "encrypted Office"),
        (b"just words", "named .docx but holds no DOCX"),
    ],
)
def test_an_unreadable_docx_is_rejected_with_its_reason(read, data: bytes, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        read("a.docx", data, max_expanded_bytes=2_000_000)


def test_entities_in_a_docx_are_not_expanded(read, tmp_path) -> None:
    (tmp_path / "secret").write_text("canary")
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(small_docx())) as old, zipfile.ZipFile(out, "w") as new:
        for item in old.infolist():
            data = old.read(item)
            if item.filename == "word/document.xml":
                doctype = f'<!DOCTYPE w [<!ENTITY x SYSTEM "file://{tmp_path}/secret">]>'.encode()
                data = data.replace(b"?>", b"?>" + doctype, 1).replace(b"Words.", b"Words. &x;")
            new.writestr(item, data)
    try:
        assert "canary" not in read("a.docx", out.getvalue()).documents[0].text
    except Rejected as e:
        assert "canary" not in str(e)


def rezipped(data: bytes, change) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for item in old.infolist():
            new.writestr(item.filename, change(item.filename, old.read(item)))
    return out.getvalue()


def test_a_footnote_is_after_the_paragraph_that_refers_to_it(read) -> None:
    made = docx.Document()
    made.add_paragraph("Kestrel ships in May.")
    made.add_paragraph("It is late.")
    name = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    notes = (
        f'<w:footnotes {name}><w:footnote w:id="2"><w:p><w:r><w:t>Or June.</w:t></w:r></w:p></w:footnote></w:footnotes>'
    )
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"

    def change(part: str, data: bytes) -> bytes:
        if part == "word/document.xml":
            return data.replace(
                b"in May.</w:t></w:r>", b'in May.</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r>'
            )
        if part == "word/_rels/document.xml.rels":
            relation = f'<Relationship Id="rId99" Type="{kind}" Target="footnotes.xml"/></Relationships>'
            return data.replace(b"</Relationships>", relation.encode())
        if part == "[Content_Types].xml":
            override = b'<Override PartName="/word/footnotes.xml" ContentType="application/xml"/></Types>'
            return data.replace(b"</Types>", override)
        return data

    data = io.BytesIO(rezipped(docx_bytes(made), change))
    with zipfile.ZipFile(data, "a") as archive:
        archive.writestr("word/footnotes.xml", notes)
    assert read("a.docx", data.getvalue()).documents[0].text == (
        "Kestrel ships in May.\n\nNote: Or June.\n\nIt is late."
    )


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.pptx"])
def test_a_file_that_states_no_date_has_none_rather_than_the_present_one(read, name: str) -> None:
    made = {"a.docx": small_docx(), "a.xlsx": small_xlsx(), "a.pptx": small_pptx()}[name]
    with zipfile.ZipFile(io.BytesIO(made)) as old:
        parts = {i.filename: old.read(i) for i in old.infolist()}
    namespace = b"http://schemas.openxmlformats.org/package/2006/metadata/core-properties"
    parts["docProps/core.xml"] = b'<coreProperties xmlns="' + namespace + b'"/>'
    (document,) = read(name, zip_of(parts)).documents
    assert document.source_time is None
    assert not document.metadata.keys() & {"created", "modified", "title", "author"}
