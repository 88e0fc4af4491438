"""The shared store of vectors: one for each (text, space), computed once, kept until its text is deleted."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from palimpsest.core.files import read_json, remove_leftovers, undamaged
from palimpsest.core.ids import content_id
from palimpsest.store.builds import published
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import check_sealed, is_damaged, read_sealed, write_sealed
from palimpsest.store.tables import Schema

_MAX_PARTS = 24
_GROUP_ROWS = 65_536  # rows of a row group, 96 MiB of MiniLM's vectors: read one at a time
_FIX = "run palimpsest build, which embeds its texts again"


class EmbeddingStore:
    """Parquet parts of (text_hash, vector) in one folder for each space; safe to kill at any time."""

    def __init__(self, folder: Path, dimensions: int = 384):
        self._folder, self._dimensions = folder, dimensions

    def _parts(self) -> list[Path]:
        return sorted(self._folder.glob("*.parquet"))

    def known(self) -> set[str]:
        """Returns the hashes of all texts that have a vector."""
        return {h for p in self._parts() for h in _hashes_of(p)}

    def damaged(self, after_ns: int = 0) -> list[Path]:
        """Returns the parts that are damaged, of those changed after `after_ns`; their texts can be embedded again."""
        return [p for p in self._parts() if is_damaged(p, after_ns)]

    def missing(self, hashes: Iterable[str]) -> set[str]:
        """Returns those of `hashes` that have no vector yet."""
        return set(hashes) - self.known()

    def append(self, hashes: Sequence[str], vectors: np.ndarray) -> None:
        """Adds vectors, shape (n, dimensions) float32, as one new part."""
        self._folder.mkdir(parents=True, exist_ok=True)
        order = np.argsort(np.asarray(hashes))
        rows = {"text_hash": [hashes[i] for i in order], "vector": vectors[order]}
        schema: Schema = {"text_hash": pl.String, "vector": pl.Array(pl.Float32, self._dimensions)}
        self._write(pl.DataFrame(rows, schema=schema))

    def vectors(self, hashes: Sequence[str]) -> np.ndarray:
        """Returns the unit vectors of `hashes`, shape (n, dimensions) float32.

        Raises:
            KeyError: a text has no vector.
            DamagedFile: a part is damaged.
        """
        wanted = pl.DataFrame({"text_hash": list(hashes)}, schema={"text_hash": pl.String})
        out = np.zeros((wanted.height, self._dimensions), np.float32)
        wanted = wanted.with_row_index("to")
        for part in self._parts() if wanted.height else ():
            check_sealed(part, _FIX)
            stored = _hashes_of(part).to_frame().with_row_index("at").unique("text_hash", keep="first")
            found = wanted.join(stored, on="text_hash", how="inner")
            _copy_vectors(part, found["at"].to_numpy(), out, found["to"].to_numpy())
            wanted = wanted.join(stored, on="text_hash", how="anti")
        if wanted.height:
            raise KeyError(f"no vector for text {wanted['text_hash'][0]}")
        return out

    def compact(self, keep: set[str] | None = None) -> int:
        """Merges many small parts into one; with `keep`, drops every other vector. Returns how many were dropped.

        Raises:
            DamagedFile: a part is damaged.
        """
        parts = self._parts()
        if not parts or (keep is None and len(parts) <= _MAX_PARTS):
            return 0
        before = pl.concat([read_sealed(p, _FIX) for p in parts])
        after = before.unique("text_hash", keep="first").sort("text_hash")
        if keep is not None:
            after = after.filter(pl.col("text_hash").is_in(list(keep)))
            if after.height == before.height:
                return 0
        written = self._write(after) if after.height else None
        for part in parts:
            if part != written:
                part.unlink()
        remove_leftovers(self._folder)
        return before.height - after.height

    def _write(self, frame: pl.DataFrame) -> Path:
        path = self._folder / f"{content_id(*frame['text_hash'])}.parquet"
        write_sealed(frame, path, "uncompressed", row_group_rows=_GROUP_ROWS)
        return path


def _copy_vectors(part: Path, at: np.ndarray, out: np.ndarray, to: np.ndarray) -> None:
    """Copies the vectors in rows `at` of a part to rows `to` of an array; reads the row groups that have any.

    Raises:
        DamagedFile: the part cannot be read.
        PermissionError: this user may not read it.
    """
    column = pl.scan_parquet(part, glob=False).select("vector")
    for start in (np.unique(at // _GROUP_ROWS) * _GROUP_ROWS).tolist():
        with undamaged(part, _FIX, pl.exceptions.PolarsError):
            vectors = column.slice(start, _GROUP_ROWS).collect()["vector"].to_numpy()
        here = (at >= start) & (at < start + _GROUP_ROWS)
        out[to[here]] = vectors[at[here] - start]


def _hashes_of(part: Path) -> pl.Series:
    with undamaged(part, _FIX, pl.exceptions.PolarsError):
        return pl.read_parquet(part, columns=["text_hash"], glob=False)["text_hash"]


# Which embedder a collection is searched with: its own setting, else the home's, else the environment's.
#
# The home's is recorded in the published build and changes with it, in one step: a change that is killed or refused
# leaves the home as it was.

DEFAULT_EMBEDDER = "minilm"
VARIABLE = "PALIMPSEST_EMBEDDER"
_PATH_STARTS = (".", "/", "~")


def embedder_of(home: Home, config: CollectionConfig, folder: Path | None) -> str:
    """Returns the embedder of a collection; `folder` is where its relative paths start."""
    if config.embedder:
        return absolute_path(config.embedder, folder)
    return home_embedder(home)


def home_embedder(home: Home) -> str:
    """Returns the embedder of the collections that name none."""
    return recorded_embedder(home) or absolute_path(os.environ.get(VARIABLE) or DEFAULT_EMBEDDER, None)


def recorded_embedder(home: Home) -> str:
    """Returns the embedder of this run, else the one that the home's published build records; empty for neither."""
    if home.embedder:
        return home.embedder
    current = published(home)
    if current is not None and (recorded := current.manifest.embedder):
        return recorded
    return str((read_json(home.embedder_file) or {}).get("embedder") or "")


def record_embedder(home: Home) -> None:
    """Records the embedder of this run in the published build, which is searched with it already."""
    current = published(home)
    if home.embedder and current is not None and current.manifest.embedder != home.embedder:
        current.write_manifest(replace(current.manifest, embedder=home.embedder))


def absolute_path(embedder: str, folder: Path | None) -> str:
    """Returns the setting; a path, which begins with `.`, `/` or `~`, absolute."""
    if not embedder.startswith(_PATH_STARTS):
        return embedder
    return str(((folder or Path()) / Path(embedder).expanduser()).resolve())
