"""MiniLM of builds: the vectors of sentence-transformers, near to those of the model that embeds questions."""

import numpy as np

from palimpsest.memories.embed import load_embedder
from palimpsest.memories.vector_space import unit_rows
from palimpsest.query.embed_query import query_embedder
from tests.memories.texts import TEXTS

OF_LIBRARY, OF_QUESTIONS = 0.9999, 0.995
"""Least cosine of a text's vector to that of sentence-transformers in its own batches, and of the int8 model."""


def test_a_vector_does_not_depend_on_the_other_texts():
    embedder = load_embedder()
    together = embedder.encode(TEXTS)
    for i in range(len(TEXTS)):
        assert np.array_equal(together[i], embedder.encode([TEXTS[i]])[0])
    assert np.array_equal(together[::-1], embedder.encode(TEXTS[::-1]))


def test_vectors_are_near_to_those_of_sentence_transformers_as_it_batches_and_of_the_model_of_questions():
    embedder = load_embedder()
    vectors = embedder.encode(TEXTS)
    plain = unit_rows(embedder.model.encode(TEXTS, show_progress_bar=False))
    assert np.sum(vectors * plain, axis=1).min() > OF_LIBRARY
    of_queries = np.stack([query_embedder().embed(text) for text in TEXTS])
    assert np.sum(vectors * of_queries, axis=1).min() > OF_QUESTIONS
