"""Pages in HTML."""

from datetime import UTC, datetime

from tests.sources.segment_texts import segment_texts

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
    assert segment_texts(document) == [
        ("heading", "Leave policy", "Leave policy"),
        ("prose", "Leave policy", "Everyone has 25 days,\nsee the calendar."),
        ("prose", "Leave policy", "- Ask early."),
        ("prose", "Leave policy", "- By mail."),
        ("prose", "Leave policy", "- Ask twice."),
        ("heading", "Leave policy > Table", "Table"),
        ("table", "Leave policy > Table", "| Year | Days |\n| 2024 | 25 or 26 |"),
        ("code", "Leave policy > Table", "def f():\n    return 1"),
    ]


def test_links_alone_encodings_and_tables_for_layout_are_read(read) -> None:
    links = "".join(f'<li><a href="/{i}">Page {i}</a></li>' for i in range(9))
    assert "Page 8" in read("index.html", f"<body><nav><ul>{links}</ul></nav></body>").documents[0].text
    page = '<html><head><meta charset="iso-8859-2"></head><body><p>Łódź</p></body></html>'.encode("iso-8859-2")
    assert read("a.html", page).documents[0].text == "Łódź"
    (document,) = read("a.html", "<table><tr><td><p>One.</p><p>Two.</p></td></tr></table>").documents
    assert [text for _, _, text in segment_texts(document)] == ["One.", "Two."]
