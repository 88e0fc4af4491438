"""Why a memory is in an answer: by itself, and over which links, in words; notebooks draw the same links."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from palimpsest.query.ranking.backend import Backend
from palimpsest.query.ranking.priors import stands, terms
from palimpsest.query.ranking.rank import Candidate
from palimpsest.query.ranking.scope_cache import rows_of
from palimpsest.query.read_time import TimeRead
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import Filters, Link, Memory, RankedMemory, Scope
from palimpsest.query.served import conceals
from palimpsest.text.periods import Period

_SHOWN_CHARS = 60
_ADDED = ("near", "title", "pair", "topic", "about")
"""Kinds of links whose weight is what they add; any other's is how strong the link is."""
_UNSAID = "\u2026"  # stands for a name that may not be told
_LEAST = 0.01  # weights below it are all the same to people
_IN_WORDS = {
    "asked": "the question names its title, {via!r}",
    "title": "{source} names its title, {via!r}, and both together answer more",
    "names": "it shares {via!r} with {source}",
    "entity": "it shares {via!r} with {source}",
    "topic": "it belongs to the topic {via!r}",
    "about": "the question asks about {via!r}, which it names",
    "near": "it was said near {source}",
    "pair": "with {source}, which shares {via!r}, it answers more than either alone",
    "UPDATE": "it replaced {source}",
    "EXTEND": "one of it and {source} adds to the other",
    "DERIVE": "one of it and {source} follows from the other",
}


def explained(
    backend: Backend,
    memories: Sequence[RankedMemory],
    best: Sequence[tuple[Scope, Candidate]],
    asked: Mapping[Scope, tuple[Filters, TimeRead]],
    weights: Mapping[Scope, Weights],
) -> tuple[list[RankedMemory], dict[str, str]]:
    """Returns results with why they are there, and the texts of the memories that links came from, by id.

    Args:
        backend: the store of the build.
        memories: the results.
        best: the same, each in its scope, as they were ranked.
        asked: the filters that held in each scope, and how the question's time was read there.
        weights: of the strategy in each scope.
    """
    stood: dict[str, str] = {}
    met: dict[str, str] = {}
    paths: dict[str, tuple[Link, ...]] = {}
    fits: dict[str, float] = {}
    for scope, (filters, read) in asked.items():
        own = [c for at, c in best if at == scope]
        found = _memories_met(backend, scope, [c.path for c in own])
        met |= {i: m.text for i, m in found.items()}
        shown = found if conceals(backend, scope, filters) else None
        paths |= {c.memory_id: _shown(c.path, shown) for c in own}
        if weights[scope].time > 0:
            fits |= _time_scores(backend, scope, read.period, [c.memory_id for c in own])
        if stands(weights[scope]):
            stood |= _standing_words(backend, scope, weights[scope], filters, [c.memory_id for c in own])
    named = names_for([c.memory_id for _, c in best], met)
    told = []
    for memory, (_, candidate) in zip(memories, best, strict=True):
        fit = fits.get(candidate.memory_id)
        path = paths[candidate.memory_id]
        told.append(replace(memory, path=path, time_score=fit, why=_why(candidate, path, named, fit, stood)))
    return told, met


def link_words(link: Link, named: Mapping[str, str]) -> str:
    """Returns a link in words, with its weight.

    Args:
        link: the link.
        named: what to call memories, by id.
    """
    source = named.get(link.source, link.source)
    told = _IN_WORDS.get(link.kind, "{kind} from {source}").format(kind=link.kind, via=link.via, source=source)
    if link.kind in _ADDED:
        return f"{told} ({link.weight:+.2f})"
    weight = f"{link.weight:.2f}" if link.weight >= _LEAST else f"under {_LEAST}"
    return f"{told} (weight {weight})"


def _why(
    candidate: Candidate,
    path: Sequence[Link],
    named: Mapping[str, str],
    time_score: float | None,
    stood: Mapping[str, str],
) -> str:
    """Returns one line on why a memory stands where it does.

    Args:
        candidate: the memory as it was ranked.
        path: the links that led to it, as they may be told.
        named: what to call memories, by id.
        time_score: how well its times fit the one asked about, 0 to 1; None where none was asked about.
        stood: what speaks for memories whatever is asked, in words, by id.
    """
    time = ("" if time_score is None else f", time {time_score:.2f}") + stood.get(candidate.memory_id, "")
    alone = f"{candidate.own:.2f} by itself (meaning {candidate.vector:.2f}, words {candidate.words:.2f}{time})"
    gained = round(candidate.score, 2) - round(candidate.own, 2)  # as shown: the sum of what is read is right
    if not path and abs(gained) < _LEAST / 2:
        return alone
    others = "over links" if path else "as others gain less over links"
    over = f"{gained:+.2f}, as others gain more over links" if gained < 0 else f"{gained:+.2f} {others}"
    links = ", then ".join(link_words(link, named) for link in path)
    return f"{alone}; {over}{links and f': {links}'}; {candidate.score:.2f} in all"


def names_for(best: Sequence[str], texts: Mapping[str, str]) -> dict[str, str]:
    """Returns what to call memories: a result by its place, any other by the beginning of its text."""
    named = {i: f"\u201c{shortened(text, _SHOWN_CHARS)}\u201d" for i, text in texts.items()}
    return named | {memory_id: f"result {place}" for place, memory_id in enumerate(best, 1)}


def _memories_met(backend: Backend, scope: Scope, paths: Iterable[Sequence[Link]]) -> dict[str, Memory]:
    """Returns the memories that links of some paths come from or lead to, by id."""
    ids = {i for path in paths for link in path for i in (link.source, link.target) if i != "question"}
    return backend.memories(scope, sorted(ids))


def _shown(path: Sequence[Link], met: Mapping[str, Memory] | None) -> tuple[Link, ...]:
    """Returns links without names that none of the memories at their ends says: a name may come from one left out.

    Args:
        path: the links.
        met: the memories that may be shown, by id; None where all may.
    """
    if met is None:
        return tuple(path)

    def says(memory: Memory, name: str) -> bool:
        return any(name.casefold() in (t or "").casefold() for t in (memory.text, memory.title, memory.speaker))

    ends = [[met[i] for i in (link.source, link.target) if i in met] for link in path]
    return tuple(
        link if not link.via or any(says(m, link.via) for m in near) else link._replace(via=_UNSAID)
        for link, near in zip(path, ends, strict=True)
    )


def _time_scores(backend: Backend, scope: Scope, period: Period | None, ids: Sequence[str]) -> dict[str, float]:
    """Returns how well the times of memories fit the one that a question asks about; empty where it asks about none."""
    view = backend.view(scope) if period is not None else None
    if period is None or view is None:
        return {}
    fits = view.periods().fit_scores(period, len(view.ids))
    rows = rows_of(view.ids, ids)
    return dict(zip(ids, fits[rows].tolist(), strict=True))


def _standing_words(
    backend: Backend, scope: Scope, weights: Weights, filters: Filters, ids: Sequence[str]
) -> dict[str, str]:
    """Returns, by id, each of how new, supported and important memories are that is weighed."""
    view = backend.view(scope) if ids else None
    if view is None:
        return {}
    rows = rows_of(view.ids, ids)
    parts = [(name, values[rows].tolist()) for name, _, values in terms(view.standing(), weights, filters.moment)]
    return {i: "".join(f", {name} {values[at]:.2f}" for name, values in parts) for at, i in enumerate(ids)}


def shortened(text: str, most: int) -> str:
    """Returns a text on one line, cut where it is longer than `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "\u2026"
