"""Pages, tables, slides, mails, captions, books and chats, made here."""

import io
import json
import zipfile
from datetime import UTC, datetime

import openpyxl
import pptx
import pytest

from palimpsest.core.errors import Rejected
from palimpsest.sources.records.extracted import ExtractedDocument
from tests.sources.hostile import mail, nested_mail, saved, zipped


def spans(document: ExtractedDocument) -> list[tuple[str, str | None, str]]:
    return [(s.kind, s.heading, document.text[s.char_start : s.char_end]) for s in document.segments]


PAGE = """<!doctype html><html lang="en"><head><title>Leave policy | Intranet</title>
<meta property="article:modified_time" content="2024-03-01T10:00:00Z"><meta name="date" content="2023-01-01">
<meta name="author" content="Ana"><style>p {color: red}</style></head><body>
<nav><a href="/">Home</a> <a href="/a">About</a></nav>
<div class="sidebar"><a href="/1">One</a><a href="/2">Two</a></div>
<h1>Leave <em>policy</em></h1>
<p>Everyone has <b>25</b> days,<br>see the <a href="/x">calendar</a>.</p><p style="display: none">Hidden.</p>
<ul><li>Ask early.<ul><li>By mail.</li></ul></li><li>Ask twice.</li></ul>
<h2>Table</h2><table><tr><th>Year</th><th>Days</th></tr><tr><td>2024</td><td>25<br>or 26</td></tr></table>
<pre>def f():
    return 1</pre>
<script>evil()</script><footer><a href="/imprint">Imprint</a></footer></body></html>"""


def test_a_page_gives_its_main_text_by_structure(read) -> None:
    (document,) = read("leave.html", PAGE).documents
    assert (document.title, document.media_type) == ("Leave policy | Intranet", "text/html")
    assert document.source_time == datetime(2024, 3, 1, 10, tzinfo=UTC)
    assert document.metadata == {"author": "Ana", "language": "en"}
    assert spans(document) == [
        ("heading", "Leave policy", "Leave policy"),
        ("prose", "Leave policy", "Everyone has 25 days,\nsee the calendar."),
        ("prose", "Leave policy", "- Ask early."),
        ("prose", "Leave policy", "- By mail."),
        ("prose", "Leave policy", "- Ask twice."),
        ("heading", "Leave policy > Table", "Table"),
        ("table", "Leave policy > Table", "| Year | Days |\n| 2024 | 25 or 26 |"),
        ("code", "Leave policy > Table", "def f():\n    return 1"),
    ]


def test_a_page_of_links_alone_keeps_them(read) -> None:
    links = "".join(f'<li><a href="/{i}">Page {i}</a></li>' for i in range(9))
    assert "Page 8" in read("index.html", f"<body><nav><ul>{links}</ul></nav></body>").documents[0].text


def test_a_page_says_its_encoding(read) -> None:
    page = '<html><head><meta charset="iso-8859-2"></head><body><p>Łódź</p></body></html>'.encode("iso-8859-2")
    assert read("a.html", page).documents[0].text == "Łódź"


def test_a_table_that_lays_out_a_page_is_read_as_text(read) -> None:
    (document,) = read("a.html", "<table><tr><td><p>One.</p><p>Two.</p></td></tr></table>").documents
    assert [text for _, _, text in spans(document)] == ["One.", "Two."]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_of_a_table_is_found(read, delimiter: str) -> None:
    rows = [["name", "note, or not"], ["Ana", "a; b"], ["Bo", ""]]
    text = "\n".join(delimiter.join(f'"{c}"' if delimiter in c else c for c in row) for row in rows)
    (document,) = read("a.csv", text).documents
    assert document.text == "| name | note, or not |\n| Ana | a; b |\n| Bo |"
    assert document.metadata == {"rows": 3, "columns": 2}


def test_a_long_table_repeats_its_header(read) -> None:
    rows = "".join(f"{i},value number {i}\n" for i in range(500))
    (document,) = read("a.csv", f"id,value\n{rows}").documents
    blocks = [text for _, _, text in spans(document)]
    assert len(blocks) > 5 and all(b.startswith("| id | value |\n") for b in blocks)
    assert sum(b.count("\n") for b in blocks) == 500


def test_rows_of_another_length_are_kept(read) -> None:
    extraction = read("a.csv", "a,b\n1,2\n3,4,5\n")
    assert extraction.problems == () and extraction.documents[0].metadata == {"rows": 3, "columns": 2}
    assert "| 3 | 4 | 5 |" in extraction.documents[0].text


def test_a_table_of_too_many_rows_is_rejected(read) -> None:
    with pytest.raises(Rejected, match="more than 10 rows"):
        read("a.csv", "a,b\n" * 11, max_rows=10)


