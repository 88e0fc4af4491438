"""What a document says of itself, and how its parts hang together: Markdown, reStructuredText and AsciiDoc."""

from collections.abc import Callable
from datetime import date

import pytest

from palimpsest.memories.chunks import chunk_documents
from palimpsest.memories.form import form_memories
from palimpsest.sources.extracted import ExtractedDocument
from palimpsest.sources.find_secrets import find_secrets
from palimpsest.sources.readers.markdown import read_markdown_text
from palimpsest.sources.storage_policy import redact_document
from palimpsest.text.markup import shown_words
from tests.memories import frames

Statements = list[tuple[str, str | None]]


@pytest.fixture
def document(read) -> Callable[[str, str], ExtractedDocument]:
    """Reads one text into its document, and checks that segments are in order and inside of the text."""

    def read_one(name: str, text: str) -> ExtractedDocument:
        (found,) = read(name, text.encode()).documents
        edges = [0, *(edge for s in found.segments for edge in (s.char_start, s.char_end)), len(found.text)]
        assert edges == sorted(edges)
        return found

    return read_one


@pytest.fixture
def statements(document) -> Callable[[str, str], Statements]:
    """Returns the statements of a text with their paths, each an exact quote of the stored text."""

    def cut(name: str, text: str) -> Statements:
        found = document(name, text)
        chunks = chunk_documents([found], "statement")[0]
        assert all(found.text[c.char_start : c.char_end] == c.text for c in chunks)
        return [(c.text, c.heading) for c in chunks]

    return cut


NYGARD = "# 9. Tide tables\n\nDate: 2021-08-10\n\n## Status\n\nAccepted\n\n## Decision\n\nWe buy the tables.\n"
MADR = (
    "# Buy the tables\n\n* Status: accepted\n* Deciders: Mara, Olu\n* Date: 2021-08-10\n\n## Outcome\n\nWe buy them.\n"
)
TABLE = (
    "# Buy the tide tables\n\n| | |\n|---|---|\n| Date | 2021-08-10 |\n| Status | Approved |\n| Author | Mara Oye |\n\n"
    "We buy them.\n"
)
RUST = "- Feature Name: tides\n- Start Date: 2021-08-10\n- RFC PR: #12\n\n# Summary\n\nTides are read.\n\n# Open\n"
PEP = (
    "PEP: 9001\nTitle: Tides in the calendar\nAuthor: Mara Oye <mara at example.org>,\n        Olu Ade\nStatus: Draft\n"
    "Type: Informational\nCreated: 10-Aug-2021\nPost-History: 11-Aug-2021,\n              12-Aug-2021\n\n"
    "Abstract\n========\n\nTides are read hourly.\n"
)
NEP = (
    "===========\nNEP 7 Tides\n===========\n\n:Author: Mara Oye\n:Status: Draft\n:Created: 2021-08-10\n\nTides rise.\n"
)
TOML = '+++\ntitle = "Tides"\ndate = 2021-08-10\n+++\n\nTides rise.\n'
SECTION = "# Harbour board\n\n## Date\n\n10 August 2021\n\n## Notes\n\nThe crane is repaired.\n"
ADOC = "= Tides\n:author: Mara Oye\n:revdate: 2021-08-10\n\n// to be checked\nTides rise.\n"
UPDATED = "# 9. Tides\n\nDate: 2019-05-13, updated 2021-08-10 (new port)\n\nWe buy the tables.\n"


@pytest.mark.parametrize(
    ("name", "text", "title", "status", "kept"),
    [
        ("9.md", NYGARD, "9. Tide tables", "Accepted", ["We buy the tables."]),
        ("9.md", MADR, "Buy the tables", "accepted", ["Deciders: Mara, Olu", "We buy them."]),
        ("9.md", TABLE, "Buy the tide tables", "Approved", ["We buy them."]),
        ("0009-tides.md", RUST, "0009 tides", None, ["Tides are read."]),
        ("9.rst", PEP, "Tides in the calendar", "Draft", ["Tides are read hourly."]),
        ("9.rst", NEP, "NEP 7 Tides", "Draft", ["Tides rise."]),
        ("9.md", TOML, "Tides", None, ["Tides rise."]),
        ("9.md", SECTION, "Harbour board", None, ["The crane is repaired."]),
        ("9.adoc", ADOC, "Tides", None, ["Tides rise."]),
        ("9.md", UPDATED, "9. Tides", None, ["We buy the tables."]),
        (
            "2021-08-10.md",
            "# Harbour board\n\nThe crane is repaired.\n",
            "Harbour board",
            None,
            ["The crane is repaired."],
        ),
    ],
)
def test_the_head_of_a_document_is_metadata_and_no_text(document, statements, name, text, title, status, kept) -> None:
    found = document(name, text)
    assert found.source_time is not None
    assert (found.source_time.date(), found.title) == (date(2021, 8, 10), title)
    assert found.metadata.get("document_status") == status
    assert [words for words, _ in statements(name, text)] == kept


