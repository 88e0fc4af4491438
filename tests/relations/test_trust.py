"""Trust: what is trusted less never retires what is trusted more; it is proposed, and a person's word wins."""

import json

import polars as pl
import pytest

from palimpsest.index.graph_tables import linking_relations
from palimpsest.relations.labelers.label_pairs import label_pairs, relation_id
from palimpsest.relations.labelers.label_types import LabelResult
from palimpsest.relations.labelers.low_trust import REVIEW_REASONS, refuse_low_trust
from palimpsest.relations.relation_review import find_relation, review_table
from palimpsest.relations.versions import refused_replacements, versions
from palimpsest.store.decisions import Decisions, RelationOverride
from palimpsest.store.tables import empty
from tests.memories.frames import documents
from tests.relations.test_review import FixedLabeler, all_tables, latest, made
from tests.relations.test_versions import dated, frame, memory


def trusted(inputs, **trust):
    """Returns the memories with trust by their place in `made`, 0 to 2."""
    order = inputs.memories.sort("observed_at")["memory_id"].to_list()
    values = {order[int(name.removeprefix("m"))]: value for name, value in trust.items()}
    return inputs.memories.with_columns(
        trust=pl.col("memory_id").replace_strict(values, default=0.5, return_dtype=pl.Float64)
    )


class Counting(FixedLabeler):
    def __init__(self, label="UPDATE"):
        super().__init__(label, 0.9, rule="slot:deadline", older=[0, 3], newer=[0, 3])
        self.pairs = 0

    def label(self, pairs):
        self.pairs += len(pairs)
        return super().label(pairs)


def labelled(memories, pairs, labeler, *more):
    return label_pairs(pairs, memories, labeler, *more)


def tables(inputs, memories, relations, decisions=None):
    state = versions(memories, relations, inputs.documents, empty("document_relations"), decisions)
    return all_tables(inputs, relations, decisions) | {"memories": memories, "versions": state}


def test_a_less_trusted_update_retires_nothing_and_is_proposed():
    inputs, pairs, (_, b, c) = made()
    memories = trusted(inputs, m2=0.2)
    relations, usage = labelled(memories, pairs, Counting())
    assert latest(tables(inputs, memories, relations)) == {b, c}  # b replaced a; c replaced neither
    refused = relations.filter(newer_id=c).row(0, named=True)
    found = refused["label"], refused["conflict"], refused["consequence"], usage["low_trust"], usage["UPDATE"]
    assert found == ("NONE", None, "disputed", 2, 1)
    assert json.loads(refused["evidence"]) == {
        "rule": "low trust",
        "instead_of": "UPDATE",
        "newer_trust": 0.2,
        "older_trust": 0.5,
        "label_evidence": {"rule": "slot:deadline", "older": [0, 3], "newer": [0, 3]},
    }
    rows = review_table(tables(inputs, memories, relations))
    # a is retired by b: only what is open is proposed.
    assert rows.select("why", "rank", "instead_of", "conflict", "newer_id", "older_id").rows() == [
        ("low trust", REVIEW_REASONS.index("low trust") + 1, "UPDATE", None, c, b)
    ]


@pytest.mark.parametrize("newer_trust", [0.5, 0.9])
def test_equal_or_higher_trust_replaces(newer_trust):
    inputs, pairs, (_, _, c) = made()
    memories = trusted(inputs, m2=newer_trust)
    relations, _ = labelled(memories, pairs, Counting())
    assert latest(tables(inputs, memories, relations)) == {c} and set(relations["conflict"]) == {"dynamic"}


def test_only_an_update_needs_trust_and_memories_of_builds_without_are_trusted_alike():
    inputs, pairs, _ = made()
    memories = trusted(inputs, m2=0.0)
    relations, usage = labelled(memories, pairs, Counting("EXTEND"))
    assert set(relations["label"]) == {"EXTEND"} and usage["low_trust"] == 0
    inputs, pairs, (_, _, c) = made()
    memories = inputs.memories.with_columns(trust=pl.lit(None, pl.Float64))
    relations, _ = labelled(memories, pairs, Counting())
    assert latest(tables(inputs, memories, relations)) == {c}
    assert refuse_low_trust(relations.clear(), memories).is_empty()


def test_another_trust_labels_nothing_again_and_equals_a_build_from_scratch():
    inputs, pairs, (_, b, c) = made()
    plain, low = inputs.memories, trusted(inputs, m2=0.2)
    first, _ = labelled(plain, pairs, Counting())
    previous = first
    for memories, expected in ((low, {b, c}), (trusted(inputs, m2=0.1), {b, c}), (plain, {c})):
        labeler = Counting()
        previous, usage = labelled(memories, pairs, labeler, previous)
        scratch, _ = labelled(memories, pairs, Counting())
        assert previous.equals(scratch) and (labeler.pairs, usage["labelled"]) == (0, 0)
        assert latest(tables(inputs, memories, previous)) == expected
    assert previous.equals(first)


