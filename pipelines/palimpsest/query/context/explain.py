"""Why a memory is in an answer: its base score, and the links that lifted it, in words; notebooks draw the links."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from palimpsest.index.index_format import DISPUTE
from palimpsest.query.context.history import premise_texts
from palimpsest.query.ranking.candidate import Candidate, Ranked
from palimpsest.query.ranking.scoring import uses_priors, weighted_terms
from palimpsest.query.request.one_line import shorten_text
from palimpsest.query.request.types import Link, Memory, PremiseText, RankedMemory
from palimpsest.query.scope.scope_arrays import rows_of
from palimpsest.query.scope.scope_graph import PREMISE
from palimpsest.query.scope.scope_query import ScopeQuery

_LABEL_CHARS = 60
_ADDED_KINDS = ("near", "title", "pair", "topic", "about")
"""Kinds of links whose weight is their contribution; the weight of any other is the strength of the link."""
_CONCEALED = "\u2026"  # in place of a name that may not be shown
_MIN_WEIGHT = 0.01  # smaller weights look the same
_IN_WORDS = {
    "asked": "the question names its title, {via!r}",
    "title": "{source} names its title, {via!r}, and both together answer more",
    "names": "it shares {via!r} with {source}",
    "entity": "it shares {via!r} with {source}",
    "topic": "it belongs to the topic {via!r}",
    "about": "the question asks about {via!r}, which it names",
    "member": "the question asks for all of a kind, and it describes one",
    "near": "it was said near {source}",
    "pair": "with {source}, which shares {via!r}, it answers more than either alone",
    "UPDATE": "it replaced {source}",
    DISPUTE: "it may have ended {source}",
    "EXTEND": "one of it and {source} adds to the other",
    "DERIVE": "it follows from {source}",
    PREMISE: "{source} follows from it",
}


def explain_results(
    memories: Sequence[RankedMemory], best: Sequence[Ranked], queries: Sequence[ScopeQuery]
) -> tuple[list[RankedMemory], dict[str, str]]:
    """Returns results with why they are there, and the texts of the memories that links came from, by id.

    Args:
        memories: the results.
        best: the same, each with the query of its scope, as they were ranked.
        queries: of every scope that was searched.
    """
    texts: dict[str, str] = {}
    explained: dict[str, _Explanation] = {}
    for query in queries:
        candidates = [c for q, c in best if q.scope == query.scope]
        ends = _linked_memories(query, [c.path for c in candidates])
        texts |= {i: m.text for i, m in ends.items()}
        explained |= _explain_scope(query, candidates, ends)
    labels = memory_labels([c.memory_id for _, c in best], texts)
    out = []
    for memory, (_, candidate) in zip(memories, best, strict=True):
        found = explained[candidate.memory_id]
        why = _describe(candidate, found, labels)
        out.append(replace(memory, path=found.path, time_score=found.time_score, premises=found.premises, why=why))
    return out, texts


def describe_link(link: Link, labels: Mapping[str, str]) -> str:
    """Returns a link in words, with its weight.

    Args:
        link: the link.
        labels: what to call memories, by id.
    """
    source = labels.get(link.source, link.source)
    words = _IN_WORDS.get(link.kind, "{kind} from {source}").format(kind=link.kind, via=link.via, source=source)
    if link.kind in _ADDED_KINDS:
        return f"{words} ({link.weight:+.2f})"
    weight = f"{link.weight:.2f}" if link.weight >= _MIN_WEIGHT else f"under {_MIN_WEIGHT}"
    return f"{words} (weight {weight})"


def memory_labels(best: Sequence[str], texts: Mapping[str, str]) -> dict[str, str]:
    """Returns what to call memories: a result by its rank, any other by the beginning of its text."""
    labels = {i: f"\u201c{shorten_text(text, _LABEL_CHARS)}\u201d" for i, text in texts.items()}
    return labels | {memory_id: f"result {rank}" for rank, memory_id in enumerate(best, 1)}


class _Explanation(NamedTuple):
    """The visible links of a result, how well its times fit the period, its priors in words, and its premises."""

    path: tuple[Link, ...]
    time_score: float | None
    priors: str
    premises: tuple[PremiseText, ...]


def _explain_scope(
    query: ScopeQuery, candidates: Sequence[Candidate], ends: Mapping[str, Memory]
) -> dict[str, _Explanation]:
    visible = ends if query.served.may_conceal() else None
    ids = [c.memory_id for c in candidates]
    times, priors, premises = _time_scores(query, ids), _priors_in_words(query, ids), premise_texts(query.served, ids)
    return {
        c.memory_id: _Explanation(
            _visible_path(c.path, visible),
            times.get(c.memory_id),
            priors.get(c.memory_id, ""),
            premises.get(c.memory_id, ()),
        )
        for c in candidates
    }


def _describe(candidate: Candidate, found: _Explanation, labels: Mapping[str, str]) -> str:
    """Returns one line on why a memory has its rank."""
    time = ("" if found.time_score is None else f", time {found.time_score:.2f}") + found.priors
    alone = f"{candidate.base:.2f} by itself (meaning {candidate.vector:.2f}, words {candidate.words:.2f}{time})"
    gained = round(candidate.score, 2) - round(candidate.base, 2)  # of rounded values, so that the shown sum is right
    if not found.path and abs(gained) < _MIN_WEIGHT / 2:
        return alone
    others = "over links" if found.path else "as others gain less over links"
    over = f"{gained:+.2f}, as others gain more over links" if gained < 0 else f"{gained:+.2f} {others}"
    links = ", then ".join(describe_link(link, labels) for link in found.path)
    return f"{alone}; {over}{links and f': {links}'}; {candidate.score:.2f} in all"


def _linked_memories(query: ScopeQuery, paths: Iterable[Sequence[Link]]) -> dict[str, Memory]:
    """Returns the memories at the ends of the links of some paths, by id."""
    ids = {i for path in paths for link in path for i in (link.source, link.target) if i != "question"}
    return query.served.memories(sorted(ids))


def _visible_path(path: Sequence[Link], visible: Mapping[str, Memory] | None) -> tuple[Link, ...]:
    """Returns links without names that no memory at their ends contains: a name may come from one left out.

    Args:
        path: the links.
        visible: the memories that may be shown, by id; None where all may.
    """
    if visible is None:
        return tuple(path)

    def contains(memory: Memory, name: str) -> bool:
        return any(name.casefold() in (t or "").casefold() for t in (memory.text, memory.title, memory.speaker))

    ends = [[visible[i] for i in (link.source, link.target) if i in visible] for link in path]
    return tuple(
        link if not link.via or any(contains(m, link.via) for m in near) else link._replace(via=_CONCEALED)
        for link, near in zip(path, ends, strict=True)
    )


def _time_scores(query: ScopeQuery, ids: Sequence[str]) -> dict[str, float]:
    """Returns how well the times of memories fit the question's period; empty where it has none."""
    view = query.served.view() if query.period is not None else None
    if query.period is None or view is None:
        return {}
    overlaps = view.periods().fit_scores(query.period, len(view.ids))
    return dict(zip(ids, overlaps[rows_of(view.ids, ids)].tolist(), strict=True))


def _priors_in_words(query: ScopeQuery, ids: Sequence[str]) -> dict[str, str]:
    """Returns, by id, each prior of memories that has a weight."""
    view = query.served.view() if ids and uses_priors(query.weights) else None
    if view is None:
        return {}
    rows = rows_of(view.ids, ids)
    terms = weighted_terms(view.priors(), query.weights, query.filters.query_time)
    parts = [(name, values[rows].tolist()) for name, _, values in terms]
    return {i: "".join(f", {name} {values[at]:.2f}" for name, values in parts) for at, i in enumerate(ids)}
