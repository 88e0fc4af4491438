"""Vectors of another embedder than MiniLM are weighted by what is known of it."""

import pytest

from palimpsest.memories.vector_space import BGE_SMALL, MINILM, Space
from palimpsest.query.request.strategies import STRATEGIES, TRAITS, Weights, resolve_strategy
from palimpsest.query.request.types import CollectionInfo


def info(embedder, **weights):
    return CollectionInfo("notes", False, "ann", "turns", weights, space=Space(embedder, "a space", 384))


@pytest.mark.parametrize("embedder", [MINILM, "openai:x", "./model"])
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_an_embedder_of_which_nothing_is_known_is_weighted_as_minilm(strategy, embedder):
    assert resolve_strategy(strategy, info(embedder)) == (strategy, STRATEGIES[strategy])


def test_a_better_model_counts_more_against_words_and_the_sum_stays():
    trust, minilm = TRAITS[BGE_SMALL].trust, STRATEGIES["turns"]
    name, weights = resolve_strategy("auto", info(BGE_SMALL))
    assert name == "turns" and weights.vector + weights.words == pytest.approx(minilm.vector + minilm.words)
    assert weights.vector / weights.words == pytest.approx(trust * minilm.vector / minilm.words)
    assert (weights.time, weights.shares, weights.nearby) == (minilm.time, minilm.shares, minilm.nearby)


def test_closer_cosines_of_sentences_are_spread_as_far_as_those_of_minilm():
    _, weights = resolve_strategy("graph", info(BGE_SMALL))
    assert weights.spreading.cosine * TRAITS[BGE_SMALL].spread == pytest.approx(STRATEGIES["graph"].spreading.cosine)


def test_words_alone_stay_words_alone():
    assert resolve_strategy("words", info(BGE_SMALL))[1].vector == 0


def test_weights_of_the_collection_and_of_the_caller_are_taken_as_they_are():
    _, weights = resolve_strategy("auto", info(BGE_SMALL, vector=2.0, words=0.5))
    assert (weights.vector, weights.words) == (2.0, 0.5)
    given = Weights(vector=3.0)
    assert resolve_strategy(given, info(BGE_SMALL)) == ("weights", given)
