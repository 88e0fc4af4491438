"""What documents state of themselves above their body, in the templates that people use."""

import datetime as dt
import io
from dataclasses import replace

import docx
import pytest

from palimpsest.sources.extracted import ExtractedDocument
from palimpsest.sources.readers.document_head import update_document_head

NYGARD = """# 3. Use the Skua queue

Date: 2021-08-10

## Status

{status}

## Context

Orders get lost. Status: Rejected
Replaces: 7
"""


def stated(document: ExtractedDocument) -> tuple[str, list[tuple[str, str]]]:
    """Returns the status in the text of a document, and its relations."""
    relations = [(r.other_uri, r.label) for r in document.relations]
    return str(document.metadata.get("document_status", "")), relations


def day(document: ExtractedDocument) -> str:
    return f"{document.source_time:%Y-%m-%d}" if document.source_time else ""


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("Accepted", ("Accepted", [])), ("**Deprecated**", ("Deprecated", [])), ("_Withdrawn_", ("Withdrawn", [])),
        (
            "Accepted\n\nSupercedes [1. Use paper](0001-use-paper.md)\n\nAmended by [8. Till](0008-till.md)",
            ("Accepted", [("d/0001-use-paper.md", "UPDATE")]),
        ),
        (
            "Superseded by [9. Use Tern](0009-use-tern.md)",
            ("Superseded by 9. Use Tern", [("d/0009-use-tern.md", "UPDATED_BY")]),
        ),
        (
            "Accepted\n\nSuperseded by [9. Use Tern](0009-use-tern.md)",
            ("Superseded by 9. Use Tern", [("d/0009-use-tern.md", "UPDATED_BY")]),
        ),
        ("Proposed\n\nReplaces ADR-1", ("Proposed", [("adr-1", "EXTEND")])),
        ("[proposed | accepted | superseded by [ADR-5](0005-x.md)]", ("", [])), ("Draft / Final / Postponed", ("", [])),
        ("<!-- Accepted -->", ("", [])), ("The lamp of the till shows it.", ("", [])),
    ],
)  # fmt: skip
def test_a_status_section(read, status, expected) -> None:
    (document,) = read("d/0003-skua.md", NYGARD.format(status=status)).documents
    assert stated(document) == expected
    assert (document.title, day(document)) == ("3. Use the Skua queue", "2021-08-10")


@pytest.mark.parametrize(
    "head",
    [
        "* Status: superseded by [ADR-12](0012-tern.md)\n* Deciders: Ann, Bo\n* Date: 2020-09-26\n",
        "- Status: superseded by [0012-tern](0012-tern.md)\n- Date: 2020-09-26\n",
        "**Status**: Superseded by [Tern](0012-tern.md)\n\n**Date**: 26 September 2020\n",
        "**Status:** Superseded by [Tern](./0012-tern.md)  \n**Decision date:** 2020-09-26 (with the board)\n",
        "Status: Superseded\nSuperseded by: [Tern](0012-tern.md)\nDate: Saturday, September 26, 2020\n",
        "Date: 2020-09-26\nSuperseded: 2024-05-01 by [ADR 12](0012-tern.md)\n",
        "| Status | Superseded by [Tern](0012-tern.md) |\n|---|---|\n| Date | 2020-09-26 |\n",
        "| Status | Date | By |\n|---|---|---|\n| Superseded by [Tern](0012-tern.md) | 2020-09-26 | Ann |\n",
        "<table>\n<tr><td> Status </td><td>Superseded by 0012-tern.md</td>\n"
        "<tr><td>Date</td><td>2020-09-26</td></tr>\n</table>\n",
        "A till that counts.\n\n- Date: 2020-09-26\n- Status: Superseded by [Tern](0012-tern.md)\n",
        "## Status: Superseded by [Tern](0012-tern.md)\n\n## Date\n\n2020-09-26\n",
        "## Superseded by\n\n- [Tern](0012-tern.md)\n\n## Date\n\n2020-09-26\n",
    ],
)
def test_a_head_of_fields(read, head) -> None:
    (document,) = read("0003-skua.md", f"# Use Skua\n\n{head}\n## Context\n\nWords.\n").documents
    assert [(r.other_uri, r.label) for r in document.relations] == [("0012-tern.md", "UPDATED_BY")]
    assert (document.title, day(document)) == ("Use Skua", "2020-09-26")


