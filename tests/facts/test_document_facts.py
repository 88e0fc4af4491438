"""Facts of the form of documents: header fields, lists of who attended, action items, tables and versions."""

import datetime as dt
import json
import re

import polars as pl
import pytest

from palimpsest.facts.document_facts import document_facts
from palimpsest.facts.fact import Mentioned, Named
from palimpsest.store.tables import conform

SCOPE = {"collection": "notes", "user_id": "ana", "project_id": ""}


def stated(*texts: str, heading: str = "", **metadata: str) -> set[tuple[str, str, str]]:
    """Returns (memory, predicate, value) of one document about `t`, with a memory for each text."""
    rows = [
        {
            "memory_id": f"m{n}",
            "document_id": "d",
            "unit": "chunk",
            "ordinal": n,
            "text": t,
            "heading": heading,
            **SCOPE,
        }
        for n, t in enumerate(texts)
    ]
    about = {"document_id": "d", "is_current": True, "metadata": json.dumps(metadata), **SCOPE}
    documents = conform("documents", pl.DataFrame([about | {"source_time": dt.datetime(2026, 3, 4, tzinfo=dt.UTC)}]))
    named = {r["memory_id"]: Named([], {}, topic="t", topic_name="T") for r in rows}
    found = list(document_facts(conform("memories", pl.DataFrame(rows)), documents, named))
    assert all(f.subject == "t" and 0 <= f.start < f.end <= len(texts[int(m[1:])]) for m, f in found)
    return {(m, f.predicate, f.value) for m, f in found}


def test_header_fields_are_facts_of_the_first_memory():
    fields = {"document_status": "Accepted", "document_author": "[Ana Brandt](@ana), Jonas Feld <j@example.org>"}
    assert stated("One.", "Two.", **fields) == {
        ("m0", "status", "Accepted"),
        ("m0", "written_by", "Ana Brandt"),
        ("m0", "written_by", "Jonas Feld"),
        ("m0", "dated", "2026-03-04"),
    }


def test_a_day_of_review_is_not_the_day_of_a_document():
    assert stated("One.", last_reviewed_at="2026-03-04T17:00:00Z") == set()


@pytest.mark.parametrize(
    ("text", "heading", "names"),
    [
        (
            "## Present\n\n* Ana Brandt (@ana)\n* [Jonas Feld](https://example.org)\n\n## Agenda\n\n* Next Steps\n",
            "",
            2,
        ),
        ("Attendees:\n- Ana Brandt\n- Jonas Feld - regrets for the end\n", "", 2),
        ("* Ana Brandt\n* Jonas Feld\n", "Board > Attendees", 2),
        ("**In attendance**\n\n1. Ana Brandt\n2. everybody else\n", "", 1),
        ("## Agenda\n\n* Ana Brandt\n", "", 0),
        ("We were present.\n\n* Ana Brandt\n", "", 0),
    ],
)
def test_lists_of_who_attended_name_one_person_an_item(text, heading, names):
    expected = {("m0", "attended_by", name) for name in ("Ana Brandt", "Jonas Feld")[:names]}
    assert {s for s in stated(text, heading=heading) if s[1] == "attended_by"} == expected


def of_form(text: str, people: str = "", heading: str = "", **types: str) -> set[tuple[str, str, str]]:
    """Returns (subject, predicate, value or object) of one memory without a topic.

    Args:
        text: of the memory.
        people: names of persons that it mentions, with commas between them; their ids are the names.
        heading: of the memory.
        types: of other entities by name, `_` for a space.
    """
    kinds = dict.fromkeys(filter(None, people.split(", ")), "person")
    kinds |= {name.replace("_", " "): kind for name, kind in types.items()}
    mentions = [Mentioned(n, m.start(), m.end()) for n in kinds for m in re.finditer(rf"\b{re.escape(n)}\b", text)]
    row = {
        "memory_id": "m",
        "document_id": "d",
        "unit": "chunk",
        "ordinal": 0,
        "text": text,
        "heading": heading,
        **SCOPE,
    }
    about = conform("documents", pl.DataFrame([{"document_id": "d", "is_current": True, "metadata": "{}", **SCOPE}]))
    found = document_facts(conform("memories", pl.DataFrame([row])), about, {"m": Named(mentions, kinds)})
    return {(f.subject, f.predicate, f.value or f.object_entity) for _, f in found}


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("Ana Brandt (@abrandt, Corvid Labs)", {("handle", "@abrandt"), ("member_of", "Corvid Labs")}),
        ("Ana Brandt (@abrandt) - TSC", {("handle", "@abrandt"), ("member_of", "TSC")}),
        ("@abrandt - Ana Brandt", {("handle", "@abrandt")}),
        ("**Ana Brandt** ([@abrandt](https://example.org/Abrandt))", {("handle", "@abrandt")}),
        ("Ana Brandt, Corvid", {("member_of", "Corvid")}),
        ("Ana Brandt (Corvid / Heron)", {("member_of", "Corvid"), ("member_of", "Heron")}),
        ("Ana Brandt (Scribe, remote)", set()),
        ("Ana Brandt (Corvid Chair) - Regrets for the end", set()),
        ("[ ] Ana Brandt (@abrandt)", set()),
        ("~~Ana Brandt~~ (@abrandt)", set()),
    ],
)
def test_an_attendee_has_a_handle_and_a_group(item, expected):
    found = of_form(f"## Present\n\n- {item}\n", "Ana Brandt", Corvid="name")
    assert found == {("Ana Brandt", *fact) for fact in expected}