def test_authors_and_tags_of_a_head_are_metadata(document) -> None:
    found = document("9.md", "# Tides\n\nAuthors: Mara Oye, Olu Ade\nTags: sea, harbour\n\nTides rise.\n")
    assert found.metadata == {"document_author": "Mara Oye, Olu Ade", "document_tags": "sea, harbour"}


def test_what_is_said_in_the_section_of_a_field_is_text(statements) -> None:
    text = (
        "# Tides\n\n## Status\n\nAccepted\n\nThe port of Lome has asked for one more year.\n\n## Why\n\nShips wait.\n"
    )
    assert [words for words, _ in statements("9.md", text)] == [
        "The port of Lome has asked for one more year.",
        "Ships wait.",
    ]


def test_a_text_of_nothing_but_fields_is_text(statements) -> None:
    assert statements("9.md", "Status: accepted\n") == [("Status: accepted", None)]


def test_a_field_of_a_list_item_is_not_of_the_document(document) -> None:
    found = document("9.md", "# Board\n\n* The crane\n  * Status: rejected\n* The quay\n")
    assert "document_status" not in found.metadata


MINUTES = """# Harbour board

Present:

* Mara Oye
<!-- * Olu Ade -->
* Ben Sy <!-- by phone -->

## Agenda

* Crane on pier 4 [#12](https://example.org/issues/12)
  * Mara: it looks like it needs a new motor
  * Votes:
    * Ben: in favour

    He pays the half of it.
* [ ] Ben asks [the yard](https://example.org/yard) for a price

### Open

## Next

Monday.
"""


def test_comments_are_no_text_and_lines_keep_their_numbers() -> None:
    text = read_markdown_text(MINUTES + "\n`<!-- shown -->`\n\n```\n<!-- shown too -->\n```\n").text
    assert "Olu" not in text
    assert "by phone" not in text
    assert "<!-- shown -->" in text
    assert "<!-- shown too -->" in text
    assert text.count("\n", 0, text.index("## Agenda")) == MINUTES.count("\n", 0, MINUTES.index("## Agenda"))


def test_a_list_item_carries_the_items_and_headings_that_it_is_under(statements) -> None:
    board, crane = "Harbour board", "Harbour board > Agenda > Crane on pier 4 #12"
    assert statements("board.md", MINUTES) == [
        ("Mara Oye", f"{board} > Present"),
        ("Ben Sy", f"{board} > Present"),
        ("Crane on pier 4 [#12](https://example.org/issues/12)", f"{board} > Agenda"),
        ("Mara: it looks like it needs a new motor", crane),
        ("Ben: in favour", f"{crane} > Votes"),
        ("He pays the half of it.", f"{crane} > Votes"),
        ("[ ] Ben asks [the yard](https://example.org/yard) for a price", f"{board} > Agenda"),
        ("Monday.", f"{board} > Next"),
    ]


def test_restructured_text_carries_lists_terms_and_directives(statements) -> None:
    text = (
        "Tides\n=====\n\n.. a comment\n.. _anchor:\n\nWe looked at two ports:\n\n- Lome\n\n  - it silts up\n\n"
        "lock\n  A gate for ships.\n\n.. versionadded:: 3\n   Locks are listed.\n\n.. note:: Mind the gap.\n\n"
        ".. code-block:: text\n\n   open()\n\n.. [1] Port book, page 4.\n"
    )
    assert statements("9.rst", text) == [
        ("Lome", "Tides > We looked at two ports"),
        ("it silts up", "Tides > We looked at two ports > Lome"),
        ("A gate for ships.", "Tides > lock"),
        ("Locks are listed.", "Tides"),
        ("Mind the gap.", "Tides"),
        ("   open()", "Tides"),
        ("Port book, page 4.", "Tides"),
    ]


