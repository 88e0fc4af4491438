"""Facts, edges, ties and stages as lines that cite memories."""

import datetime as dt
import itertools
import math
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from palimpsest.facts.vocabulary import fact_words
from palimpsest.query.context.explain import Version, describe_reason
from palimpsest.query.graph.evidence import Anchor, Evidence
from palimpsest.query.graph.graph_answer import GraphLine
from palimpsest.query.request.types import Edge, Fact, Memory, NewerText, Node, changed_line, one_line
from palimpsest.query.scope.graph_reads import Ends
from palimpsest.query.scope.served_graph import NodeFilter, ServedGraph
from palimpsest.text.date_mentions import (
    Period,
    day_period,
    find_date_mentions,
    find_relative_dates,
    is_reference_day,
    without_overlaps,
)
from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.terms import terms

# How two things relate: the memories that tie one to the other, directly or in two steps, ranked.

DIRECT_BONUS = 0.45  # of a memory that speaks of both
FACT_BONUS = 0.15  # of one that states a fact between both
_SPEAKS = 0.55  # coverage from which a memory speaks of something
_OF_ONE = 0.6  # share of the fit of a memory that speaks of one thing only
_ENDS = 15  # memories of each thing from which paths lead
_SAME_PLACE = ((1, 0.9), (3, 0.7), (8, 0.5))  # of a document: positions apart and how close that is
_SAME_DOCUMENT, _LINKED = 0.3, 0.9
_MIN_LINK = 0.25
_PATH_LINK = 0.5  # share of a link in the score of a path
_PATH_COVER = 0.3  # of what both miss of their things
_SEEN = 0.6  # share of a memory's part in a score that counts again in a later line


@dataclass(frozen=True)
class Tie:
    """What ties two things.

    Attributes:
        memory_ids: one memory that speaks of both, or one of each in the order of the question.
        score: ranks ties.
        is_direct: whether the first speaks of both.
    """

    memory_ids: tuple[str, ...]
    score: float
    is_direct: bool


def find_ties(evidence: Evidence, linked: set[tuple[str, str]], n: int) -> list[Tie]:
    """Returns the best `n` ties of the two things that a question is about, best first.

    Where the question is about one thing only, its memories by how well they fit.

    Args:
        evidence: of the question.
        linked: pairs of memories with a relation, in both directions.
        n: how many.
    """
    ends = evidence.names.ends
    if len(ends) < 2:
        return _select([_single(evidence, i, ends) for i in evidence.memories], evidence, n)
    covers = {i: tuple(evidence.coverage(i, end) for end in ends) for i in evidence.memories}
    direct = [_direct(evidence, i, covers[i], ends) for i in evidence.memories]
    first, second = (_best(evidence, _of_end(covers, end)) for end in (0, 1))
    paths = [
        Tie((a, b), score, False)
        for a, b in itertools.product(first, second)
        if a != b and (score := _path_score(evidence, covers, a, b, linked)) > 0
    ]
    return _select([*direct, *paths], evidence, n)


def _single(evidence: Evidence, memory_id: str, ends: Sequence[Anchor]) -> Tie:
    cover = max((evidence.coverage(memory_id, a) for a in ends), default=0.0)
    stated = FACT_BONUS if memory_id in evidence.facts else 0.0
    return Tie((memory_id,), evidence.fit.get(memory_id, 0.0) + DIRECT_BONUS * cover + stated, True)


def _direct(evidence: Evidence, memory_id: str, cover: Sequence[float], ends: Sequence[Anchor]) -> Tie:
    fit, both = evidence.fit.get(memory_id, 0.0), min(cover)
    if both < _SPEAKS:
        fit *= _OF_ONE
    score = fit + DIRECT_BONUS * both + 0.1 * sum(cover) / 2
    if _is_between(evidence, memory_id, ends):
        score += FACT_BONUS
    return Tie((memory_id,), score, True)


def _is_between(evidence: Evidence, memory_id: str, ends: Sequence[Anchor]) -> bool:
    """Returns whether a memory states a fact between the two things, as a node or in the words of its value."""
    for fact in evidence.facts.get(memory_id, ()):
        for one, other in itertools.permutations(ends, 2):
            if fact.subject_id in one.node_ids and (
                fact.object_id in other.node_ids
                or (fact.value and set(other.terms) <= evidence.terms[memory_id] and other.terms)
            ):
                return True
    return False


