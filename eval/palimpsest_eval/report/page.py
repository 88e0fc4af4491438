"""The values of a report page, as its templates read them."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TypedDict

from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest_eval.gate.health import MemoryHealth
from palimpsest_eval.golden.golden_run import Miss
from palimpsest_eval.labels.label_metrics import ReliabilityBin
from palimpsest_eval.report.charts import Histogram, Spark
from palimpsest_eval.report.graph_chart import GraphChart
from palimpsest_eval.report.notes import Note


class HeadlineCard(TypedDict):
    """A headline number: its value, the change since the build before, and the line over builds."""

    key: str
    title: str
    explanation: str
    value: float
    change: float | None
    worse: bool
    spark: Spark | None
    ms: bool


class LatencyChart(TypedDict):
    """A step of the query path and the histogram of its milliseconds."""

    step: str
    histogram: Histogram | None


class RetrievedText(TypedDict):
    """A result of a question: its source, whether it is wanted or outdated, and the start of its text."""

    source: str
    relevant: bool
    stale: bool
    text: str


class WorstQuestion(TypedDict):
    """A question that misses something: what it needs, where that was lost, and what was retrieved."""

    id: str
    question: str
    type: str
    user: str | None
    as_of: date | None
    metrics: Mapping[str, float]
    wanted: list[dict[str, str]]
    misses: Sequence[Miss]
    got: list[RetrievedText]


class CollectionSection(TypedDict):
    """What the page shows of one collection."""

    name: str
    status: str
    queries: int
    smallest_loss: float | None
    headlines: list[HeadlineCard]
    types: list[JsonObject]
    against: Mapping[str, str]
    latency: list[LatencyChart]
    confusion: Mapping[str, Mapping[str, int]] | None
    calibration: Sequence[ReliabilityBin]
    labelled: int
    worst: list[WorstQuestion]
    broken: list[str]
    health: MemoryHealth
    graph: GraphChart | None


class ReportPage(TypedDict):
    """What the page shows of a build."""

    build_id: str
    created_at: str
    digest: str
    model: str
    status: str
    reasons: list[tuple[str, str]]
    warnings: list[tuple[str, str]]
    counts: Mapping[str, int]
    relations: Mapping[str, JsonValue]
    builds: list[str]
    collections: list[CollectionSection]
    notes: list[Note]
    causes: Mapping[str, str]
    labels: Sequence[str]
