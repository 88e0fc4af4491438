"""The notebooks' pictures, by plotly: interactive, and drawn without a network."""

import html
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from palimpsest.query.request.types import shorten_text
from palimpsest_eval.gate.compare import MeasureChange
from palimpsest_eval.gate.health import MemoryHealth
from palimpsest_eval.golden.golden_run import Miss
from palimpsest_eval.golden.misses import CAUSES
from palimpsest_eval.notebook.static_svg import svg_of
from palimpsest_eval.report.charts import GraphChart
from palimpsest_eval.report.health_page import HomeHealth

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


_COLORS = {"memory": "#2867c7", "entity": "#0f8a7e", "topic": "#8a5cc7"}


@dataclass(frozen=True)
class Picture:
    """A figure as a notebook shows it: interactive where it runs, a still SVG where the page runs no script.

    Args:
        figure: a plotly figure.
        inline: whether to include a page with plotly's library, which works without JupyterLab.
    """

    figure: Any
    inline: bool = False

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Returns plotly's JSON and the SVG, and the page where it is wanted."""
        bundle: dict[str, Any] = {
            "application/vnd.plotly.v1+json": json.loads(self.figure.to_json()),
            "image/svg+xml": svg_of(self.figure),
            "text/plain": str(self.figure.layout.title.text),
        }
        if self.inline:
            bundle["text/html"] = self.figure.to_html(full_html=False, include_plotlyjs=True)
        return bundle


def show(figure: Any, inline: bool = False) -> Picture:
    """Returns a figure for a notebook's cell; an exported page shows it without a network."""
    return Picture(figure, inline)


def _titled(figure: Any, title: str, build: str, **layout: Any) -> Any:
    return figure.update_layout(title=f"{html.escape(title)} (build {build})", template="simple_white", **layout)


def chunk_sizes(chunks: pl.DataFrame, build_id: str) -> Any:
    """Returns the histogram of tokens a chunk, a colour for each collection."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for (name,), rows in sorted(chunks.group_by("collection")):
        figure.add_histogram(x=rows["token_count"].to_list(), name=html.escape(name), nbinsx=40)
    return _titled(figure, "Tokens of a chunk", build_id, barmode="overlay", xaxis_title="tokens", yaxis_title="chunks")


def top_entities(mentions: pl.DataFrame, entities: pl.DataFrame, build_id: str, shown: int = 20) -> Any:
    """Returns bars of the entities that most memories name."""
    import plotly.graph_objects as go

    counts = mentions.group_by("entity_id").agg(pl.col("memory_id").n_unique().alias("memories"))
    best = counts.join(entities, on="entity_id").sort(["memories", "entity_id"], descending=[True, False]).head(shown)
    figure = go.Figure(go.Bar(x=best["memories"].to_list(), y=[html.escape(n) for n in best["name"]], orientation="h"))
    return _titled(figure, "Entities that most memories name", build_id, yaxis_autorange="reversed")


def neighbourhood_figure(found: Neighbourhood, build_id: str) -> Any:
    """Returns a neighbourhood as rings around its centre; a node's text is shown when it is pointed at."""
    import plotly.graph_objects as go

    positions = _rings(found)
    figure = go.Figure()
    for label in sorted({kind for _, _, kind in found.links}):
        ends = [(positions[a], positions[b]) for a, b, kind in found.links if kind == label]
        x = [v for (ax, _), (bx, _) in ends for v in (ax, bx, None)]
        y = [v for (_, ay), (_, by) in ends for v in (ay, by, None)]
        figure.add_scatter(x=x, y=y, mode="lines", name=label.lower(), line_width=1, hoverinfo="skip")
    for kind, color in _COLORS.items():
        nodes = [n for n in found.nodes if n.kind == kind]
        figure.add_scatter(
            x=[positions[n.node_id][0] for n in nodes],
            y=[positions[n.node_id][1] for n in nodes],
            mode="markers",
            name=kind,
            text=[html.escape(n.label) for n in nodes],
            hoverinfo="text",
            marker={"size": [18 if n.ring == 0 else 11 for n in nodes], "color": color},
        )
    hidden = {"visible": False}
    return _titled(figure, "Around one memory", build_id, xaxis=hidden, yaxis=hidden | {"scaleanchor": "x"}, height=600)


def _rings(found: Neighbourhood) -> dict[str, tuple[float, float]]:
    sizes = Counter(n.ring for n in found.nodes)
    seen: Counter[int] = Counter()
    positions = {}
    for node in found.nodes:
        angle = 2 * math.pi * seen[node.ring] / sizes[node.ring]
        seen[node.ring] += 1
        positions[node.node_id] = (round(node.ring * math.cos(angle), 6), round(node.ring * math.sin(angle), 6))
    return positions


