"""The notebooks' pictures: what `report/pictures.py` draws, pointed at where a notebook runs, else a still SVG."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from palimpsest.query.request.types import shorten_text
from palimpsest_eval.gate.compare import MeasureChange
from palimpsest_eval.gate.health import MemoryHealth
from palimpsest_eval.golden.golden_run import Miss
from palimpsest_eval.golden.misses import CAUSES
from palimpsest_eval.report.charts import GraphChart, nodes_chart
from palimpsest_eval.report.health_page import HomeHealth, ages_chart
from palimpsest_eval.report.pictures import (
    ArcLink,
    ArcNode,
    Bar,
    Interval,
    arc_chart,
    bar_chart,
    column_chart,
    histogram_chart,
    interval_chart,
    to_spec,
    to_svg,
)

if TYPE_CHECKING:
    from palimpsest_eval.report.pictures import Chart

# What surrounds a memory in a build: entities it names, topics it is in, relations, and the memories behind them.

_MAX_LABEL_CHARS = 80


@dataclass(frozen=True)
class Node:
    """A memory, entity or topic; `ring` is how many links away from the center it is."""

    node_id: str
    kind: str
    label: str
    ring: int


@dataclass(frozen=True)
class Neighbourhood:
    """Nodes by ring and id, and links (from, to, label) between them."""

    centre: str
    nodes: tuple[Node, ...]
    links: tuple[tuple[str, str, str], ...]


def neighbourhood(tables: Mapping[str, pl.DataFrame], memory_id: str | None = None, limit: int = 40) -> Neighbourhood:
    """Returns a memory with what it is linked to directly, and the memories that share its entities or relations.

    Args:
        tables: memories, relations, mentions, entities, topics and topic_memories of the build.
        memory_id: the centre; None means the memory with the most relations and entities.
        limit: nodes at most, the nearest by ring and id.
    """
    links = _links(tables)
    if memory_id is None:
        memory_id = _busiest(tables, links)
    texts = {
        "memory": dict(tables["memories"].select("memory_id", "text").iter_rows()),
        "entity": dict(tables["entities"].select("entity_id", "name").iter_rows()),
        "topic": dict(tables["topics"].select("topic_id", "label").iter_rows()),
    }
    neighbors: dict[str, set[str]] = {}
    for source, target, _ in links:
        neighbors.setdefault(source, set()).add(target)
        neighbors.setdefault(target, set()).add(source)
    topics = set(texts["topic"])
    rings, edge = {memory_id: 0}, [memory_id]
    for ring in (1, 2):
        # A topic has hundreds of memories: it is shown, and its links are not followed.
        edge = sorted({n for e in edge if e not in topics for n in neighbors.get(e, ())} - rings.keys())
        rings |= dict.fromkeys(edge, ring)
    chosen = dict(sorted(rings.items(), key=lambda item: (item[1], item[0]))[:limit])
    nodes = tuple(_node(i, ring, texts) for i, ring in chosen.items())
    return Neighbourhood(memory_id, nodes, tuple(x for x in links if x[0] in chosen and x[1] in chosen))


def _links(tables: Mapping[str, pl.DataFrame]) -> list[tuple[str, str, str]]:
    relations = tables["relations"].filter(pl.col("label") != "NONE").select("newer_id", "older_id", "label")
    mentions = tables["mentions"].select("memory_id", "entity_id", pl.lit("MENTIONS")).unique()
    about = tables["topic_memories"].select("memory_id", "topic_id", pl.lit("ABOUT")).unique()
    return sorted(tuple(row) for t in (relations, mentions, about) for row in t.iter_rows())


def _busiest(tables: Mapping[str, pl.DataFrame], links: list[tuple[str, str, str]]) -> str:
    counts = dict.fromkeys(sorted(tables["memories"]["memory_id"]), 0)
    for source, target, label in links:
        for end in (source, target):
            if end in counts:
                counts[end] += 1 if label in ("MENTIONS", "ABOUT") else 5
    return str(max(counts, key=lambda i: (counts[i], i)))


def _node(node_id: str, ring: int, texts: Mapping[str, Mapping[str, str]]) -> Node:
    kind = next(k for k, known in texts.items() if node_id in known)
    return Node(node_id, kind, shorten_text(texts[kind][node_id], _MAX_LABEL_CHARS), ring)


_DESK = 640  # pixels of width where a notebook runs


@dataclass(frozen=True)
class Picture:
    """A picture as a notebook shows it: JupyterLab draws it with what it comes with, other pages show the still SVG."""

    chart: "Chart"
    title: str

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Returns Vega-Lite's JSON, with values to point at, and the SVG."""
        return {
            "application/vnd.vegalite.v5+json": to_spec(self.chart, _DESK),
            "image/svg+xml": to_svg(self.chart, self.title, alone=True),
            "text/plain": self.title,
        }


def _titled(chart: "Chart", title: str, build: str) -> Picture:
    return Picture(chart.properties(title={"text": title, "subtitle": f"build {build}"}), f"{title} (build {build})")


