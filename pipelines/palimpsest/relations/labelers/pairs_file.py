"""Files of pairs: one JSON object a line, with texts, and optionally dates, a label, a group."""

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_bytes
from palimpsest.relations.labelers.label_types import LABELS, LabelPair
from palimpsest.store.home import data_file

_REQUIRED = ("id", "older", "newer")


class PairRow(TypedDict):
    """A line of a pairs file; other fields are kept as they are.

    `older_date` and `newer_date` are ISO 8601; pairs of one `group` are kept apart together in training; `split` is
    train or test; `source` is the data set a pair comes from. `domain` (what it is about), `form` (how the change, or
    what only looks like one, is said) and `conflict` (dynamic, static, conditional, none) are stated of written pairs:
    figures are reported by them.
    """

    id: str
    older: str
    newer: str
    label: NotRequired[str]
    older_date: NotRequired[str]
    newer_date: NotRequired[str]
    group: NotRequired[str]
    split: NotRequired[str]
    source: NotRequired[str]
    domain: NotRequired[str]
    form: NotRequired[str]
    conflict: NotRequired[str]


def read_pairs_file(path: Path, option: str = "--pairs", labelled: bool = False) -> list[PairRow]:
    """Returns the lines of a pairs file.

    Args:
        path: the file.
        option: the option that named it, for messages.
        labelled: each line must have a label.

    Raises:
        PalimpsestError: the file or a line is unusable; the message names line and field.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as e:
        raise PalimpsestError(f"{option}: cannot read {path}: {e}") from None
    rows = [_parse_line(path, number, line, labelled) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise PalimpsestError(f"{path}: no pairs; add lines with id, older and newer")
    return rows


def write_pairs_file(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Writes the lines of a pairs file.

    Raises:
        PalimpsestError: it cannot be written.
    """
    try:
        write_bytes(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
    except OSError as e:
        raise PalimpsestError(f"--out {path}: {e.strerror}; name another") from None


def group_of(row: PairRow) -> str:
    """Returns the group of a pair, its id where it has none: pairs of one group are kept apart together."""
    return str(row.get("group") or row["id"])


def _parse_line(path: Path, number: int, line: str, labelled: bool) -> PairRow:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise PalimpsestError(f"{path}: line {number} is not JSON; fix it") from None
    for field in _REQUIRED:
        if not isinstance(row, dict) or not isinstance(row.get(field), str):
            raise PalimpsestError(f"{path}: line {number}: {field} is required and must be text")
    if labelled and row.get("label") not in LABELS:
        raise PalimpsestError(f"{path}: line {number}: label must be one of {', '.join(LABELS)}")
    pair_row = cast(PairRow, row)
    pair_from_row(pair_row)
    return pair_row


def pair_from_row(row: PairRow) -> LabelPair:
    """Returns a line as a pair.

    Raises:
        PalimpsestError: a date is not one.
    """
    return LabelPair(
        f"{row['id']}/newer",
        f"{row['id']}/older",
        row["newer"],
        row["older"],
        newer_at=_parse_date(row["id"], "newer_date", row.get("newer_date")),
        older_at=_parse_date(row["id"], "older_date", row.get("older_date")),
    )


def _parse_date(pair_id: str, field: str, text: object) -> dt.datetime | None:
    if not text:
        return None
    try:
        parsed = dt.datetime.fromisoformat(str(text))
    except ValueError:
        raise PalimpsestError(f"{pair_id[:60]}: {field} {str(text)[:40]!r} is not an ISO 8601 date") from None
    return parsed.replace(tzinfo=dt.UTC) if parsed.tzinfo is None else parsed


# The checked-in labeled pairs: those of data/golden/pairs.jsonl, and those of each domain in data/golden/pairs.


def golden_pairs(split: str) -> list[PairRow]:
    """Returns the pairs of data/golden/pairs.jsonl of a split: train or test."""
    return [r for r in read_pairs_file(data_file("golden/pairs.jsonl"), "golden pairs") if r["split"] == split]


def written_pairs(split: str) -> list[PairRow]:
    """Returns the pairs of the domains of a split, sorted by domain; no domain is in both splits."""
    files = sorted(data_file("golden/pairs").glob("*.jsonl"))
    return [r for path in files for r in read_pairs_file(path, "golden pairs") if r["split"] == split]