def test_what_a_person_confirmed_wins_and_an_undo_takes_it_back():
    inputs, pairs, (_, b, c) = made()
    memories = trusted(inputs, m2=0.2)
    relations, _ = labelled(memories, pairs, Counting())
    found = find_relation(tables(inputs, memories, relations), (relation_id(c, b),))
    assert (found.label, found.instead_of, found.consequence) == ("NONE", "UPDATE", "disputed")
    for label, expected in (("UPDATE", {c}), ("NONE", {b, c})):
        decisions = Decisions(relations=(RelationOverride(relation_id(c, b), c, b, label),))
        relations, usage = labelled(memories, pairs, Counting(), relations, decisions)
        both = tables(inputs, memories, relations, decisions)
        assert latest(both) == expected and usage["labelled"] == 0
        assert review_table(both).is_empty()


def test_a_pair_that_no_model_answered_is_asked_again_whatever_its_trust():
    inputs, pairs, _ = made()
    memories = trusted(inputs, m2=0.2)
    unpaid, _ = labelled(memories, pairs, FixedLabeler("NONE", 0.0, rule="unpaid", why="budget"))
    _, usage = labelled(memories, pairs, FixedLabeler("UPDATE"), unpaid)
    assert usage["labelled"] == 3 and usage["low_trust"] == 2


def test_a_static_conflict_is_disputed_until_a_person_decided_or_one_side_is_retired():
    inputs, pairs, (a, b, c) = made()
    static = FixedLabeler("NONE")
    static.answer = LabelResult("NONE", 0.8, {"rule": "model"}, conflict="static")
    relations, _ = labelled(inputs.memories, pairs, static)
    assert linking_relations(
        relations, inputs.memories
    ).is_empty()  # the newer, which may be wrong, is not lifted above the older
    rows = review_table(tables(inputs, inputs.memories, relations))
    assert set(rows["why"]) == {"disputed"} and set(rows["conflict"]) == {"static"} and rows.height == 3
    assert latest(tables(inputs, inputs.memories, relations)) == {a, b, c}
    kept = Decisions(relations=(RelationOverride(relation_id(c, b), c, b, "NONE"),))
    relations, _ = labelled(inputs.memories, pairs, static, relations, kept)
    assert review_table(tables(inputs, inputs.memories, relations, kept)).height == 2
    updated = Decisions(relations=(RelationOverride(relation_id(c, b), c, b, "UPDATE"),))
    relations, _ = labelled(inputs.memories, pairs, static, relations, updated)
    rows = review_table(tables(inputs, inputs.memories, relations, updated))
    assert rows.select("newer_id", "older_id").rows() == [(c, a)]


def replaced(docs, rows, *stated):
    stated = frame(
        "document_relations",
        [{"collection": "c", "user_id": "u", "newer_uri": n, "older_uri": o, "label": "UPDATE"} for n, o in stated],
    )
    memories = frame("memories", rows)
    state = versions(memories, empty("relations"), documents(*docs), stated)
    return set(state.filter("is_latest")["memory_id"]), refused_replacements(memories, documents(*docs), stated)


def test_a_stated_replacement_by_a_less_trusted_document_is_reported_and_retires_nothing():
    a, b = dated("a", 1, trust=0.8), dated("b", 2, trust=0.3)
    rows = [memory(a, "A", trust=0.8), memory(b, "B", trust=0.3)]
    found, refused = replaced([a, b], rows, ("b", "a"))
    assert found == {"A", "B"}
    assert refused.select("newer_uri", "older_uri", "newer_trust", "older_trust", "memories").rows() == [
        ("b", "a", 0.3, 0.8, 1)
    ]
    found, refused = replaced([a, b], rows, ("a", "b"))
    assert found == {"A"} and refused.is_empty()


def test_only_what_is_trusted_more_stays_of_a_replaced_document_and_a_circle_blocks_nothing():
    a, b = dated("a", 1, trust=0.3), dated("b", 2, trust=0.5)
    rows = [memory(a, "Ana", trust=0.9), memory(a, "Bot", 1, trust=0.3), memory(b, "B", trust=0.5)]
    found, refused = replaced([a, b], rows, ("b", "a"))
    assert found == {"Ana", "B"} and refused["memories"].to_list() == [1]
    a, b = dated("a", 1, trust=0.2), dated("b", 2, trust=0.8)
    rows = [memory(a, "A", trust=0.2), memory(b, "B", trust=0.8)]
    found, refused = replaced([a, b], rows, ("b", "a"), ("a", "b"))
    assert found == {"B"} and refused["newer_uri"].to_list() == ["a"]
    a, b, c = dated("a", 1, trust=0.8), dated("b", 2, trust=0.3), dated("c", 3, trust=0.8)
    rows = [memory(d, d["uri"].upper(), trust=d["trust"]) for d in (a, b, c)]
    found, _ = replaced([a, b, c], rows, ("b", "a"), ("c", "a"))
    assert found == {"B", "C"}