def chunk_sizes(chunks: pl.DataFrame, build_id: str) -> Picture:
    """Returns how many chunks have how many tokens, a colour for each collection."""
    sizes = {str(name): rows["token_count"].to_list() for (name,), rows in sorted(chunks.group_by("collection"))}
    return _titled(histogram_chart(sizes, "tokens of a chunk", "chunks"), "Tokens of a chunk", build_id)


def top_entities(mentions: pl.DataFrame, entities: pl.DataFrame, build_id: str, shown: int = 20) -> Picture:
    """Returns the entities that most memories name, without titles of documents, which all their memories mention."""
    counts = mentions.group_by("entity_id").agg(pl.col("memory_id").n_unique().alias("memories"))
    named = counts.join(entities.filter(pl.col("type") != "title"), on="entity_id")
    best = named.sort(["memories", "entity_id"], descending=[True, False]).head(shown)
    bars = [Bar(name, count) for name, count in best.select("name", "memories").iter_rows()]
    return _titled(
        bar_chart(bars, "memories that name it", name="entity"), "Entities that most memories name", build_id
    )


def neighbourhood_figure(found: Neighbourhood, build_id: str) -> Picture:
    """Returns a memory, what it is linked to, and what that is linked to, as rows with arcs."""
    nodes = [ArcNode(n.node_id, n.label, n.kind, 1 - n.ring / 3, n.label) for n in found.nodes]
    links = [ArcLink(a, b, kind.lower()) for a, b, kind in found.links]
    return _titled(arc_chart(nodes, links, "node", "link"), "Around one memory", build_id)


def change_figure(rows: Sequence[MeasureChange], title: str, build_ids: Sequence[str]) -> Picture:
    """Returns the change of each measure between two builds with its interval, as `significance` gives them."""
    found = [Interval(r["measure"], r["low"], r["change"], r["high"]) for r in rows]
    chart = interval_chart(found, "change, 95 % interval", form="+.3f", zero=True)
    return _titled(chart, title, " against ".join(build_ids))


def causes_figure(misses: Sequence[Miss], build_id: str) -> Picture:
    """Returns how many things were lost for each cause."""
    counts = Counter(m.cause for m in misses)
    bars = [Bar(cause, counts[cause]) for cause in CAUSES if counts[cause]]
    return _titled(bar_chart(bars, "pieces of evidence", name="cause"), "Where what was missed got lost", build_id)


def health_figure(health: Mapping[str, MemoryHealth], build_id: str) -> Picture:
    """Returns the shares of each collection's health."""
    found = {
        name: {k.removesuffix("_share"): v for k, v in values.items() if k.endswith("_share")}
        for name, values in sorted(health.items())
    }
    names = sorted({share for shares in found.values() for share in shares})
    bars = [
        Bar(share, float(str(shares[share])), name)
        for share in names
        for name, shares in found.items()
        if share in shares
    ]
    return _titled(bar_chart(bars, "share of memories", form=".3f"), "Memory health", build_id)


def chains_figure(health: Mapping[str, MemoryHealth], build_id: str) -> Picture:
    """Returns how many chains of updates have how many versions."""
    chains = {name: values["chains"] for name, values in sorted(health.items())}
    lengths = sorted({length for found in chains.values() for length in found})
    bars = [Bar(str(n), found[n], name) for n in lengths for name, found in chains.items() if n in found]
    return _titled(column_chart(bars, "versions of a fact", "chains"), "Chains of updates", build_id)


def largest_nodes_figure(graph: GraphChart, build_id: str) -> Picture:
    """Returns the most important nodes of the largest scope with the edges between them."""
    return _titled(nodes_chart(graph), f"Largest nodes of {graph.scope}", build_id)


def growth_figure(graph: GraphChart, build_id: str) -> Picture:
    """Returns how many nodes there were by each day on which memories were read."""
    chart = column_chart([Bar(day, count) for day, count in graph.growth], "day of reading", "nodes")
    return _titled(chart, f"Nodes of {graph.scope} by day", build_id)


def history_figure(health: HomeHealth) -> Picture:
    """Returns how many memories each build had, latest and retired."""
    bars = [
        Bar(b.build_id, b.numbers.get(series, 0.0), series) for b in health.builds for series in ("latest", "retired")
    ]
    return _titled(column_chart(bars, "build", "memories"), "Memories over builds", health.build_id)


def ages_figure(health: HomeHealth) -> Picture:
    """Returns how old the latest memories are."""
    return _titled(ages_chart(health), "Age of latest memories", health.build_id)


def stages_figure(health: HomeHealth) -> Picture:
    """Returns the seconds of each stage of the build, with a mark where the one before was."""
    last, *before = [b.seconds for b in reversed(health.builds)] or [{}]
    bars = [Bar(stage, last[stage], before=before[0].get(stage) if before else None) for stage in sorted(last)]
    chart = bar_chart(bars, "seconds; mark: the build before", form=".1f", name="stage")
    return _titled(chart, "Time by stage", health.build_id)
