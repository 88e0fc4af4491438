"""The ingest log of a collection: every version of every source that was read and not deleted (decision 6).

`<home>/log/<collection>/versions.parquet` is the one point of commit: a row for each version, in the order they were
seen. `versions.copy.parquet` is the same once more, for the day on which the first is damaged: what it says is written
nowhere else. `<home>/log/<collection>/texts/<key>.extracted` has what a reader extracted from one version. A build is
a pure function of these, so that nothing depends on when or how often a run was interrupted.
"""

import datetime as dt
import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import polars as pl

from palimpsest.core.errors import DamagedFile
from palimpsest.core.files import remove_leftovers, undamaged
from palimpsest.core.ids import JsonObject, content_id
from palimpsest.store.tables import SCHEMAS, Schema

# Parquet files that contain the checksum of their own bytes, so that a flipped bit is found wherever it is.
#
# The checksum is in the metadata at the end of the file and is counted as zeros. It is written with what it is of, in
# one rename: a list of checksums elsewhere would be wrong after a kill between two writes. Files that an earlier
# version wrote have none; of them only what Parquet itself notices is found.

_MARK = b"blake2b:"
_UNKNOWN = b"0" * 32
_DIGEST_BYTES = 16
_TAIL_BYTES = _BLOCK_BYTES = 1 << 20


