"""Why each result of a query was returned, as a picture: from the question, over seeds and links, to the results.

The links are those that `query --explain` describes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from palimpsest.query.context.explain import describe_link, memory_labels
from palimpsest.query.reader import open_index
from palimpsest.query.request.types import RankedMemory, shorten_text
from palimpsest.query.result import SearchResult
from palimpsest.store.home import data_folder
from palimpsest_eval.golden.golden_run import search_golden
from palimpsest_eval.golden.questions import collection_tables, golden_path
from palimpsest_eval.notebook.build_view import BuildView
from palimpsest_eval.notebook.plots import Picture
from palimpsest_eval.ragas.ragas_check import RagasSample, golden_samples
from palimpsest_eval.report.pictures import ArcLink, ArcNode, arc_chart
from palimpsest_eval.runs.suite_runs import golden_set_of

_QUESTION, _SEED, _LINK, _RESULT = "question", "found first", "leads on over", "result"
_BY_ITSELF, _OVER_LINKS = "by itself", "over links"
_MAX_CHARS = 60
_MIN_SCORE = 0.05  # over links: a smaller part is not written
_KINDS = {
    "near": "said near it",
    "UPDATE": "replaced",
    "EXTEND": "adds to",
    "DERIVE": "follows from",
    "PREMISE": "premise of",
}


@dataclass
class _Drawn:
    """Nodes by id, in order, and links between them."""

    nodes: dict[str, ArcNode] = field(default_factory=dict)
    links: list[ArcLink] = field(default_factory=list)

    def node(self, kind: str, name: str, label: str, tooltip: str) -> str:
        size = 0.3 if kind in (_SEED, _LINK) else 0.8
        self.nodes.setdefault(f"{kind} {name}", ArcNode(f"{kind} {name}", label, kind, size, tooltip))
        return f"{kind} {name}"

    def link(self, source: str, target: str, kind: str, tooltip: str) -> None:
        self.links.append(ArcLink(source, target, kind, tooltip))


def explained_figure(results: SearchResult, question: str, shown: int = 5) -> Picture:
    """Returns the picture of an answer: which of the first results were found by themselves, and which over links.

    Args:
        results: of a search with `explain`.
        question: its words.
        shown: how many results.
    """
    nodes, links = explained_arcs(results, question, shown)
    title = f"{shorten_text(question, _MAX_CHARS)} (build {results.build_id}, {results.strategy})"
    text = {"text": shorten_text(question, _MAX_CHARS), "subtitle": f"build {results.build_id}, {results.strategy}"}
    return Picture(arc_chart(nodes, links, "row", "found").properties(title=text), title)


def explained_arcs(results: SearchResult, question: str, shown: int = 5) -> tuple[Sequence[ArcNode], Sequence[ArcLink]]:
    """Returns the rows and arcs of an answer: question, results, and what leads to them."""
    drawn = _drawn(results.memories[:shown], results, question)
    return list(drawn.nodes.values()), drawn.links


def _drawn(memories: list[RankedMemory], results: SearchResult, question: str) -> _Drawn:
    drawn = _Drawn()
    texts = dict(results.met) | {m.memory_id: m.text for m in memories}
    named = memory_labels([m.memory_id for m in results.memories], results.met)
    start = drawn.node(_QUESTION, "", question, question)
    for place, m in enumerate(memories, 1):
        alone = m.score - m.graph_score
        over = f" {m.graph_score:+.1f}" if m.path or abs(m.graph_score) >= _MIN_SCORE else ""
        end = drawn.node(_RESULT, m.memory_id, f"{place}. {alone:.1f}{over} {m.text}", f"{m.text} \u2014 {m.why}")
        tooltip = f"{alone:.2f} by itself: meaning {m.vector_score:.2f}, words {m.words_score:.2f}" + (
            f", time {m.time_score:.2f}" if m.time_score is not None else ""
        )
        drawn.link(start, end, _BY_ITSELF, tooltip)
        if m.path:
            _add_path(drawn, m, texts, named, start, end)
    return drawn


def _add_path(
    drawn: _Drawn, m: RankedMemory, texts: dict[str, str], named: dict[str, str], start: str, end: str
) -> None:
    """Adds the path to a result: over what was found first, and over the last link to it."""
    first, last = m.path[0], m.path[-1]
    words = ", then ".join(describe_link(link, named) for link in m.path)
    tooltip = f"{m.graph_score:+.2f} over links: {words}"
    over = drawn.node(_LINK, last.via or last.kind, last.via or _KINDS.get(last.kind, last.kind), tooltip)
    seed = start  # the question itself, or a topic
    if first.source in texts:
        text, place = texts[first.source], named.get(first.source, "")
        label = f"{place}: {text}" if place.startswith("result") else text
        seed = drawn.node(_SEED, first.source, label, text)
        drawn.link(start, seed, _OVER_LINKS, tooltip)
    drawn.link(seed, over, _OVER_LINKS, tooltip)
    drawn.link(over, end, _OVER_LINKS, tooltip)


# What notebook 6 judges: the golden questions of a collection with the contexts that a build packs for them.


def judged_contexts(view: BuildView, collection: str) -> list[RagasSample]:
    """Returns a sample for each answerable golden question of a collection."""
    golden = golden_set_of(view.build, golden_path(data_folder(), collection))
    with open_index(view.build.index) as reader:
        return golden_samples(search_golden(reader, golden, collection_tables(view.tables, collection)))
