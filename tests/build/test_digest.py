"""The digest of tables, however large they are, and tables that are read one at a time."""

import polars as pl
import pytest

from palimpsest.pipeline import finish as module
from palimpsest.pipeline.finish import digest
from palimpsest.pipeline.stages import indexed_tables
from palimpsest.store.builds import Build, BuildTables
from palimpsest.store.tables import conform, empty


def _tables() -> dict[str, pl.DataFrame]:
    texts = ['a "quote"', "two\nlines", "", None, "last", ", ;"]
    memories = [{"memory_id": f"m{i}", "collection": "notes", "user_id": "ana", "text": t} for i, t in enumerate(texts)]
    return {name: empty(name) for name in indexed_tables()} | {"memories": conform("memories", pl.DataFrame(memories))}


@pytest.mark.parametrize("rows", [1, 2, 6])
def test_a_digest_does_not_depend_on_the_slices_that_it_is_computed_in(monkeypatch, rows):
    whole = digest(_tables())
    monkeypatch.setattr(module, "_SLICE_ROWS", rows)
    assert digest(_tables()) == whole


def test_tables_of_a_build_are_read_when_they_are_taken_and_only_then(tmp_path, monkeypatch):
    build, read = Build(tmp_path / "000001"), []
    build.write_table("notes", "memories", _tables()["memories"])
    tables = BuildTables(build, ("memories", "documents"))
    monkeypatch.setattr(Build, "table", lambda self, collection, name: read.append(name) or empty(name))
    assert "memories" in tables and "versions" not in tables and list(tables) == ["memories", "documents"] and not read
    assert tables["memories"].is_empty() and set(read) == {"memories"} and len(tables) == 2
    with pytest.raises(KeyError):
        tables["versions"]
