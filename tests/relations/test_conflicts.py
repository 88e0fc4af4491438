"""Kinds of conflict: from a labeler's or a model's answer to the table."""

import datetime as dt
from types import SimpleNamespace

import pytest

from palimpsest.relations.labelers.label_pairs import label_pairs, relation_id
from palimpsest.relations.labelers.label_types import LabelPair, LabelResult
from palimpsest.relations.labelers.lm_labeler import read_answer
from palimpsest.store.decisions import Decisions, RelationOverride
from tests.relations.test_label_pairs import corpus, pairs_of

PAIR = LabelPair(
    "n", "o", "The Falcon deadline is 9 May.", "The Falcon deadline is 3 May.", dt.datetime(2026, 1, 2), None
)


def answer(label, **fields):
    return SimpleNamespace(label=label, confidence=0.9, older_quote=PAIR.older, newer_quote=PAIR.newer, **fields)


class Fixed:
    """Gives every pair one result."""

    name, program_hash, reads_together = "fixed", "p1", False

    def __init__(self, label, conflict=""):
        self.result = LabelResult(label, 0.9, conflict=conflict)

    def label(self, pairs):
        return [self.result] * len(pairs)


@pytest.mark.parametrize(
    ("label", "stated", "conflict"),
    [
        ("UPDATE", "dynamic", "dynamic"),
        ("NONE", "Static", "static"),
        ("EXTEND", "conditional", "conditional"),
        ("NONE", "none", ""),
        ("UPDATE", "static", ""),  # does not go with its label: the label is kept, the conflict is not
        ("DERIVE", "dynamic", ""),
        ("NONE", "perhaps", ""),
    ],
)
def test_a_models_answer_may_name_the_conflict(label, stated, conflict):
    result = read_answer(PAIR, answer(label, conflict=stated))
    assert (result.label, result.conflict, result.decided) == (label, conflict, True)


def test_an_answer_without_a_conflict_is_read_as_before_and_a_static_one_needs_quotes_of_both_texts():
    assert read_answer(PAIR, answer("NONE")) == LabelResult(
        "NONE", 0.9, {"rule": "lm", "older": [0, 29], "newer": [0, 29]}, labeler="dspy"
    )
    unquoted = answer("NONE", conflict="static")
    unquoted.newer_quote = "something else"
    assert read_answer(PAIR, unquoted).conflict == ""


@pytest.mark.lm
def test_an_answer_from_before_conflicts_existed_can_still_be_parsed():
    import dspy

    from palimpsest.relations.labelers.lm_labeler import signature

    fields = {"older_quote": "a", "newer_quote": "b", "label": "NONE", "confidence": "0.9"}
    text = "".join(f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in fields.items())
    assert dspy.ChatAdapter().parse(signature(), text)["conflict"] == "none"
    assert dspy.ChatAdapter().parse(signature(), text + "[[ ## conflict ## ]]\nstatic\n")["conflict"] == "static"


@pytest.mark.parametrize(
    ("label", "conflict", "stored"),
    [
        ("UPDATE", "", "dynamic"),
        ("NONE", "static", "static"),
        ("EXTEND", "conditional", "conditional"),
        ("EXTEND", "", None),
    ],
)
def test_the_conflict_is_stored_and_carried_over(label, conflict, stored):
    inputs = corpus()
    first, _ = label_pairs(pairs_of(inputs), inputs.memories, Fixed(label, conflict))
    assert set(first["conflict"]) == {stored}
    again, usage = label_pairs(pairs_of(inputs), inputs.memories, Fixed(label, conflict), first)
    assert again.equals(first) and usage["labelled"] == 0


@pytest.mark.parametrize(
    ("result", "consequence"),
    [
        (LabelResult("UPDATE", 0.9), "superseded"),
        (LabelResult("NONE", 0.5, {"rule": "model", "instead_of": "UPDATE"}, decided=False), "disputed"),
        (LabelResult("NONE", 0.9, conflict="static"), "disputed"),
        (LabelResult("NONE", 0.0, {"rule": "unpaid", "instead_of": "UPDATE"}), None),
        (LabelResult("EXTEND", 0.9, conflict="conditional"), None),
        (LabelResult("NONE", 0.9), None),
    ],
)
def test_a_label_has_one_of_three_consequences(result, consequence):
    assert result.consequence == consequence


def test_what_a_person_confirms_as_an_update_is_dynamic_and_what_is_undone_has_no_conflict():
    inputs = corpus()
    pairs = pairs_of(inputs)
    (newer, older), (newer2, older2) = pairs.select("newer_id", "older_id").rows()[:2]
    decisions = Decisions(
        relations=(
            RelationOverride(relation_id(newer, older), newer, older, "UPDATE"),
            RelationOverride(relation_id(newer2, older2), newer2, older2, "NONE"),
        )
    )
    relations, _ = label_pairs(pairs, inputs.memories, Fixed("NONE", "static"), decisions=decisions)
    found = {(n, o): c for n, o, c in relations.select("newer_id", "older_id", "conflict").iter_rows()}
    assert (found[newer, older], found[newer2, older2]) == ("dynamic", None)