@pytest.mark.parametrize(
    ("history", "last"),
    [
        (
            "## History\n\n| Date | What |\n|---|---|\n| Feb 28th 2022 | Draft |\n| Oct 6th 2022 | Done |\n",
            "2022-10-06",
        ),
        ("## Revision history\n\n- 2022-02-28: draft\n- 2022-10-06 - final\n", "2022-10-06"),
        ("## History\n\nThe till was bought on 6 October 2022.\n", "2020-09-26"),
        ("## Context\n\n- 2022-10-06: we met.\n", "2020-09-26"),
    ],
)
def test_the_last_entry_of_a_history_dates_a_document(read, history, last) -> None:
    (document,) = read("skua.md", f"# Use Skua\n\nDate: 2020-09-26\n\n## Summary\n\nWords.\n\n{history}").documents
    assert day(document) == last


def test_a_status_section_below_the_others_a_pep_and_an_rfc(read) -> None:
    text = "# Use Skua\n\n## Context\n\nIn the context of tills.\n\n## Status\n\nDeprecated by [000](0000-tern.md)\n"
    assert stated(read("y.md", text).documents[0]) == ("Deprecated by 000", [("0000-tern.md", "UPDATED_BY")])
    head = (
        "MEP: 600\nTitle: Cooling of\n       the __grain__ store\nAuthor: Ann Roe <ann@mill>,\n        Bo Lind\n"
        "Status: Final\nCreated: 05-Feb-2018\nPost-History: 06-Feb-2018,\n              07-Mar-2018\n"
        "Replaces: 571, 513\nSuperseded-By: 700\n\n\nAbstract\n========\n\nStatus: Rejected\n"
    )
    (document,) = read("mep-0600.rst", head).documents
    assert document.title == "Cooling of the __grain__ store"
    assert day(document) == "2018-02-05"
    assert stated(document) == ("Final", [("513", "UPDATE"), ("571", "UPDATE"), ("700", "UPDATED_BY")])
    head = (
        "Mill Working Group                                           A. Roe\n"
        "Request for Comments: 7230                                The Mill\n"
        "Obsoletes: 2145, 2616                                      B. Lind\n"
        "Updates: 2817                                             The Barn\n"
        "Category: Standards Track                                June 2014\n\n\n"
        "             The Flow of Grain:\n                  Routing\n\nAbstract\n\n   Grain flows.\n"
    )
    (document,) = read("rfc7230.txt", head).documents
    assert (document.title, day(document)) == ("The Flow of Grain: Routing", "2014-06-01")
    assert stated(document)[1] == [("2145", "UPDATE"), ("2616", "UPDATE")]


@pytest.mark.parametrize(
    ("front", "relations"),
    [
        ("status: superseded by [ADR-12](0012-tern.md)", [("a/0012-tern.md", "UPDATED_BY")]),
        ("status: Withdrawn\nwithdrawal-reason: Superseded by EIP-77.", [("eip-77", "UPDATED_BY")]),
        ("superseded_by: 0012-tern.md\nstatus: Superseded", [("0012-tern.md", "UPDATED_BY")]),
        ("superseded-by: [12, 13]", [("12", "UPDATED_BY"), ("13", "UPDATED_BY")]),
        ("supersededBy: ./0012-tern.md", [("a/0012-tern.md", "UPDATED_BY")]),
        ("replaces:\n  - /keeps/sig-mill/34-sluice\nsuperseded-by:\n  - n/a", [("keeps/sig-mill/34-sluice", "UPDATE")]),
        ("obsoletes: 3\nrequires: 4", [("3", "UPDATE"), ("4", "EXTEND")]),
        ("status: draft\nreplaces: 3", [("3", "EXTEND")]),
        ("updates: 3", []),
    ],
)
def test_front_matter(read, front, relations) -> None:
    extraction = read("a/b.md", f"---\n{front}\ncreated: 2020-01-02\n---\n# B\n\nStatus: Final\nDate: 2024-01-01\n")
    (document,) = extraction.documents
    assert [(r.other_uri, r.label) for r in document.relations] == relations
    assert day(document) == "2020-01-02" and not extraction.problems


