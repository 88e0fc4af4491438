"""`palimpsest label`: labels a file of pairs, and measures the labels where the file has the right ones."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject, JsonRecord
from palimpsest.relations.labelers.label_types import LABELS, LabelResult, RelationLabeler
from palimpsest.relations.labelers.pairs_file import PairRow, pair_from_row, read_pairs_file, write_pairs_file
from palimpsest.store.home import Home, home_from_environment
from palimpsest_eval.labels.label_metrics import (
    LabelMetrics,
    SourceMetrics,
    label_metrics,
    metrics_by,
    predictions,
)


@dataclass(frozen=True)
class LabelSeconds:
    """Seconds to load the labeler, training included, and to label; `features` are part of that, and 0."""

    load: float
    features: float
    predict: float


@dataclass(frozen=True)
class LabelUsage:
    """LM calls, their tokens and cost, and pairs on which the labeler abstained."""

    lm_calls: int
    tokens: int
    cost: float
    abstained: int


@dataclass(frozen=True)
class LabelReport(JsonRecord):
    """What labelling a file took, and for lines with a right label its metrics, else None."""

    json_names: ClassVar = {"metrics": "figures"}
    json_has_none = False

    pairs: int
    seconds: LabelSeconds
    usage: LabelUsage
    metrics: LabelMetrics | None
    by_source: Mapping[str, SourceMetrics] | None


def label_file(
    pairs_file: Path,
    out_file: Path,
    labeler_name: str = "offline",
    train_file: Path | None = None,
    max_cost: float | None = None,
    home_path: Path | None = None,
) -> LabelReport:
    """Labels a pairs file and writes each line with predicted, confidence, labeler, and `abstained` where it is so.

    Args:
        pairs_file: JSONL of pairs.
        out_file: where the labelled lines are written.
        labeler_name: offline, dspy or cascade.
        train_file: labelled pairs, on which a classifier is trained that takes the offline labeler's place.
        max_cost: money that may be spent on an LM.
        home_path: the home of the LM's ledger.

    Raises:
        PalimpsestError: a file cannot be read or written, or the labeler is not configured.
        ComponentFailed: most of the model's answers cannot be read; the file is written, readable answers are kept.
    """
    started = time.perf_counter()
    rows = _read_rows(pairs_file)
    home = Home(home_path) if home_path else home_from_environment()
    labeler = _load_labeler(labeler_name, train_file, max_cost, home)
    pairs = [pair_from_row(r) for r in rows]
    loaded = time.perf_counter()
    results = labeler.label(pairs)
    done = time.perf_counter()
    _write_labelled(out_file, rows, results, labeler.name)
    if any("failed" in x.evidence for x in results):
        from palimpsest.relations.labelers.lm_labeler import LmLabeler, check_evidence

        by_lm = [(p.newer_id, p.older_id, x.evidence) for p, x in zip(pairs, results, strict=True)]
        by_lm = [p for p, x in zip(by_lm, results, strict=True) if x.labeler == LmLabeler.name]
        check_evidence(by_lm, home, f"those pairs are NONE in {out_file}", "--labeler offline")
    known = [(r, x) for r, x in zip(rows, results, strict=True) if r.get("label") in LABELS]
    judged = predictions([r for r, _ in known], [x for _, x in known])
    return LabelReport(
        pairs=len(rows),
        seconds=LabelSeconds(load=loaded - started, features=0.0, predict=done - loaded),
        usage=LabelUsage(
            lm_calls=sum(x.lm_calls for x in results),
            tokens=sum(x.tokens for x in results),
            cost=round(sum(x.cost for x in results), 6),
            abstained=sum(not x.decided for x in results),
        ),
        metrics=label_metrics(judged) if judged else None,
        by_source=metrics_by(judged, [p.source for p in judged]) if judged else None,
    )


def _read_rows(path: Path) -> list[PairRow]:
    """Returns the lines of a pairs file.

    Raises:
        PalimpsestError: the file or a line is unusable; the message names the file, what is wrong and the fix.
    """
    if path.is_dir():
        raise PalimpsestError(f"--pairs {path}: a folder; name a JSONL file")
    try:
        rows = read_pairs_file(path)
    except PalimpsestError as e:
        if isinstance(e.__context__, UnicodeDecodeError):
            raise PalimpsestError(f"--pairs {path}: not UTF-8; save it as UTF-8") from None
        if str(path) not in str(e):
            raise PalimpsestError(f"{path}: pair {e}; write a date such as 2026-03-02") from None
        raise
    for row in rows:
        for field, value in row.items():
            if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
                name = row["id"].encode("ascii", "backslashreplace").decode()[:60]
                raise PalimpsestError(f"{path}: pair {name}: {field} has half of a surrogate pair; write the character")
    return rows


def _write_labelled(path: Path, rows: Sequence[PairRow], results: Sequence[LabelResult], labeler: str) -> None:
    """Writes the rows, all their fields included, with what was predicted of them."""
    lines = []
    for row, result in zip(rows, results, strict=True):
        predicted: JsonObject = {
            "predicted": result.label,
            "confidence": round(result.confidence, 4),
            "labeler": result.labeler or labeler,
            "rule": result.rule or "",
        }
        if result.consequence:
            predicted["consequence"] = result.consequence
        if result.likelihood is not None:
            predicted["likelihood"] = result.likelihood
        if result.part:
            predicted["part"] = [list(span) for span in result.part]
        if result.conflict:
            predicted["predicted_conflict"] = result.conflict
        if not result.decided:
            predicted["abstained"] = True
        lines.append({**row, **predicted})
    write_pairs_file(path, lines)


def _load_labeler(name: str, train_file: Path | None, max_cost: float | None, home: Home) -> RelationLabeler:
    from palimpsest.relations.labelers.offline_labeler import offline_labeler
    from palimpsest.relations.labelers.trained_labeler import train_labeler

    rows = read_pairs_file(train_file, "--train", labelled=True) if train_file else None

    def load_offline() -> RelationLabeler:
        return train_labeler(rows) if rows else offline_labeler(none_odds=1.0)

    if name == "offline":
        return load_offline()
    from palimpsest.relations.labelers.choose_labeler import lm_labeler

    return lm_labeler(name, load_offline, home, max_cost)
