"""Filters by fields of memories and metadata choose the same memories on both backends."""

import datetime as dt

from palimpsest.neo4j_graph import graph_rows, neo4j_backend
from palimpsest.query.request.types import Filters
from palimpsest.query.request.where import parse_where
from tests.neo4j_graph.made import Made
from tests.neo4j_graph.test_backend import ANA, both, query
from tests.query.filtered import PASSING, write_filtered


def test_both_backends_filter_by_the_same_fields(tmp_path, graph):
    frames = write_filtered(tmp_path / "i.duckdb")
    duck, neo = both(Made(frames, tmp_path / "i.duckdb", "000001"), graph)
    assert duck.field_kinds(ANA, Filters()) == neo.field_kinds(ANA, Filters()) and neo.collections()["notes"].fields
    given = [Filters(where=parse_where(where)) for where, _ in PASSING]
    given += [Filters(types=("task", "x")), Filters(tags=("urgent", "old")), Filters(accessed=frozenset({"m2", "b1"}))]
    wanted = [passing for _, passing in PASSING] + ["m2", "m2 m3", "m2"]
    day = dt.datetime(2024, 2, 2)  # m3 was said on the day before by the clock of its speaker, and on this day in UTC
    given += [Filters(since=day), Filters(since=day.replace(tzinfo=dt.UTC))]
    wanted += ["", "m3"]
    for filters, passing in zip(given, wanted, strict=True):
        for store in (duck, neo):
            assert " ".join(store.seeds(ANA, filters, query(), (), 0, 50).ids) == passing, filters
            assert store.passing(ANA, filters, ["m1", "m2", "m3", "m4", "m5", "b1"]) == set(passing.split())
    for store in (duck, neo):
        assert str(store.memories(ANA, ["m3"])["m3"].observed_at) == "2024-02-01 23:30:00-08:00"


def test_a_large_scope_of_neo4j_is_filtered_by_fields(tmp_path, graph, monkeypatch):
    for module in (neo4j_backend, graph_rows):
        monkeypatch.setattr(module, "MAX_CACHED_VECTORS", 4)
    frames = write_filtered(tmp_path / "i.duckdb")
    _, neo = both(Made(frames, tmp_path / "i.duckdb", "000001"), graph)
    assert neo.view(ANA) is None
    filters = Filters(where=parse_where('category = "academic" or tags = "old"'))
    assert neo.seeds(ANA, filters, query(), (), 0, 50).ids == ["m1", "m2", "m3"]