def test_a_workbook_gives_stored_values_by_sheet(read) -> None:
    book = openpyxl.Workbook()
    book.properties.title, book.properties.modified = "Budget", datetime(2024, 5, 6, 7, 8)
    first, second = book.active, book.create_sheet("Notes")
    first.title = "Q1"
    for row in (["month", "euro"], [datetime(2024, 1, 1), 40_000.0], [datetime(2024, 2, 1, 12), 0.5], [], ["A remark"]):
        first.append(row)
    second["C5"] = True
    (document,) = read("budget.xlsx", saved(book)).documents
    assert document.title == "Budget"
    assert [(k, h) for k, h, _ in spans(document)] == [
        ("heading", "Q1"),
        ("table", "Q1"),
        ("prose", "Q1"),
        ("heading", "Notes"),
        ("prose", "Notes"),
    ]
    assert document.text == (
        "Q1\n\n| month | euro |\n| 2024-01-01 | 40000 |\n| 2024-02-01 12:00:00 | 0.5 |\n\nA remark\n\nNotes\n\nTRUE"
    )


def test_slides_give_titles_text_tables_and_notes(read) -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Kestrel"
    slide.placeholders[1].text = "Ships in May\nCosts 40,000"
    slide.notes_slide.notes_text_frame.text = "Say it slowly."
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    table = slide.shapes.add_table(2, 2, 0, 0, 100, 100).table
    for i, text in enumerate(("Name", "Role", "Ana", "Lead")):
        table.cell(i // 2, i % 2).text = text
    (document,) = read("kestrel.pptx", saved(deck)).documents
    assert document.title == "Kestrel" and document.metadata["slides"] == 2
    assert [(s.kind, s.page, document.text[s.char_start : s.char_end]) for s in document.segments] == [
        ("heading", 1, "Kestrel"),
        ("prose", 1, "Ships in May\nCosts 40,000"),
        ("prose", 1, "Say it slowly."),
        ("table", 2, "| Name | Role |\n| Ana | Lead |"),
    ]


def test_a_mail_has_its_writer_as_speaker_and_its_attachments_as_documents(read) -> None:
    message = mail()
    message.set_content("Let us meet.\n\n> When?\n> Soon.\n\nOn Monday.\n")
    message.add_attachment("id,what\n1,tea\n", subtype="csv", filename="list.csv")
    message.add_attachment(b"\x89PNG\r\n\x1a\n", maintype="image", subtype="png", filename="logo.png")
    extraction = read("in/plans.eml", message.as_bytes())
    body, quote, table = extraction.documents
    when = datetime(2024, 3, 5, 9, tzinfo=UTC)
    assert (body.title, body.source_time) == ("Plans", when)
    assert body.metadata["from"] == "Ana <ana@example.org>" and body.metadata["to"] == "bo@example.org"
    assert [(t, s.speaker, s.said_at) for s, (_, _, t) in zip(body.segments, spans(body), strict=True)] == [
        ("Plans", None, None),
        ("Let us meet.", "Ana", when),
        ("On Monday.", "Ana", when),
    ]
    assert (quote.uri, quote.source_time, quote.text) == ("in/plans.eml#quoted-1", None, "When?\nSoon.")
    assert (table.uri, table.title, table.source_time) == ("in/plans.eml#list.csv", "list", when)
    assert table.metadata["attached_to"] == "in/plans.eml"
    assert [p.split(":")[0] for p in extraction.problems] == ["attachment logo.png"]


def test_a_mail_of_html_alone_is_read(read) -> None:
    message = mail()
    message.set_content("<html><body><p>Rich <b>words</b>.</p></body></html>", subtype="html")
    assert read("a.eml", message.as_bytes()).documents[0].text == "Plans\n\nRich words."


def test_mails_inside_mails_are_read_to_the_limit(read) -> None:
    extraction = read("a.eml", nested_mail(3), max_nesting=2)
    assert [d.uri for d in extraction.documents] == ["a.eml", "a.eml#part-1.eml", "a.eml#part-1.eml#part-1.eml"]
    assert "nested too deeply" in extraction.problems[0]


def test_attachments_of_one_name_have_uris_of_their_own(read) -> None:
    message = mail()
    for text in ("One.", "Two."):
        message.add_attachment(text, filename="a.txt")
    assert [d.uri for d in read("m.eml", message.as_bytes()).documents] == ["m.eml", "m.eml#a.txt", "m.eml#2-a.txt"]


def test_what_is_no_mail_is_rejected(read) -> None:
    with pytest.raises(Rejected, match="no mail"):
        read("a.eml", "just words\n\nand more\n")


def test_captions_are_turns_with_their_speakers(read) -> None:
    (document,) = read(
        "talk.vtt",
        "WEBVTT\n\nNOTE not words\n\n1\n00:11.000 --> 00:13.500 align:right\n<v.loud Roger Bingham>We are in <i>New"
        " York</i>\nCity &amp; here\n\n01:00:16.250 --> 01:00:18.000\n<v Neil>Hi<v Roger>Hello\n",
    ).documents
    assert document.text == "Roger Bingham: We are in New York City & here\nNeil: Hi\nRoger: Hello"
    assert [(s.speaker, s.kind) for s in document.segments] == [
        ("Roger Bingham", "turn"),
        ("Neil", "turn"),
        ("Roger", "turn"),
    ]
    assert document.metadata["starts"] == [11.0, 3616.25, 3616.25]
    assert document.metadata["duration_seconds"] == 3618.0


def book(**parts: str) -> bytes:
    items = "".join(f'<item id="{n}" href="{n}.xhtml" media-type="application/xhtml+xml"/>' for n in parts)
    refs = "".join(f'<itemref idref="{n}"/>' for n in sorted(parts, reverse=True))
    return zipped(
        {
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="o/c.opf"/></rootfiles></container>',
            "o/c.opf": f'<package xmlns:dc="d"><metadata><dc:title>Poems</dc:title><dc:creator>Ana</dc:creator>'
            f"<dc:date>1999-01-02</dc:date></metadata><manifest>{items}</manifest><spine>{refs}</spine></package>",
            **{f"o/{n}.xhtml": f"<html><body>{text}</body></html>" for n, text in parts.items()},
        }
    )


def test_a_book_is_read_in_its_reading_order(read) -> None:
    (document,) = read("poems.epub", book(a="<p>Second.</p>", b="<h1>One</h1><p>First.</p>")).documents
    assert (document.title, document.metadata["author"]) == ("Poems", "Ana")
    assert document.source_time == datetime(1999, 1, 2, tzinfo=UTC)
    assert [(s.page, t) for s, (_, _, t) in zip(document.segments, spans(document), strict=True)] == [
        (1, "One"),
        (1, "First."),
        (2, "Second."),
    ]


def test_locomo_sessions_are_documents_of_a_user_for_each_sample(read) -> None:
    talk = {
        "speaker_a": "Cam",
        "session_2": [{"speaker": "Mel", "dia_id": "D2:1", "text": "Hi."}],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_10": [{"speaker": "Cam", "text": "Look.", "blip_caption": "a dog"}],
        "session_3": [],
    }
    one, two = read("l.json", json.dumps([{"sample_id": "conv-1", "qa": [], "conversation": talk}])).documents
    assert (one.user_id, one.session_id, one.text) == ("conv-1", "session_2", "Mel: Hi.")
    assert one.source_time == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert (two.session_id, two.text, two.source_time) == ("session_10", "Cam: Look. [image: a dog]", None)


def test_longmemeval_sessions_have_their_dates_and_ids(read) -> None:
    item = {
        "question_id": "q1",
        "haystack_dates": ["2023/05/30 (Tue) 21:48", "2023/06/01 (Thu) 09:00"],
        "haystack_session_ids": ["s1", "s2"],
        "haystack_sessions": [
            [{"role": "user", "content": "A."}, {"role": "assistant", "content": "B."}],
            [{"role": "user", "content": "C."}],
        ],
    }
    one, two = read("l.json", json.dumps([item])).documents
    assert (one.user_id, one.session_id, one.text) == ("q1", "s1", "user: A.\nassistant: B.")
    assert (two.session_id, two.source_time) == ("s2", datetime(2023, 6, 1, 9, tzinfo=UTC))


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "Hi.", "timestamp": "2024-01-02T03:04:05Z"}],
        [{"author": {"name": "user"}, "content": [{"type": "text", "text": "Hi."}], "date": "2024-01-02T03:04:05Z"}],
        [{"from": "user", "text": ["H", {"type": "bold", "text": "i."}], "date": "2024-01-02T03:04:05"}],
        [{"user": "user", "text": "Hi.", "ts": "1704164645"}],
        [{"sender_name": "user", "content": "Hi.", "timestamp_ms": 1704164645000}],
    ],
)
def test_exports_of_chats_are_conversations(read, messages: list[dict]) -> None:
    for value in (messages, {"messages": messages}, {"chats": {"list": [{"id": 7, "messages": messages}]}}):
        (document,) = read("chat.json", json.dumps(value)).documents
        assert document.text == "user: Hi."
        assert document.source_time == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    (document,) = read("chat.jsonl", json.dumps({"title": "T", "messages": messages}) + "\n").documents
    assert (document.title, document.text) == ("T", "user: Hi.")


