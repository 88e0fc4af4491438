"""Vectors in which a memory is near to the older ones that it may end: the embedder's, through two learnt maps.

A change is often said in other words than what it ends, and then their vectors are not near. Two linear maps, one for
the newer memory and one for the older, bring them together: among 2,217 notes of one scope the note that ends is among
the six nearest in .82 of the changes, and by the embedder's own vectors in .76. Maps and vectors are whole numbers,
whose products float64 adds exactly, so that a vector depends on its text alone.
`palimpsest_eval.labels.training.train_change_vectors` fits them.
"""

from functools import lru_cache

import numpy as np

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.files import hash_of_file
from palimpsest.core.ids import content_id
from palimpsest.memories.embed import vector_space
from palimpsest.relations.candidates.scope_search import quantize
from palimpsest.store.home import SHIPPED

MAPS_FILE = "models/change_vectors.npz"
SCALE = 1024
"""Of the numbers of the maps: an identity has this on its diagonal."""
_BLOCK_ROWS = 4096


def change_vectors(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns unit vectors of memories as newer and as older ones, each shape (n, 384) float32.

    Args:
        vectors: unit vectors of the embedder, shape (n, 384).
    """
    as_newer, as_older = load_maps()
    out = np.empty((2, *vectors.shape), np.float32)
    for start in range(0, len(vectors), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        whole = quantize(vectors[rows]).astype(np.float64)
        for target, weights in zip(out, (as_newer, as_older), strict=True):
            mapped = whole @ weights
            target[rows] = mapped / np.maximum(np.sqrt((mapped * mapped).sum(1, keepdims=True)), 1.0)
    return out[0], out[1]


def candidate_space() -> str:
    """Returns a key of the vectors and the maps."""
    return content_id(vector_space(), hash_of_file(SHIPPED / MAPS_FILE))


@lru_cache(maxsize=1)
def load_maps() -> tuple[np.ndarray, np.ndarray]:
    """Returns the maps of newer and of older memories, shape (384, 384) float64, whole numbers.

    Raises:
        ComponentFailed: the file is missing or damaged.
    """
    try:
        with np.load(SHIPPED / MAPS_FILE, allow_pickle=False) as file:
            return file["newer"].astype(np.float64), file["older"].astype(np.float64)
    except (OSError, ValueError, KeyError):
        raise ComponentFailed(f"candidate pairs: {MAPS_FILE} cannot be read; install palimpsest-memory again") from None
