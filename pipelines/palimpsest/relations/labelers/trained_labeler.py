"""`label --train`: a linear classifier over what the judge reads of a pair and which words its texts share.

The judge's features carry how two texts relate; a few hundred labelled pairs are enough to say what one's own labels
mean by that. A pair is read alone, without the other candidates of its newer text.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import progress
from palimpsest.core.ids import JsonObject, content_id
from palimpsest.relations.labelers.change_encoder import JUDGE_FILE, ChangeEncoder, shipped_encoder
from palimpsest.relations.labelers.label_types import LabelPair, LabelResult
from palimpsest.relations.labelers.offline_labeler import question_of
from palimpsest.relations.labelers.pairs_file import PairRow, pair_from_row
from palimpsest.text.quantities import compare_quantities
from palimpsest.text.words import content_words, fold, stem_words

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


MAX_WRONG, MAX_WRONG_UNDATED = 0.005, 0.02
"""Of the training pairs that are no UPDATE, how many may get one while they are kept apart. An UPDATE without dates
retires nothing."""
DEFAULT_LEAST_UPDATE = 0.9
"""Probability from which a pair is an UPDATE, where none can be kept apart."""
_MIN_PAIRS = 40
_CODE = ("palimpsest.relations.labelers.trained_labeler",)
_FOLDS = 5
_STRENGTH = 0.05  # inverse of the penalty on weights
_NEGATIONS = frozenset({"not", "no", "never", "longer", "without"})
_REASONS = frozenset({"because", "so", "therefore", "thus", "hence", "if"})


@dataclass(frozen=True)
class TrainedLabeler:
    """See RelationLabeler.

    Attributes:
        judge: reads pairs.
        classifier: of `pair_numbers`.
        least_update: probability from which a pair is an UPDATE.
        program_hash: names the pairs that it was trained on, and the judge.
    """

    judge: ChangeEncoder
    classifier: "Pipeline"
    least_update: float
    program_hash: str

    name = "offline"
    reads_together = False

    def label(self, pairs: list[LabelPair]) -> list[LabelResult]:
        """Returns one result for each pair, in order."""
        if not pairs:
            return []
        probabilities = self.classifier.predict_proba(pair_numbers(self.judge, pairs))
        return [self._result(pair, p) for pair, p in zip(pairs, probabilities, strict=True)]

    def _result(self, pair: LabelPair, p: np.ndarray) -> LabelResult:
        if fold(pair.newer) == fold(pair.older):
            return LabelResult("NONE", 1.0, {"rule": "same text"})
        of_label = dict(zip(self._labels, p.tolist(), strict=True))
        update = of_label.pop("UPDATE", 0.0)
        if update >= self.least_update and pair.order != -1:
            return LabelResult("UPDATE", round(update, 3), {"rule": "model"}, likelihood=round(update, 3))
        label = max(of_label, key=of_label.__getitem__, default="NONE")
        confidence = of_label.get(label, 0.0)
        evidence: JsonObject = {"rule": "model"}
        if is_unsure := update > confidence:
            evidence["instead_of"] = "UPDATE"
        return LabelResult(label, round(confidence, 3), evidence, decided=not is_unsure, likelihood=round(update, 3))

    @cached_property
    def _labels(self) -> list[str]:
        return [str(label) for label in self.classifier.classes_]


def train_labeler(rows: Sequence[PairRow]) -> TrainedLabeler:
    """Trains a labeler on labelled pairs, the same for every order of them.

    Pairs that share a domain (where there are several), a group or a text are kept apart together while the threshold
    of UPDATE is fitted.

    Raises:
        PalimpsestError: too few pairs, or fewer than two labels.
    """
    rows = sorted(rows, key=_training_fields)
    labels = np.array([row["label"] for row in rows])
    if len(rows) < _MIN_PAIRS or len(set(labels)) < 2:
        raise PalimpsestError(f"--train: needs at least {_MIN_PAIRS} pairs of two labels, found {len(rows)}; add more")
    judge = shipped_encoder(JUDGE_FILE)
    pairs = [pair_from_row(row) for row in rows]
    numbers = pair_numbers(judge, pairs)
    max_wrong = MAX_WRONG if any(pair.order is not None for pair in pairs) else MAX_WRONG_UNDATED
    versions = (f"{name} {version(name)}" for name in ("scikit-learn", "numpy", "onnxruntime"))
    program = content_id("trained", code_hash(_CODE), judge.key, *versions, *map(_training_fields, rows))
    with threadpool_limits(1):  # the last bits of a fit depend on the number of threads
        classifier = _classifier().fit(numbers, labels)
        line = least_update(numbers, labels, text_groups(rows), max_wrong)
    return TrainedLabeler(judge, classifier, line, program)


def _training_fields(row: PairRow) -> str:
    fields = ("older", "newer", "older_date", "newer_date", "label", "group", "domain")
    return json.dumps({name: row.get(name) for name in fields}, sort_keys=True)


def _classifier() -> "Pipeline":
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=_STRENGTH, max_iter=1000))


def text_groups(rows: Sequence[PairRow]) -> np.ndarray:
    """Returns the number of the group of each pair: those of one group share a key with each other, directly or not."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    by_domain = len({row.get("domain") for row in rows}) > 1
    keys = [[f"text {row['older']}", f"text {row['newer']}"] for row in rows]
    for of_row, row in zip(keys, rows, strict=True):
        of_row += [f"group {group}"] if (group := row.get("group")) else []
        of_row += [f"domain {domain}"] if by_domain and (domain := row.get("domain")) else []
    number = {key: len(rows) + n for n, key in enumerate(dict.fromkeys(key for of_row in keys for key in of_row))}
    ends = [(i, number[key]) for i, of_row in enumerate(keys) for key in of_row]
    size = len(rows) + len(number)
    graph = coo_array((np.ones(len(ends)), np.array(ends).T), shape=(size, size))
    found: np.ndarray = connected_components(graph, directed=False)[1][: len(rows)]
    return found


