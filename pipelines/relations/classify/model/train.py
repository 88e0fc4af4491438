"""Trains the offline labeler from labelled pairs: minutes at most, on a CPU, the same result from the same pairs."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palimpsest.core.ids import content_id
from palimpsest.relations.classify.model.onnx_ensemble import to_onnx_ensemble
from palimpsest.relations.classify.model.relation_model import (
    CLASSES,
    UPDATE,
    HeldOutFigures,
    RelationModel,
    WordModel,
    apply_temperature,
    average,
    neighbor_distances,
    to_points,
)

if TYPE_CHECKING:
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

FOLDS = 5
_MIN_PAIRS_PER_WORD = 3
_TEMPERATURES = np.round(np.arange(0.5, 2.01, 0.05), 2)
_THRESHOLDS = np.round(np.arange(0.5, 0.96, 0.01), 2)
MAX_FALSE_UPDATE_RATE = 0.01
"""Share of the pairs held out that are not UPDATE that may be labelled UPDATE."""
MAX_FALSE_UPDATE_RATE_UNDATED = 0.02
"""The same for pairs without dates: they retire nothing, so their label may be less certain.

The final model, and the encoder below it, are trained on half as many pairs again as the models of the folds: on pairs
that nobody tuned on its rate is about half.
"""

_Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From the row numbers to train on and those to predict: probabilities of the latter."""


@dataclass(frozen=True)
class TrainingSet:
    """Labelled pairs as numbers.

    Attributes:
        feature_names: names of the columns of `rows`.
        rows: one row for each pair, shape (n, len(feature_names)) float32.
        words: of each pair, as `pair_words` gives them.
        labels: of each pair.
        groups: pairs of one group (a subject, a document) are held out together.
        is_vetoed: the pair is not UPDATE whatever the model returns.
        is_dated: it is known which of the two memories is newer.
    """

    feature_names: tuple[str, ...]
    rows: np.ndarray
    words: list[frozenset[str]]
    labels: Sequence[str]
    groups: Sequence[str]
    is_vetoed: np.ndarray
    is_dated: np.ndarray


def train(data: TrainingSet, key: str) -> tuple[RelationModel, np.ndarray]:
    """Returns the model trained on `data`, named `key`, and the probabilities of the pairs while they were held out.

    The probabilities have the shape (n, 4), in the order of CLASSES, and are not those of the returned model.

    All that decides about labels (temperature, thresholds) is fitted on predictions for pairs whose group was held
    out, so that it is valid for unseen texts.
    """
    from threadpoolctl import threadpool_limits

    # Two threads that wait for each other cost more than they gain, most of all on a busy machine.
    with threadpool_limits(1):
        return _train(data, key)


