"""Why each result of a query was returned, as a picture: from the question, over seeds and links, to the results.

The links are those that `query --explain` describes.
"""

import html
from dataclasses import dataclass, field
from typing import Any

from palimpsest.query.context.explain import describe_link, memory_labels
from palimpsest.query.reader import open_index
from palimpsest.query.request.types import Link, RankedMemory, shorten_text
from palimpsest.query.result import SearchResult
from palimpsest.store.home import data_folder
from palimpsest_eval.golden.golden_run import search_golden
from palimpsest_eval.golden.questions import collection_tables, golden_path
from palimpsest_eval.notebook.build_view import BuildView
from palimpsest_eval.ragas.ragas_check import RagasSample, golden_samples
from palimpsest_eval.runs.suite_runs import golden_set_of

_QUESTION, _SEED, _LINK, _RESULT = range(4)
_COLORS = {_QUESTION: "#33415c", _SEED: "#2867c7", _LINK: "#0f8a7e", _RESULT: "#2867c7"}
_BY_ITSELF, _OVER_LINKS = "rgba(40,103,199,0.28)", "rgba(15,138,126,0.38)"
_WIDE, _NARROW = 44, 28  # characters of a label
_MIN_FLOW = 0.05  # of the widest flow: what is thinner cannot be seen or pointed at
_KINDS = {
    "near": "said near it",
    "UPDATE": "replaced",
    "EXTEND": "adds to",
    "DERIVE": "follows from",
    "PREMISE": "premise of",
}


@dataclass
class _Drawn:
    """Nodes by key, in order, and flows between them."""

    nodes: dict[tuple[int, str], tuple[str, str]] = field(default_factory=dict)
    flows: list[tuple[tuple[int, str], tuple[int, str], float, str, str]] = field(default_factory=list)

    def node(self, column: int, name: str, label: str, tooltip: str) -> tuple[int, str]:
        self.nodes.setdefault((column, name), (label, tooltip))
        return column, name


def explained_figure(results: SearchResult, question: str, shown: int = 5) -> Any:
    """Returns the picture of an answer: how much each of the first results has by itself, and how much over links.

    A flow's width is its share of the result's score; hovering shows what a node or a flow means.

    Args:
        results: of a search with `explain`.
        question: its words.
        shown: how many results.
    """
    import plotly.graph_objects as go

    memories = results.memories[:shown]
    drawn = _drawn(memories, results, question)
    number = {key: i for i, key in enumerate(drawn.nodes)}
    figure = go.Figure(
        go.Sankey(
            arrangement="snap",
            node={
                "label": [html.escape(label) for label, _ in drawn.nodes.values()],
                "customdata": [html.escape(tooltip) for _, tooltip in drawn.nodes.values()],
                "hovertemplate": "%{customdata}<extra></extra>",
                "color": [_COLORS[column] for column, _ in drawn.nodes],
                "x": [(0.001, 0.3, 0.6, 0.999)[column] for column, _ in drawn.nodes],
                "y": _heights(drawn),
                "pad": 22,
                "thickness": 14,
                "line": {"width": 0},
            },
            link={
                "source": [number[a] for a, *_ in drawn.flows],
                "target": [number[b] for _, b, *_ in drawn.flows],
                "value": [width for _, _, width, _, _ in drawn.flows],
                "color": [color for *_, color, _ in drawn.flows],
                "customdata": [html.escape(tooltip) for *_, tooltip in drawn.flows],
                "hovertemplate": "%{customdata}<extra></extra>",
            },
        )
    )
    about = f"build {results.build_id}, {html.escape(results.strategy)}"
    legend = "as wide as its part of the score: blue by itself, green over links"
    title = f"{html.escape(shorten_text(question, 110))} ({about})<br><sup>{legend}</sup>"
    height = 150 + 95 * max(1, len(memories))
    for x, heading in ((0.0, "question"), (0.3, "found first"), (0.6, "leads on over"), (1.0, "results")):
        anchor = {0.0: "left", 1.0: "right"}.get(x, "left")
        figure.add_annotation(x=x, y=1.06, text=heading, showarrow=False, xanchor=anchor, font_color="#667")
    return figure.update_layout(title=title, template="simple_white", height=height, font_size=12)


