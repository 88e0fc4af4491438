"""The tables of a build over all collections, read one at a time: those of a million memories take 3 GB together."""

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from palimpsest.store.builds import Build


class BuildTables(Mapping[str, pl.DataFrame]):
    """A mapping that reads a table whenever it is taken, and keeps none."""

    def __init__(self, build: Build, names: Sequence[str]) -> None:
        """Makes the mapping of tables `names` of a build."""
        self._build, self._names = build, names

    def __getitem__(self, name: str) -> pl.DataFrame:
        """Reads a table.

        Raises:
            KeyError: it is none of the names.
            DamagedFile: it is no Parquet file.
        """
        if name not in self._names:
            raise KeyError(name)
        return self._build.tables([name])[name]

    def __contains__(self, name: object) -> bool:
        """Returns whether there is such a table, without reading it."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        """Yields the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Returns the number of tables."""
        return len(self._names)
