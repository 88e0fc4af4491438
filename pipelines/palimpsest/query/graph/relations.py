"""How two things relate: the memories that tie one to the other, directly or in two steps, ranked."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from palimpsest.query.graph.evidence import Evidence
from palimpsest.query.graph.question_names import Anchor

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
