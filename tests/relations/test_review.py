"""What people decide of relations: it is the label in every build, from scratch or not, until they say otherwise."""

import json

import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.needles import Needles
from palimpsest.relations.candidates import candidate_pairs
from palimpsest.relations.labelers.label_pairs import label_pairs, relation_id
from palimpsest.relations.labelers.label_types import LabelResult
from palimpsest.relations.relation_review import (
    RelationDecision,
    find_relation,
    reasons_to_stay_retired,
    review_table,
)
from palimpsest.relations.versions import versions
from palimpsest.store.decisions import RelationOverride, append_overrides, forget_overrides, read_decisions
from palimpsest.store.tables import empty
from tests.memories.frames import by_text, chunk, day, document, formed, word_vectors


class FixedLabeler:
    """A labeler of the test's own."""

    name, program_hash, reads_together = "says", "p", False

    def __init__(self, label, confidence=0.9, **evidence):
        self.answer = LabelResult(label, confidence, evidence or {"rule": "x"})

    def label(self, pairs):
        return [self.answer for _ in pairs]


def made():
    docs = [document(f"{i}.md", source_time=day(i)) for i in range(3)]
    rows = [chunk(d, f"The Falcon deadline is {t}.") for d, t in zip(docs, ("3 May", "9 May", "12 May"), strict=True)]
    inputs = formed(docs, rows)
    ids = [by_text(inputs.memories)[f"The Falcon deadline is {t}."] for t in ("3 May", "9 May", "12 May")]
    return inputs, candidate_pairs(inputs, word_vectors(inputs.memories)), ids


def decided(tmp_path, *lines):
    path = tmp_path / "decisions.jsonl"
    for kind, newer, older, label in lines:
        append_overrides(path, kind, RelationOverride(relation_id(newer, older), newer, older, label))
    return read_decisions(path)


def all_tables(inputs, relations, decisions=None):
    state = versions(inputs.memories, relations, inputs.documents, empty("document_relations"), decisions)
    return {"memories": inputs.memories, "documents": inputs.documents, "relations": relations, "versions": state}


def latest(tables):
    return set(tables["versions"].filter("is_latest")["memory_id"])


def test_an_undone_update_retires_nothing_a_later_word_wins_and_a_confirmed_part_ends_alone(tmp_path):
    inputs, pairs, (a, b, c) = made()
    every, _ = label_pairs(pairs, inputs.memories, FixedLabeler("UPDATE"))
    assert latest(all_tables(inputs, every)) == {c}
    decisions = decided(tmp_path, ("undo", c, a, "NONE"), ("undo", c, b, "EXTEND"))
    relations, usage = label_pairs(pairs, inputs.memories, FixedLabeler("UPDATE"), every, decisions)
    assert latest(all_tables(inputs, relations, decisions)) == {b, c} and usage["decided_by_people"] == 2
    decisions = decided(tmp_path, ("confirm", c, b, "UPDATE"))
    relations, _ = label_pairs(pairs, inputs.memories, FixedLabeler("NONE"), None, decisions)
    assert latest(all_tables(inputs, relations, decisions)) == {a, c}
    inputs, pairs, (a, _, c) = made()
    path = tmp_path / "parts" / "decisions.jsonl"
    path.parent.mkdir()
    override = RelationOverride(relation_id(c, a), c, a, "UPDATE", part="[[0, 10]]")
    append_overrides(path, "confirm", override)
    decisions = read_decisions(path)
    relations, _ = label_pairs(pairs, inputs.memories, FixedLabeler("NONE"), None, decisions)
    (row,) = relations.filter(pl.col("label") == "UPDATE").rows(named=True)
    assert row["part"] == "[[0, 10]]" and a in latest(all_tables(inputs, relations, decisions))


def test_what_was_decided_is_the_same_from_scratch_by_difference_and_for_what_is_no_candidate(tmp_path):
    inputs, pairs, (a, b, _) = made()
    before, _ = label_pairs(pairs, inputs.memories, FixedLabeler("UPDATE"))
    decisions = decided(tmp_path, ("undo", b, a, "NONE"))
    scratch, _ = label_pairs(pairs, inputs.memories, FixedLabeler("UPDATE"), None, decisions)
    by_difference, usage = label_pairs(pairs, inputs.memories, FixedLabeler("UPDATE"), before, decisions)
    assert scratch.equals(by_difference) and usage["labelled"] == 0
    row = scratch.filter(relation_id=relation_id(b, a)).row(0, named=True)
    assert (row["label"], row["labeler"], row["confidence"]) == ("NONE", "person", 1.0)
    inputs, pairs, (a, b, c) = made()
    decisions = decided(tmp_path, ("confirm", b, a, "UPDATE"))
    relations, _ = label_pairs(pairs.clear(), inputs.memories, FixedLabeler("NONE"), None, decisions)
    assert relations["label"].to_list() == ["UPDATE"] and latest(all_tables(inputs, relations, decisions)) == {b, c}
    gone = inputs.memories.filter(pl.col("memory_id") != a)
    assert label_pairs(pairs.clear(), gone, FixedLabeler("NONE"), None, decisions)[0].is_empty()


