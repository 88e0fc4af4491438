"""The trained part of the offline labeler: features in, calibrated probabilities and a novelty out.

Saved as .npz: arrays, JSON and ONNX graphs, no pickles, so that a file that others can write may be wrong but runs no
code.
"""

import io
import json
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_bytes
from palimpsest.relations.classify.model.onnx_ensemble import OnnxEnsemble

CLASSES = ("DERIVE", "EXTEND", "NONE", "UPDATE")
"""In the order of the columns of every array of probabilities."""
UPDATE, EXTEND, NONE = (CLASSES.index(label) for label in ("UPDATE", "EXTEND", "NONE"))
MAX_WORD_COLUMNS = 400
_BOOSTING_WEIGHT = 1 / 3  # the forest is more certain on few pairs
_NEIGHBORS = 5
_ROWS_PER_BLOCK = 1024


@dataclass(frozen=True)
class WordModel:
    """A linear model over the words that a pair shares, loses and gains.

    Attributes:
        vocabulary: the column of each word, the most frequent words first.
        weights: shape (classes, len(vocabulary)).
        intercept: shape (classes,).
    """

    vocabulary: dict[str, int]
    weights: np.ndarray
    intercept: np.ndarray

    @property
    def word_columns(self) -> int:
        """The number of words that are columns of the forest's input."""
        return min(MAX_WORD_COLUMNS, len(self.vocabulary))

    def extend_rows(self, rows: np.ndarray, words: list[frozenset[str]]) -> np.ndarray:
        """Returns feature rows followed by this model's probabilities and a 0/1 column for each frequent word."""
        count = self.word_columns
        present = np.zeros((len(words), count), np.float32)
        for i, pair_words in enumerate(words):
            columns = (self.vocabulary.get(word, count) for word in pair_words)
            present[i, [c for c in columns if c < count]] = 1.0
        return np.hstack([rows.astype(np.float32), self.predict(words).astype(np.float32), present])

    def predict(self, words: list[frozenset[str]]) -> np.ndarray:
        """Returns probabilities, shape (len(words), 4)."""
        scores = np.tile(self.intercept, (len(words), 1))
        for i, pair_words in enumerate(words):
            columns = sorted(self.vocabulary[word] for word in pair_words if word in self.vocabulary)
            if columns:
                scores[i] += self.weights[:, columns].sum(axis=1)
        return softmax(scores)


@dataclass(frozen=True)
class HeldOutFigures:
    """How a model labels pairs that were held out while it was trained."""

    pairs: int
    accuracy: float
    wrong_updates: int
    updates: int
    found_updates: int