def _of_end(covers: dict[str, tuple[float, ...]], end: int) -> dict[str, float]:
    """Returns the memories that speak of one thing and hardly of the other, with the coverage."""
    return {i: c[end] for i, c in covers.items() if c[end] >= _SPEAKS and c[1 - end] < _SPEAKS}


def _best(evidence: Evidence, covered: dict[str, float]) -> list[str]:
    scored = sorted(covered, key=lambda i: (-(evidence.fit.get(i, 0.0) + 0.3 * covered[i]), i))
    return scored[:_ENDS]


def _path_score(
    evidence: Evidence, covers: dict[str, tuple[float, ...]], a: str, b: str, linked: set[tuple[str, str]]
) -> float:
    """Returns the score of a path of two memories; 0 where nothing ties them."""
    link = _link(evidence, a, b, linked)
    if link < _MIN_LINK:
        return 0.0
    fit = (evidence.fit.get(a, 0.0) + evidence.fit.get(b, 0.0)) / 2
    return fit + _PATH_COVER * (covers[a][0] + covers[b][1] - 2) + _PATH_LINK * link


def _link(evidence: Evidence, a: str, b: str, linked: set[tuple[str, str]]) -> float:
    """Returns how closely two memories are tied, 0 to 1: by a relation, their place, nodes or rare words they share."""
    if (a, b) in linked:
        return _LINKED
    one, other = evidence.memories[a], evidence.memories[b]
    place = 0.0
    if one.document_id == other.document_id and one.ordinal is not None and other.ordinal is not None:
        apart = abs(one.ordinal - other.ordinal)
        place = next((close for most, close in _SAME_PLACE if apart <= most), _SAME_DOCUMENT)
    ends = {i for anchor in evidence.names.anchors for i in anchor.node_ids}
    shared = (set(evidence.nodes.get(a, ())) & set(evidence.nodes.get(b, ()))) - ends
    counts = dict.fromkeys(shared, 0)
    for ids in evidence.nodes.values():
        for i in ids:
            if i in counts:
                counts[i] += 1
    by_node = max((1.0 - (n - 2) / len(evidence.memories) ** 0.5 for n in counts.values()), default=0.0)
    of_question = {t for anchor in evidence.names.anchors for t in anchor.terms}
    words = sorted((evidence.rarity[t] for t in (evidence.terms[a] & evidence.terms[b]) - of_question), reverse=True)
    by_words = min(1.0, sum(words[:4]) / 3)
    strongest, *rest = sorted((place, max(by_node, 0.0), by_words), reverse=True)
    return min(1.0, strongest + 0.3 * sum(rest) / 2)


def _select(ties: Sequence[Tie], evidence: Evidence, n: int) -> list[Tie]:
    """Returns the best ties; what an earlier one shows counts less in a later one."""
    waiting = sorted(ties, key=lambda t: (-t.score, t.memory_ids))[: 40 * n]
    chosen: list[Tie] = []
    shown: set[str] = set()

    def worth(tie: Tie) -> float:
        repeated = sum(i in shown for i in tie.memory_ids) / len(tie.memory_ids)
        return tie.score * (1 - (1 - _SEEN) * repeated) if repeated < 1 else -1.0

    while waiting and len(chosen) < n:
        best = max(waiting, key=lambda t: (worth(t), t.memory_ids))
        if worth(best) <= 0:
            break
        chosen.append(best)
        shown |= set(best.memory_ids)
        waiting.remove(best)
    return chosen


# How something changed: the memories about it that mark a stage, in the order in which things happened.

_COVERAGE, _CHANGE, _SUBJECT, _VERSION = 0.5, 0.2, 0.1, 0.2  # weights of what marks a stage, next to the fit
_SAME = 0.6  # share of words from which two memories repeat each other
_NEAR = 2  # positions apart in a document at which a memory belongs to the same stage
_NEAR_SHARE = 0.6  # of the stage's score that it has at least
MAX_TOGETHER = 3  # memories of a stage
_RECENT_YEARS = 0.25  # to which a time without a year may refer back
LONG_CHARS = 280  # of a text that is quoted by its best sentence
# Words that mark a change, a beginning or an end.
_CHANGE_WORDS = frozenset(
    terms(
        """
    again anymore back became become began begin begun bought build built change changed changes close closed cracked
    died ended finish finished fell first founded from gone instead introduced joined last leave left longer lost made
    married moved move moves new no now opened open opens quit raised repaired replaced replaces retired return
    returned sign signed since sold start started starts stop stopped succeeded switched switch take taken took until
    will went won
    """
    )
)
_AROUND = re.compile(r"\s+")


