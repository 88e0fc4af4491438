"""Rows of a table whose stage takes long, written while it runs: a build that was stopped goes on from them."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from palimpsest.store.tables import completed, conform, empty


@dataclass(frozen=True)
class UnfinishedRows:
    """A folder of numbered Parquet files.

    Attributes:
        folder: may not exist yet.
        table: whose rows they are.
    """

    folder: Path
    table: str

    def read(self) -> pl.DataFrame:
        """Returns the rows of every file that is whole, in the order of their writing."""
        found = [empty(self.table)]
        for path in self._files():
            try:
                found.append(completed(self.table, pl.read_parquet(path, glob=False)))
            except pl.exceptions.PolarsError:  # the machine stopped while it was written
                continue
        return pl.concat(found)

    def add(self, rows: pl.DataFrame) -> None:
        """Writes rows as one more file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        last = max((int(path.stem) for path in self._files()), default=0)
        aside = self.folder / f".{last + 1:06d}.tmp"
        conform(self.table, rows).write_parquet(aside, compression="zstd", compression_level=1, statistics=False)
        aside.replace(self.folder / f"{last + 1:06d}.parquet")

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*.parquet"))