PRESENT = "## Present\n\n- Ana Brandt (@abrandt)\n- Jonas Feld\n- Ida Ray\n- Ida Holm\n\n## Notes\n\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- Ana to ask the harbour about berths", {("Ana Brandt", "ask the harbour about berths")}),
        ("- @abrandt will be sending the plan. Nobody objected.", {("Ana Brandt", "sending the plan")}),
        ("- Ana and team will come back with a price", {("Ana Brandt", "come back with a price")}),
        ("- AB - will write the report", {("Ana Brandt", "write the report")}),
        ("- Jonas is going to look into the leak", {("Jonas Feld", "look into the leak")}),
        ("- Jonas will merge it", set()),
        (
            "- Next steps: Ana + Jonas to meet Bo\n  on the quay",
            {("Ana Brandt", "meet Bo on the quay"), ("Jonas Feld", "meet Bo on the quay")},
        ),
        ("- **Action:** (Jonas) to open an issue", {("Jonas Feld", "open an issue")}),
        ("- Action items\n  - letter must be sent - Ana\n", {("Ana Brandt", "letter must be sent")}),
        ("## Action items\n\n- Paint the buoys: jonas", {("Jonas Feld", "Paint the buoys")}),
        ("## To-do\n\n- [x] Jonas: Paint the buoys", {("Jonas Feld", "Paint the buoys")}),
        ("- Marten Oort to paint the buoys", {("Marten Oort", "paint the buoys")}),
        ("- Ida to paint the buoys", set()),
        ("- Maintainers to paint the buoys", set()),
        ("- Ana to the rescue", set()),
        ("- Ana will not paint the buoys", set()),
        ("- Ana, is the plan to paint the buoys?", set()),
        ("- Paint the buoys: Jonas", set()),
        ("## Next steps\n\n- Jonas: We should wait", set()),
        ("```\n- Ana to paint the buoys\n```", set()),
    ],
)
def test_action_items_say_who_is_responsible(text, expected):
    found = of_form(PRESENT + text, "Ana Brandt, Jonas Feld, Ida Ray, Ida Holm, Marten Oort")
    assert {(who, task) for who, predicate, task in found if predicate == "responsible_for"} == expected


def test_a_long_task_is_cut_between_words():
    (task,) = {
        value for _, p, value in of_form(f"- Ana Brandt to paint {'buoys ' * 40}", "Ana Brandt") if p != "handle"
    }
    assert len(task) <= 120 and task.endswith("buoys …")


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            "| Group | Key Contacts | Date |\n|---|---|---|\n| Quays | Ana Brandt, [Jonas Feld](@jf) | May 2025 |\n"
            "| All crews | Cranes, Buoys | - |",
            {("Ana Brandt", "member_of", "Quays"), ("Jonas Feld", "member_of", "Quays")},
        ),
        (
            "Name | Role | GitHub | E-mail\n:--|--|--|--:\n**Ana Brandt** | Treasurer | abrandt | <a@example.org>\n"
            "Heron | Database | N/A | -",
            {
                ("Ana Brandt", "works_as", "Treasurer"),
                ("Ana Brandt", "handle", "@abrandt"),
                ("Ana Brandt", "email", "a@example.org"),
            },
        ),
        (
            "| Task | Owner | Due |\n|---|---|---|\n| Paint the buoys | Jonas Feld | May |\n| Heron | crew | TBD |",
            {("Jonas Feld", "responsible_for", "Paint the buoys")},
        ),
        (
            "| Project | Status | Lead | Due date | Minimum version | Notes |\n|---|---|---|---|---|---|\n"
            "| Heron | Deprecated | Ana Brandt | 4 May 2025 | ≥ 3.9 | late |\n| Unknown | Draft | Jonas Feld | | | |",
            {
                ("Heron", "status", "Deprecated"),
                ("Ana Brandt", "leads", "Heron"),
                ("Heron", "due", "4 May 2025"),
                ("Heron", "version", ">= 3.9"),
            },
        ),
        ("| Project | Status |\n| Heron | Deprecated |", set()),
        ("| Project | Status |\n|---|---|\n| Heron | it depends |\n| Heron | Draft | more |", set()),
    ],
)
def test_headers_of_tables_say_what_columns_are(table, expected):
    assert of_form(table, "Ana Brandt, Jonas Feld", Heron="thing") == expected


def test_a_table_of_reviewers_is_about_the_document():
    text = "| **Reviewed by** | Date |\n|---|---|\n| Ana Brandt | 4 May |\n| name | date |\n| | |\n"
    assert {s for s in stated(text) if s[1] == "reviewed_by"} == {("m0", "reviewed_by", "Ana Brandt")}


@pytest.mark.parametrize(
    ("item", "version"),
    [
        ("- Heron ≥ 12 (2019)", ">= 12"),
        ("- Heron >= v3.9.1", ">= 3.9.1"),
        ("* **Heron** 18 or later", ">= 18"),
        ("1. Heron 3.9+ - for the tests", ">= 3.9"),
        ("- Heron >= 12 is faster", None),
        ("- `Heron >= 12`", None),
        ("- old Heron >= 12", None),
        ("- Heron 12", None),
        ("Heron >= 12", None),
    ],
)
def test_requirements_state_a_minimum_version(item, version):
    assert of_form(f"{item}\n", Heron="thing") == ({("Heron", "version", version)} if version else set())