def change_figure(rows: Sequence[MeasureChange], title: str, build_ids: Sequence[str]) -> Any:
    """Returns the change of each measure between two builds with its interval, as `significance` gives them."""
    import plotly.graph_objects as go

    x = [r["change"] for r in rows]
    error = {
        "type": "data",
        "symmetric": False,
        "array": [r["high"] - r["change"] for r in rows],
        "arrayminus": [r["change"] - r["low"] for r in rows],
    }
    figure = go.Figure(go.Scatter(x=x, y=[r["measure"] for r in rows], error_x=error, mode="markers", marker_size=10))
    figure.add_vline(x=0, line_dash="dot")
    return _titled(figure, title, " against ".join(build_ids), xaxis_title="change, 95 % interval")


def causes_figure(misses: Sequence[Miss], build_id: str) -> Any:
    """Returns bars of how many things were lost for each cause."""
    import plotly.graph_objects as go

    counts = Counter(m.cause for m in misses)
    names = [c for c in CAUSES if counts[c]]
    figure = go.Figure(go.Bar(x=[counts[c] for c in names], y=names, orientation="h"))
    return _titled(figure, "Where what was missed got lost", build_id, yaxis_autorange="reversed")


def health_figure(health: Mapping[str, MemoryHealth], build_id: str) -> Any:
    """Returns the shares of each collection's health side by side."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for name, values in sorted(health.items()):
        shares = {k: v for k, v in values.items() if k.endswith("_share")}
        figure.add_bar(name=html.escape(name), x=[k.removesuffix("_share") for k in shares], y=list(shares.values()))
    return _titled(figure, "Memory health, shares", build_id, barmode="group", yaxis_range=[0, 1])


def chains_figure(health: Mapping[str, MemoryHealth], build_id: str) -> Any:
    """Returns how many chains of updates have how many versions."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for name, values in sorted(health.items()):
        chains = values["chains"]
        figure.add_bar(name=html.escape(name), x=[str(n) for n in chains], y=list(chains.values()))
    return _titled(figure, "Chains of updates", build_id, xaxis_title="versions of a fact", yaxis_title="chains")


# The graph of a scope as pictures: its largest nodes and how they are tied, and how it grew.


def largest_nodes_figure(chart: GraphChart, build_id: str) -> Any:
    """Returns the most important nodes on a circle, with the edges between them; a name is shown when pointed at."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for kind in sorted({line.type for line in chart.lines}):
        lines = [line for line in chart.lines if line.type == kind]
        x = [v for line in lines for v in (line.x1, line.x2, None)]
        y = [v for line in lines for v in (line.y1, line.y2, None)]
        figure.add_scatter(x=x, y=y, mode="lines", name=kind, line_width=1, hoverinfo="skip")
    for kind in sorted({dot.type for dot in chart.dots}):
        dots = [dot for dot in chart.dots if dot.type == kind]
        figure.add_scatter(
            x=[dot.x for dot in dots],
            y=[dot.y for dot in dots],
            mode="markers",
            name=kind,
            text=[html.escape(dot.name) for dot in dots],
            hoverinfo="text",
            marker={"size": [2 * dot.radius for dot in dots]},
        )
    hidden = {"visible": False}
    square = hidden | {"scaleanchor": "x"}
    return _titled(figure, f"Largest nodes of {chart.scope}", build_id, xaxis=hidden, yaxis=square, height=600)


def growth_figure(chart: GraphChart, build_id: str) -> Any:
    """Returns how many nodes there were by each day on which memories were read."""
    import plotly.graph_objects as go

    days, counts = zip(*chart.growth, strict=True) if chart.growth else ((), ())
    figure = go.Figure(go.Bar(x=list(days), y=list(counts)))
    return _titled(figure, f"Nodes of {chart.scope} by day", build_id, xaxis_title="day", yaxis_title="nodes")


# The pictures of notebook 5: growth, ages and time, from what `eval/palimpsest_eval/health` computes.

_SHOWN_BUILDS = 5


def history_figure(health: HomeHealth) -> Any:
    """Returns how many memories each build had, latest and retired."""
    import plotly.graph_objects as go

    figure = go.Figure()
    ids = [b.build_id for b in health.builds]
    for name in ("latest", "retired"):
        figure.add_bar(name=name, x=ids, y=[b.numbers.get(name, 0.0) for b in health.builds])
    return _titled(figure, "Memories over builds", health.build_id, barmode="stack", xaxis_type="category")


def ages_figure(health: HomeHealth) -> Any:
    """Returns how old the latest memories are."""
    import plotly.graph_objects as go

    groups = [*health.ages.groups, ("no date", health.ages.undated)]
    figure = go.Figure(go.Bar(x=[name for name, _ in groups], y=[count for _, count in groups]))
    return _titled(figure, "Latest memories, observed within a", health.build_id, yaxis_title="memories")


def stages_figure(health: HomeHealth) -> Any:
    """Returns the seconds of each stage in the last builds."""
    import plotly.graph_objects as go

    shown = health.builds[-_SHOWN_BUILDS:]
    names = sorted({name for b in shown for name in b.seconds})
    figure = go.Figure()
    for b in shown:
        figure.add_bar(name=b.build_id, y=names, x=[b.seconds.get(n, 0.0) for n in names], orientation="h")
    return _titled(figure, "Time by stage", health.build_id, xaxis_title="seconds", height=600)
