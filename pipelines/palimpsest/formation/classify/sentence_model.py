"""A linear model over the features of sentences: logistic regression, with words weighted by their rarity.

`palimpsest_eval.studies.train_sentences` trains it; data/models/README.md is its card.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.files import file_hash
from palimpsest.formation.classify.sentence_features import SentenceFeatures
from palimpsest.formation.item import SENTENCE_KINDS
from palimpsest.store.home import SHIPPED

NONE = "none"
"""The class of a sentence that forms nothing."""
SENTENCE_CLASSES = (*SENTENCE_KINDS, NONE)
"""In the order of the probabilities."""
SENTENCE_MODEL = "models/sentence_model.npz"
WORDS_WEIGHT = 2.0
"""Length of the vector of words, next to the flags."""


@dataclass(frozen=True)
class SentenceModel:
    """The weights.

    Attributes:
        ngrams: sequences of words that count, sorted.
        rarity: of each of them.
        weights: of flags and sequences, shape (classes, flags + ngrams).
        intercept: shape (classes,).
    """

    ngrams: tuple[str, ...]
    rarity: np.ndarray
    weights: np.ndarray
    intercept: np.ndarray

    @cached_property
    def _place(self) -> dict[str, int]:
        return {ngram: i for i, ngram in enumerate(self.ngrams)}

    def rows(self, sentences: Sequence[SentenceFeatures]) -> np.ndarray:
        """Returns the vectors of sentences, shape (len(sentences), flags + ngrams) float32."""
        out = np.zeros((len(sentences), len(sentences[0].flags) + len(self.ngrams) if sentences else 0), np.float32)
        for row, sentence in zip(out, sentences, strict=True):
            flags = len(sentence.flags)
            row[:flags] = sentence.flags
            counts = Counter(place for g in sentence.ngrams if (place := self._place.get(g)) is not None)
            if counts:
                at = np.array(sorted(counts))
                values = (1 + np.log([counts[a] for a in at.tolist()])) * self.rarity[at]
                row[flags + at] = WORDS_WEIGHT * values / np.linalg.norm(values)
        return out

    def predict(self, sentences: Sequence[SentenceFeatures]) -> np.ndarray:
        """Returns probabilities of SENTENCE_CLASSES, shape (len(sentences), 6), rounded to three decimals.

        A sentence's probabilities do not depend on the others.
        """
        out = np.zeros((len(sentences), len(SENTENCE_CLASSES)))
        for i, sentence in enumerate(sentences):
            scores = self.weights @ self.rows([sentence])[0] + self.intercept
            odds = np.exp(scores - scores.max())
            out[i] = odds / odds.sum()
        return np.round(out, 3)


def write_sentence_model(model: SentenceModel, path: Path) -> None:
    """Writes a model as arrays."""
    np.savez_compressed(
        path,
        ngrams=np.array(model.ngrams),
        rarity=model.rarity.astype(np.float32),
        weights=model.weights.astype(np.float32),
        intercept=model.intercept.astype(np.float32),
    )


@lru_cache(maxsize=1)
def sentence_model() -> SentenceModel:
    """Returns the model that comes with Palimpsest, read when it is first used.

    Raises:
        ComponentFailed: its file is missing or damaged.
    """
    try:
        with np.load(SHIPPED / SENTENCE_MODEL, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("rarity", "weights", "intercept")}
            return SentenceModel(tuple(file["ngrams"].tolist()), **arrays)
    except (OSError, ValueError, KeyError):
        raise ComponentFailed(f"{SENTENCE_MODEL}: cannot be read; install palimpsest-memory again") from None


def sentence_model_key() -> str:
    """Returns the hash of the model's file."""
    return file_hash(SHIPPED / SENTENCE_MODEL)