def test_toml_front_matter_and_broken_toml_that_never_hides_whose_it_is(read) -> None:
    front = (
        'title = "Tern"\ndate = 2023-02-01\nreplaces = ["0003-skua.md"]\nuser_id = "ann"\n[extra]\ncolour = "blue"\n'
    )
    (document,) = read("b.md", f"+++\n{front}+++\n\nWords.\n").documents
    assert (document.title, day(document), document.user_id, document.text) == ("Tern", "2023-02-01", "ann", "Words.\n")
    assert stated(document)[1] == [("0003-skua.md", "UPDATE")]
    assert document.metadata["extra"] == {"colour": "blue"}
    extraction = read("b.md", "+++\ntitle = \n+++\n\nWords.\n")
    assert "not valid TOML" in extraction.problems[0] and extraction.documents[0].text.startswith("+++")
    with pytest.raises(Exception, match="it states user_id"):
        read("c.md", '+++\nuser_id = "ann"\ntitle = \n+++\n\nWords.\n')


@pytest.mark.parametrize(
    "text",
    [
        "# Lamps\n\n## Parts\n\nStatus: Deprecated\nDate: 2020-01-01\nReplaces: 3\n",
        "# Lamps\n\nThe field\nStatus: Deprecated\nof a lamp is\nReplaces: 3\n",
        "# Lamps\n\nName: Red\nStatus: retired\n\nName: Blue\nStatus: active\nReplaces: 3\n",
        "# Lamps\n\n```\nStatus: Deprecated\nDate: 2020-01-01\nReplaces: 3\n```\n",
        "# Lamps\n\n" + "A lamp.\n\n" * 40 + "Status: Deprecated\nReplaces: 3\n",
        "# Lamps\n\n## Parts\n\n### Bulb\n\n#### Status\n\nDeprecated, replaces 3\n",
    ],
)
def test_prose_lists_code_and_sections_state_nothing(read, text) -> None:
    (document,) = read("lamps.md", text).documents
    assert stated(document) == ("", []) and not document.source_time


def test_a_title_and_a_day_in_the_text_count_more_than_name_and_properties_of_the_file(read) -> None:
    assert read("a.txt", "Title: Minutes of the mill\nDate: 3 May 2024\n\nWords.\n").documents[0].title == (
        "Minutes of the mill"
    )
    assert read("a.md", "# Own\n\nTitle: Other\n\nWords.\n").documents[0].title == "Own"
    assert read("a-b.txt", "Title: [short title]\n\nWords.\n").documents[0].title == "a b"
    assert day(read("2020-01-01 notes.md", "# Notes\n\nDate: 2021-02-03\n\nWords.\n").documents[0]) == "2021-02-03"
    made, file = docx.Document(), io.BytesIO()
    made.core_properties.modified = dt.datetime(2025, 1, 1)
    for text in ("Date: 3 May 2024", "Title: Minutes of the mill", "Words."):
        made.add_paragraph(text)
    made.save(file)
    (document,) = read("a.docx", file.getvalue()).documents
    assert (document.title, day(document)) == ("Minutes of the mill", "2024-05-03")


def test_a_day_that_may_be_two_is_a_problem_where_nothing_else_dates_the_document(read) -> None:
    assert read("a.md", "# A\n\nDate: 04/05/2026\n\nWords.\n").problems[0].startswith("head of the text: '04/05/2026'")
    assert not read("2026-05-04.md", "# A\n\nDate: 04/05/2026\n\nWords.\n").problems
    assert not read("b.md", "# A\n\nDate: to be done\n\nWords.\n").problems
    dated = read("a.md", "# A\n\nCreated: 2019-01-01\nDate: 04/05/2026\n\nWords.\n").documents[0]
    assert dated.source_time == dt.datetime(2019, 1, 1, tzinfo=dt.UTC)


def test_an_edit_of_the_text_changes_what_it_states(read) -> None:
    text = NYGARD.format(status="Accepted\n\nReplaces [1](0001-paper.md)")
    (before,) = read("d/0003-skua.md", f"---\nrequires: 4\n---\n{text}").documents
    edited = text.replace("2021-08-10", "2022-01-01").replace("Replaces [1](0001-paper.md)", "Superseded by ADR-9")
    (expected,) = read("d/0003-skua.md", f"---\nrequires: 4\n---\n{edited}").documents
    after = update_document_head(before, replace(before, text=expected.text, segments=expected.segments))
    assert after == expected and stated(after)[1] == [("4", "EXTEND"), ("adr-9", "UPDATED_BY")]
