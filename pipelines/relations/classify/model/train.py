"""Trains the offline labeler from labelled pairs: minutes at most, on a CPU, the same result from the same pairs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from palimpsest.core.ids import content_id
from palimpsest.relations.classify.model.relation_model import (
    CLASSES,
    UPDATE,
    Model,
    WordWeights,
    distances,
    mixed,
    points,
    tempered,
)
from palimpsest.relations.classify.model.trees import from_boosting, from_forest

FOLDS = 5
_COMMON_WORD = 3  # pairs that a word must occur in
_TEMPERATURES = np.round(np.arange(0.5, 2.01, 0.05), 2)
_THRESHOLDS = np.round(np.arange(0.5, 0.96, 0.01), 2)
MOST_WRONG = 0.0
"""Of the pairs held out that are no UPDATE: so many may be labelled UPDATE."""
MOST_WRONG_UNDATED = 0.022
"""The same for pairs without dates: they retire nothing, so their label may be less sure.

The whole model knows a fifth more pairs than those that judge the pairs held out, so of new pairs fewer are wrong.
"""
_BOOSTING = {
    "max_iter": 120,
    "learning_rate": 0.08,
    "max_leaf_nodes": 8,
    "min_samples_leaf": 8,
    "l2_regularization": 5.0,
    "max_features": 0.2,
    "random_state": 0,
    "early_stopping": False,
}
_FOREST = {"n_estimators": 200, "min_samples_leaf": 2, "max_features": 0.3, "random_state": 0, "n_jobs": 2}


def train(
    features: tuple[str, ...],
    rows: np.ndarray,
    words: list[frozenset[str]],
    labels: Sequence[str],
    groups: Sequence[str],
    key: str,
    vetoed: Sequence[bool] | None = None,
    dated: Sequence[bool] | None = None,
) -> Model:
    """Returns a model.

    Everything that decides about labels (temperature, threshold) is fitted on predictions for pairs whose group was
    held out, so that it holds for texts that were not seen.

    Args:
        features: names of the columns of `rows`.
        rows: one row a pair, shape (n, len(features)).
        words: of each pair, as `pair_words` gives them.
        labels: of each pair.
        groups: pairs of one group (a subject, a document) are held out together.
        key: names the model.
        vetoed: pairs that are no UPDATE whatever the model says; none by default.
        dated: pairs of which it is known which is newer; all by default.
    """
    from threadpoolctl import threadpool_limits

    # Two threads that wait for each other cost more than they bring, most so on a busy machine.
    with threadpool_limits(1):
        return _train(features, rows.astype(np.float32), words, labels, groups, key, vetoed, dated)


def _train(
    features: tuple[str, ...],
    rows: np.ndarray,
    words: list[frozenset[str]],
    labels: Sequence[str],
    groups: Sequence[str],
    key: str,
    vetoed: Sequence[bool] | None,
    dated: Sequence[bool] | None,
) -> Model:
    y = np.array([CLASSES.index(label) for label in labels])
    fold = np.array([int(content_id("fold", g), 16) % FOLDS for g in groups])
    by_words = _held_out(y, fold, lambda a, b: _fit_words([words[i] for i in a], y[a]).predict([words[i] for i in b]))
    by_word = _fit_words(words, y)
    # What the words say of a pair is held out for that pair; which words are shown is no secret of any pair.
    wide = np.hstack([rows, by_words.astype(np.float32)])
    broad = np.hstack([wide, by_word.widened(rows, words)[:, wide.shape[1] :]])

    def fitted(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return mixed(_aligned(_boosting(wide[a], y[a]), wide[b]), _aligned(_forest(broad[a], y[a]), broad[b]))

    held_out = _held_out(y, fold, fitted)
    temperature = min(_TEMPERATURES, key=lambda t: (round(_log_loss(tempered(held_out, t), y), 6), t))
    told = tempered(held_out, temperature)
    none = np.zeros(len(y), bool)
    free = told[:, UPDATE] * ~(none if vetoed is None else np.asarray(vetoed, bool))
    known_order = ~none if dated is None else np.asarray(dated, bool)
    least, least_undated = _thresholds(free, y == UPDATE, known_order)
    told[:, UPDATE] = free
    trees, start = from_boosting(_boosting(wide, y, whole=True))
    mean, scale = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-3)
    known = points(rows, mean, scale)
    return Model(
        key=key,
        features=features,
        words=by_word,
        boosting=trees,
        start=start,
        forest=from_forest(_forest(broad, y, whole=True)),
        mean=mean,
        scale=scale,
        known=known,
        usual=float(np.quantile(_held_out_distances(known, fold), 0.99)),
        temperature=float(temperature),
        least_update=least,
        least_undated=least_undated,
        card=_card(told, y, np.where(known_order, least, least_undated)),
    )


def text_groups(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Returns a group for each (older, newer): pairs that share a text, directly or over others, are of one group."""
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
    for k in range(FOLDS):
        inside = np.flatnonzero(fold == k)
        outside = np.flatnonzero(fold != k)
        if len(inside):
            yield (outside if len(outside) else inside), inside


