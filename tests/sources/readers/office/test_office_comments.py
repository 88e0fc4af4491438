"""What reviewers wrote in the margin is read with who said it, when, and where."""

import io
import zipfile

import docx
import openpyxl
import pptx
from openpyxl.comments import Comment

from tests.sources.hostile import saved, zipped


def with_parts(data: bytes, added: dict[str, str], related: dict[str, tuple[str, str]]) -> bytes:
    """Adds parts to an archive, and to some of its files of relations one (type, target) each."""
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        parts = {n: old.read(n) for n in old.namelist()}
    for name, (kind, target) in related.items():
        entry = f'<Relationship Id="rIdC" Type="http://x/{kind}" Target="{target}"/></Relationships>'
        parts[name] = parts[name].replace(b"</Relationships>", entry.encode())
    return zipped({**parts, **added})


def test_a_comment_in_a_document_is_after_its_paragraph_and_a_table_in_a_cell_read_once(read) -> None:
    made = docx.Document()
    first = made.add_paragraph("The deadline is May.")
    made.add_paragraph("All agree.")
    comment = made.add_comment(first.runs, text="Make it June,", author="Zoë", initials="Z")
    comment.add_paragraph("please.")
    (document,) = read("a.docx", saved(made)).documents
    assert [line.split(", 20")[0] for line in document.text.split("\n\n")] == [
        "The deadline is May.",
        "Comment by Zoë",
        "All agree.",
    ]
    assert document.text.split("\n\n")[1].endswith(": Make it June, please.")
    span = document.segments[1]
    assert document.text[span.char_start : span.char_end].startswith("Comment by Zoë")
    made = docx.Document()
    outer = made.add_table(1, 2)
    outer.cell(0, 0).text = "Outer"
    inner = outer.cell(0, 1).add_table(1, 2)
    inner.cell(0, 0).text, inner.cell(0, 1).text = "in", "ner"
    assert read("a.docx", saved(made)).documents[0].text == "| Outer |\n| in | ner |"


def test_a_comment_in_a_sheet_names_its_cell_and_threads_replace_the_copy_for_older_programs(read) -> None:
    book = openpyxl.Workbook()
    book.active.append(["cost", 7])
    book.active["B1"].comment = Comment("Was 8 in March.", "Bo")
    (document,) = read("a.xlsx", saved(book)).documents
    assert document.text == "Sheet\n\n| cost | 7 |\n\nComment by Bo on B1: Was 8 in March."
    book = openpyxl.Workbook()
    book.active.append(["cost", 7])
    book.active["B1"].comment = Comment("[Threaded comment] Your version ...", "tc={1}")
    threads = (
        '<ThreadedComments xmlns="t"><threadedComment ref="B1" dT="2026-06-18T17:12:37.41" personId="{p}" id="{1}">'
        "<text>Was 8 in March.</text></threadedComment></ThreadedComments>"
    )
    people = '<personList xmlns="t"><person displayName="Bo" id="{p}"/></personList>'
    data = with_parts(
        saved(book),
        {"xl/threadedComments/t1.xml": threads, "xl/persons/person.xml": people},
        {"xl/worksheets/_rels/sheet1.xml.rels": ("threadedComment", "../threadedComments/t1.xml")},
    )
    (document,) = read("a.xlsx", data).documents
    assert document.text.split("\n\n")[2:] == ["Comment by Bo on B1, 2026-06-18: Was 8 in March."]


def test_comments_on_a_slide_old_and_new_come_after_it_with_their_replies(read) -> None:
    deck = pptx.Presentation()
    for title in ("One", "Two"):
        deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = title
    old = '<p:cmLst xmlns:p="p"><p:cm authorId="0" dt="2026-01-02T00:00:00"><p:text>Too long.</p:text></p:cm></p:cmLst>'
    new = (
        '<n:cmLst xmlns:n="n" xmlns:a="a"><n:cm id="{1}" authorId="{B}" created="2026-02-03T00:00:00">'
        '<n:replyLst><n:reply id="{2}" authorId="{Z}"><n:txBody><a:p><a:r><a:t>Done.</a:t></a:r></a:p></n:txBody>'
        "</n:reply></n:replyLst><n:txBody><a:p><a:r><a:t>Split </a:t></a:r><a:r><a:t>it.</a:t></a:r></a:p></n:txBody>"
        "</n:cm></n:cmLst>"
    )
    data = with_parts(
        saved(deck),
        {
            "ppt/commentAuthors.xml": '<p:cmAuthorLst xmlns:p="p"><p:cmAuthor id="0" name="Ana"/></p:cmAuthorLst>',
            "ppt/authors.xml": '<n:l xmlns:n="n"><n:author id="{B}" name="Bo"/><n:author id="{Z}" name="Zoë"/></n:l>',
            "ppt/comments/c1.xml": old,
            "ppt/comments/c2.xml": new,
        },
        {
            "ppt/slides/_rels/slide1.xml.rels": ("comments", "../comments/c1.xml"),
            "ppt/slides/_rels/slide2.xml.rels": ("comments", "/ppt/comments/c2.xml"),
        },
    )
    (document,) = read("a.pptx", data).documents
    assert document.text.split("\n\n") == [
        "One", "Comment by Ana, 2026-01-02: Too long.", "Two", "Comment by Bo, 2026-02-03: Split it.",
        "Comment by Zoë: Done.",
    ]  # fmt: skip
    assert [s.page for s in document.segments] == [1, 1, 2, 2, 2]
