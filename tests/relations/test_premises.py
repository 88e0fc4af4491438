"""Derived memories name all their premises: which are found, what is left alone, and how builds carry them."""

import json
from pathlib import Path

import polars as pl
import pytest

from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.pipeline.stages import indexed_tables
from palimpsest.relations import premise_relations
from palimpsest.relations.premise_relations import find_conclusion, find_premises, without_premises
from palimpsest.relations.premise_statements import Amount, ScopeStatements, Statement, amounts, computations
from palimpsest.relations.relation_review import TABLES, decide, review_table
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home
from palimpsest_eval.gate.invariants import check_invariants
from tests.small_corpus import write_notes

BUDGET = "The project Stoat receives a budget of 180,000 euros."
SPENT = "Of the budget, 64,000 euros have been spent on the tube and its tooling."
LEFT = "That leaves 116,000 euros for electronics and trials."
NOTES = {
    "board.md": f"---\ndate: 2026-03-01\n---\n{BUDGET} The canteen closes at three.\n",
    "stoat.md": f"---\ndate: 2026-04-16\n---\nThe tube is made of glass. {SPENT} {LEFT}\n",
}


def premises_of(*lines: tuple[str, str]) -> dict[str, set[str]]:
    """Returns the premises by conclusion, of (document, text) in the order of their days."""
    documents = [document for document, _ in lines]
    rows = [
        Statement(text, text, documents.index(document), documents.index(document), (0, i), True)
        for i, (document, text) in enumerate(lines)
    ]
    return {found.memory_id: set(found.premise_ids) for found in find_premises(ScopeStatements(rows, {}, {}))}


def build(tmp_path: Path, vectors: Path, notes: dict[str, str]) -> tuple[Home, Build]:
    home = Home(tmp_path / "home", vectors)
    corpus = write_notes(tmp_path / "corpus", notes, unit="statement", user_id="ann")
    return home, run_without_dagster(home, make_plan(home, [corpus]))


def derived(build: Build) -> dict[tuple[str, str], dict[str, object]]:
    """Returns the evidence of each DERIVE by the texts of its memories."""
    texts = dict(build.table("notes", "memories").select("memory_id", "text").iter_rows())
    rows = build.table("notes", "relations").filter(label="DERIVE").select("newer_id", "older_id", "evidence")
    return {(texts[n], texts[o]): json.loads(evidence) for n, o, evidence in rows.iter_rows()}


@pytest.mark.parametrize(
    ("result", "left", "right", "operation"),
    [
        ("116,000 euros", "180,000 euros", "64,000 euros", "-"),
        ("34,200 euros", "3.80 euros", "9,000 cells", "*"),
        ("ten days", "two days", "five probes", "*"),
        ("587 Otters", "2350 cells", "four cells", "/"),
        ("12 June", "12 September", "nine months", "+"),
    ],
)
def test_amounts_are_computed_in_their_units(result, left, right, operation):
    (found,) = computations(amounts(result), amounts(left), amounts(right))
    assert found.operation == operation and found.result in amounts(result)


def test_amounts_of_other_units_digits_of_identifiers_and_ordinals_are_not_computed_with():
    assert computations(amounts("30 euros"), amounts("20 kilograms"), amounts("10 days")) == []
    assert computations(amounts("30 euros"), amounts("20 euros"), amounts("10 kilograms")) == []
    assert amounts("PO-5630 on the 30th") == frozenset()
    assert (Amount("money", 24_000.0).digits, Amount("duration", 864_000.0).digits) == (2, 1)


@pytest.mark.parametrize("text", ["So it needs firmware 4.1.", "It follows that Badger will be down.", LEFT])
def test_a_conclusion_is_marked_by_its_words(text):
    assert find_conclusion(text).is_marked


@pytest.mark.parametrize(
    "text",
    ["So glad you came!", "It hangs there so that I see it.", "Since 2 March all builds run here.", "So what is it?"],
)
def test_other_uses_of_the_words_mark_no_conclusion(text):
    found = find_conclusion(text)
    assert found is None or not found.is_marked


def test_premises_are_those_of_a_difference_older_and_not_replaced_and_no_small_counts():
    found = premises_of(("a", BUDGET), ("a", "The canteen closes at three."), ("b", SPENT), ("b", LEFT))
    assert found == {LEFT: {BUDGET, SPENT}}
    assert premises_of(("b", SPENT), ("b", LEFT), ("c", BUDGET)) == {}
    rows = [
        Statement(text, text, day, day, (0, i), True)
        for i, (day, text) in enumerate(
            [(0, BUDGET), (1, "The budget of Stoat is 190,000 euros."), (2, SPENT), (2, LEFT)]
        )
    ]
    assert list(find_premises(ScopeStatements(rows, {}, {BUDGET: {rows[1].memory_id}}))) == []
    assert (
        premises_of(("a", "The shed has 4 doors."), ("b", "The gate has 5 bolts."), ("b", "So the boat has 9 oars."))
        == {}
    )