def test_a_delete_removes_the_decisions_about_the_memory(tmp_path):
    _, _, (a, b, c) = made()
    decided(tmp_path, ("confirm", b, a, "UPDATE"), ("undo", c, b, "NONE"))
    assert forget_overrides(tmp_path / "decisions.jsonl", Needles.of([a])) == 1
    assert [d.newer_id for d in read_decisions(tmp_path / "decisions.jsonl").relations] == [c]
    assert a not in (tmp_path / "decisions.jsonl").read_text()


def test_the_table_names_abstentions_from_update_doubt_and_lost_premises(tmp_path):
    inputs, pairs, (a, b, c) = made()
    doubt, _ = label_pairs(pairs, inputs.memories, FixedLabeler("DERIVE", 0.6))
    assert set(review_table(all_tables(inputs, doubt))["why"]) == {"low confidence"}
    decisions = decided(tmp_path, ("confirm", b, a, "UPDATE"))
    lost, _ = label_pairs(pairs, inputs.memories, FixedLabeler("DERIVE", 0.95), None, decisions)
    table = review_table(all_tables(inputs, lost, decisions))
    assert table.select("why", "older_id", "newer_id").rows() == [("premise retired", a, c)]
    abstained, _ = label_pairs(pairs, inputs.memories, FixedLabeler("NONE", 0.5, rule="abstain", instead_of="UPDATE"))
    table = review_table(all_tables(inputs, abstained))
    assert set(table["why"]) == {"disputed"} and set(table["instead_of"]) == {"UPDATE"}


def test_a_relation_is_found_by_its_id_or_memories_and_one_that_was_not_paid_labelled_again():
    inputs, pairs, (a, b, _) = made()
    relations, _ = label_pairs(pairs, inputs.memories, FixedLabeler("UPDATE"))
    tables = all_tables(inputs, relations)
    for named in ((relation_id(b, a),), (a, b), (b, a)):
        assert find_relation(tables, named).relation_id == relation_id(b, a)
    unlabelled = tables | {"relations": relations.clear()}
    assert find_relation(unlabelled, (a, b)).newer_id == b
    for wrong in (("nonesuch",), (a, "nonesuch"), (a, a)):
        with pytest.raises(PalimpsestError):
            find_relation(tables, wrong)
    inputs, pairs, _ = made()
    first, usage = label_pairs(pairs, inputs.memories, FixedLabeler("NONE", 0.0, rule="unpaid", why="budget"))
    assert usage["unpaid"] == 3 and json.loads(first["evidence"][0])["why"] == "budget"
    _, again = label_pairs(pairs, inputs.memories, FixedLabeler("NONE"), first)
    assert again["labelled"] == 3


def test_undo_reports_why_an_older_memory_stays_retired(tmp_path):
    inputs, pairs, (a, b, c) = made()
    relations, _ = label_pairs(pairs, inputs.memories, FixedLabeler("UPDATE"))
    tables = all_tables(inputs, relations) | {"document_relations": empty("document_relations")}
    taken_back = [RelationDecision(relation_id(b, a), b, a, "UPDATE", "NONE")]

    def reasons(tables, decisions):
        return list(reasons_to_stay_retired(tables, decisions, read_decisions(tmp_path / "none")).values())

    assert reasons(tables, taken_back) == [f"{c} updates it too"]
    every = [*taken_back, RelationDecision(relation_id(c, a), c, a, "UPDATE", "NONE")]
    assert reasons(tables, every) == [], "it is latest again"
    is_edited = pl.col("uri") == "0.md"
    edited = tables["documents"].with_columns(
        is_current=~is_edited, superseded_by=pl.when(is_edited).then(pl.lit("d9")).otherwise("superseded_by")
    )
    assert reasons(tables | {"documents": edited}, every) == ["its source was edited since"] * 2
    gone = edited.with_columns(superseded_by=pl.lit(None, pl.String))
    assert reasons(tables | {"documents": gone}, every) == ["its source no longer has it"] * 2
    assert reasons(tables, [RelationDecision(relation_id(b, a), b, a, "UPDATE", "UPDATE")]) == []