def _train(data: TrainingSet, key: str) -> tuple[RelationModel, np.ndarray]:
    rows, words = data.rows.astype(np.float32), data.words
    y = np.array([CLASSES.index(label) for label in data.labels])
    fold = np.array([int(content_id("fold", group), 16) % FOLDS for group in data.groups])

    def fit_predict_words(train: np.ndarray, test: np.ndarray) -> np.ndarray:
        return _fit_words([words[i] for i in train], y[train]).predict([words[i] for i in test])

    word_model = _fit_words(words, y)
    # The word probabilities of a pair come from a model that did not see it; the choice of word columns may see all.
    boosting_rows = np.hstack([rows, _cross_predict(y, fold, fit_predict_words).astype(np.float32)])
    word_columns = word_model.extend_rows(rows, words)[:, boosting_rows.shape[1] :]
    forest_rows = np.hstack([boosting_rows, word_columns])

    def fit_predict(train: np.ndarray, test: np.ndarray) -> np.ndarray:
        boosting, forest = _fit_boosting(boosting_rows[train], y[train]), _fit_forest(forest_rows[train], y[train])
        return average(
            _class_probabilities(boosting, boosting_rows[test]), _class_probabilities(forest, forest_rows[test])
        )

    held_out = _cross_predict(y, fold, fit_predict)
    temperature = min(_TEMPERATURES, key=lambda t: (round(_log_loss(apply_temperature(held_out, t), y), 6), t))
    calibrated = apply_temperature(held_out, temperature)
    probabilities = calibrated.copy()
    probabilities[:, UPDATE] *= ~data.is_vetoed
    threshold, undated_threshold = _update_thresholds(probabilities[:, UPDATE], y == UPDATE, data.is_dated)
    mean, scale = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-3)
    points = to_points(rows, mean, scale)
    boosting = _fit_boosting(*_with_every_class(boosting_rows, y))
    forest = _fit_forest(*_with_every_class(forest_rows, y))
    model = RelationModel(
        key=key,
        feature_names=data.feature_names,
        words=word_model,
        boosting=to_onnx_ensemble(boosting, boosting_rows.shape[1], raw_scores=True),
        forest=to_onnx_ensemble(forest, forest_rows.shape[1]),
        mean=mean,
        scale=scale,
        training_points=points,
        typical_distance=float(np.quantile(_held_out_distances(points, fold), 0.99)),
        temperature=float(temperature),
        update_threshold=threshold,
        undated_update_threshold=undated_threshold,
        held_out=_held_out_figures(probabilities, y, np.where(data.is_dated, threshold, undated_threshold)),
    )
    return model, calibrated


def text_groups(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Returns a group for each (older, newer): pairs that share a text, directly or through others, have one group."""
    parent: dict[str, str] = {}

    def find(text: str) -> str:
        while parent.setdefault(text, text) != text:
            text = parent[text]
        return text

    for older, newer in pairs:
        a, b = sorted((find(older), find(newer)))
        parent[b] = a
    return [find(older) for older, _ in pairs]


def _folds(fold: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields (train, test) row numbers of each fold; where one fold has all rows, it trains on itself."""
    for k in range(FOLDS):
        test, train = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
        if len(test):
            yield (train if len(train) else test), test


def _cross_predict(y: np.ndarray, fold: np.ndarray, fit_predict: _Predict) -> np.ndarray:
    out = np.zeros((len(y), len(CLASSES)))
    for train, test in _folds(fold):
        out[test] = fit_predict(train, test)
    return out


def _held_out_distances(points: np.ndarray, fold: np.ndarray) -> np.ndarray:
    out = np.zeros(len(points))
    for train, test in _folds(fold):
        out[test] = neighbor_distances(points[test], points[train])
    return out


def _fit_words(words: list[frozenset[str]], y: np.ndarray) -> WordModel:
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression

    counts = Counter(word for pair_words in words for word in pair_words)
    frequent = sorted((w for w, n in counts.items() if n >= _MIN_PAIRS_PER_WORD), key=lambda w: (-counts[w], w))
    vocabulary = {word: i for i, word in enumerate(frequent)}
    cells = [(i, vocabulary[w]) for i, pair_words in enumerate(words) for w in sorted(pair_words) if w in vocabulary]
    shape = (len(words), max(1, len(vocabulary)))
    at = np.array(cells, np.int64).reshape(-1, 2)
    matrix = sparse.csr_matrix((np.ones(len(at)), (at[:, 0], at[:, 1])), shape=shape)
    weights, intercept = np.zeros((len(CLASSES), shape[1])), np.full(len(CLASSES), -30.0)
    present = np.unique(y)
    if len(present) == 1:
        intercept[present] = 0.0
        return WordModel(vocabulary, weights, intercept)
    fitted = LogisticRegression(C=0.5, max_iter=1000).fit(matrix, y)
    if len(present) == 2:  # scikit-learn keeps one row for two classes
        weights[present] = np.vstack([-fitted.coef_[0] / 2, fitted.coef_[0] / 2])
        intercept[present] = [-fitted.intercept_[0] / 2, fitted.intercept_[0] / 2]
    else:
        weights[present], intercept[present] = fitted.coef_, fitted.intercept_
    return WordModel(vocabulary, weights, intercept)


def _fit_boosting(rows: np.ndarray, y: np.ndarray) -> "HistGradientBoostingClassifier":
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=120,
        learning_rate=0.08,
        max_leaf_nodes=8,
        min_samples_leaf=8,
        l2_regularization=5.0,
        max_features=0.2,
        random_state=0,
        early_stopping=False,
    ).fit(rows, y)


