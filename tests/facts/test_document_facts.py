"""Facts of the form of documents: header fields, and lists of who attended."""

import datetime as dt
import json

import polars as pl
import pytest

from palimpsest.facts.document_facts import document_facts
from palimpsest.facts.fact import Named
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