@dataclass(frozen=True)
class Stage:
    """A stage of what changed.

    Attributes:
        memory_ids: the memories that state it, in their order, the best of them named by `main`.
        main: the one that fits best.
        time: when it happened, or was stated.
        score: ranks stages.
    """

    memory_ids: tuple[str, ...]
    main: str
    time: dt.date | None
    order: float
    score: float


def find_stages(evidence: Evidence, replaced: Set[str], n: int) -> list[Stage]:
    """Returns the `n` stages that fit a question best, in the order in which they happened.

    Args:
        evidence: of the question.
        replaced: memories that replaced another or were replaced.
        n: how many.
    """
    scores = {i: _score(evidence, i, replaced) for i in evidence.memories}
    ranked = sorted(scores, key=lambda i: (-scores[i], i))
    chosen: list[Stage] = []
    shown: set[str] = set()
    for memory_id in ranked:
        if len(chosen) == n or scores[memory_id] <= 0:
            break
        if memory_id in shown or _repeats(evidence, memory_id, shown):
            continue
        together = _together(evidence, memory_id, scores, shown)
        shown |= set(together)
        memory = evidence.memories[memory_id]
        start = happened(memory, best_sentence(evidence, memory))
        chosen.append(Stage(together, memory_id, _date(memory, start), start, scores[memory_id]))
    return sorted(chosen, key=lambda s: (s.order, _position(evidence.memories[s.main]), s.main))


def _score(evidence: Evidence, memory_id: str, replaced: Set[str]) -> float:
    """Returns how well a memory marks a stage of what the question is about."""
    anchors = evidence.names.anchors
    weights = [1.5 if a.is_named else 1.0 for a in anchors]
    covered = [w * evidence.coverage(memory_id, a) for w, a in zip(weights, anchors, strict=True)]
    coverage = sum(covered) / sum(weights) if weights else 0.0
    changes = len(evidence.terms[memory_id] & _CHANGE_WORDS)
    score = evidence.fit.get(memory_id, 0.0) + _COVERAGE * coverage
    score += _CHANGE * min(changes, 2) / 2 + (_VERSION if memory_id in replaced else 0.0)
    return score + (_SUBJECT if memory_id in evidence.facts else 0.0)


def _repeats(evidence: Evidence, memory_id: str, shown: Set[str]) -> bool:
    mine = evidence.terms[memory_id]
    others = (evidence.terms[i] for i in shown)
    return any(len(mine & other) > _SAME * len(mine | other) for other in others)


def _together(evidence: Evidence, memory_id: str, scores: dict[str, float], shown: Set[str]) -> tuple[str, ...]:
    """Returns a memory and those next to it in its document that fit too, in their order."""
    memory = evidence.memories[memory_id]
    if memory.ordinal is None or len(memory.text) > LONG_CHARS:
        return (memory_id,)
    near = [
        m
        for i, m in evidence.memories.items()
        if i != memory_id
        and i not in shown
        and m.document_id == memory.document_id
        and m.ordinal is not None
        and abs(m.ordinal - memory.ordinal) <= _NEAR
        and len(m.text) <= LONG_CHARS
        and scores[i] >= _NEAR_SHARE * scores[memory_id]
    ]
    near.sort(key=lambda m: (-scores[m.memory_id], m.memory_id))
    found = [memory, *near[: MAX_TOGETHER - 1]]
    return tuple(m.memory_id for m in sorted(found, key=lambda m: (_position(m), m.memory_id)))


def best_sentence(evidence: Evidence, memory: Memory) -> str:
    """Returns what to quote of a memory: a short one whole, else the sentence with most of the question's words."""
    spans = memory_sentence_spans(memory.text) if len(memory.text) > LONG_CHARS else []
    if len(spans) < 2:
        return _AROUND.sub(" ", memory.text).strip()
    wanted = {t for anchor in evidence.names.anchors for t in anchor.terms}
    sentences = [memory.text[a:b] for a, b in spans]

    def worth(sentence: str) -> float:
        has = set(terms(sentence))
        found = sum(0.1 + evidence.rarity.get(t, 1.0) for t in wanted & has)
        return found + 0.2 * min(len(has & _CHANGE_WORDS), 2)

    best = max(range(len(sentences)), key=lambda k: (worth(sentences[k]), -k))
    return _AROUND.sub(" ", sentences[best]).strip()


