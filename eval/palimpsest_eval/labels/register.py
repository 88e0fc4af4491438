"""Labels of a build against the register: relations that people found in the sources, by uri and quote."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest_eval.golden.questions import Quote
from palimpsest_eval.golden.resolve import QuoteIndex
from palimpsest_eval.labels.label_metrics import ReliabilityBin, reliability
from palimpsest_eval.metrics import numbered_lines

LABELS = ("UPDATE", "EXTEND", "DERIVE", "NONE")
_BINS = 5
_FIELDS = ("id", "collection", "user", "label", "newer", "older")


@dataclass(frozen=True)
class RegisterRelation:
    """A line of the register; the relation leads from the newer quote to any of the older ones.

    `kind` marks what a test or a study counts, such as `plain` and `trap`; None where the line has none.
    """

    id: str
    collection: str
    user: str
    label: str
    newer: Quote
    older: tuple[Quote, ...]
    kind: str | None = None


@dataclass(frozen=True)
class RegisterPrediction:
    """A relation's right label, and the build's label of the same two memories.

    `predicted` is NONE, without a confidence, where the build has no relation between them.
    """

    relation_id: str
    gold: str
    predicted: str
    confidence: float | None


def register_path(data: Path) -> Path:
    """Returns the path of the register below the project's data folder."""
    return data / "golden" / "relations.jsonl"


def compare_register(path: Path, tables: Mapping[str, pl.DataFrame], collection: str) -> list[RegisterPrediction]:
    """Returns the build's labels of the register's relations of a collection.

    A relation whose quotes are not in the build is left out. Any pair of memories that show the two quotes counts; of
    several labels the right one, else one that is not NONE.

    Raises:
        PalimpsestError: a line is not JSON or lacks a field; the message names it.
    """
    relations = [r for r in read_register(path) if r.collection == collection]
    index = QuoteIndex(tables, collection, {quote.uri for r in relations for quote in (r.newer, *r.older)})
    columns = ("newer_id", "older_id", "label", "confidence")
    rows = tables["relations"].filter(pl.col("collection") == collection).select(columns).iter_rows()
    labels: dict[tuple[str, str], tuple[str, float | None]] = {
        (newer_id, older_id): (label, confidence) for newer_id, older_id, label, confidence in rows
    }
    found = []
    for relation in relations:
        newer_ids = index.find_memories(relation.newer, relation.user)
        older_ids = [index.find_memories(quote, relation.user) for quote in relation.older]
        if isinstance(newer_ids, str) or any(isinstance(ids, str) for ids in older_ids):
            continue
        pairs = [(newer, older) for newer in sorted(newer_ids) for ids in older_ids for older in sorted(ids)]
        predicted, confidence = _best_label([labels[p] for p in pairs if p in labels], relation.label)
        found.append(RegisterPrediction(relation.id, relation.label, predicted, confidence))
    return found


def _best_label(found: Sequence[tuple[str, float | None]], gold: str) -> tuple[str, float | None]:
    """Returns the first (label, confidence) that is right, else that is not NONE, else the first; NONE of nothing."""
    right = [f for f in found if f[0] == gold]
    related = [f for f in found if f[0] != "NONE"]
    return (*right, *related, *found, ("NONE", None))[0]


def confusion(predictions: Iterable[RegisterPrediction]) -> dict[str, dict[str, int]]:
    """Returns gold -> predicted -> count, all labels, zeros included."""
    counts = {gold: dict.fromkeys(LABELS, 0) for gold in LABELS}
    for item in predictions:
        counts[item.gold][item.predicted] += 1
    return counts


def calibration(predictions: Iterable[RegisterPrediction]) -> tuple[ReliabilityBin, ...]:
    """Returns a bin for each fifth of confidence that occurs, ascending; labels without a confidence are left out."""
    outcomes = ((p.confidence, p.gold == p.predicted) for p in predictions)
    return reliability(((c, right) for c, right in outcomes if c is not None), _BINS)


def read_register(path: Path) -> list[RegisterRelation]:
    """Returns the lines of the register; none where the file does not exist.

    Raises:
        PalimpsestError: a line is not JSON or lacks a field; the message names it.
    """
    relations = []
    for where, line in numbered_lines(path) if path.exists() else ():
        try:
            row = json.loads(line)
            missing = [f for f in _FIELDS if f not in row]
        except (ValueError, TypeError):
            raise PalimpsestError(f"{where}: not a JSON object; fix it ({path})") from None
        if missing:
            raise PalimpsestError(f"{where}: {missing[0]} is required ({path})")
        if row["label"] not in LABELS:
            raise PalimpsestError(f"{where}: label {row['label']!r} is none of {', '.join(LABELS)}")
        newer, older = Quote(**row["newer"]), tuple(Quote(**quote) for quote in row["older"])
        known = (row["id"], row["collection"], row["user"], row["label"], newer, older, row.get("kind"))
        relations.append(RegisterRelation(*known))
    return relations
