import datetime as dt
from dataclasses import replace

import numpy as np
import pytest

from palimpsest.query.ranking.scoring import prior_scores, recency
from palimpsest.query.reader import open_index
from palimpsest.query.request.strategies import NAMED, STRATEGIES, Weights
from palimpsest.query.request.types import Scope
from palimpsest.query.scope.scope_arrays import Priors
from tests.query.made import at, memory, tables, write

DAY = 86_400.0
ANA = Scope("notes", "ana")
TEXTS = ("The lamp stands in the attic.", "The lamp stands in the cellar.", "Bees make honey.")


def make_priors(observed, importance=None, support=None):
    size = len(observed)
    return Priors(
        np.array(observed, float),
        np.array([np.nan] * size if importance is None else importance, float),
        np.array([0] * size if support is None else support),
    )


def test_what_is_as_old_as_most_is_half_as_new_as_the_newest_and_undated_is_neither():
    # ages 0, 10, 20, 30 and 40 days: the median is 20
    days = np.array([40.0, 30.0, 20.0, 10.0, 0.0, np.nan]) * DAY
    assert recency(days).tolist() == pytest.approx([1.0, 2**-0.5, 0.5, 2**-1.5, 0.25, 0.5])
    # asked on day 20: of 0, 10 and 20 the median is 10; what came later is new, and counts for no median
    assert recency(days, 20 * DAY).tolist() == [1.0, 1.0, 1.0, 0.5, 0.25, 0.5]
    assert recency(days, -DAY).tolist() == [1.0] * 5 + [0.5]
    assert recency(np.array([np.nan, np.nan])).tolist() == [0.5, 0.5]


def test_terms_are_weighed_and_centred_over_the_candidates_alone():
    priors = make_priors([np.nan] * 4, importance=[1.0, np.nan, 0.0, 0.9], support=[0, 1, 3, 99])
    rows = np.array([0, 1, 2])
    # support 0, 1 and 3 count 0, 1/2 and 3/4: mean 5/12
    found = prior_scores(priors, rows, Weights(frequency=2.0))
    assert found.tolist() == pytest.approx([-10 / 12, 2 / 12, 8 / 12, 0.0])
    assert prior_scores(priors, rows, Weights(importance=1.0)).tolist() == pytest.approx([0.5, 0.0, -0.5, 0.0])
    assert prior_scores(priors, rows, Weights(recency=1.0)).tolist() == [0.0] * 4
    endless = make_priors([np.nan] * 3, importance=[np.inf, -np.inf, 7.0])
    found = prior_scores(endless, np.arange(3), Weights(importance=3.0))
    assert found.tolist() == pytest.approx([1.0, -2.0, 1.0])  # as 1, 0 and 1
    assert prior_scores(priors, rows[:0], Weights(recency=1.0)).tolist() == [0.0] * 4


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_any_strategy_can_prefer_what_is_new(tmp_path, strategy):
    made = tables([memory(f"m{i}", t, observed_at=at(f"2024-0{i + 1}-01")) for i, t in enumerate(TEXTS)])
    write(made, tmp_path / "index.duckdb")
    with open_index(tmp_path / "index.duckdb") as reader:
        plain, new = (
            [m.memory_id for m in reader.search("Where is the lamp?", ANA, strategy=weights).memories]
            for weights in (STRATEGIES[strategy], replace(STRATEGIES[strategy], recency=50.0))
        )
    assert plain[0] in ("m0", "m1") and new == ["m2", "m1", "m0"]


def test_a_collections_weights_are_those_of_auto_and_leave_named_strategies_as_they_are(tmp_path):
    made = tables([memory(f"m{i}", t, observed_at=at(f"2024-0{i + 1}-01")) for i, t in enumerate(TEXTS)])
    write(made, tmp_path / "index.duckdb", strategies={"notes": "hybrid"}, weights={"notes": {"recency": 50.0}})
    with open_index(tmp_path / "index.duckdb") as reader:
        assert reader.backend.collections()["notes"].weights == {"recency": 50.0}
        found = {s: reader.search("Where is the lamp?", ANA, strategy=s).memories[0] for s in ("auto", "hybrid")}
        then = reader.search("Where is the lamp?", ANA, now=dt.date(2024, 1, 15)).memories[0]
    assert found["auto"].memory_id == "m2" and found["hybrid"].memory_id != "m2"
    assert then.memory_id == "m0"  # the others are not known yet


def test_what_came_later_does_not_change_how_what_was_known_is_ranked(tmp_path):
    first = [memory(f"m{i}", t, observed_at=at(f"2024-0{i + 1}-01")) for i, t in enumerate(TEXTS)]
    later = [memory(f"n{i}", "The van is red.", observed_at=at(f"202{i + 5}-01-01")) for i in range(4)]
    weights, scored = Weights(words=0.0, vector=1e-9, scorer="alone", recency=1.0), []
    for name, memories in (("before", first), ("after", first + later)):
        write(tables(memories), tmp_path / name)
        with open_index(tmp_path / name) as reader:
            found = reader.search("lamp", ANA, strategy=weights, as_of=dt.date(2024, 3, 1)).memories
        scored.append({m.memory_id: round(m.score, 4) for m in found})
    assert scored[0] == scored[1] and scored[0]["m2"] > scored[0]["m1"] > scored[0]["m0"]


def test_every_named_weight_is_one_of_the_composites():
    assert all(isinstance(getattr(Weights(), name), float) for name in NAMED)


def test_explain_lists_each_term_as_it_was_on_the_day_of_the_question(tmp_path):
    made = tables([memory(f"m{i}", t, observed_at=at(f"2024-0{i + 1}-01")) for i, t in enumerate(TEXTS)])
    write(made, tmp_path / "i.duckdb")
    with open_index(tmp_path / "i.duckdb") as reader:
        options = {"strategy": Weights(recency=1.0, importance=1.0), "explain": True}
        today, then, plain = (
            {m.memory_id: m.why for m in reader.search("lamp", ANA, **(options | more)).memories}
            for more in ({}, {"as_of": dt.date(2024, 2, 1)}, {"strategy": "hybrid"})
        )
    # ages 0, 29 and 60 days: the median is 29
    assert "newness 1.00, importance 0.50)" in today["m2"] and "newness 0.50, importance" in today["m1"]
    assert "newness 0.98," not in today["m1"] and "m2" not in then and "support" not in today["m2"]
    assert all("newness" not in why for why in plain.values())
