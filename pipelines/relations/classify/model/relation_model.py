"""The trained half of the offline labeler: features in, calibrated probabilities and an unlikeness out; numpy alone.

Saved as .npz without pickles, so that a file which others can write can be wrong but never run.
"""

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_bytes
from palimpsest.relations.classify.model.trees import Trees

CLASSES = ("DERIVE", "EXTEND", "NONE", "UPDATE")
"""In the order of the columns of every probability here."""
COMMON_WORDS = 400
_OF_BOOSTING = 1 / 3  # the forest, which is surer on few pairs, has the rest
UPDATE, EXTEND, NONE = (CLASSES.index(label) for label in ("UPDATE", "EXTEND", "NONE"))
_NEAREST = 5


@dataclass(frozen=True)
class WordWeights:
    """A linear model over the words that a pair shares, loses and gains."""

    vocabulary: dict[str, int]
    weights: np.ndarray
    intercept: np.ndarray

    @property
    def common(self) -> int:
        """How many words, the commonest first in the vocabulary, are columns of the forest."""
        return min(COMMON_WORDS, len(self.vocabulary))

    def widened(self, rows: np.ndarray, words: list[frozenset[str]]) -> np.ndarray:
        """Returns feature rows with what the words say beside them, and a column for each of the commonest words."""
        shown = np.zeros((len(words), self.common), np.float32)
        for i, of_pair in enumerate(words):
            shown[i, [at for w in of_pair if (at := self.vocabulary.get(w, self.common)) < self.common]] = 1.0
        return np.hstack([rows.astype(np.float32), self.predict(words).astype(np.float32), shown])

    def predict(self, words: list[frozenset[str]]) -> np.ndarray:
        """Returns probabilities, shape (len(words), 4)."""
        raw = np.tile(self.intercept, (len(words), 1))
        for i, of_pair in enumerate(words):
            known = sorted(self.vocabulary[w] for w in of_pair if w in self.vocabulary)
            if known:
                raw[i] += self.weights[:, known].sum(axis=1)
        return softmax(raw)


@dataclass(frozen=True)
class Model:
    """Boosting over features and word weights, averaged with a forest over these and words; temperature, thresholds.

    Attributes:
        key: names what it was trained from: labels, code, settings.
        features: names of the features, in order.
        mean, scale: of each feature, to measure unlikeness.
        known: training pairs as points in the features' space, shape (n, len(features)) float32.
        usual: how far a training pair's own neighbours are, the 99th percentile.
        temperature: divides the logarithm of the averaged probability; fitted on pairs held out.
        least_update: an UPDATE below this probability is not said.
        least_undated: the same for a pair without dates, which retires nothing whatever its label.
        card: how it did on pairs held out.
    """

    key: str
    features: tuple[str, ...]
    words: WordWeights
    boosting: Trees
    start: np.ndarray
    forest: Trees
    mean: np.ndarray
    scale: np.ndarray
    known: np.ndarray
    usual: float
    temperature: float
    least_update: float
    least_undated: float
    card: dict[str, Any]

    def predict(self, rows: np.ndarray, words: list[frozenset[str]]) -> np.ndarray:
        """Returns calibrated probabilities, shape (len(rows), 4), of feature rows and the pairs' words."""
        wide = self.words.widened(rows, words)
        boosted = softmax(self.boosting.total(wide[:, : wide.shape[1] - self.words.common]) + self.start)
        return tempered(mixed(boosted, self.forest.total(wide)), self.temperature)

    def unlike(self, rows: np.ndarray) -> np.ndarray:
        """Returns how far each row is from the pairs it was trained on: over 1 is farther than 99 % of those were."""
        return distances(self._points(rows), self.known) / self.usual

    def _points(self, rows: np.ndarray) -> np.ndarray:
        return points(rows, self.mean, self.scale)

    def save(self, path: Path) -> None:
        """Writes the model."""
        told = {
            "key": self.key,
            "features": self.features,
            "usual": self.usual,
            "temperature": self.temperature,
            "least_update": self.least_update,
            "least_undated": self.least_undated,
            "card": self.card,
            "vocabulary": sorted(self.words.vocabulary, key=self.words.vocabulary.__getitem__),
        }
        arrays: dict[str, Any] = {
            "weights": self.words.weights,
            "intercept": self.words.intercept,
            "start": self.start,
            "mean": self.mean,
            "scale": self.scale,
            "known": self.known,
            "told": np.frombuffer(json.dumps(told).encode(), np.uint8),
            **self.boosting.arrays("boosting_"),
            **self.forest.arrays("forest_"),
        }
        out = io.BytesIO()
        np.savez_compressed(out, **arrays)
        write_bytes(path, out.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Model":
        """Reads a model.

        Raises:
            PalimpsestError: the file is no model.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            told = json.loads(arrays["told"].tobytes())
            words = WordWeights(
                {w: i for i, w in enumerate(told.pop("vocabulary"))}, arrays["weights"], arrays["intercept"]
            )
            told["features"] = tuple(told["features"])
            return cls(
                **told,
                words=words,
                boosting=Trees.load(arrays, "boosting_"),
                start=arrays["start"],
                forest=Trees.load(arrays, "forest_"),
                mean=arrays["mean"],
                scale=arrays["scale"],
                known=arrays["known"],
            )
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as e:
            raise PalimpsestError(f"{path}: not a trained labeler ({type(e).__name__}); remove it") from None


def softmax(raw: np.ndarray) -> np.ndarray:
    """Returns probabilities from raw scores, along the last axis."""
    e = np.exp(raw - raw.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def mixed(boosting: np.ndarray, forest: np.ndarray) -> np.ndarray:
    """Returns the weighted mean of what both say."""
    return _OF_BOOSTING * boosting + (1 - _OF_BOOSTING) * forest


def tempered(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Returns the probabilities made sharper (under 1) or softer (over 1)."""
    return softmax(np.log(np.maximum(probabilities, 1e-6)) / temperature)


def points(rows: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Returns feature rows as points in which each feature counts alike, at most 4 deviations, in whole 32nds.

    Whole numbers: their products add up exactly in float32, in every order, so a distance has no batch.
    """
    return np.rint(np.clip((rows - mean) / scale, -4, 4) * 32).astype(np.float32)


def distances(rows: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Returns the mean distance of each row to its nearest 5 known points."""
    out = np.zeros(len(rows))
    squares = (known**2).sum(axis=1)
    for start in range(0, len(rows), 1024):
        block = rows[start : start + 1024]
        d = np.maximum((block**2).sum(axis=1)[:, None] + squares - 2 * block @ known.T, 0)
        nearest = np.partition(d, min(_NEAREST, d.shape[1]) - 1, axis=1)[:, :_NEAREST]
        out[start : start + 1024] = np.sqrt(np.sort(nearest, axis=1)).mean(axis=1)
    return out
