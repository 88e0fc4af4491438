"""What an update between formed memories does to the turns that they quote."""

import json

import polars as pl

from palimpsest.formation.statement_relations import add_statement_updates, without_formation
from palimpsest.relations.labelers.label_pairs import relation_id
from palimpsest.store.decisions import Decisions
from palimpsest.store.tables import conform

SCOPE = {"collection": "c", "user_id": "ana", "project_id": ""}
OLD = "I live in Lisbon and I work at Basin."
NEW = "Third weekend in Porto, and the tram is full."


def memories() -> pl.DataFrame:
    turns = [("old", "d1", 0, OLD), ("new", "d2", 100, NEW)]
    formed = [("f-old", "d1", "I live in Lisbon", "old"), ("f-new", "d2", "Third weekend in Porto", "new")]
    start = {name: (at, text) for name, _, at, text in turns}
    rows = [
        {"memory_id": i, "document_id": d, "unit": "turn", "text": t, "char_start": at, "char_end": at + len(t)}
        | {"chunk_ids": [f"chunk-{i}"]}
        for i, d, at, t in turns
    ]
    for i, d, quote, of in formed:
        at = start[of][0] + start[of][1].index(quote)
        place = {"char_start": at, "char_end": at + len(quote), "chunk_ids": [f"chunk-{of}"]}
        rows.append({"memory_id": i, "document_id": d, "unit": "reflection", "text": f"Ana: {quote}"} | place)
    return conform("memories", pl.DataFrame([SCOPE | r for r in rows]))


def relations(*rows: dict[str, object]) -> pl.DataFrame:
    default = SCOPE | {"labeler": "dspy", "program_hash": "p", "input_hash": "h", "confidence": 0.9, "evidence": "{}"}
    made = [default | {"relation_id": relation_id(r["newer_id"], r["older_id"])} | r for r in rows]
    return conform("relations", pl.DataFrame(made, infer_schema_length=None)).sort("relation_id")


FORMED = {"newer_id": "f-new", "older_id": "f-old", "label": "UPDATE"}
NONE = {"newer_id": "new", "older_id": "old", "label": "NONE"}


def found(frame: pl.DataFrame, decisions: Decisions | None = None) -> dict[str, object]:
    added = add_statement_updates(frame, memories(), decisions or Decisions())
    return next(added.filter(newer_id="new").iter_rows(named=True), {})


def test_the_newer_turn_ends_what_the_older_statement_quotes_and_the_label_of_the_turns_comes_back():
    for others in ((), (NONE,)):
        labelled = relations(FORMED, *others)
        added = add_statement_updates(labelled, memories(), Decisions())
        row = added.filter(newer_id="new").row(0, named=True)
        assert (row["label"], row["consequence"], json.loads(row["part"])) == ("UPDATE", "superseded", [[0, 16]])
        evidence = json.loads(row["evidence"])
        assert OLD[slice(*evidence["older"])] == "I live in Lisbon" and evidence["newer"] == [0, 22]
        assert without_formation(added).sort("relation_id").equals(labelled)


def test_parts_of_both_are_joined_and_the_end_of_the_whole_text_stays():
    part = json.dumps([[21, len(OLD)]])
    assert json.loads(found(relations(FORMED, NONE | {"label": "UPDATE", "part": part}))["part"]) == [
        [0, 16],
        [21, len(OLD)],
    ]
    assert found(relations(FORMED, NONE | {"label": "UPDATE"}))["part"] is None
    quoted = json.dumps({"rule": "lm", "older": [21, len(OLD)]})
    by_model = found(relations(FORMED, NONE | {"label": "UPDATE", "evidence": quoted}))
    assert json.loads(by_model["part"]) == [[0, 16], [21, len(OLD)]]


def test_what_a_person_said_of_the_turns_or_undid_of_the_statements_counts():
    assert found(relations(FORMED, NONE | {"labeler": "person"}))["label"] == "NONE"
    assert found(relations(FORMED), Decisions(undone=frozenset({relation_id("f-new", "f-old")}))) == {}
    assert found(relations(FORMED | {"label": "EXTEND"})) == {}
