"""`palimpsest label`: labels a file of pairs; and the figures of labels against what people said."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_bytes
from palimpsest.relations.classify.label_types import LABELS, LabelResult
from palimpsest.store.home import Home, home_from_environment

BINS = 10


@dataclass(frozen=True)
class Judged:
    """One labelled pair against the label that a person, or a source, gave it."""

    id: str
    label: str
    predicted: str
    confidence: float
    source: str = ""
    decided: bool = True


def f1(pairs: Sequence[Judged], label: str) -> float:
    """Returns F1 of one label; 0 where nobody says it."""
    said = sum(p.predicted == label for p in pairs)
    true = sum(p.label == label for p in pairs)
    both = sum(p.label == label == p.predicted for p in pairs)
    return 2 * both / (said + true) if said + true else 0.0


def two_class(pairs: Sequence[Judged], label: str) -> float:
    """Returns the macro-F1 of `label` against everything else: a constant answer scores low."""
    told = [Judged(p.id, str(p.label == label), str(p.predicted == label), 1.0) for p in pairs]
    return (f1(told, "True") + f1(told, "False")) / 2


def wilson(hits: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Returns the 95 % interval of a share (Wilson 1927), which holds for rare events; (0, 1) for no trials."""
    if not n:
        return 0.0, 1.0
    p = hits / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def figures(pairs: Sequence[Judged]) -> dict[str, Any]:
    """Returns macro-F1, P/R/F1 of each label, the false-retirement rate with its interval, ECE, and coverage.

    A false retirement is a pair that is not UPDATE and was labelled so. ECE is the expected gap between confidence and
    accuracy over ten bins of confidence (Guo et al. 2017), of the pairs that were decided.
    """
    labels = {}
    for label in LABELS:
        said = sum(p.predicted == label for p in pairs)
        true = sum(p.label == label for p in pairs)
        both = sum(p.label == label == p.predicted for p in pairs)
        labels[label] = {
            "precision": _ratio(both, said),
            "recall": _ratio(both, true),
            "f1": round(f1(pairs, label), 4),
            "pairs": true,
        }
    other = [p for p in pairs if p.label != "UPDATE"]
    wrong = sum(p.predicted == "UPDATE" for p in other)
    decided = [p for p in pairs if p.decided]
    bins = reliability(decided)
    return {
        "pairs": len(pairs),
        "macro_f1": round(sum(f1(pairs, label) for label in LABELS) / len(LABELS), 4),
        "accuracy": _ratio(sum(p.label == p.predicted for p in pairs), len(pairs)),
        "labels": labels,
        "false_retirement": {
            "pairs": wrong,
            "of": len(other),
            "rate": _ratio(wrong, len(other)),
            "interval": [round(x, 4) for x in wilson(wrong, len(other))],
        },
        "ece": round(sum(abs(b["confidence"] - b["accuracy"]) * b["pairs"] for b in bins) / max(1, len(decided)), 4),
        "reliability": bins,
        "coverage": _ratio(len(decided), len(pairs)),
    }


def reliability(pairs: Iterable[Judged]) -> list[dict[str, float]]:
    """Returns, for each tenth of confidence that occurs: mean confidence, share right, pairs."""
    bins: dict[int, list[Judged]] = {}
    for p in pairs:
        bins.setdefault(min(BINS - 1, int(p.confidence * BINS)), []).append(p)
    return [
        {
            "confidence": round(sum(p.confidence for p in b) / len(b), 4),
            "accuracy": _ratio(sum(p.label == p.predicted for p in b), len(b)),
            "pairs": len(b),
        }
        for _, b in sorted(bins.items())
    ]


def by_source(pairs: Sequence[Judged]) -> dict[str, dict[str, Any]]:
    """Returns, for each source: pairs, accuracy, false retirements, and two-class macro-F1 of its commonest label."""
    out = {}
    for source in sorted({p.source for p in pairs}):
        own = [p for p in pairs if p.source == source]
        counts = Counter(p.label for p in own if p.label != "NONE")
        common = min(counts, key=lambda label: (-counts[label], label), default="NONE")
        told = figures(own)
        out[source or "all"] = {
            "pairs": len(own),
            "accuracy": told["accuracy"],
            "false_retirement": told["false_retirement"],
            "two_class": {common: round(two_class(own, common), 4)},
        }
    return out


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def judged(rows: Sequence[dict[str, Any]], answers: Sequence[LabelResult]) -> list[Judged]:
    """Returns answers beside the labels of the lines they belong to."""
    return [
        Judged(r["id"], r["label"], a.label, a.confidence, str(r.get("source", "")), a.decided)
        for r, a in zip(rows, answers, strict=True)
    ]


