"""How well labels agree with those that people, or a source, gave the same pairs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from palimpsest.core.ids import JsonRecord
from palimpsest.relations.labelers.label_types import LABELS, LabelResult
from palimpsest.relations.labelers.pairs_file import PairRow


@dataclass(frozen=True)
class LabelPrediction:
    """A pair's right label, and what a labeler predicted of it; `decided` is false where it abstained."""

    id: str
    label: str
    predicted: str
    confidence: float
    source: str = ""
    decided: bool = True


@dataclass(frozen=True)
class LabelScores:
    """Precision, recall and F1 of one label, and the pairs that have it."""

    precision: float
    recall: float
    f1: float
    pairs: int


@dataclass(frozen=True)
class FalseRetirements:
    """Pairs labelled UPDATE although they are not, `of` all pairs that are not, and the 95 % interval of the rate."""

    pairs: int
    of: int
    rate: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class ReliabilityBin:
    """Pairs of similar confidence: their mean confidence, the share that is right, and how many they are."""

    confidence: float
    accuracy: float
    pairs: int


@dataclass(frozen=True)
class LabelMetrics(JsonRecord):
    """Metrics over labelled pairs, as fractions rounded to 4 decimals.

    Attributes:
        pairs: how many.
        macro_f1: mean F1 over the labels.
        accuracy: share of right labels.
        labels: scores by label.
        false_retirement: pairs falsely labelled UPDATE.
        ece: expected calibration error of the decided pairs: the mean gap between confidence and accuracy over ten
            bins of confidence (Guo et al. 2017).
        reliability: those bins.
        coverage: share of decided pairs.
    """

    pairs: int
    macro_f1: float
    accuracy: float
    labels: Mapping[str, LabelScores]
    false_retirement: FalseRetirements
    ece: float
    reliability: tuple[ReliabilityBin, ...]
    coverage: float

    def text(self) -> str:
        """Returns the metrics as a small table for people."""
        lines = [f"{'':8}{'P':>8}{'R':>8}{'F1':>8}{'pairs':>7}"]
        for label, scores in self.labels.items():
            lines.append(f"{label:8}{scores.precision:8.3f}{scores.recall:8.3f}{scores.f1:8.3f}{scores.pairs:7}")
        wrong, (low, high) = self.false_retirement, self.false_retirement.interval
        lines.append(
            f"macro-F1 {self.macro_f1:.3f}; falsely retired {wrong.pairs} of {wrong.of} "
            f"({100 * wrong.rate:.2f} %, 95 % {100 * low:.2f} to {100 * high:.2f}); "
            f"ECE {self.ece:.3f}; decided {100 * self.coverage:.0f} %"
        )
        return "\n".join(lines)


@dataclass(frozen=True)
class SourceMetrics:
    """Metrics over the pairs of one source, domain or form.

    `two_class` is the macro-F1 of its commonest label against the rest.
    """

    pairs: int
    accuracy: float
    macro_f1: float
    update_recall: float
    false_retirement: FalseRetirements
    two_class: Mapping[str, float]


def predictions(rows: Sequence[PairRow], results: Sequence[LabelResult]) -> list[LabelPrediction]:
    """Returns a labeler's results with the right labels of their rows."""
    return [
        LabelPrediction(r["id"], r["label"], x.label, x.confidence, str(r.get("source", "")), x.decided)
        for r, x in zip(rows, results, strict=True)
    ]