def test_each_part_of_a_long_table_has_its_header(statements) -> None:
    header = "| berth | depth of water | unit |\n|---|---|---|\n"
    rows = "".join(f"| berth {n} of the inner harbour | {n + 5} | metres |\n" for n in range(90))
    parts = [text for text, _ in statements("9.md", f"# Berths\n\n{header}{rows}")]
    assert len(parts) > 2
    assert all(part.startswith(header) for part in parts)
    assert sum(part.count("inner harbour") for part in parts) == 90


def test_parts_of_a_table_of_restructured_text_have_its_first_row_in_their_path(statements) -> None:
    border = "======================= =====\n"
    rows = "".join(f"berth {n:02} of the harbour {n + 5}\n" for n in range(90))
    found = statements("9.rst", f"Berths\n======\n\n{border}berth                   depth\n{border}{rows}{border}")
    assert len(found) > 1
    assert {path for _, path in found[1:]} == {"Berths > berth | depth"}


@pytest.mark.parametrize("unit", ["statement", "chunk", "turn"])
def test_a_heading_alone_is_no_memory(document, unit) -> None:
    found = document("9.md", "# Tides\n\nThey rise.\n\n# Later\n\n## Empty\n")
    assert all("Empty" not in c.text or "They rise" in c.text for c in chunk_documents([found], unit)[0])
    assert chunk_documents([document("8.md", "# Tides\n\n## Empty\n")], unit) == [[]]


def test_addresses_are_no_words_and_the_text_of_links_is() -> None:
    assert shown_words("See [the yard](https://example.org/a_(b)) and <https://example.org/c>.") == "See the yard and ."
    assert shown_words("`The yard <https://example.org>`_ is open: https://example.org/x.") == "The yard is open: ."
    assert shown_words("- [x] paid") == "- paid"
    assert shown_words("a[i](x)") == "a[i](x)"
    doc = frames.document("a.md", title="")
    texts = ("The wiki: https://example.org/wiki", "https://example.org/only")
    rows = frames.chunks(*(frames.chunk(doc, text, n) for n, text in enumerate(texts)))
    memories, inputs = form_memories(frames.documents(doc), rows, frames.config())
    assert sorted(memories["text"]) == sorted(texts)
    assert sorted(inputs["text"]) == ["The wiki: ", "https://example.org/only"]


@pytest.mark.parametrize(
    "text",
    [
        "See the [1Password account](https://start.1password.com/x1).",
        "For a tolerance of 5 %, pass tol=0.05 to it.",
        "The cost of this pass is *O(len(code))*.",
        'if given == "p4ssw0rd": stop()',
        "password: !secret camera_2_password",
        "row 1 4444455555555556 columns",
        "## Test vectors\n\naes-secret = 80e8632c05fed6fc2a13b0f8d31a3cf645366239170ea067065aba8e28bac487",
    ],
)
def test_documentation_is_not_redacted(text) -> None:
    assert find_secrets(text) == []


def test_a_key_below_another_heading_than_test_vectors_is_a_secret() -> None:
    key = "aes-secret = 80e8632c05fed6fc2a13b0f8d31a3cf645366239170ea067065aba8e28bac487"
    assert find_secrets(f"## Test vectors\n\nNone.\n\n## Production\n\n{key}")


def test_a_redaction_names_the_line_of_the_file(document) -> None:
    found = document("9.md", "---\ntitle: Keys\n---\n\nThe admin password is hunter2!x9.\n")
    assert [r.line for r in redact_document(found)[1]] == [5]


def test_list_items_do_not_divide_the_chunks_of_a_section(document) -> None:
    items = "".join(f"- Berth {n}:\n  - deep\n  - wide\n" for n in range(12))
    (chunk,) = chunk_documents([document("9.md", f"# Berths\n\nWe list them.\n\n{items}")], "chunk")[0]
    assert (chunk.heading, chunk.text.count("deep")) == ("Berths", 12)
