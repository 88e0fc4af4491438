"""The figures of a published benchmark, for people and as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass

from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest_eval.golden.by_type import types_text
from palimpsest_eval.metrics.latency import Machine


@dataclass(frozen=True)
class ScoreTable:
    """Means over the queries that can be judged in a unit.

    Attributes:
        queries: how many.
        metrics: fractions by measure.
        by_type: `queries` and the same means by type of query.
    """

    queries: int
    metrics: Mapping[str, float]
    by_type: Mapping[str, Mapping[str, float]]

    def to_json(self) -> JsonObject:
        """Returns the table as JSON values."""
        return {"queries": self.queries, "metrics": self.metrics, "by_type": self.by_type}


@dataclass(frozen=True)
class BenchmarkResult:
    """What a strategy reaches on a benchmark.

    Attributes:
        benchmark: its name.
        suite: name of the data.
        queries: judged queries, all of which were searched.
        unjudged: queries without evidence, such as those that must not be answered.
        strategy: strategy of the searches.
        tables: by `turn`, `session` and `superseded`.
        build: summary of the build that was searched.
        machine: where it was measured.
        embedder: name of the embedder.
    """

    benchmark: str
    suite: str
    queries: int
    unjudged: int
    strategy: str
    tables: Mapping[str, ScoreTable]
    build: Mapping[str, JsonValue] | None = None
    machine: Machine | None = None
    embedder: str | None = None

    def to_json(self) -> JsonObject:
        """Returns the JSON of `palimpsest benchmark`."""
        return {
            "benchmark": self.benchmark,
            "suite": self.suite,
            "queries": self.queries,
            "unjudged": self.unjudged,
            "strategy": self.strategy,
            "embedder": self.embedder,
            "tables": {name: table.to_json() for name, table in self.tables.items()},
            "build": self.build,
            "machine": None if self.machine is None else self.machine.to_json(),
        }

    def text(self) -> str:
        """Returns the tables for people: a line for all queries of each, then one for each type."""
        lines = [f"{self.benchmark} ({self.suite}): {self.queries} queries, {self.unjudged} without evidence left out"]
        for name, table in self.tables.items():
            rows = {"all": {"queries": table.queries, **table.metrics}}
            lines += ["", *types_text(rows | dict(table.by_type), list(table.metrics), name)]
        return "\n".join(lines)