@dataclass(frozen=True)
class RelationModel:
    """Gradient boosting over features and word probabilities, averaged with a forest over these and single words.

    Attributes:
        key: names what it was trained from: labels, code, libraries.
        feature_names: in the order of the columns.
        words: the model over words.
        boosting: returns raw scores of feature rows with word probabilities.
        forest: returns probabilities of feature rows with word probabilities and words.
        mean, scale: of each feature, to measure novelty.
        training_points: training pairs as points in the feature space, shape (n, len(feature_names)) float32.
        typical_distance: 99th percentile of the distance of a training pair to its own neighbors.
        temperature: divides the logarithm of the averaged probability; fitted on pairs held out.
        update_threshold: an UPDATE below this probability is not given.
        undated_update_threshold: the same for a pair without dates, which retires nothing whatever its label.
        held_out: figures on pairs held out.
    """

    key: str
    feature_names: tuple[str, ...]
    words: WordModel
    boosting: OnnxEnsemble
    forest: OnnxEnsemble
    mean: np.ndarray
    scale: np.ndarray
    training_points: np.ndarray
    typical_distance: float
    temperature: float
    update_threshold: float
    undated_update_threshold: float
    held_out: HeldOutFigures

    def predict(self, rows: np.ndarray, words: list[frozenset[str]]) -> np.ndarray:
        """Returns calibrated probabilities, shape (len(rows), 4), of feature rows and the words of the pairs."""
        starts = range(0, len(rows), _ROWS_PER_BLOCK)
        blocks = (self._predict_block(rows[i : i + _ROWS_PER_BLOCK], words[i : i + _ROWS_PER_BLOCK]) for i in starts)
        return np.concatenate([np.zeros((0, len(CLASSES))), *blocks])

    def _predict_block(self, rows: np.ndarray, words: list[frozenset[str]]) -> np.ndarray:
        extended = self.words.extend_rows(rows, words)  # thousands of columns
        without_words = np.ascontiguousarray(extended[:, : extended.shape[1] - self.words.word_columns])
        boosted = softmax(self.boosting.predict(without_words))
        return apply_temperature(average(boosted, self.forest.predict(extended)), self.temperature)

    def novelty(self, rows: np.ndarray) -> np.ndarray:
        """Returns how far each row is from the training pairs: above 1, farther than 99 % of those were."""
        points = to_points(rows, self.mean, self.scale)
        return neighbor_distances(points, self.training_points) / self.typical_distance

    def save(self, path: Path) -> None:
        """Writes the model."""
        settings = {
            "key": self.key,
            "feature_names": self.feature_names,
            "typical_distance": self.typical_distance,
            "temperature": self.temperature,
            "update_threshold": self.update_threshold,
            "undated_update_threshold": self.undated_update_threshold,
            "held_out": asdict(self.held_out),
            "vocabulary": sorted(self.words.vocabulary, key=self.words.vocabulary.__getitem__),
        }
        out = io.BytesIO()
        np.savez_compressed(
            out,
            settings=np.frombuffer(json.dumps(settings).encode(), np.uint8),
            boosting=np.frombuffer(self.boosting.graph, np.uint8),
            forest=np.frombuffer(self.forest.graph, np.uint8),
            weights=self.words.weights,
            intercept=self.words.intercept,
            mean=self.mean,
            scale=self.scale,
            training_points=self.training_points,
        )
        write_bytes(path, out.getvalue())

    @classmethod
    def load(cls, path: Path) -> "RelationModel":
        """Reads a model.

        Raises:
            PalimpsestError: the file is not a model.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            settings = json.loads(arrays["settings"].tobytes())
            vocabulary = {word: i for i, word in enumerate(settings.pop("vocabulary"))}
            settings["feature_names"] = tuple(settings["feature_names"])
            settings["held_out"] = HeldOutFigures(**settings["held_out"])
            return cls(
                **settings,
                words=WordModel(vocabulary, arrays["weights"], arrays["intercept"]),
                boosting=OnnxEnsemble(arrays["boosting"].tobytes()),
                forest=OnnxEnsemble(arrays["forest"].tobytes()),
                mean=arrays["mean"],
                scale=arrays["scale"],
                training_points=arrays["training_points"],
            )
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as e:
            raise PalimpsestError(f"{path}: not a trained labeler ({type(e).__name__}); remove it") from None


def softmax(scores: np.ndarray) -> np.ndarray:
    """Returns probabilities from raw scores, along the last axis."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def average(boosting: np.ndarray, forest: np.ndarray) -> np.ndarray:
    """Returns the weighted mean of the probabilities of both ensembles."""
    return _BOOSTING_WEIGHT * boosting + (1 - _BOOSTING_WEIGHT) * forest


def apply_temperature(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Returns the probabilities made sharper (below 1) or softer (above 1)."""
    return softmax(np.log(np.maximum(probabilities, 1e-6)) / temperature)


def to_points(rows: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Returns feature rows as points: each feature in standard deviations, at most 4, in whole 32nds.

    Whole numbers: their products add up exactly in float32, in every order, so a distance does not depend on the batch.
    """
    return np.asarray(np.rint(np.clip((rows - mean) / scale, -4, 4) * 32), np.float32)


def neighbor_distances(points: np.ndarray, training_points: np.ndarray) -> np.ndarray:
    """Returns the mean distance of each point to its nearest 5 training points."""
    out = np.zeros(len(points))
    squares = (training_points**2).sum(axis=1)
    for start in range(0, len(points), _ROWS_PER_BLOCK):
        block = points[start : start + _ROWS_PER_BLOCK]
        d = np.maximum((block**2).sum(axis=1)[:, None] + squares - 2 * block @ training_points.T, 0)
        nearest = np.partition(d, min(_NEIGHBORS, d.shape[1]) - 1, axis=1)[:, :_NEIGHBORS]
        out[start : start + _ROWS_PER_BLOCK] = np.sqrt(np.sort(nearest, axis=1)).mean(axis=1)
    return out
