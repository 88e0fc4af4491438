"""The figures of a suite or golden set, as `palimpsest suite` prints them for people and as JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from palimpsest.core.files import write_bytes
from palimpsest.core.ids import JsonObject, JsonRecord, JsonValue
from palimpsest_eval.golden.golden_run import types_text
from palimpsest_eval.metrics import LatencyMs, Machine

_BY_TYPE_MEASURES = ("P@5", "R@5", "Hit@5", "nDCG@10", "MRR@10", "packed_recall", "stale@5")


@dataclass(frozen=True)
class QueryScores:
    """One query's ranking and metrics.

    Attributes:
        query_id: its id.
        ranked: corpus ids, or sources of a golden set, best first.
        metrics: fractions by measure.
        scores: of the ranking; None for a golden set.
        ms: milliseconds of the search; None where it was not timed, and for a golden set.
    """

    query_id: str
    ranked: tuple[str, ...]
    metrics: Mapping[str, float]
    scores: tuple[float, ...] | None = None
    ms: float | None = None

    def to_json(self) -> JsonObject:
        """Returns a line of `palimpsest suite --per-query`."""
        line: JsonObject = {"query_id": self.query_id, "ranked": self.ranked}
        if self.scores is not None:
            line["scores"] = self.scores
        line["metrics"] = self.metrics
        if self.ms is not None:
            line["ms"] = round(self.ms, 3)
        return line


@dataclass(frozen=True)
class SuiteResult(JsonRecord):
    """What a strategy reaches on a suite or golden set.

    Attributes:
        suite: its name.
        queries: judged queries, all of which were searched.
        unjudged: queries that were not searched, because nothing relevant to them is known.
        strategy: strategy of the searches.
        budget_tokens: budget of the packed context.
        metrics: means over the queries, as fractions.
        by_type: `queries` and means by type of query.
        by_time: the same by what a query says of time.
        latency_ms: of the whole searches that were timed, warmed up.
        per_query: a record for each query, in order of the ids.
        quality: fractions that only a golden set can give.
        build: summary of the build that was searched.
        machine: where it was measured.
        ragas: what RAGAS reports.
        reranker: name of the reranker that the searches used; None without one.
    """

    json_hidden, json_has_none = ("per_query",), False

    suite: str
    queries: int
    unjudged: int
    strategy: str
    budget_tokens: int
    metrics: Mapping[str, float]
    by_type: Mapping[str, Mapping[str, float]]
    by_time: Mapping[str, Mapping[str, float]]
    latency_ms: LatencyMs
    per_query: tuple[QueryScores, ...]
    quality: Mapping[str, float] | None = None
    build: Mapping[str, JsonValue] | None = None
    machine: Machine | None = None
    ragas: Mapping[str, JsonValue] | None = None
    reranker: str | None = None

    def values(self, measure: str) -> dict[str, float]:
        """Returns one measure by query id."""
        return {query.query_id: query.metrics[measure] for query in self.per_query}

    def write_per_query(self, path: Path) -> None:
        """Writes one JSON line for each query."""
        lines = (json.dumps(query.to_json(), ensure_ascii=False) + "\n" for query in self.per_query)
        write_bytes(path, "".join(lines).encode())

    def text(self) -> str:
        """Returns the figures as a small table for people."""
        names = sorted(self.metrics)
        head = " ".join(f"{n:>13}" for n in [*names, "p95_ms"])
        values = [*(self.metrics[n] for n in names), round(self.latency_ms.p95, 3)]
        lines = [f"{self.suite}: {self.queries} queries", f"{'':10}{head}"]
        if self.reranker:
            lines.append(f"reranked by {self.reranker}")
        lines.append(f"{self.strategy:10}" + " ".join(f"{v:13.4f}" for v in values))
        shown = [n for n in _BY_TYPE_MEASURES if n in names]
        if self.by_type:
            lines += types_text(self.by_type, shown)
        if len(self.by_time) > 1:
            lines += types_text(self.by_time, shown, "asks by time")
        if self.quality:
            lines.append(", ".join(f"{name} {value:.4f}" for name, value in self.quality.items()))
        if self.ragas is not None:
            lines.append(str(self.ragas["text"]))
        return "\n".join(lines)
