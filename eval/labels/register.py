"""Labels of a build against the register: relations that people found in the sources, by uri and quote."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.eval.golden.questions import Quote
from palimpsest.eval.golden.resolve import QuoteIndex

LABELS = ("UPDATE", "EXTEND", "DERIVE", "NONE")
BINS = 5


@dataclass(frozen=True)
class Labelled:
    """A relation that people found, and what the build says of the same two memories; NONE where it says nothing."""

    relation_id: str
    gold: str
    predicted: str
    confidence: float | None


def register_path(data: Path) -> Path:
    """Returns where the register lies below the project's data folder."""
    return data / "golden" / "relations.jsonl"


def compare_register(path: Path, tables: Mapping[str, pl.DataFrame], collection: str) -> list[Labelled]:
    """Returns the register's relations of a collection with the build's labels; a relation in no build is left out.

    Any pair of memories that show the two quotes counts; where they bear several labels, the right one.

    Raises:
        PalimpsestError: a line is not JSON or lacks a field; the message names it.
    """
    rows = [r for r in _rows(path) if r["collection"] == collection]
    quotes = [[Quote(**r["newer"]), *(Quote(**o) for o in r["older"])] for r in rows]
    index = QuoteIndex(tables, collection, {q.uri for group in quotes for q in group})
    labels: dict[tuple[str, str], tuple[str, float | None]] = {}
    own = tables["relations"].filter(pl.col("collection") == collection)
    for newer_id, older_id, label, confidence in own.select("newer_id", "older_id", "label", "confidence").iter_rows():
        labels[newer_id, older_id] = (label, confidence)
    done = []
    for row, (newer, *older) in zip(rows, quotes, strict=True):
        newer_ids = index.find_memories(newer, row["user"])
        older_ids = [index.find_memories(q, row["user"]) for q in older]
        if isinstance(newer_ids, str) or any(isinstance(ids, str) for ids in older_ids):
            continue
        found = [labels[n, o] for n in sorted(newer_ids) for ids in older_ids for o in sorted(ids) if (n, o) in labels]
        right = [f for f in found if f[0] == row["label"]]
        said = [f for f in found if f[0] != "NONE"]
        predicted, confidence = (right or said or found or [("NONE", None)])[0]
        done.append(Labelled(row["id"], row["label"], predicted, confidence))
    return done


def confusion(labelled: Iterable[Labelled]) -> dict[str, dict[str, int]]:
    """Returns gold -> predicted -> count, all labels, zeros included."""
    counts = {gold: dict.fromkeys(LABELS, 0) for gold in LABELS}
    for item in labelled:
        counts[item.gold][item.predicted] += 1
    return counts


def calibration(labelled: Sequence[Labelled], bins: int = BINS) -> list[dict[str, float]]:
    """Returns, for each bin of confidence that holds a label, its mean confidence, the share that is right, and n."""
    told = [(x.confidence, x.gold == x.predicted) for x in labelled if x.confidence is not None]
    groups: dict[int, list[tuple[float, bool]]] = {}
    for confidence, right in told:
        groups.setdefault(min(int(confidence * bins), bins - 1), []).append((confidence, right))
    return [
        {"confidence": sum(c for c, _ in g) / len(g), "right": sum(r for _, r in g) / len(g), "n": len(g)}
        for _, g in sorted(groups.items())
    ]


def _rows(path: Path) -> list[dict]:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n") if path.exists() else [], 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            missing = [f for f in ("id", "collection", "user", "label", "newer", "older") if f not in row]
        except (ValueError, TypeError):
            raise PalimpsestError(f"{path.name} line {number}: not a JSON object; fix it ({path})") from None
        if missing:
            raise PalimpsestError(f"{path.name} line {number}: {missing[0]} is required ({path})")
        if row["label"] not in LABELS:
            raise PalimpsestError(f"{path.name} line {number}: label {row['label']!r} is none of {', '.join(LABELS)}")
        rows.append(row)
    return rows