def happened(memory: Memory, sentence: str) -> float:
    """Returns when what a sentence of a memory states began, in years; what is only planned counts when it was stated.

    A sentence without a time has the first one that its memory states; a memory without any the day it was observed.
    """
    observed = memory.observed_at or memory.valid_from
    said = day_period(observed)[1] if observed else math.inf
    for text in (sentence, memory.text) if len(memory.text) > len(sentence) else (sentence,):
        dated = find_date_mentions(text)
        starts = [_start(d.period) for d in dated]
        if observed is not None and is_reference_day(observed.date()):
            # A day without a year may lie ahead: `on 14 June`, stated in April, is no day of the year before.
            relative = without_overlaps(find_relative_dates(text, observed.date()), dated)
            starts += [s for d in relative if (s := _start(d.period)) > said - _RECENT_YEARS]
        past = [s for s in starts if math.isfinite(s) and s < said]
        if past:
            return past[0] if text is sentence else min(past)
    return day_period(observed)[0] if observed else math.inf


def _start(period: Period) -> float:
    start, end = period
    return start if math.isfinite(start) else end


def _date(memory: Memory, years: float) -> dt.date | None:
    if not math.isfinite(years) or not 1 <= years < 9999:
        return None
    year = int(years)
    days = 366 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 365
    return dt.date(year, 1, 1) + dt.timedelta(days=round((years - year) * days))


def _position(memory: Memory) -> tuple[float, str, int]:
    time = memory.observed_at or memory.valid_from
    return (time.timestamp() if time else math.inf, memory.document_id or "", memory.ordinal or 0)


def changed_ids(memories: Sequence[Memory]) -> set[str]:
    """Returns the ids of those memories that were replaced, and of what replaced them."""
    return {i for m in memories if m.superseded_by for i in (m.memory_id, m.superseded_by)}


# What is near nodes: their facts, their edges, and the nodes that memories name with them.

MENTIONED_WITH = "mentioned_with"
"""Type of the edge between nodes that a memory names together; made when it is read, not stored."""

MAX_NODES = 100
"""Nodes of a neighborhood."""

_MAX_WITH = 8  # nodes mentioned with one, those with most memories first
_ANY = NodeFilter()


@dataclass(frozen=True)
class Neighborhood:
    """Nodes with what is between them.

    Attributes:
        nodes: by id, with how many steps away each is.
        edges: between them.
        facts: of which a step was made, and those between them.
    """

    nodes: dict[str, tuple[Node, int]]
    edges: tuple[Edge, ...]
    facts: tuple[Fact, ...]


def find_neighbors(
    graph: ServedGraph, ids: Sequence[str], depth: int, types: Sequence[str] = (), wanted: NodeFilter = _ANY
) -> Neighborhood:
    """Returns the nodes up to `depth` steps from some nodes, breadth first, and what is between them.

    Args:
        graph: of a scope.
        ids: the nodes to start from.
        depth: steps, 0 or more.
        types: predicates of facts and types of edges to follow, `mentioned_with` among them; none means all.
        wanted: what the nodes reached must be; others are neither shown nor followed.
    """
    found = {i: (node, 0) for i, node in graph.nodes(ids).items()}
    frontier, followed = sorted(found), list[Edge]()
    for step in range(1, depth + 1):
        if not frontier or len(found) >= MAX_NODES:
            break
        links, together = _around(graph, frontier, types)
        followed += together
        new = [i for i in dict.fromkeys(i for ends in links for i in ends) if i not in found]
        if wanted:
            new = list(wanted.matching(_in_order(graph.nodes(new), new)))
        new = new[: MAX_NODES - len(found)]
        nodes = _in_order(graph.nodes(new), new)
        found |= {i: (node, step) for i, node in nodes.items()}
        frontier = sorted(nodes)
    edges = [*graph.edges_of(sorted(found), types, within=True), *_heaviest(followed)]
    facts = [f for f in graph.facts_of(sorted(found), within=True) if not types or f.predicate in types]
    return Neighborhood(
        found,
        tuple(e for e in edges if e.source_id in found and e.target_id in found),
        tuple(f for f in facts if all(i in found for i in f.ends)),
    )


