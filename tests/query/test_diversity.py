import numpy as np
import pytest

from palimpsest.query.ranking.merge import diversify
from palimpsest.query.ranking.rank import Candidate
from palimpsest.query.reader import open_index
from palimpsest.query.request.strategies import STRATEGIES, Weights
from palimpsest.query.request.types import Filters, Memory, Scope
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.served_scope import ServedScope
from tests.query.made import memory, tables, write

ANA = Scope("notes", "ana")
TEXTS = {"a": "owls hunt mice", "b": "owls hunt mice", "c": "owls hunt bats", "d": "bees hum"}
MEMORIES = {ANA: {i: Memory(i, "notes", "ana", text) for i, text in TEXTS.items()}}


def candidates(diversity=1.0, **scores):
    query = ScopeQuery(ServedScope(None, ANA, Filters()), "w", np.zeros(384), ["w"], Weights(diversity=diversity))
    return [(query, Candidate(i, score, 0.5, 1.0, score)) for i, score in scores.items()]


def test_the_next_result_is_the_one_that_adds_most():
    # after a: b says all of it again (1), c two words of four (1/2), d nothing
    found = diversify(candidates(a=4.0, b=3.9, c=3.8, d=3.2), MEMORIES, 3)
    assert [(c.memory_id, c.score) for _, c in found] == [("a", 4.0), ("c", pytest.approx(3.3)), ("d", 3.2)]
    # b repeats a wholly, and its score is reduced by that
    assert [c.memory_id for _, c in diversify(candidates(a=4.0, b=3.9, d=2.0), MEMORIES, 3)] == ["a", "b", "d"]


def test_without_weight_and_among_equals_the_order_stays():
    best = candidates(0.0, a=4.0, b=4.0, c=3.8, d=3.2)
    assert diversify(best, MEMORIES, 4) == best
    assert diversify([], MEMORIES, 4) == []


def test_a_collection_may_ask_for_diversity_and_results_stay_in_the_order_of_their_scores(tmp_path):
    texts = ["The owls hunt mice.", "The owls hunt mice!", "Owls hunt.", "Bees hum at noon.", "Owls nest in barns."]
    made = tables([memory(f"m{i}", t) for i, t in enumerate(texts)])
    write(made, tmp_path / "i.duckdb", strategies={"notes": "hybrid"}, weights={"notes": {"diversity": 5.0}})
    with open_index(tmp_path / "i.duckdb") as reader:
        plain = reader.search("Do the owls hunt mice?", ANA, k=3, strategy="hybrid", all_results=True).memories
        apart = reader.search("Do the owls hunt mice?", ANA, k=3, all_results=True).memories
    assert {m.memory_id for m in plain[:2]} == {"m0", "m1"}
    assert apart[0].memory_id == plain[0].memory_id and len({"m0", "m1"} & {m.memory_id for m in apart}) == 1
    assert [m.score for m in apart] == sorted((m.score for m in apart), reverse=True)


def test_no_strategy_has_diversity_by_default():
    assert all(w.diversity == 0 for w in STRATEGIES.values())