def test_premises_without_amounts_share_a_term_that_the_conclusion_lacks():
    speaks, rule = "It still speaks to Punt.", "Herons built before 2022 need firmware 4.1 to speak to Ferry."
    concluded = "So it needs firmware 4.1 before anything else."
    others = [("c", f"The {word} is painted on Mondays.") for word in ("fence", "gate", "shed", "boat", "wall")]
    found = premises_of(("a", rule), *others, ("b", speaks), ("b", concluded))
    assert found == {concluded: {rule, speaks}}
    assert premises_of(("a", rule), *others, ("b", "It is blue."), ("b", concluded)) == {}


def without_labels(found):
    """Without what the labeler said, which read another candidate beside them."""
    return {pair: {k: v for k, v in evidence.items() if k != "labeled"} for pair, evidence in found.items()}


def test_a_build_names_every_premise_and_the_next_one_carries_them_over(tmp_path, shared_vectors):
    _, first = build(tmp_path, shared_vectors, NOTES)
    found = derived(first)
    assert set(found) == {(LEFT, BUDGET), (LEFT, SPENT)}
    ids = {text: m for m, text in first.table("notes", "memories").select("memory_id", "text").iter_rows()}
    assert found[LEFT, BUDGET]["premises"] == [ids[SPENT]] and found[LEFT, SPENT]["premises"] == [ids[BUDGET]]
    assert found[LEFT, SPENT]["computed"] == "180000 - 64000 = 116000"
    assert first.table("notes", "versions")["is_latest"].all()
    assert check_invariants(first.tables(indexed_tables())) == []

    more = NOTES | {"other.md": "The fence is painted on Mondays.\n"}
    _, second = build(tmp_path, shared_vectors, more)
    numbers = second.manifest.stages["notes"]["relations"].numbers
    assert without_labels(derived(second)) == without_labels(found) and numbers["premises"] == 2
    restored = without_premises(second.table("notes", "relations"))
    assert restored.filter(label="DERIVE").is_empty()
    assert restored.filter(pl.col("evidence").str.contains("premises")).is_empty()
    (tmp_path / "other").mkdir()
    _, from_scratch = build(tmp_path / "other", shared_vectors, more)
    assert from_scratch.table("notes", "relations").equals(second.table("notes", "relations"))


@pytest.mark.slow
def test_only_scopes_where_something_changed_are_searched_again(tmp_path, shared_vectors, monkeypatch):
    in_heron = {f"heron-{name}": text.replace("---\n", "---\nproject_id: heron\n", 1) for name, text in NOTES.items()}
    notes = NOTES | in_heron
    build(tmp_path, shared_vectors, notes)
    searched = []
    search = premise_relations.find_premises
    monkeypatch.setattr(premise_relations, "find_premises", lambda scope: searched.append(scope) or search(scope))
    more = notes | {"heron-other.md": "---\nproject_id: heron\n---\nThe fence is painted on Mondays.\n"}
    _, second = build(tmp_path, shared_vectors, more)
    (scope,) = searched
    assert "The fence is painted on Mondays." in {row.text for row in scope.rows} and len(scope.rows) == 6
    (tmp_path / "other").mkdir()
    _, from_scratch = build(tmp_path / "other", shared_vectors, more)
    relations = second.table("notes", "relations")
    assert relations.filter(label="DERIVE").height == 4
    assert from_scratch.table("notes", "relations").equals(relations)


@pytest.mark.slow
def test_a_retired_premise_is_reviewed_and_a_deleted_one_leaves_nothing(tmp_path, shared_vectors):
    home, _ = build(tmp_path, shared_vectors, NOTES)
    _, edited = build(
        tmp_path, shared_vectors, {**NOTES, "board.md": "---\ndate: 2026-03-01\n---\nThe canteen closes at three.\n"}
    )
    review = review_table(edited.tables(TABLES))
    assert review.filter(why="premise retired").select("newer", "older").rows() == [(LEFT, BUDGET)]

    assert delete(home, document="board.md").memories
    assert derived(published(home)) == {}


def test_what_a_person_undid_stays_undone_and_the_others_name_it_no_more(tmp_path, shared_vectors):
    home, first = build(tmp_path, shared_vectors, NOTES)
    ids = {text: m for m, text in first.table("notes", "memories").select("memory_id", "text").iter_rows()}
    decide(home, "undo", [(ids[LEFT], ids[BUDGET])], None)
    _, second = build(tmp_path, shared_vectors, NOTES)
    ((pair, evidence),) = derived(second).items()
    assert pair == (LEFT, SPENT) and "premises" not in evidence