def label_file(
    pairs_file: Path,
    out_file: Path,
    labeler_name: str = "offline",
    train_file: Path | None = None,
    max_cost: float | None = None,
    home_path: Path | None = None,
) -> dict[str, Any]:
    """Labels a pairs file and writes each line with predicted, confidence, labeler, and `abstained` where it is so.

    Args:
        pairs_file: JSONL of pairs.
        out_file: where the answers go.
        labeler_name: offline, dspy or cascade.
        train_file: labelled pairs to train the offline labeler on, instead of the checked-in ones.
        max_cost: money that may be spent on an LM.
        home_path: where the LM's ledger lies.

    Returns:
        `{"pairs", "seconds": {"load", "features", "predict"}, "usage", "figures"}`, the last for labelled lines.
    """
    from palimpsest.relations.classify.features.prepare_pair import compute_features, prepare_pair
    from palimpsest.relations.classify.pairs_file import pair_from_row, read_pairs_file

    started = time.perf_counter()
    rows = read_pairs_file(pairs_file)
    labeler: Any = _labeler(labeler_name, train_file, max_cost, home_path)
    if labeler_name == "offline":
        # The parser is loaded with the labeler, not with the first pair.
        compute_features([prepare_pair(pair_from_row(rows[0]))])
    loaded = time.perf_counter()
    pairs = [pair_from_row(r) for r in rows]
    if labeler_name == "offline":
        read = labeler.read(pairs)
        prepared = time.perf_counter()
        labelled = labeler.decide(read)
    else:
        prepared = time.perf_counter()
        labelled = labeler.label(pairs)
    done = time.perf_counter()
    out = [
        r
        | {"predicted": x.label, "confidence": round(x.confidence, 4), "labeler": x.labeler or labeler.name}
        | ({} if x.decided else {"abstained": True})
        for r, x in zip(rows, labelled, strict=True)
    ]
    try:
        write_bytes(out_file, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in out).encode())
    except OSError as e:
        raise PalimpsestError(f"--out {out_file}: {e.strerror}; name another") from None
    known = [(r, x) for r, x in zip(rows, labelled, strict=True) if r.get("label") in LABELS]
    measured = judged([r for r, _ in known], [x for _, x in known])
    return {
        "pairs": len(rows),
        "seconds": {"load": loaded - started, "features": prepared - loaded, "predict": done - prepared},
        "usage": {
            "lm_calls": sum(x.lm_calls for x in labelled),
            "tokens": sum(x.tokens for x in labelled),
            "cost": round(sum(x.cost for x in labelled), 6),
            "abstained": sum(not x.decided for x in labelled),
        },
        **({"figures": figures(measured), "by_source": by_source(measured)} if measured else {}),
    }


def _labeler(name: str, train_file: Path | None, max_cost: float | None, home_path: Path | None) -> Any:
    from palimpsest.relations.classify.model.model_cache import default_model, train_on_pairs
    from palimpsest.relations.classify.offline_labeler import OfflineLabeler
    from palimpsest.relations.classify.pairs_file import read_pairs_file

    model = train_on_pairs(read_pairs_file(train_file, "--train", labelled=True)) if train_file else default_model()
    offline = OfflineLabeler(model)
    if name == "offline":
        return offline
    from palimpsest.relations.classify.choose_labeler import lm_labeler

    return lm_labeler(name, offline, Home(home_path) if home_path else home_from_environment(), max_cost)


def figures_text(told: dict[str, Any]) -> str:
    """Returns figures as a small table."""
    lines = [f"{'':8}{'P':>8}{'R':>8}{'F1':>8}{'pairs':>7}"]
    for label, f in told["labels"].items():
        lines.append(f"{label:8}{f['precision']:8.3f}{f['recall']:8.3f}{f['f1']:8.3f}{f['pairs']:7}")
    wrong = told["false_retirement"]
    lines.append(
        f"macro-F1 {told['macro_f1']:.3f}; falsely retired {wrong['pairs']} of {wrong['of']} "
        f"({100 * wrong['rate']:.2f} %, 95 % {100 * wrong['interval'][0]:.2f} to {100 * wrong['interval'][1]:.2f}); "
        f"ECE {told['ece']:.3f}; decided {100 * told['coverage']:.0f} %"
    )
    return "\n".join(lines)