def _held_out(y: np.ndarray, fold: np.ndarray, predict: Any) -> np.ndarray:
    out = np.zeros((len(y), len(CLASSES)))
    for outside, inside in _folds(fold):
        out[inside] = predict(outside, inside)
    return out


def _held_out_distances(known: np.ndarray, fold: np.ndarray) -> np.ndarray:
    out = np.zeros(len(known))
    for outside, inside in _folds(fold):
        out[inside] = distances(known[inside], known[outside])
    return out


def _fit_words(words: list[frozenset[str]], y: np.ndarray) -> WordWeights:
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression

    counts = Counter(w for of_pair in words for w in of_pair)
    kept = sorted((w for w, n in counts.items() if n >= _COMMON_WORD), key=lambda w: (-counts[w], w))
    vocabulary = {w: i for i, w in enumerate(kept)}
    places = [(i, vocabulary[w]) for i, of_pair in enumerate(words) for w in sorted(of_pair) if w in vocabulary]
    shape = (len(words), max(1, len(vocabulary)))
    at = np.array(places, np.int64).reshape(-1, 2)
    matrix = sparse.csr_matrix((np.ones(len(at)), (at[:, 0], at[:, 1])), shape=shape)
    weights, intercept = np.zeros((len(CLASSES), shape[1])), np.full(len(CLASSES), -30.0)
    present = np.unique(y)
    if len(present) == 1:
        intercept[present] = 0.0
        return WordWeights(vocabulary, weights, intercept)
    fitted = LogisticRegression(C=0.5, max_iter=1000).fit(matrix, y)
    if len(present) == 2:  # scikit-learn keeps one row for two classes
        weights[present] = np.vstack([-fitted.coef_[0] / 2, fitted.coef_[0] / 2])
        intercept[present] = [-fitted.intercept_[0] / 2, fitted.intercept_[0] / 2]
    else:
        weights[present], intercept[present] = fitted.coef_, fitted.intercept_
    return WordWeights(vocabulary, weights, intercept)


def _boosting(rows: np.ndarray, y: np.ndarray, whole: bool = False) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    rows, y = _every_class(rows, y) if whole else (rows, y)
    return HistGradientBoostingClassifier(**_BOOSTING).fit(rows, y)


def _forest(rows: np.ndarray, y: np.ndarray, whole: bool = False) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    rows, y = _every_class(rows, y) if whole else (rows, y)
    # Trees are grown side by side, each from its own seed; what they say is added up in one order.
    return ExtraTreesClassifier(**_FOREST).fit(rows, y).set_params(n_jobs=1)


def _every_class(rows: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Adds one row of zeros for each label that no pair has: the trees then have four columns."""
    missing = [c for c in range(len(CLASSES)) if c not in y]
    extra = np.zeros((len(missing), rows.shape[1]), rows.dtype)
    return np.vstack([rows, extra]), np.concatenate([y, np.array(missing, y.dtype)])


def _aligned(fitted: Any, rows: np.ndarray) -> np.ndarray:
    out = np.zeros((len(rows), len(CLASSES)))
    out[:, fitted.classes_] = fitted.predict_proba(rows)
    return out


def _log_loss(probabilities: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(np.maximum(probabilities[np.arange(len(y)), y], 1e-6)).mean())


def _thresholds(probability: np.ndarray, is_update: np.ndarray, dated: np.ndarray) -> tuple[float, float]:
    """Returns the thresholds of dated and of undated pairs; where there are none of a kind, those of the other's."""
    kinds = [(dated, MOST_WRONG), (~dated, MOST_WRONG_UNDATED)]
    found = [least_update(probability[k], is_update[k], most) if k.any() else None for k, most in kinds]
    first, second = (f if f is not None else next(x for x in found if x is not None) for f in found)
    return first, second


def least_update(probability: np.ndarray, is_update: np.ndarray, most_wrong: float) -> float:
    """Returns the lowest threshold that retires no larger share wrongly of the pairs held out than is allowed."""
    others = max(1, int((~is_update).sum()))
    good = [t for t in _THRESHOLDS if ((probability >= t) & ~is_update).sum() <= most_wrong * others]
    return float(good[0] if good else _THRESHOLDS[-1])


def _card(told: np.ndarray, y: np.ndarray, least_update: np.ndarray) -> dict[str, Any]:
    said = choose(told, least_update)
    wrong = int(((said == UPDATE) & (y != UPDATE)).sum())
    return {
        "pairs": len(y),
        "accuracy": round(float((said == y).mean()), 4),
        "wrong_updates": wrong,
        "updates": int((y == UPDATE).sum()),
        "found_updates": int(((said == UPDATE) & (y == UPDATE)).sum()),
    }


def choose(probabilities: np.ndarray, least_update: float | np.ndarray) -> np.ndarray:
    """Returns the most probable class of each row; UPDATE only from its threshold on, else the next."""
    without = probabilities.copy()
    without[probabilities[:, UPDATE] < least_update, UPDATE] = -1.0
    return without.argmax(axis=1)
