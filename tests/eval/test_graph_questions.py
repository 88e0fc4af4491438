"""Questions over the graph: how an answer is judged, and what is refused."""

import json
from pathlib import Path

import pytest

from palimpsest.store.home import data_folder
from palimpsest_eval.golden.golden_facts import (
    GraphQuestion,
    ResolvedGraphQuestion,
    load_graph_questions,
)
from palimpsest_eval.golden.questions import GoldenError, Quote
from palimpsest_eval.runs.measure_graph_answers import shares_text


def resolved(kind: str, *needs: str, steps: int = 1) -> ResolvedGraphQuestion:
    quotes = tuple(Quote(uri="a.md", quote=n) for n in needs)
    question = GraphQuestion(
        id="q", collection="c", kind=kind, question="?", names=("X",), steps=steps, evidence=quotes
    )
    return ResolvedGraphQuestion(question, tuple(frozenset(n.split()) for n in needs))


def test_a_relation_needs_quotes_in_the_first_five_lines_and_a_timeline_half_of_them_in_order() -> None:
    lines = [["x"], ["x"], ["x"], ["x"], ["m2", "m1"], ["m3"]]
    assert resolved("relations", "m1", "m9").is_answered(lines)
    assert not resolved("relations", "m3").is_answered(lines)
    assert resolved("relations", "m1", "m2", steps=2).is_answered(lines)
    assert not resolved("relations", "m1", "m3", steps=2).is_answered(lines)
    timeline = resolved("timeline", "m1", "m2 m2b", "m3", "m4")
    assert timeline.is_answered([["m1"], ["x"], ["m2b"]])
    assert not timeline.is_answered([["m2"], ["m1"]])
    assert not timeline.is_answered([["m4"], ["x"]])


def test_the_questions_of_both_halves_can_be_read_and_shares_are_of_each_stratum_and_all() -> None:
    halves = [load_graph_questions(data_folder() / "golden" / "graph" / f"{h}.jsonl") for h in ("development", "test")]
    assert [len(h) for h in halves] == [50, 50] and not {q.id for q in halves[0]} & {q.id for q in halves[1]}
    rows = [("c relations", "a", True, False), ("c timeline", "b", False, False)]
    assert shares_text(rows)[-1].split() == ["all", "2", "0.50", "0.00"]


@pytest.mark.parametrize(("change", "problem"), [({"kind": "why"}, "kind"), ({"evidence": []}, "evidence")])
def test_a_line_that_is_no_question_is_named(tmp_path: Path, change: dict[str, object], problem: str) -> None:
    line = {"id": "q", "collection": "c", "kind": "relations", "question": "?", "names": ["X"]}
    line |= {"evidence": [{"uri": "a.md", "quote": "w"}]} | change
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    with pytest.raises(GoldenError, match=rf"questions\.jsonl.*1.*{problem}"):
        load_graph_questions(path)