def least_update(numbers: np.ndarray, labels: np.ndarray, groups: np.ndarray, max_wrong: float = MAX_WRONG) -> float:
    """Returns the least probability that gives no more than a share of the other pairs an UPDATE while kept apart."""
    from sklearn.model_selection import GroupKFold

    folds = min(_FOLDS, len(set(groups.tolist())))
    wrong: list[float] = []
    for train, test in GroupKFold(folds).split(numbers, labels, groups) if folds > 1 else ():
        if len(set(labels[train])) < 2 or "UPDATE" not in labels[train]:
            continue
        fitted = _classifier().fit(numbers[train], labels[train])
        update = fitted.predict_proba(numbers[test])[:, list(fitted.classes_).index("UPDATE")]
        wrong += update[labels[test] != "UPDATE"].tolist()
    if not wrong:
        return DEFAULT_LEAST_UPDATE
    line = sorted(wrong, reverse=True)[int(max_wrong * len(wrong))] + 1e-3
    return min(0.999, max(0.5, line))


def pair_numbers(judge: ChangeEncoder, pairs: Sequence[LabelPair]) -> np.ndarray:
    """Returns what the classifier sees of pairs, shape (n, 7 + hidden + 24).

    Args:
        judge: its score, log probabilities of classes, and features.
        pairs: at least one.
    """
    with progress("label", len(pairs), "pairs") as advance:
        read = judge.read([question_of([pair]) for pair in pairs], advance)
    rows = [
        np.concatenate([r.scores[:1], r.classes[0], r.features[0], shared_words(p.older, p.newer), _order(p)])
        for r, p in zip(read, pairs, strict=True)
    ]
    return np.round(np.array(rows, np.float64), 4)


def _order(pair: LabelPair) -> list[float]:
    return [float(pair.order is not None), float(pair.order or 0), float(pair.same_day)]


def shared_words(older: str, newer: str) -> list[float]:
    """Returns how the words, names and quantities of two texts overlap."""
    old_words, new_words = older.lower().split(), newer.lower().split()
    old, new = stem_words(content_words(older)), stem_words(content_words(newer))
    old_names, new_names = _names(older), _names(newer)
    shared, longer = len(old & new), max(1, len(old_words), len(new_words))
    same_place = sum(a == b for a, b in zip(old_words, new_words, strict=False))
    return [
        *(shared, len(old), len(new), len(old_words), len(new_words)),
        *(shared / max(1, n) for n in (len(old), len(new), len(old | new))),
        len(new_words) / max(1, len(old_words)),
        same_place / longer,
        *(len(old_names & new_names), len(old_names - new_names), len(new_names - old_names)),
        *(float(not words.isdisjoint(new_words)) for words in (_NEGATIONS, _REASONS)),
        *compare_quantities(older, newer).values(),
    ]


def _names(text: str) -> set[str]:
    return {word.strip(".,;:!?\"'()") for word in text.split()[1:] if word[:1].isupper()}
