"""`palimpsest label`: labels pairs of texts from a JSONL file."""

import datetime as dt
import json
import time
from pathlib import Path
from typing import Any

from pipelines.errors import PalimpsestError
from pipelines.store.files import write_bytes

_REQUIRED = ("id", "older", "newer")


def read_pairs(path: Path) -> list[dict[str, Any]]:
    """Returns the lines of a pairs file.

    Raises:
        PalimpsestError: the file or a line is unusable; the message names line and field.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as e:
        raise PalimpsestError(f"--pairs: cannot read {path}: {e}") from None
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            raise PalimpsestError(f"{path}: line {number} is not JSON; mend it") from None
        for field in _REQUIRED:
            if not isinstance(row, dict) or not isinstance(row.get(field), str):
                raise PalimpsestError(f"{path}: line {number}: {field} is required and must be text")
        rows.append(row)
    if not rows:
        raise PalimpsestError(f"{path}: no pairs; add lines with id, older and newer")
    return rows


def _time(row: dict[str, Any], field: str) -> dt.datetime | None:
    if not row.get(field):
        return None
    try:
        parsed = dt.datetime.fromisoformat(str(row[field]))
    except ValueError:
        found = repr(str(row[field])[:40])
        raise PalimpsestError(f"--pairs: {row['id'][:60]}: {field} {found} is no ISO 8601 date") from None
    return parsed.replace(tzinfo=dt.UTC) if parsed.tzinfo is None else parsed


def label_file(pairs_file: Path, out_file: Path) -> dict[str, Any]:
    """Labels a pairs file with the offline labeler and writes each line with predicted, confidence and labeler.

    Returns:
        `{"pairs", "seconds": {"load", "features", "predict"}}`.
    """
    rows = read_pairs(pairs_file)
    started = time.perf_counter()
    from pipelines.memory.relations import LabelPair, OfflineLabeler

    labeler = OfflineLabeler()
    loaded = time.perf_counter()
    pairs = [
        LabelPair(
            f"{r['id']}/newer",
            f"{r['id']}/older",
            r["newer"],
            r["older"],
            newer_at=_time(r, "newer_date"),
            older_at=_time(r, "older_date"),
        )
        for r in rows
    ]
    prepared = time.perf_counter()
    labelled = labeler.label(pairs)
    done = time.perf_counter()
    out = [
        r | {"predicted": x.label, "confidence": x.confidence, "labeler": labeler.name}
        for r, x in zip(rows, labelled, strict=True)
    ]
    write_bytes(out_file, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in out).encode())
    seconds = {"load": loaded - started, "features": prepared - loaded, "predict": done - prepared}
    return {"pairs": len(rows), "seconds": seconds}
