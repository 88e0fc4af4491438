"""Files of pairs: one JSON object a line, with texts, perhaps dates, perhaps a label."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

from palimpsest.core.errors import PalimpsestError
from palimpsest.relations.classify.label_types import LABELS, LabelPair

_REQUIRED = ("id", "older", "newer")


def read_pairs_file(path: Path, option: str = "--pairs", labelled: bool = False) -> list[dict[str, Any]]:
    """Returns the lines of a pairs file.

    Args:
        path: the file.
        option: what named it, for messages.
        labelled: each line must have a label.

    Raises:
        PalimpsestError: the file or a line is unusable; the message names line and field.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as e:
        raise PalimpsestError(f"{option}: cannot read {path}: {e}") from None
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise PalimpsestError(f"{path}: line {number} is not JSON; fix it") from None
        for field in _REQUIRED:
            if not isinstance(row, dict) or not isinstance(row.get(field), str):
                raise PalimpsestError(f"{path}: line {number}: {field} is required and must be text")
        if labelled and row.get("label") not in LABELS:
            raise PalimpsestError(f"{path}: line {number}: label must be one of {', '.join(LABELS)}")
        pair_from_row(row)
        rows.append(row)
    if not rows:
        raise PalimpsestError(f"{path}: no pairs; add lines with id, older and newer")
    return rows


def pair_from_row(row: dict[str, Any]) -> LabelPair:
    """Returns a line as a pair.

    Raises:
        PalimpsestError: a date is none.
    """
    return LabelPair(
        f"{row['id']}/newer",
        f"{row['id']}/older",
        row["newer"],
        row["older"],
        newer_at=_time(row, "newer_date"),
        older_at=_time(row, "older_date"),
    )


def _time(row: dict[str, Any], field: str) -> dt.datetime | None:
    if not row.get(field):
        return None
    try:
        parsed = dt.datetime.fromisoformat(str(row[field]))
    except ValueError:
        found = repr(str(row[field])[:40])
        raise PalimpsestError(f"{row['id'][:60]}: {field} {found} is no ISO 8601 date") from None
    return parsed.replace(tzinfo=dt.UTC) if parsed.tzinfo is None else parsed