def _fit_forest(rows: np.ndarray, y: np.ndarray) -> "ExtraTreesClassifier":
    from sklearn.ensemble import ExtraTreesClassifier

    forest = ExtraTreesClassifier(n_estimators=150, min_samples_leaf=3, max_features=0.3, random_state=0, n_jobs=2)
    # Trees are grown in parallel, each from its own seed; their probabilities are added in one order.
    return forest.fit(rows, y).set_params(n_jobs=1)


def _with_every_class(rows: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Adds one row of zeros for each label that no pair has: the ensembles then return four columns."""
    missing = [c for c in range(len(CLASSES)) if c not in y]
    extra = np.zeros((len(missing), rows.shape[1]), rows.dtype)
    return np.vstack([rows, extra]), np.concatenate([y, np.array(missing, y.dtype)])


def _class_probabilities(
    fitted: "HistGradientBoostingClassifier | ExtraTreesClassifier", rows: np.ndarray
) -> np.ndarray:
    """Returns probabilities with a column for each of CLASSES, 0 for those that were not trained on."""
    out = np.zeros((len(rows), len(CLASSES)))
    out[:, fitted.classes_] = fitted.predict_proba(rows)
    return out


def _log_loss(probabilities: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(np.maximum(probabilities[np.arange(len(y)), y], 1e-6)).mean())


def _update_thresholds(probability: np.ndarray, is_update: np.ndarray, is_dated: np.ndarray) -> tuple[float, float]:
    """Returns the thresholds of dated and of undated pairs; without pairs of one kind it has the other's."""
    kinds = ((is_dated, MAX_FALSE_UPDATE_RATE), (~is_dated, MAX_FALSE_UPDATE_RATE_UNDATED))
    found = [update_threshold(probability[k], is_update[k], rate) if k.any() else None for k, rate in kinds]
    dated, undated = (f if f is not None else next(x for x in found if x is not None) for f in found)
    return dated, undated


def update_threshold(probability: np.ndarray, is_update: np.ndarray, max_false_rate: float) -> float:
    """Returns the lowest threshold at which no larger share of the other pairs is labelled UPDATE than allowed.

    Args:
        probability: of UPDATE, for pairs held out.
        is_update: whether the pair is UPDATE.
        max_false_rate: the allowed share of the pairs that are not.
    """
    others = max(1, int((~is_update).sum()))
    allowed = [t for t in _THRESHOLDS if ((probability >= t) & ~is_update).sum() <= max_false_rate * others]
    return float(allowed[0] if allowed else _THRESHOLDS[-1])


def _held_out_figures(probabilities: np.ndarray, y: np.ndarray, threshold: np.ndarray) -> HeldOutFigures:
    predicted = choose_class(probabilities, threshold)
    return HeldOutFigures(
        pairs=len(y),
        accuracy=round(float((predicted == y).mean()), 4),
        wrong_updates=int(((predicted == UPDATE) & (y != UPDATE)).sum()),
        updates=int((y == UPDATE).sum()),
        found_updates=int(((predicted == UPDATE) & (y == UPDATE)).sum()),
    )


def choose_class(probabilities: np.ndarray, threshold: float | np.ndarray) -> np.ndarray:
    """Returns the most probable class of each row; UPDATE only from its threshold on, else the next."""
    allowed = probabilities.copy()
    allowed[probabilities[:, UPDATE] < threshold, UPDATE] = -1.0
    return np.asarray(allowed.argmax(axis=1))
