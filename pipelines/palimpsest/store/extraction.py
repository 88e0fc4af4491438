"""The file of what a reader extracted from one version of a source: a checksum, then JSON.

A collection may have fifty thousand of them: one is written and read in a tenth of a millisecond, where a Parquet file
of so few rows takes two. Files that an earlier version wrote are Parquet and are read as well.
"""

import datetime as dt
import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import polars as pl

from palimpsest.core.errors import DamagedFile
from palimpsest.core.json_types import JsonObject
from palimpsest.store.sealed_parquet import is_damaged, read_sealed
from palimpsest.store.tables import Schema

SUFFIX = ".extracted"
EXTRACTION: Schema = {
    "user_id": pl.String,
    "project_id": pl.String,
    "session_id": pl.String,
    "uri": pl.String,
    "title": pl.String,
    "media_type": pl.String,
    "text": pl.String,
    "source_time": pl.Datetime("us", "UTC"),
    "utc_offset": pl.Int64,
    "metadata": pl.String,
    "relations": pl.String,
    "segments": pl.String,
    "kind": pl.String,
    "redactions": pl.String,
}
_NO_FIX = ""


def write_extraction(path: Path, rows: Sequence[Mapping[str, object]], reading: JsonObject | None = None) -> None:
    """Writes documents, aside first, then in one rename; `reading` is what else is known of reading their source."""
    documents = [[_to_json(row.get(name)) for name in EXTRACTION] for row in rows]
    data = json.dumps({"documents": documents, "reading": reading}, ensure_ascii=False).encode()
    sealed = _checksum(data) + b"\n" + data
    aside = path.with_name(f".{path.name}.tmp")
    with suppress(FileNotFoundError):
        aside.write_bytes(sealed)
        aside.replace(path)
        return
    path.parent.mkdir(parents=True, exist_ok=True)  # not before each file: that takes longer than to write it
    aside.write_bytes(sealed)
    aside.replace(path)


def read_extraction(path: Path, fix: str) -> tuple[list[dict[str, object]], JsonObject]:
    """Returns the documents of a file as rows of `EXTRACTION`, and what else is known of reading their source.

    Raises:
        DamagedFile: the file is missing or damaged; `fix` is part of the message.
        PermissionError: this user may not read it.
    """
    if path.suffix != SUFFIX:
        found = read_sealed(path, fix)
        return [{name: row.get(name) for name in EXTRACTION} for row in found.to_dicts()], {}
    try:
        checksum, _, data = path.read_bytes().partition(b"\n")
    except PermissionError:
        raise  # it is not damaged
    except OSError:
        raise DamagedFile(path, fix) from None
    if checksum != _checksum(data):
        raise DamagedFile(path, fix)
    value = json.loads(data)
    return [_to_row(document) for document in value["documents"]], value["reading"] or {}


def is_extraction_damaged(path: Path, after_ns: int = 0) -> bool:
    """Returns whether a file is missing, cut off or changed; it is read where it was changed after `after_ns`.

    Raises:
        PermissionError: this user may not read it.
    """
    if path.suffix != SUFFIX:
        return is_damaged(path, after_ns)
    try:
        if path.stat().st_mtime_ns > after_ns:
            read_extraction(path, _NO_FIX)
    except PermissionError:
        raise  # it is not damaged
    except (OSError, DamagedFile):
        return True
    return False


def _to_json(value: object) -> object:
    return value.isoformat() if isinstance(value, dt.datetime) else value


def _to_row(values: Sequence[object]) -> dict[str, object]:
    row = dict(zip(EXTRACTION, values, strict=True))
    time = row["source_time"]
    return row | {"source_time": dt.datetime.fromisoformat(time) if isinstance(time, str) else None}


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).hexdigest().encode()