def test_the_current_branch_of_a_tree_of_messages_is_read(read) -> None:
    def node(parent: str | None, role: str, text: str, time: float) -> dict:
        return {
            "parent": parent,
            "message": {"author": {"role": role}, "content": {"parts": [text]}, "create_time": time},
        }

    tree = {
        "title": "Trip",
        "current_node": "c",
        "mapping": {
            "a": node(None, "user", "Where?", 1704164645.5),
            "b": node("a", "assistant", "Discarded.", 1704164646.5),
            "c": node("a", "assistant", "Lisbon.", 1704164647.5),
        },
    }
    (document,) = read("export.json", json.dumps([tree])).documents
    assert (document.title, document.text) == ("Trip", "user: Where?\nassistant: Lisbon.")


def test_other_json_is_kept_as_it_is(read) -> None:
    (document,) = read("data.json", '{"budget": 40000}\n').documents
    assert spans(document) == [("code", None, '{"budget": 40000}')]


def test_a_protected_book_is_rejected(read) -> None:
    data = book(a="<p>Secret.</p>")
    locked = '<encryption><CipherReference URI="o/a.xhtml"/></encryption>'
    out = io.BytesIO(data)
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("META-INF/encryption.xml", locked)
    with pytest.raises(Rejected, match="protected EPUB"):
        read("a.epub", out.getvalue())
