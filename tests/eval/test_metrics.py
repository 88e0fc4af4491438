import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.core.errors import PalimpsestError
from palimpsest_eval.metrics import MEASURES, MetricError, evaluate, percentiles, summarise


def ranked(*ids):
    return [(i, 0.0) for i in ids]


def test_binary_and_graded_metrics_equal_hand_computed_values():
    scores = evaluate({"q": ranked("a", "b", "c", "e", "f", "h")}, {"q": {"b": 1, "e": 1, "g": 1}})
    got = scores.per_query["q"]
    assert got["P@5"] == pytest.approx(2 / 5)
    assert got["R@5"] == got["R@10"] == pytest.approx(2 / 3)
    assert got["Hit@5"] == 1.0
    assert got["MRR@10"] == pytest.approx(1 / 2)
    gain = 1 / math.log2(3) + 1 / math.log2(5)
    ideal = 1 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert got["nDCG@10"] == pytest.approx(gain / ideal, abs=1e-9)
    scores = evaluate({"q": ranked("x", "y", "z")}, {"q": {"y": 3, "z": 1, "w": 2, "x": 0}})
    gain = 3 / math.log2(3) + 1 / math.log2(4)
    ideal = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    assert scores.mean["nDCG@10"] == pytest.approx(gain / ideal, abs=1e-9)
    assert scores.mean["R@5"] == pytest.approx(2 / 3)
    assert scores.mean["MRR@10"] == pytest.approx(1 / 2), "a grade of 0 is not relevant"


def test_a_cut_off_cuts_and_ties_keep_the_given_order():
    found = ranked(*"abcdefghij", "late")
    got = evaluate({"q": found}, {"q": {"f": 1, "late": 1}}, ("R@5", "R@10", "MRR@5", "MRR@10", "Hit@5")).mean
    assert got == {"R@5": 0.0, "R@10": 0.5, "MRR@5": 0.0, "MRR@10": pytest.approx(1 / 6), "Hit@5": 0.0}
    assert evaluate({"q": [("a", 0.5), ("z", 0.5)]}, {"q": {"a": 1}}, ["MRR@10"]).mean["MRR@10"] == 1.0
    assert evaluate({"q": [("z", 0.5), ("a", 0.5)]}, {"q": {"a": 1}}, ["MRR@10"]).mean["MRR@10"] == 0.5


def test_a_judged_query_without_results_counts_as_zero_and_one_that_was_not_judged_is_left_out():
    scores = evaluate({"q1": ranked("a")}, {"q1": {"a": 1}, "q2": {"b": 1}})
    assert scores.per_query["q2"] == dict.fromkeys(MEASURES, 0.0)
    assert scores.mean["R@5"] == 0.5
    assert evaluate({}, {"q2": {"b": 1}}).mean["R@5"] == 0.0
    assert evaluate({"q2": []}, {"q2": {"b": 1}}).mean["R@5"] == 0.0
    assert set(evaluate({"q1": ranked("a"), "other": ranked("a")}, {"q1": {"a": 1}}).per_query) == {"q1"}
    with pytest.raises(MetricError, match="twice"):
        evaluate({"q": ranked("a", "a")}, {"q": {"a": 1}})


@pytest.mark.parametrize("qrels", [{}, {"q": {}}, {"q": {"a": 0}}])
def test_no_judged_query_is_an_error(qrels):
    with pytest.raises(MetricError):
        evaluate({"q": ranked("a")}, qrels)


@pytest.mark.parametrize("name", ["recall", "R@", "R@0", "ndcg@10", "R@5 "])
def test_an_unknown_measure_is_named(name):
    with pytest.raises(PalimpsestError, match="use P@k"):
        evaluate({"q": ranked("a")}, {"q": {"a": 1}}, [name])


@pytest.mark.parametrize("values", [{}, {"q": {"R@5": math.nan}}, {"q": {"R@5": 1.0}, "p": {}}])
def test_a_mean_over_nothing_or_nan_is_an_error(values):
    with pytest.raises(MetricError):
        summarise(values)


def test_percentiles_are_values_that_were_measured():
    assert percentiles([float(i) for i in range(1, 101)]) == {"p50": 50.0, "p95": 95.0, "p99": 99.0}
    assert percentiles([7.0]) == {"p50": 7.0, "p95": 7.0, "p99": 7.0}
    for bad in ([], [math.nan]):
        with pytest.raises(MetricError):
            percentiles(bad)


@given(
    st.lists(st.permutations("abcdefgh"), min_size=1, max_size=4),
    st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 4), min_size=1), min_size=4, max_size=4),
)
def test_metrics_equal_their_definitions(rankings, judged):
    run = {str(i): ranked(*r) for i, r in enumerate(rankings)}
    qrels = {str(i): judged[i] for i in range(len(rankings))}
    got = evaluate(run, qrels, ("P@3", "R@3", "Hit@3", "nDCG@3", "MRR@3")).per_query
    for i, order in enumerate(rankings):
        grades = judged[i]
        hits = [d in grades for d in order[:3]]
        dcg = sum(grades.get(d, 0) / math.log2(r + 2) for r, d in enumerate(order[:3]))
        ideal = sum(g / math.log2(r + 2) for r, g in enumerate(sorted(grades.values(), reverse=True)[:3]))
        first = next((1 / (r + 1) for r, hit in enumerate(hits) if hit), 0.0)
        want = {
            "P@3": sum(hits) / 3, "R@3": sum(hits) / len(grades), "Hit@3": float(any(hits)), "nDCG@3": dcg / ideal,
            "MRR@3": first,
        }  # fmt: skip
        assert got[str(i)] == pytest.approx(want, abs=1e-9)