def label_metrics(pairs: Sequence[LabelPrediction]) -> LabelMetrics:
    """Returns the metrics of predictions."""
    others = [p for p in pairs if p.label != "UPDATE"]
    wrong = sum(p.predicted == "UPDATE" for p in others)
    low, high = wilson_interval(wrong, len(others))
    decided = [p for p in pairs if p.decided]
    bins = tuple(
        ReliabilityBin(round(b.confidence, 4), round(b.accuracy, 4), b.pairs)
        for b in reliability((p.confidence, p.label == p.predicted) for p in decided)
    )
    gap = sum(abs(b.confidence - b.accuracy) * b.pairs for b in bins)
    return LabelMetrics(
        pairs=len(pairs),
        macro_f1=round(sum(f1(pairs, label) for label in LABELS) / len(LABELS), 4),
        accuracy=_accuracy(pairs),
        labels={label: _label_scores(pairs, label) for label in LABELS},
        false_retirement=FalseRetirements(
            wrong, len(others), _ratio(wrong, len(others)), (round(low, 4), round(high, 4))
        ),
        ece=round(gap / max(1, len(decided)), 4),
        reliability=bins,
        coverage=_ratio(len(decided), len(pairs)),
    )


def metrics_by(pairs: Sequence[LabelPrediction], names: Sequence[str]) -> dict[str, SourceMetrics]:
    """Returns metrics for each name, sorted; pairs without one are under `all`.

    Args:
        pairs: predictions.
        names: of each pair, its source, domain or form.
    """
    by_name = {}
    for name in sorted(set(names)):
        members = [p for p, n in zip(pairs, names, strict=True) if n == name]
        counts = Counter(p.label for p in members if p.label != "NONE")
        common = min(counts, key=lambda label: (-counts[label], label), default="NONE")
        metrics = label_metrics(members)
        by_name[name or "all"] = SourceMetrics(
            len(members),
            metrics.accuracy,
            metrics.macro_f1,
            metrics.labels["UPDATE"].recall,
            metrics.false_retirement,
            {common: round(two_class_f1(members, common), 4)},
        )
    return by_name


def f1(pairs: Sequence[LabelPrediction], label: str) -> float:
    """Returns F1 of one label; 0 where no pair has it and none was predicted."""
    predicted, true, both = _counts(pairs, label)
    return 2 * both / (predicted + true) if predicted + true else 0.0


def two_class_f1(pairs: Sequence[LabelPrediction], label: str) -> float:
    """Returns the macro-F1 of `label` against everything else: a constant answer scores low."""
    binary = [LabelPrediction(p.id, str(p.label == label), str(p.predicted == label), 1.0) for p in pairs]
    return (f1(binary, "True") + f1(binary, "False")) / 2


def wilson_interval(hits: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Returns the 95 % interval of a share (Wilson 1927), valid for rare events; (0, 1) for no trials."""
    if not n:
        return 0.0, 1.0
    p = hits / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def reliability(outcomes: Iterable[tuple[float, bool]], bins: int = 10) -> tuple[ReliabilityBin, ...]:
    """Returns a bin for each range of confidence that occurs, ascending.

    Args:
        outcomes: (confidence, whether the label is right) of each pair.
        bins: how many ranges of equal width from 0 to 1.
    """
    groups: dict[int, list[tuple[float, bool]]] = {}
    for confidence, right in outcomes:
        groups.setdefault(min(int(confidence * bins), bins - 1), []).append((confidence, right))
    return tuple(
        ReliabilityBin(sum(c for c, _ in g) / len(g), sum(right for _, right in g) / len(g), len(g))
        for _, g in sorted(groups.items())
    )


def _label_scores(pairs: Sequence[LabelPrediction], label: str) -> LabelScores:
    predicted, true, both = _counts(pairs, label)
    return LabelScores(_ratio(both, predicted), _ratio(both, true), round(f1(pairs, label), 4), true)


def _counts(pairs: Sequence[LabelPrediction], label: str) -> tuple[int, int, int]:
    """Returns how many pairs have a label by prediction, by truth, and by both."""
    return (
        sum(p.predicted == label for p in pairs),
        sum(p.label == label for p in pairs),
        sum(p.label == label == p.predicted for p in pairs),
    )


def _accuracy(pairs: Sequence[LabelPrediction]) -> float:
    return _ratio(sum(p.label == p.predicted for p in pairs), len(pairs))


def _ratio(part: int, total: int) -> float:
    return round(part / total, 4) if total else 0.0
