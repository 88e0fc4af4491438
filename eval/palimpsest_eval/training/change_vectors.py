"""Fits the maps of `change_vectors`: `python -m palimpsest_eval.training.change_vectors`.

Each change of the training worlds is a pair; its negatives are others of the batch and notes drawn at random
(InfoNCE). Both maps begin as the identity and are drawn back to it. A minute on two cores.
"""

import argparse
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from palimpsest.core.files import SHIPPED, say, write_bytes
from palimpsest.relations.candidates import MAPS_FILE, SCALE
from palimpsest_eval.training.worlds import World, embed_texts, load_worlds

_EPOCHS, _BATCH, _OTHERS = 7, 256, 1024
_RATE, _TO_IDENTITY = 3e-4, 2e-3


def fit_maps(worlds: Sequence[World], vectors: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns the maps of newer and older notes.

    Args:
        worlds: the worlds.
        vectors: unit vectors of all their notes, in order, shape (n, d).
        seed: of the order of batches.
    """
    torch.manual_seed(seed)
    pairs = torch.tensor(change_rows(worlds))
    x, eye = torch.tensor(vectors), torch.eye(vectors.shape[1])
    newer, older = (torch.nn.Parameter(eye.clone()) for _ in range(2))
    heat = torch.nn.Parameter(torch.tensor(3.0))
    optimizer = torch.optim.Adam([{"params": [newer, older], "lr": _RATE}, {"params": [heat], "lr": 1e-2}])
    unit = torch.nn.functional.normalize
    for _ in range(_EPOCHS):
        for batch in torch.randperm(len(pairs)).split(_BATCH):
            drawn = torch.randint(0, len(x), (_OTHERS,))
            olders = unit(torch.cat([x[pairs[batch, 1]], x[drawn]]) @ older)
            scores = unit(x[pairs[batch, 0]] @ newer) @ olders.T * heat.exp()
            loss = torch.nn.functional.cross_entropy(scores, torch.arange(len(batch)))
            loss = loss + _TO_IDENTITY * (((newer - eye) ** 2).sum() + ((older - eye) ** 2).sum())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return newer.detach().numpy(), older.detach().numpy()


def change_rows(worlds: Sequence[World]) -> list[tuple[int, int]]:
    """Returns (row of the newer note, row of the older) of every change, rows counted over all notes."""
    found, first = [], 0
    for world in worlds:
        found += [(first + c.newer, first + c.older) for c in world.changes]
        first += len(world.notes)
    return found


def recall(worlds: Sequence[World], newer: np.ndarray, older: np.ndarray, most: Sequence[int]) -> list[float]:
    """Returns the share of changes of which the older note is among the nearest, all notes in one scope.

    Args:
        worlds: the worlds, as many notes as a scope has.
        newer: unit vectors of their notes as newer ones, shape (n, d).
        older: the same as older ones.
        most: how many nearest.
    """
    dates = np.array([n.date.toordinal() for w in worlds for n in w.notes])
    ranks = []
    for row, right in change_rows(worlds):
        cosines = np.where(dates > dates[row], -2.0, older @ newer[row])
        cosines[row] = -2.0
        ranks.append(int((cosines > cosines[right]).sum()))
    return [round(float(np.mean(np.array(ranks) < n)), 3) for n in most]


def main() -> None:
    """Fits the maps to all worlds but those kept apart, prints the recall on these, and writes the file."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=SHIPPED, help="The data folder.")
    out: Path = arguments.parse_args().out
    worlds = load_worlds()
    training, held_out = ([w for w in worlds if w.is_held_out is wanted] for wanted in (False, True))
    of_training, of_held_out = _vectors(training), _vectors(held_out)
    newer, older = fit_maps(training, of_training)
    most = (1, 3, 6, 10, 14)
    mapped = [_unit(of_held_out @ weights) for weights in (newer, older)]
    plain = recall(held_out, of_held_out, of_held_out, most)
    say(f"recall of {most}: {recall(held_out, mapped[0], mapped[1], most)}; of the embedder {plain}")
    rows = np.array(change_rows(held_out))
    of_changes = (mapped[0][rows[:, 0]] * mapped[1][rows[:, 1]]).sum(1)
    say(f"cosines of changes, hundredths 1, 3, 5, 10: {np.round(np.percentile(of_changes, (1, 3, 5, 10)), 3).tolist()}")
    buffer = io.BytesIO()
    whole = {name: np.rint(m * SCALE).astype(np.int16) for name, m in (("newer", newer), ("older", older))}
    np.savez_compressed(buffer, **whole)
    write_bytes(out / MAPS_FILE, buffer.getvalue())


def _vectors(worlds: Sequence[World]) -> np.ndarray:
    return embed_texts([note.spoken for world in worlds for note in world.notes])


def _unit(vectors: np.ndarray) -> np.ndarray:
    found: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return found


if __name__ == "__main__":
    main()