def _in_order(nodes: Mapping[str, Node], ids: Sequence[str]) -> dict[str, Node]:
    return {i: nodes[i] for i in ids if i in nodes}


def _around(graph: ServedGraph, ids: Sequence[str], types: Sequence[str]) -> tuple[list[Ends], list[Edge]]:
    """Returns the ends of what links some nodes to others, and those of the links that are not stored."""
    edges, facts = graph.links_of(ids, types)
    if types and MENTIONED_WITH not in types:
        return [*edges, *facts], []
    linked = {frozenset(ends) for ends in (*edges, *facts)}
    together = [e for e in mentioned_with(graph, ids) if frozenset((e.source_id, e.target_id)) not in linked]
    return [*edges, *((e.source_id, e.target_id) for e in together), *facts], together


def mentioned_with(graph: ServedGraph, ids: Sequence[str]) -> list[Edge]:
    """Returns for each of some nodes the nodes that most of its memories name too, as edges."""
    found = graph.named_together(ids, _MAX_WITH, _CITED)
    pairs = [(min(f.ends), max(f.ends), f) for f in found]
    return _heaviest([Edge(a, b, MENTIONED_WITH, f.share, "memories", f.memory_ids) for a, b, f in pairs])


def _heaviest(edges: Sequence[Edge]) -> list[Edge]:
    """Returns the edge with most weight of each pair, the first of equals: both ends of a pair may find it."""
    best: dict[Ends, Edge] = {}
    for edge in sorted(edges, key=lambda e: -(e.weight or 0.0)):
        best.setdefault((edge.source_id, edge.target_id), edge)
    return [best[pair] for pair in sorted(best)]


def find_subgraph(graph: ServedGraph, memory_ids: Sequence[str]) -> Neighborhood:
    """Returns the nodes that some memories name, the edges between them, and the facts that the memories state."""
    of_memory = graph.nodes_of_memories(memory_ids)
    counts: dict[str, int] = {}
    for ids in of_memory.values():
        for i in ids:
            counts[i] = counts.get(i, 0) + 1
    facts = graph.facts_of_memories(memory_ids)
    stated = dict.fromkeys(i for f in facts for i in f.ends)
    others = sorted((i for i in counts if i not in stated), key=lambda i: (-counts[i], i))
    nodes = graph.nodes([*stated, *others][:MAX_NODES])
    edges = graph.edges_of(sorted(nodes), within=True)
    shown = set(memory_ids)
    return Neighborhood(
        {i: (node, 0) for i, node in nodes.items()},
        tuple(edges),
        tuple(f for f in facts if all(i in nodes for i in f.ends) and shown & set(f.memory_ids)),
    )


_CITED = 3  # memories of a line

_MAX_CHARS = 400  # of a quote


def fact_text(fact: Fact, nodes: Mapping[str, Node]) -> str:
    """Returns a fact in words: `Ida lives in Ghent (2026-02-03 to now)`."""
    target = nodes.get(fact.object_id or "")
    what = target.name if target else fact.value or ""
    notes = [fact.modality] if fact.modality not in (None, "stated", "past") else []
    since, until = (_day(t) for t in (fact.valid_from, fact.valid_until))
    notes += [f"{since or 'undated'} to {until or 'now'}"] if since or until else []
    text = fact_words(nodes[fact.subject_id].name, fact.predicate, what, fact.is_negated)
    return one_line(f"{text} ({', '.join(map(str, notes))})" if notes else text)


def fact_line(fact: Fact, nodes: Mapping[str, Node]) -> GraphLine:
    """Returns a fact as a line."""
    time = fact.valid_from.date() if fact.valid_from else None
    return GraphLine(fact_text(fact, nodes), fact.memory_ids[:_CITED], "fact", time, fact.confidence or 0.0)


def edge_line(edge: Edge, nodes: Mapping[str, Node], shared: Sequence[str]) -> GraphLine:
    """Returns an edge as a line; one without memories of its own cites some of its nodes'."""
    text = f"{nodes[edge.source_id].name} {edge.type.replace('_', ' ')} {nodes[edge.target_id].name}"
    return GraphLine(one_line(text), (edge.memory_ids or tuple(shared))[:_CITED], "edge", None, edge.weight or 0.0)


