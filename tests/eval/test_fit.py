import pytest

from palimpsest.query.request.strategies import Spreading, Weights
from palimpsest_eval.studies.fit import GRID, fit, variations

QUESTIONS = [f"q{i}" for i in range(40)]


def test_a_value_that_helps_everywhere_is_chosen_in_every_fold_and_judged_on_held_out_questions():
    def score(weights):
        return dict.fromkeys(QUESTIONS, 0.5 + 0.2 * (weights.words == 1.5) - 0.1 * (weights.time == 1.5))

    result = fit(Weights(time=1.0), score)
    assert result.chosen == {"words=1.5": 5}
    assert (result.prior, result.held_out) == (pytest.approx(0.5), pytest.approx(0.7)) and result.low > 0
    assert result.alone["time=1.5"] == pytest.approx(0.4)


def test_luck_on_a_few_questions_does_not_pass_for_a_gain():
    def score(weights):
        lucky = {0.8: QUESTIONS[:1], 1.5: QUESTIONS[1:2]}.get(weights.words, [])
        return {q: 0.5 + 0.05 * (q in lucky) for q in QUESTIONS}

    result = fit(Weights(), score)
    assert result.chosen == {} and result.held_out == result.prior


def test_a_weight_inside_another_is_fitted_under_its_whole_name(monkeypatch):
    monkeypatch.setitem(GRID, "spreading.own", (0.1, 0.5))
    prior = Weights(scorer="passages", spreading=Spreading(own=0.1))
    result = fit(prior, lambda weights: dict.fromkeys(QUESTIONS, 0.5 + 0.2 * (weights.spreading.own == 0.5)))
    assert result.chosen == {"spreading.own=0.5": 5} and prior.spreading.own != 0.5
    assert "spreading.own" not in {name for name, _ in variations(Weights(scorer="order"))}


def test_shares_are_tried_only_where_order_counts():
    assert "shares" not in {name for name, _ in variations(Weights(scorer="alone"))}
    assert ("shares", ()) in variations(Weights(scorer="order", shares=(0.3, 0.15)))
