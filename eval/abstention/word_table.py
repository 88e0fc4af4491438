"""Makes data/models/word_vectors.npy: `python -m palimpsest.eval.abstention.word_table`, a minute.

Each piece of the vocabulary is read alone by the network of the query embedder; vectors are centered, reduced to 64
principal components and rounded to int8.
"""

from pathlib import Path

import numpy as np

from palimpsest.core.progress import say
from palimpsest.query.answerability.word_vectors import TABLE_FILE
from palimpsest.query.embed_query import QueryEmbedder
from palimpsest.text.tokenizer import tokenizer

_COMPONENTS = 64
_FIRST_PIECE = 1000  # before it are marks and unused pieces
_BATCH = 512  # pieces are read together: the scale of int8 is taken over a batch
_OPENS, _CLOSES = 101, 102  # the marks around a text
_EVERY = 3  # pieces that the components are found from


def word_table() -> np.ndarray:
    """Returns the table, shape (pieces, 64) int8."""
    embedder = QueryEmbedder()
    batches = np.array_split(
        np.arange(tokenizer().get_vocab_size()), range(_BATCH, tokenizer().get_vocab_size(), _BATCH)
    )
    states = []
    for pieces in batches:
        ids = np.stack([np.full(len(pieces), mark) if mark else pieces for mark in (_OPENS, 0, _CLOSES)], axis=1)
        states.append(embedder.mean_states(ids))
    vectors = np.concatenate(states)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    centered = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(centered[_FIRST_PIECE::_EVERY], full_matrices=False)
    reduced = centered @ axes[:_COMPONENTS].T
    table: np.ndarray = np.round(reduced / np.abs(reduced).max() * 127).astype(np.int8)
    return table


if __name__ == "__main__":
    table = word_table()
    np.save(Path("data") / TABLE_FILE, table)
    say(f"{TABLE_FILE}: {table.shape}")