def neighborhood_lines(graph: ServedGraph, found: Neighborhood) -> list[GraphLine]:
    """Returns the facts and then the edges of a neighborhood as lines, each with a citation."""
    nodes = {i: node for i, (node, _) in found.nodes.items()}
    bare = [e for e in found.edges if not e.memory_ids]
    members = graph.members_of(sorted({i for e in bare for i in (e.source_id, e.target_id)})) if bare else {}
    lines = [fact_line(f, nodes) for f in sorted(found.facts, key=_fact_order)]
    for edge in found.edges:
        mine, other = (members.get(i, {}) for i in (edge.source_id, edge.target_id))
        lines.append(edge_line(edge, nodes, sorted(mine.keys() & other.keys()) or sorted(mine) or sorted(other)))
    return [line for line in lines if line.memory_ids]


def tie_line(tie: Tie, evidence: Evidence, nodes: Mapping[str, Node], disputes: Mapping[str, NewerText]) -> GraphLine:
    """Returns a tie as a line: a fact between both where one is known, then what the memories state.

    Args:
        tie: of two things.
        evidence: of the question.
        nodes: of the answer, by id.
        disputes: what disputes memories of the answer, by the id of the disputed one.
    """
    quotes = [_quote_with_dispute(evidence, i, disputes) for i in tie.memory_ids]
    ends = [set(a.node_ids) for a in evidence.names.ends]
    stated = [
        f
        for f in evidence.facts.get(tie.memory_ids[0], ())
        if len(ends) == 2 and f.object_id and any(f.subject_id in a and f.object_id in b for a, b in (ends, ends[::-1]))
    ]
    facts = [fact_text(f, nodes) for f in stated[:1] if set(f.ends) <= nodes.keys()]
    first = evidence.memories[tie.memory_ids[0]]
    kind = "path" if len(tie.memory_ids) > 1 else "fact" if facts else "memory"
    text = " / ".join(quotes) + (f" = {facts[0]}" if facts else "")
    return GraphLine(text, _with_disputing(tie.memory_ids, disputes), kind, observed(first), round(tie.score, 6))


def stage_line(
    stage: Stage,
    evidence: Evidence,
    versions: Mapping[str, Sequence[Version]],
    disputes: Mapping[str, NewerText],
) -> GraphLine:
    """Returns a stage as a line: its day, what its memories state, and what disputes or replaced one of them."""
    text = " / ".join(_quote_with_dispute(evidence, i, disputes) for i in stage.memory_ids)
    why = next((v.why for v in versions.get(stage.main, ()) if v.memory.memory_id == stage.main and v.why), None)
    if why is not None:
        text += f" ({describe_reason(why)})"
    ids = _with_disputing(stage.memory_ids, disputes)
    return GraphLine(text, ids, "event", stage.time, round(stage.score, 6))


def quote(evidence: Evidence, memory: Memory) -> str:
    """Returns what a memory states, shortened, after who said it where that is known."""
    text = best_sentence(evidence, memory)
    text = text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + "…"
    return one_line(f"{memory.speaker}: {text}" if memory.speaker else text)


def _quote_with_dispute(evidence: Evidence, memory_id: str, disputes: Mapping[str, NewerText]) -> str:
    """Returns what a memory states; where it is disputed, with what the newer one says."""
    text = quote(evidence, evidence.memories[memory_id])
    return changed_line(text, disputes.get(memory_id))


def _with_disputing(memory_ids: tuple[str, ...], disputes: Mapping[str, NewerText]) -> tuple[str, ...]:
    """Returns the ids of a line's memories and of what disputes them, which it quotes too."""
    quoted = [by.memory_id for i in memory_ids if (by := disputes.get(i))]
    return tuple(dict.fromkeys((*memory_ids, *quoted)))


def observed(memory: Memory) -> dt.date | None:
    """Returns the day on which a memory was stated."""
    time = memory.observed_at or memory.valid_from
    return time.date() if time else None


def _fact_order(fact: Fact) -> tuple[bool, bool, float, str]:
    """Facts between nodes first, valid ones, then the newest."""
    time = fact.valid_from.timestamp() if fact.valid_from else 0.0
    return (fact.object_id is None, not fact.is_latest, -time, fact.fact_id)


def _day(time: dt.datetime | None) -> str:
    return time.date().isoformat() if time else ""