def write_sealed(
    frame: pl.DataFrame,
    path: Path,
    compression: str = "zstd",
    level: int | None = None,
    row_group_rows: int | None = None,
) -> None:
    """Writes a frame with its checksum, aside first, then in one rename."""
    buffer = io.BytesIO()
    frame.write_parquet(
        buffer,
        compression=compression,  # type: ignore[arg-type]
        compression_level=level,
        row_group_size=row_group_rows,
        metadata={"checksum": (_MARK + _UNKNOWN).decode()},
    )
    # Vectors of a million texts are 1.5 GB: no copy is made of them.
    data = buffer.getbuffer()
    place = _place_of_checksum(bytes(data[-_TAIL_BYTES:]), len(data))
    assert place is not None
    data[place : place + len(_UNKNOWN)] = hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest().encode()
    aside = path.with_name(f".{path.name}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    aside.write_bytes(data)
    aside.replace(path)


def read_sealed(path: Path, fix: str) -> pl.DataFrame:
    """Returns the frame of a file whose checksum is right; a file of an earlier version has none.

    Raises:
        DamagedFile: the file is missing or damaged; `fix` is part of the message.
        PermissionError: this user may not read it.
    """
    check_sealed(path, fix)
    with undamaged(path, fix, pl.exceptions.PolarsError):
        return pl.read_parquet(path, glob=False)


def check_sealed(path: Path, fix: str) -> None:
    """Checks that a file is there and its checksum right, where it has one.

    Raises:
        DamagedFile: as in `read_sealed`.
        PermissionError: this user may not read it.
    """
    try:
        is_right = _has_right_checksum(path)
    except PermissionError:
        raise  # it is not damaged
    except OSError:
        is_right = False
    if is_right is False:
        raise DamagedFile(path, fix)


def is_damaged(path: Path, after_ns: int = 0) -> bool:
    """Returns whether a file is missing, cut off or changed; it is read where it was changed after `after_ns`.

    Raises:
        PermissionError: this user may not read it.
    """
    try:
        if path.stat().st_mtime_ns <= after_ns:
            return False
        is_right = _has_right_checksum(path)
        if is_right is None:
            pl.read_parquet(path, glob=False)
    except PermissionError:
        raise  # it is not damaged
    except (OSError, pl.exceptions.PolarsError):
        return True
    return is_right is False


def _has_right_checksum(path: Path) -> bool | None:
    """Returns None for a file without one: of an earlier version, or so damaged that Parquet notices."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        place = _place_of_checksum(file.read(), size)
        if place is None:
            return None
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        file.seek(0)
        _add(digest, file, place)
        found = file.read(len(_UNKNOWN))
        digest.update(_UNKNOWN)
        _add(digest, file, size)
    return digest.hexdigest().encode() == found


def _place_of_checksum(tail: bytes, size: int) -> int | None:
    """Returns where the checksum begins in a file of `size` bytes that ends with `tail`."""
    place = tail.rfind(_MARK)
    return None if place < 0 else size - len(tail) + place + len(_MARK)


def _add(digest: "hashlib.blake2b", file: BinaryIO, count: int) -> None:
    """Adds the next bytes of a file to a digest, `count` of them or as many as there are."""
    while block := file.read(min(_BLOCK_BYTES, count)):
        digest.update(block)
        count -= len(block)


# The file of what a reader extracted from one version of a source: a checksum, then JSON.
#
# A collection may have fifty thousand of them: one is written and read in a tenth of a millisecond, where a Parquet
# file of so few rows takes two. Files that an earlier version wrote are Parquet and are read as well.

SUFFIX = ".extracted"
_OF_SOURCE = ("user_id", "project_id", "session_id", "uri", "title", "media_type", "text", "source_time", "utc_offset")
_STATED = ("metadata", "relations", "segments", "kind", "redactions")
EXTRACTION: Schema = {name: SCHEMAS["documents"].get(name, pl.String) for name in (*_OF_SOURCE, *_STATED)}
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
    with undamaged(path, fix):
        checksum, _, data = path.read_bytes().partition(b"\n")
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


_FIX = "run palimpsest build, which reads again what it can, or restore a backup"
_T = pl.Datetime("us", "UTC")
VERSIONS: Schema = {
    "uri": pl.String,
    "content_hash": pl.String,
    "ordinal": pl.Int64,
    "text_key": pl.String,
    "seen_at": _T,
    "gone_at": _T,
    "reason": pl.String,
    "problems": pl.List(pl.String),
    "not_stored": pl.String,
    # Hash of a source's bytes while they cannot be read and an earlier version stays; turns past their retention.
    "unread_hash": pl.String,
    "left_out": pl.Int64,
    # Of a version that was imported: hash of the file that it replaces, empty where it has none; else null.
    "instead_of": pl.String,
    # Of the file; null where a version was imported, or logged before sizes were.
    "size_bytes": pl.Int64,
}


@dataclass(frozen=True)
class IngestLog:
    """The log of one collection."""

    folder: Path

    @property
    def _versions(self) -> Path:
        return self.folder / "versions.parquet"

    @property
    def _copy(self) -> Path:
        return self.folder / "versions.copy.parquet"

    def versions(self) -> pl.DataFrame:
        """Returns all versions, by uri and ordinal. The last of a uri is current unless `gone_at` is set.

        Raises:
            DamagedFile: the file of versions is damaged, or missing where there is a copy of it.
        """
        if not self._versions.exists() and not self._copy.exists():
            return pl.DataFrame(schema=VERSIONS)
        return conformed(read_sealed(self._versions, _FIX), VERSIONS)

    def damaged_lists(self) -> list[Path]:
        """Returns which of the list of versions and its copy are damaged or missing; none where there is no log."""
        if not self._copy.exists():  # as in a log that an earlier version wrote
            return [self._versions] if self._versions.exists() and is_damaged(self._versions) else []
        return [path for path in (self._versions, self._copy) if is_damaged(path)]

    def restore_versions(self) -> bool:
        """Makes the list of versions and its copy again, of that one which is whole; returns whether one is."""
        found = next((path for path in (self._versions, self._copy) if not is_damaged(path)), None)
        if found is not None:
            self._commit(conformed(read_sealed(found, _FIX), VERSIONS))
        return found is not None

    def missing_texts(self) -> set[str]:
        """Returns the keys of texts that versions name and that are not there."""
        keys = self.versions()["text_key"].drop_nulls().unique()
        return {key for key in keys if not self.text_path(key).exists()}

    def damaged_texts(self, after_ns: int = 0) -> list[str]:
        """Returns the keys of texts that versions name and that are damaged, sorted.

        Args:
            after_ns: time of change from which on a text is read; missing ones are found whatever it is.
        """
        keys = self.versions()["text_key"].drop_nulls().unique().sort()
        return [key for key in keys if is_extraction_damaged(self.text_path(key), after_ns)]

    def on_disk(self) -> pl.DataFrame:
        """Returns (uri, content_hash) of each source that is there now, of the bytes that were last looked at."""
        return self.current().select("uri", pl.coalesce("unread_hash", "content_hash").alias("content_hash"))

    def current(self) -> pl.DataFrame:
        """Returns the version of each source that is there now."""
        return self.versions().group_by("uri").last().filter(pl.col("gone_at").is_null()).sort("uri")

    def text_path(self, key: str) -> Path:
        """Returns the file of the extraction with this key."""
        path = self.folder / "texts" / f"{key}{SUFFIX}"
        earlier = path.with_suffix(".parquet")  # format 11 and before
        return earlier if not path.exists() and earlier.exists() else path

    def write_text(self, key: str, rows: Sequence[Mapping[str, object]], reading: JsonObject | None = None) -> None:
        """Writes what was extracted from one version of a source.

        Args:
            key: of the extraction.
            rows: documents; columns of `EXTRACTION` that one does not name are null.
            reading: what else is known of reading it, for a run that goes on after a kill.
        """
        path = self.folder / "texts" / f"{key}{SUFFIX}"
        write_extraction(path, rows, reading)
        path.with_suffix(".parquet").unlink(missing_ok=True)

    def rows(self, key: str) -> list[dict[str, object]]:
        """Returns the documents extracted from one version of a source, as rows of `EXTRACTION`.

        Raises:
            DamagedFile: the text is missing or damaged.
        """
        return read_extraction(self.text_path(key), _FIX)[0]

    def text(self, key: str) -> pl.DataFrame:
        """Returns the documents extracted from one version of a source, see `rows`.

        Raises:
            DamagedFile: the text is missing or damaged.
        """
        return pl.DataFrame(self.rows(key), schema=EXTRACTION)

    def unrecorded(self) -> dict[str, JsonObject]:
        """Returns what is known of reading the texts that no version names, by key: of a run that was stopped."""
        used = set(self.versions()["text_key"].drop_nulls())
        found: dict[str, JsonObject] = {}
        for path in (self.folder / "texts").glob(f"*{SUFFIX}"):
            if path.stem not in used:
                with suppress(DamagedFile):
                    if reading := read_extraction(path, _FIX)[1]:
                        found[path.stem] = reading
        return found

    def record(
        self, seen: dict[str, dict[str, object]], now: dt.datetime, published_at: dt.datetime | None = None
    ) -> pl.DataFrame:
        """Commits what is in the folder now: `seen` maps uri to content_hash, text_key, reason and problems.

        A source with a new hash gets a version; one that is not there any more gets `gone_at`; one that is back or was
        read again by other code is updated in place. A version that was first seen after `published_at` is in no
        published build: where it is not there any more it is dropped. Returns all versions.
        """

        def is_unpublished(row: Mapping[str, object]) -> bool:
            seen_at = cast(dt.datetime, row["seen_at"])
            return published_at is not None and row["instead_of"] is None and seen_at > published_at

        rows = {(r["uri"], r["ordinal"]): r for r in self.versions().to_dicts()}
        last = dict(sorted(rows))  # by uri: the highest ordinal
        for uri, version in seen.items():
            info = {"unread_hash": None, "left_out": None, **version}
            old = rows.get((uri, last.get(uri, 0)))
            if old and old["content_hash"] == info["content_hash"] and old["gone_at"] is None:
                old |= info
            else:
                ordinal = last.get(uri, 0) + (not (old and is_unpublished(old)))
                rows[uri, ordinal] = {"uri": uri, "ordinal": ordinal, "seen_at": now, "gone_at": None, **info}
        for uri, ordinal in last.items():
            if uri not in seen and rows[uri, ordinal]["gone_at"] is None:
                if is_unpublished(rows[uri, ordinal]):
                    del rows[uri, ordinal]
                    ordinal -= 1  # a version that was published is gone as well
                if (published := rows.get((uri, ordinal))) is not None and published["gone_at"] is None:
                    published["gone_at"] = now
        frame = pl.DataFrame([rows[k] for k in sorted(rows)], schema=VERSIONS)
        self._commit(frame)
        return frame

    def rewrite(self, change: Callable[[Mapping[str, object]], Mapping[str, object] | None]) -> list[tuple[str, str]]:
        """Changes or drops extracted documents in place, in every version; forgets sources that have none left.

        They are forgotten first, so that a run that is stopped leaves no source of which only the name is left.

        Args:
            change: returns the new document, the same object where nothing changes, or None to drop it.

        Returns:
            Uri and hash of the sources that were forgotten, by uri. The hash is that of the file, which is another than
            the content hash where an imported version replaced it.
        """
        versions = self.versions()
        uris: dict[str, set[str]] = {}
        for key, uri in versions.drop_nulls("text_key").select("text_key", "uri").iter_rows():
            uris.setdefault(key, set()).add(uri)
        rewritten: dict[str, list[Mapping[str, object]]] = {}
        dropped: set[str] = set()
        retained: set[str] = set()
        for key in sorted(uris):
            rows = self.rows(key)
            after = [change(row) for row in rows]
            kept = [row for row in after if row is not None]
            if any(a is not b for a, b in zip(after, rows, strict=True)):
                rewritten[key] = kept
            if rows:
                (retained if kept else dropped).update(uris[key])
        emptied = dropped - retained
        file_hash = pl.when(pl.col("instead_of").fill_null("") != "").then("instead_of").otherwise("content_hash")
        last = versions.filter(pl.col("uri").is_in(list(emptied))).group_by("uri").last().sort("uri")
        if emptied:
            self.forget(emptied)
        for key, kept in rewritten.items():
            if kept or self.text_path(key).exists():
                self.write_text(key, kept)
        return list(last.select("uri", file_hash).iter_rows())

    def add_imported(self, versions: Sequence[Mapping[str, object]]) -> None:
        """Commits versions that were not read from a file; their texts must have been written before.

        Args:
            versions: rows of `VERSIONS`; what they do not name is null. `instead_of` must be set.
        """
        rows = [{**dict.fromkeys(VERSIONS), **version} for version in versions]
        self._commit(pl.concat([self.versions(), pl.DataFrame(rows, schema=VERSIONS)]).sort("uri", "ordinal"))

    def copy_imported(self, other: "IngestLog") -> None:
        """Copies the sources that have no file to another log, which has none of them."""
        versions = self.versions()
        uris = self.current().filter(pl.col("instead_of") == "")["uri"].to_list()
        if not uris:
            return
        rows = versions.filter(pl.col("uri").is_in(uris))
        for key in rows["text_key"].drop_nulls().unique():
            other.write_text(key, self.rows(key))
        other._commit(pl.concat([other.versions(), rows]).sort("uri", "ordinal"))

    def _commit(self, versions: pl.DataFrame) -> None:
        for path in (self._versions, self._copy):
            write_sealed(versions.select(list(VERSIONS)), path)

    def start_again(self) -> None:
        """Makes a log without versions of one whose list of them is lost."""
        self._commit(pl.DataFrame(schema=VERSIONS))
        self.sweep()

    def forget_versions(self, keys: set[str]) -> None:
        """Removes the versions with these text keys: their texts are lost."""
        self._commit(self.versions().filter(~pl.col("text_key").is_in(list(keys))))
        self.sweep()

    def forget(self, uris: set[str]) -> int:
        """Removes every version of these sources and their texts; returns how many versions went."""
        before = self.versions()
        after = before.filter(~pl.col("uri").is_in(list(uris)))
        if before.height:  # although nothing went: a run that was stopped may have left the copy as it was
            self._commit(after)
        self.sweep()
        return before.height - after.height

    def sweep(self) -> None:
        """Removes texts that no version names, and what interrupted writes left."""
        used = set(self.versions()["text_key"].drop_nulls())
        for path in (self.folder / "texts").glob("[!.]*"):
            if path.stem not in used:
                path.unlink()
        remove_leftovers(self.folder)


@dataclass(frozen=True)
class UnloggedSources:
    """Sources that no log has yet, as `IngestLog` would have them: a version each, first seen at one time.

    Attributes:
        documents: what was extracted of each, as rows of `EXTRACTION`, by uri.
        seen_at: when.
    """

    documents: Mapping[str, Sequence[Mapping[str, object]]]
    seen_at: dt.datetime

    def versions(self) -> pl.DataFrame:
        """See IngestLog; the key of a text is the uri of its source."""
        nothing: dict[str, object] = dict.fromkeys(VERSIONS)
        found = [
            nothing | {"uri": uri, "content_hash": "", "ordinal": 0, "text_key": uri, "seen_at": self.seen_at}
            for uri in sorted(self.documents)
        ]
        return pl.DataFrame(found, schema=VERSIONS)

    def current(self) -> pl.DataFrame:
        """See IngestLog."""
        return self.versions()

    def rows(self, key: str) -> list[dict[str, object]]:
        """See IngestLog."""
        return [{name: row.get(name) for name in EXTRACTION} for row in self.documents[key]]


def conformed(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Returns a frame that an earlier version may have written with the columns of `schema`; new ones are null."""
    return frame.with_columns(pl.lit(None, t).alias(n) for n, t in schema.items() if n not in frame.columns).select(
        pl.col(n).cast(t) for n, t in schema.items()
    )


def text_key(uri: str, content_hash: str, reader_hash: str) -> str:
    """Returns the key of an extraction: other bytes, another name or other readers give another key."""
    return content_id("text", uri, content_hash, reader_hash)
