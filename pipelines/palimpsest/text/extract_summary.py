"""Extractive summaries: the sentences nearest to what all of a text is about, none like another, in their order.

Sentences are vectors of term weights, and the centroid of all says what the text is about (centroid-based
summarization: Radev, Jing, Stys and Tam, 2004). What is chosen must differ from what was chosen before (maximal
marginal relevance: Carbonell and Goldstein, 1998).
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from palimpsest.text.terms import terms

_REDUNDANCY = 0.7
"""Weight of the likeness to the nearest sentence chosen before."""
_MIN_TERMS = 3
"""A shorter sentence says too little alone, such as `Thank you`."""
_MAX_SENTENCES = 1000
"""Of a longer text only so many sentences are weighed, the last ones: it bounds time and memory."""


def summary_sentences(sentences: Sequence[str], n: int) -> list[int]:
    """Returns the places of the `n` sentences that sum up a text, ascending; ties go to the earlier one.

    Args:
        sentences: of the text, in order.
        n: how many at most.
    """
    first = max(0, len(sentences) - _MAX_SENTENCES)
    of_sentence = [Counter(terms(s)) for s in sentences[first:]]
    is_question = [s.rstrip().endswith("?") for s in sentences[first:]]
    rows = [i for i, counts in enumerate(of_sentence) if len(counts) >= _MIN_TERMS and not is_question[i]]
    if not rows or n < 1:
        return []
    vectors = _weights([of_sentence[i] for i in rows])
    centroid = vectors.sum(axis=0)
    relevance = vectors @ (centroid / (np.linalg.norm(centroid) or 1.0))
    chosen: list[int] = []
    nearest = np.zeros(len(rows))
    while len(chosen) < min(n, len(rows)):
        gain = relevance - _REDUNDANCY * nearest
        gain[chosen] = -np.inf
        best = int(np.argmax(np.round(gain, 9)))
        chosen.append(best)
        nearest = np.maximum(nearest, vectors @ vectors[best])
    return sorted(first + rows[i] for i in chosen)


def _weights(counts: Sequence[Counter[str]]) -> np.ndarray:
    """Returns unit vectors of term weights, shape (sentences, terms) float64: 1 + log of count, times rarity."""
    known = sorted({t for c in counts for t in c})
    column = {t: i for i, t in enumerate(known)}
    frequency = Counter(t for c in counts for t in c)
    vectors = np.zeros((len(counts), len(known)))
    for row, found in enumerate(counts):
        for term, count in found.items():
            vectors[row, column[term]] = (1 + np.log(count)) * np.log1p(len(counts) / frequency[term])
    unit: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit
