"""What encoders that had not seen a training pair's domain returned of it: the trees on top are trained on that.

The shipped encoder knows its training pairs, so its probabilities of them are too good to learn from.
"""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from palimpsest.core.files import write_bytes
from palimpsest.core.ids import content_id
from palimpsest.relations.classify.encoder.pair_encoder import ENCODER_CLASSES, pair_encoder
from palimpsest.store.home import SHIPPED

HELD_OUT_FILE = "models/pair_encoder_held_out.npz"


def save_held_out(path: Path, pairs: Sequence[tuple[str, str]], probabilities: np.ndarray) -> None:
    """Writes the probabilities of (older, newer) texts, shape (len(pairs), 6), in half precision."""
    out = io.BytesIO()
    keys = np.array([_key(pair) for pair in pairs], np.uint64)
    np.savez_compressed(out, keys=keys, probabilities=probabilities.astype(np.float16))
    write_bytes(path, out.getvalue())


def encode_held_out(pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    """Returns probabilities of ENCODER_CLASSES, shape (len(pairs), 6); pairs that are not stored are encoded."""
    with np.load(SHIPPED / HELD_OUT_FILE, allow_pickle=False) as file:
        row_of = {int(key): i for i, key in enumerate(file["keys"])}
        stored = file["probabilities"].astype(np.float32)
    out = np.zeros((len(pairs), len(ENCODER_CLASSES)), np.float32)
    rows = [row_of.get(_key(pair), -1) for pair in pairs]
    unknown = [i for i, row in enumerate(rows) if row < 0]
    known = [i for i, row in enumerate(rows) if row >= 0]
    out[known] = stored[[rows[i] for i in known]]
    out[unknown] = pair_encoder().predict([pairs[i] for i in unknown])
    return out


def _key(pair: tuple[str, str]) -> int:
    return int(content_id(*pair)[:16], 16)
