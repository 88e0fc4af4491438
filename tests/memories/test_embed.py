"""MiniLM of builds and questions: near to the vectors of sentence-transformers."""

import numpy as np

from palimpsest.memories.embed import load_embedder
from palimpsest.memories.vector_space import unit_rows
from palimpsest_eval.training.weights import model_folder
from tests.memories.texts import TEXTS

OF_LIBRARY = 0.98
"""Least cosine of a text's vector to that of sentence-transformers."""


def test_a_vector_does_not_depend_on_the_other_texts():
    embedder = load_embedder()
    together = embedder.encode(TEXTS)
    for i in range(len(TEXTS)):
        assert np.array_equal(together[i], embedder.encode([TEXTS[i]])[0])
    assert np.array_equal(together[::-1], embedder.encode(TEXTS[::-1]))


def test_vectors_are_near_to_those_of_the_weights_in_float32():
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(model_folder()), device="cpu", local_files_only=True)
    plain = unit_rows(model.encode(TEXTS, show_progress_bar=False))
    assert np.sum(load_embedder().encode(TEXTS) * plain, axis=1).min() > OF_LIBRARY
