"""Precision and recall of extracted facts against golden ones."""

import json

import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.store.tables import conform, empty
from palimpsest_eval.golden.golden_facts import StatedFact, matches, read_passages
from palimpsest_eval.runs.measure_facts import measure_facts

SCOPE = {"collection": "notes", "user_id": "ana", "project_id": ""}
TEXT = "Basin is led by Ana Brandt. The deadline is 4 May."


def tables() -> dict[str, pl.DataFrame]:
    rows = {
        "documents": [{"document_id": "d", **SCOPE, "uri": "a.md"}],
        "document_texts": [{"document_id": "d", "text": f"# Basin\n\n{TEXT} Basin likes cake."}],
        "memories": [
            {"memory_id": "m", **SCOPE, "document_id": "d", "text": f"# Basin\n\n{TEXT} Basin likes cake.",
             "char_start": 0, "char_end": 80}
        ],
        "entities": [
            {"entity_id": "b", **SCOPE, "name": "Basin", "type": "organisation", "aliases": []},
            {"entity_id": "a", **SCOPE, "name": "Ana Brandt", "type": "person", "aliases": ["Ana"]},
        ],
        "clause_facts": [
            fact("a", "leads", "b", None, "Basin is led by Ana Brandt"),
            fact("b", "deadline", None, "4 May", "The deadline is 4 May"),
            fact("b", "cost", None, "4 May", "The deadline is 4 May"),
            fact("b", "like", None, "cake", "Basin likes cake"),
        ],
    }  # fmt: skip
    found = {name: conform(name, pl.DataFrame(r, infer_schema_length=None)) for name, r in rows.items()}
    return {**found, "speakers": empty("speakers")}


def fact(subject: str, predicate: str, target: str | None, value: str | None, clause: str) -> dict[str, object]:
    start = f"# Basin\n\n{TEXT} Basin likes cake.".index(clause)
    span = {"char_start": start, "char_end": start + len(clause)}
    ends = {"subject_id": subject, "predicate": predicate, "object_id": target, "value": value}
    return {"memory_id": "m", **SCOPE, **ends, **span, "is_negated": False, "modality": "stated", "confidence": 0.9}


def test_precision_and_recall_by_hand():
    passage = {
        "id": "p", "collection": "notes", "uri": "a.md", "text": TEXT,
        "facts": [
            {"subject": "Ana Brandt", "predicate": "leads", "object": "Basin", "core": True},
            {"subject": "Basin", "predicate": "due", "also": ["deadline"], "value": "4 May"},
            {"subject": "Basin", "predicate": "size", "value": "huge", "core": True},
            {"subject": "Basin", "predicate": "have", "value": "deadline", "optional": True},
        ],
    }  # fmt: skip
    lost = {**passage, "id": "lost", "text": "Not in the build."}
    metrics = measure_facts(tables(), [passage, lost])
    counts = metrics.counts["notes"]
    # Of three facts in the passage two are right; `likes cake` is outside it. One of three golden facts is missed.
    assert (counts.extracted, counts.right, counts.right_but_predicate) == (3, 2, 3)
    assert (counts.golden, counts.found, counts.core, counts.core_found) == (3, 2, 2, 1)
    assert metrics.to_json()["all"]["precision"] == 0.6667 and metrics.absent == ["lost"]
    assert "missed  p  Basin | size | huge" in metrics.text(with_errors=True)


@pytest.mark.parametrize(
    ("subject", "predicate", "filler", "expected"),
    [
        ("Ana Brandt", "leads", "Basin", True),
        ("Basin", "leads", "Ana", True),  # between two names, in either direction
        ("Ana", "head", "the Basin works", True),
        ("Ana", "head", "the long wall of the old works on the far side of Basin", False),
        ("Ana", "owns", "Basin", False),
        ("Maria", "leads", "Basin", False),
    ],
)
def test_what_counts_as_the_same_fact(subject, predicate, filler, expected):
    golden = {"subject": "Ana Brandt", "predicate": "leads", "object": "Basin"}
    stated = StatedFact((subject,), predicate, (filler,), False, 0.9)
    assert matches(stated, golden) is expected
    assert not matches(stated, {**golden, "negated": True})


def test_a_line_without_its_fields_is_named(tmp_path):
    path = tmp_path / "facts.jsonl"
    path.write_text(
        json.dumps({"id": "a", "collection": "n", "uri": "b", "text": "c", "facts": [{"subject": "d"}]}) + "\n"
    )
    with pytest.raises(PalimpsestError, match=r"line 1: .*subject, predicate"):
        read_passages(path)
    with pytest.raises(PalimpsestError, match="no such file"):
        read_passages(tmp_path / "none.jsonl")
