"""The memories that may answer a question about the graph, and how well each fits it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from palimpsest.query.embed_query import embed_query
from palimpsest.query.ranking.rank import rank
from palimpsest.query.request.types import Fact, Memory
from palimpsest.query.scope.scope_query import resolve_query
from palimpsest.query.scope.served_graph import ServedGraph
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.text.terms import WORD, name_words, terms
from palimpsest.text.words import STOPWORDS, strip_accents

# What a question is about: the nodes that it names, and the other words that say more than how it is put.

MAX_NAMES = 8  # of a question
_MAX_WORDS = 200  # of a question
_MAX_NAME_WORDS = 6
_MAX_NODES = 4  # that share a word by which a node may be meant

# How a question about a relation or a change is put, apart from what it is about.
_FRAME_WORDS = """
affect affected association bear became become bind binds began begin came change changed changes changing come comes
common connect connected connection connections connects course cross deal describe did do does done down evolve
evolved ever exactly explain far first fit fits gone happen happened happening happens has have history how involve
involved involves know known knows last lately latest life link linked links lives look meet met months news path
please play plays relate related relates relation relations relationship role share shared shares show since stand
stands start started step story tell tie tied ties time times today together touch touched turn until up way ways weeks
went years year days
"""
_FRAME = frozenset(_FRAME_WORDS.split())


@dataclass(frozen=True)
class Anchor:
    """One thing that a question is about.

    Attributes:
        text: as the question has it.
        node_ids: the nodes that this may name; none where it names no node.
        terms: its search terms.
    """

    text: str
    node_ids: tuple[str, ...]
    terms: tuple[str, ...]

    @property
    def is_named(self) -> bool:
        """Whether it names a node."""
        return bool(self.node_ids)


@dataclass(frozen=True)
class QuestionNames:
    """What a question is about.

    Attributes:
        anchors: in the order of the question: nodes, and runs of words that name none.
        text: the question without how it is put; never empty where the question has a word.
    """

    anchors: tuple[Anchor, ...]
    text: str

    @property
    def named(self) -> tuple[Anchor, ...]:
        """The anchors that name nodes."""
        return tuple(a for a in self.anchors if a.is_named)

    @property
    def ends(self) -> tuple[Anchor, ...]:
        """The first two things between which a relation is wanted: nodes where there are two, else words too."""
        named = self.named
        if len(named) > 1:
            return named[:2]
        others = [a for a in self.anchors if not a.is_named]
        return tuple(a for a in self.anchors if a in (*named, *others[: 2 - len(named)]))


def read_names(graph: ServedGraph | None, question: str) -> QuestionNames:
    """Returns what a question is about.

    At each place the longest name of a node counts; a single word names the nodes that have it in a name where those
    are few. A word in small letters alone names none.
    """
    spans = [(m.start(), m.end()) for m in WORD.finditer(question)][:_MAX_WORDS]
    words = [strip_accents(question[a:b]) for a, b in spans]
    found = _find_nodes(graph, words) if graph is not None else {}
    anchors: list[Anchor] = []
    run: list[int] = []
    at = 0
    while at <= len(words):
        here = found.get(at)
        if at == len(words) or here is not None or _is_frame(words[at]):
            if run:
                anchors.append(_anchor(question, spans[run[0]][0], spans[run[-1]][1], ()))
                run = []
            if here is not None:
                end, ids = here
                anchors.append(_anchor(question, spans[at][0], spans[end - 1][1], ids))
                at = end
                continue
        else:
            run.append(at)
        at += 1
    kept = tuple(a for a in anchors if a.terms or a.node_ids)[:MAX_NAMES]
    return QuestionNames(kept, " ".join(a.text for a in kept) or question)


def _anchor(question: str, start: int, end: int, ids: Sequence[str]) -> Anchor:
    text = question[start:end]
    return Anchor(text, tuple(ids), tuple(dict.fromkeys(terms(text))))


def _is_frame(word: str) -> bool:
    lowered = word.lower()
    return lowered in STOPWORDS or lowered in _FRAME or len(lowered) == 1


def _find_nodes(graph: ServedGraph, words: Sequence[str]) -> dict[int, tuple[int, tuple[str, ...]]]:
    """Returns by the place of a word the end of the name that starts there, and the nodes it names."""
    options = {
        (start, end): name_words(" ".join(words[start:end]))
        for start in range(len(words))
        for end in range(start + 1, min(len(words), start + _MAX_NAME_WORDS) + 1)
        if _may_name(words[start:end])
    }
    whole = graph.named(sorted(set(options.values())))
    single = {
        w.lower() for w in words if (w[0].isupper() or w[0].isdigit()) and not _is_frame(w) and w.lower() not in whole
    }
    parts = graph.named(sorted(single), by_word=True) if single else {}
    found: dict[int, tuple[int, tuple[str, ...]]] = {}
    skip = 0
    for start in range(len(words)):
        if start < skip:
            continue
        for end in range(min(len(words), start + _MAX_NAME_WORDS), start, -1):
            name = options.get((start, end))
            ids = whole.get(name, []) if name else []
            if not ids and end == start + 1 and len(parts.get(words[start].lower(), ())) <= _MAX_NODES:
                ids = parts.get(words[start].lower(), [])
            if ids:
                found[start] = (end, tuple(ids))
                skip = end
                break
    return found


def _may_name(words: Sequence[str]) -> bool:
    """Returns whether words may be a name: capitalised at an end, or several that are not of the frame there."""
    first, last = words[0], words[-1]
    if len(words) == 1:
        return (first[0].isupper() or first[0].isdigit()) and not _is_frame(first)
    capital = any(w[0].isupper() or w[0].isdigit() for w in (first, last))
    return (capital and not _is_frame(last)) or not (_is_frame(first) or _is_frame(last))


CANDIDATES = 150  # of each of the two searches
MAX_MEMBERS = 400  # of the nodes of one name
_TITLE_SHARE = 0.7  # of a word that is only in the title, the heading or the name of the source


@dataclass(frozen=True)
class Evidence:
    """Memories of one scope with what a question needs of them.

    Attributes:
        names: what the question is about.
        memories: by id.
        fit: how well each fits the words of the question, 0 to 1.
        members: the memories of each node that the question names, by node id.
        facts: the facts of those nodes, by the id of each memory that states them.
        nodes: the nodes of each memory.
    """

    names: QuestionNames
    memories: Mapping[str, Memory]
    fit: Mapping[str, float]
    members: Mapping[str, frozenset[str]]
    facts: Mapping[str, Sequence[Fact]]
    nodes: Mapping[str, Sequence[str]]

    @cached_property
    def terms(self) -> dict[str, frozenset[str]]:
        """The search terms of the text of each memory."""
        return {i: frozenset(terms(f"{m.speaker or ''} {m.text}")) for i, m in self.memories.items()}

    @cached_property
    def title_terms(self) -> dict[str, frozenset[str]]:
        """The search terms of the titles, heading and uri of each memory."""
        return {
            i: frozenset(terms(" ".join(filter(None, (m.title, m.heading, m.document_title, m.uri)))))
            for i, m in self.memories.items()
        }

    @cached_property
    def rarity(self) -> dict[str, float]:
        """How rare each term is among these memories, 0 to 1."""
        counts: dict[str, int] = {}
        for of_memory in self.terms.values():
            for term in of_memory:
                counts[term] = counts.get(term, 0) + 1
        scale = math.log(len(self.terms) + 1) or 1.0
        return {term: math.log((len(self.terms) + 1) / n) / scale for term, n in counts.items()}

    def coverage(self, memory_id: str, anchor: Anchor) -> float:
        """Returns how far a memory speaks of an anchor, 0 to 1: it names its node, or has its words."""
        if any(memory_id in self.members.get(node, ()) for node in anchor.node_ids):
            return 1.0
        if not anchor.terms:
            return 0.0
        text, title = self.terms[memory_id], self.title_terms[memory_id]
        weights = {t: 0.1 + self.rarity.get(t, 1.0) for t in anchor.terms}
        found = sum(w * (1.0 if t in text else _TITLE_SHARE if t in title else 0.0) for t, w in weights.items())
        return found / sum(weights.values())


def gather_evidence(served: ServedScope, graph: ServedGraph | None, question: str, names: QuestionNames) -> Evidence:
    """Returns the memories that fit a question, or name what it is about, with what is known of each.

    Args:
        served: the scope, with the versions that count.
        graph: its graph; None where it has none.
        question: the question.
        names: what it is about.
    """
    ids = sorted({i for anchor in names.anchors for i in anchor.node_ids})
    members = {n: frozenset(found) for n, found in graph.members_of(ids).items()} if graph and ids else {}
    fit = _fits(served, [question, names.text])
    named = [i for of_node in members.values() for i in sorted(of_node)[:MAX_MEMBERS] if i not in fit]
    memories = served.memories([*fit, *sorted(set(named))])
    facts: dict[str, list[Fact]] = {}
    for fact in graph.facts_of(ids) if graph and ids else []:
        for memory_id in fact.memory_ids:
            facts.setdefault(memory_id, []).append(fact)
    nodes = graph.nodes_of_memories(sorted(memories)) if graph else {}
    return Evidence(names, memories, fit, members, facts, nodes)


def _fits(served: ServedScope, texts: Sequence[str]) -> dict[str, float]:
    """Returns the mean over texts of the score of each memory in a search, as a share of the best one's."""
    fits: dict[str, float] = {}
    for text in texts:
        query = resolve_query(served, text, embed_query(text, served.space), "auto")
        ranked = rank(query, 1, CANDIDATES)
        best = max((c.score for c in ranked), default=0.0)
        for candidate in ranked[: 2 * CANDIDATES] if best > 0 else ():
            share = max(candidate.score, 0.0) / best / len(texts)
            fits[candidate.memory_id] = fits.get(candidate.memory_id, 0.0) + share
    return fits