def _drawn(memories: list[RankedMemory], results: SearchResult, question: str) -> _Drawn:
    drawn = _Drawn()
    texts = dict(results.met) | {m.memory_id: m.text for m in memories}
    named = memory_labels([m.memory_id for m in results.memories], results.met)
    start = drawn.node(_QUESTION, "", shorten_text(question, _NARROW), question)
    lowest = min((m.score - m.graph_score for m in memories), default=0.0)
    floor = max(0.0, -lowest) + 1.0  # widths are positive, however far below average a score is
    for place, m in enumerate(memories, 1):
        alone = m.score - m.graph_score
        scores = f"{alone:.1f}" + (f" {m.graph_score:+.1f}" if m.path or abs(m.graph_score) >= _MIN_FLOW else "")
        label = f"{place}. {shorten_text(m.text, _WIDE)}  {scores}"
        end = drawn.node(_RESULT, m.memory_id, label, f"{m.text} \u2014 {m.why}")
        tooltip = f"{alone:.2f} by itself: meaning {m.vector_score:.2f}, words {m.words_score:.2f}" + (
            f", time {m.time_score:.2f}" if m.time_score is not None else ""
        )
        width = alone + floor
        drawn.flows.append((start, end, width, _BY_ITSELF, tooltip))
        if m.path:
            _add_path(drawn, m, max(m.graph_score, _MIN_FLOW * width), texts, named, start, end)
    return drawn


def _add_path(
    drawn: _Drawn,
    m: RankedMemory,
    width: float,
    texts: dict[str, str],
    named: dict[str, str],
    start: tuple[int, str],
    end: tuple[int, str],
) -> None:
    """Adds the path to a result: over what was found first, and over the last link to it."""
    first, last = m.path[0], m.path[-1]
    words = ", then ".join(describe_link(link, named) for link in m.path)
    tooltip = f"{m.graph_score:+.2f} over links: {words}"
    over = drawn.node(_LINK, last.via or last.kind, _over(last), tooltip)
    if first.source not in texts:  # the question itself, or a topic
        drawn.flows.append((start, over, width, _OVER_LINKS, tooltip))
    else:
        text, place = texts[first.source], named.get(first.source, "")
        label = f"{place}: " if place.startswith("result") else ""
        seed = drawn.node(_SEED, first.source, label + shorten_text(text, _NARROW), text)
        drawn.flows += [(start, seed, width, _OVER_LINKS, tooltip), (seed, over, width, _OVER_LINKS, tooltip)]
    drawn.flows.append((over, end, width, _OVER_LINKS, tooltip))


def _over(link: Link) -> str:
    if link.via:
        return shorten_text(link.via, _NARROW)
    return _KINDS.get(link.kind, link.kind)


def _heights(drawn: _Drawn) -> list[float]:
    """Nodes of a column one under the other, those of all columns over the whole height."""
    sizes: dict[int, int] = {}
    for column, _ in drawn.nodes:
        sizes[column] = sizes.get(column, 0) + 1
    seen: dict[int, int] = {}
    out = []
    for column, _ in drawn.nodes:
        seen[column] = seen.get(column, 0) + 1
        out.append(min(0.999, max(0.001, (seen[column] - 0.5) / sizes[column])))
    return out


# What notebook 6 judges: the golden questions of a collection with the contexts that a build packs for them.


def judged_contexts(view: BuildView, collection: str) -> list[RagasSample]:
    """Returns a sample for each answerable golden question of a collection."""
    golden = golden_set_of(view.build, golden_path(data_folder(), collection))
    with open_index(view.build.index) as reader:
        return golden_samples(search_golden(reader, golden, collection_tables(view.tables, collection)))
