"""Puts the candidates of several scopes on one scale.

Scores are standardized inside each scope. The best z-score in a scope of n memories is (n - 1) / sqrt(n) at most, so a
project of two or three memories could never come before a large general memory. A small scope therefore borrows the
scale of cosines from all the scopes that the search reads, by the share n / (n + 30) it trusts its own statistics less.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from palimpsest.core.environment import whole_number
from palimpsest.core.files import SHIPPED
from palimpsest.core.ids import REFLECTION
from palimpsest.memories.vector_space import Space
from palimpsest.query.ranking.scoring import standardize, z_values
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import Link, Memory, Scope, ScoreStats
from palimpsest.query.scope.scope_graph import PREMISE
from palimpsest.query.scope.scope_query import Candidate, Ranked, ScopeQuery
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.text.terms import terms

HALF_TRUSTED = 30
"""Memories of a scope that is scored by its own statistics and by the common scale in equal parts."""


def merge_candidates(found: Sequence[tuple[ScopeQuery, Sequence[Candidate]]]) -> list[Ranked]:
    """Returns the candidates of all scopes, best first, ties by id and scope; those of a single scope unchanged.

    The order inside a scope follows mostly from its own ranking; links keep what they added.

    Args:
        found: each scope's query with its ranked candidates.
    """
    ranked = [(query, c) for query, candidates in found for c in candidates]
    if len(found) > 1:
        seeds = {query.scope: query.served.seeds(query.vector, (), 0.0, 1) for query, _ in found}
        parts: dict[Space | None, list[tuple[int, ScoreStats]]] = {}  # cosines of two spaces have no common scale
        for query, _ in found:
            stats = seeds[query.scope]
            parts.setdefault(query.space, []).append((stats.candidates, stats.vector_stats))
        common = {space: pool_stats(of_space) for space, of_space in parts.items()}
        ranked = [(q, _on_common_scale(c, seeds[q.scope].candidates, common[q.space], q.weights)) for q, c in ranked]
    return sorted(ranked, key=lambda pair: (-pair[1].score, pair[1].memory_id, pair[0].scope))


def pool_stats(parts: Sequence[tuple[int, ScoreStats]]) -> ScoreStats:
    """Returns mean and standard deviation over all scopes, from the size and the statistics of each."""
    total = sum(n for n, _ in parts)
    if total == 0:
        return ScoreStats()
    mean = sum(n * s.mean for n, s in parts) / total
    square = sum(n * (s.std**2 + s.mean**2) for n, s in parts) / total
    return ScoreStats(mean, float(np.sqrt(max(square - mean**2, 0.0))))


def _on_common_scale(candidate: Candidate, size: int, common: ScoreStats, weights: Weights) -> Candidate:
    trust = size / (size + HALF_TRUSTED)
    on_common = float(standardize(np.array([candidate.vector]), common)[0]) * (weights.vector + weights.words)
    base = trust * candidate.base + (1 - trust) * on_common
    return replace(candidate, base=base, score=base + candidate.score - candidate.base)


# A formed memory and the memory it rests on take one place in the results.
#
# Both say the same, the formed one in a sentence that can be read alone. Where that sentence answers the question
# better, its evidence takes its score, and is what is shown: the words that were said. A formed memory that rests on
# several, a problem and what fixed it, is a result itself, which has the words of all. So is one whose evidence is no
# candidate, and one that a filter selects.

_READ_PER_RESULT = 4  # candidates: a turn seldom has more formed memories than two


def join_formed(ranked: Sequence[Ranked], k: int) -> Sequence[Ranked]:
    """Returns candidates, each formed memory joined with its evidence among the first ones; best first.

    Candidates of collections that form no memories stay as they are.

    Args:
        ranked: candidates of all scopes, best first.
        k: results that the search returns.
    """
    queries = {q.scope: q for q, _ in ranked if q.served.has_formed}
    if not queries:
        return ranked
    first = ranked[: _READ_PER_RESULT * k]
    own = {c.memory_id: c for _, c in first}
    rests_on: dict[str, str] = {}
    for query in queries.values():
        rests_on |= _single_evidence(query.served, [c.memory_id for q, c in first if q is query])
    joined: dict[str, Ranked] = {}
    for query, candidate in first:
        evidence = own.get(rests_on.get(candidate.memory_id, ""))
        if evidence is None:
            joined.setdefault(candidate.memory_id, (query, candidate))
        elif evidence.memory_id not in joined:
            link = Link(candidate.memory_id, evidence.memory_id, PREMISE, 1.0)
            joined[evidence.memory_id] = (query, replace(evidence, score=candidate.score, hops=(link,)))
    places = sorted(joined.values(), key=lambda pair: (-pair[1].score, pair[1].memory_id, pair[0].scope))
    return [*places, *ranked[len(first) :]]


def _single_evidence(served: ServedScope, ids: Sequence[str]) -> dict[str, str]:
    """Returns the memory that each formed memory among `ids` rests on, of those that rest on one alone."""
    formed = [i for i, memory in served.memories(ids).items() if memory.unit == REFLECTION]
    premises: dict[str, list[str]] = {}
    for link in served.neighbors(sorted(formed), 0):
        if link.kind == PREMISE:
            premises.setdefault(link.source, []).append(link.target)
    return {source: targets[0] for source, targets in premises.items() if len(targets) == 1}


# What is known of the task behind a question favors candidates: those like its brief, and those of its files.
#
# No memory becomes or stops being a candidate by it.

BRIEF_WEIGHT = 0.5
PATH_WEIGHT = 1.0
"""In z-scores: of likeness to the brief, and the bonus of a memory whose source has a path of the task."""

_SAME_FOLDER = 0.5


@dataclass(frozen=True)
class Task:
    """What a request says of its task.

    Attributes:
        vector: unit vector of the brief; None without one.
        brief: its text.
        paths: files of the task, as the caller names them.
    """

    vector: np.ndarray | None
    brief: str
    paths: Sequence[str]


def favor_task(query: ScopeQuery, candidates: Sequence[Candidate], task: Task) -> list[Candidate]:
    """Returns the candidates with what the task adds to their scores, best first, ties by id.

    Args:
        query: the query of their scope.
        candidates: as `rank` returns them.
        task: the brief and the paths.
    """
    ids = [c.memory_id for c in candidates]
    added = np.zeros(len(ids))
    if ids and task.vector is not None:
        scores = query.served.scores(task.vector, query.served.question_terms(task.brief), ids)
        parts = [z_values(column) for column in scores.T]
        added += BRIEF_WEIGHT * np.mean(parts, axis=0)
    if ids and task.paths:
        memories = query.served.memories(ids)
        uris = [m.uri or "" if (m := memories.get(i)) else "" for i in ids]
        added += PATH_WEIGHT * np.array([path_match(uri, task.paths) for uri in uris])
    favored = [
        replace(c, score=c.score + plus, base=c.base + plus) for c, plus in zip(candidates, added.tolist(), strict=True)
    ]
    return sorted(favored, key=lambda c: (-c.score, c.memory_id))


def path_match(uri: str, paths: Sequence[str]) -> float:
    """Returns how well a source's uri fits the nearest of some paths, 0 to 1.

    A path and a uri are alike by the parts they share at their ends, since either may begin at another folder; two
    files of one folder share half.
    """
    return max((_one_match(uri, path) for path in paths), default=0.0) if uri else 0.0


def _one_match(uri: str, path: str) -> float:
    mine, given = (
        [p.casefold() for p in PurePosixPath(t.replace("\\", "/")).parts if p not in ("/", ".")] for t in (uri, path)
    )
    if not mine or not given:
        return 0.0
    if mine[-1] == given[-1]:
        shorter = min(len(mine), len(given))
        same = next((i for i in range(shorter) if mine[-1 - i] != given[-1 - i]), shorter)
        return same / shorter
    in_folder = len(mine) > 1 and (mine[:-1] == given[:-1] or mine[:-1] == given)
    return _SAME_FOLDER if in_folder else 0.0


# How likely each result is evidence for the question, and where results end.
#
# A logistic regression over the scores of the ranking, how far a result is above the rest and how far below the best,
# and over what a reader of answers says of the first results. `palimpsest_eval.training.train_relevance` fits it on
# questions with judged evidence; data/models has its figures.

MODEL_FILE = "models/relevance.json"
VARIABLE = "PALIMPSEST_MIN_RELEVANCE"
OF_BEST = 0.03
"""Results end below this share of the best one's relevance, too: beside a sure answer little else is evidence."""
DEPTH = 100
"""Candidates whose scores are read of a question; fewer are all of its scope."""
READ = 8
"""Candidates whose texts are read together with the question."""
LIKELY = 0.1
"""Where no result is as relevant, the evidence is weak."""
_USUAL_UNTIL = 30
_USUAL_FROM, _FEW = 5, 12  # of this many or fewer, the lower half is usual
_MIN_SPREAD = {"score": 0.1, "vector": 0.03}
_MAX_DEVIATIONS = {"score": 12.0, "vector": 8.0}


def relevance(candidates: Sequence[Candidate], answers: np.ndarray) -> np.ndarray:
    """Returns the probability that each candidate is evidence, shape (n,).

    Args:
        candidates: of one question, in any order; `DEPTH` of them, or all.
        answers: log odds that the first ones answer the question, as a reader gives them; empty where none reads.
    """
    return probabilities(candidates, answers, _models())


def least_relevance(best: float) -> float:
    """Returns the relevance from which a candidate is a result, where the best one has `best`.

    Raises:
        PalimpsestError: the environment sets no such number.
    """
    least = whole_number(VARIABLE) / 100
    return max(least, OF_BEST * best) if least else 0.0


def probabilities(candidates: Sequence[Candidate], answers: np.ndarray, models: Mapping[str, Any]) -> np.ndarray:
    """Returns what `relevance` does, by models that need not be the stored ones."""
    if not candidates:
        return np.empty(0)
    scores = features(candidates)
    found = _apply(models["scores"], scores)
    if len(answers):
        found[: len(answers)] = _apply(models["answers"], with_answers(scores, answers))
    return found


def _apply(model: Mapping[str, Any], inputs: np.ndarray) -> np.ndarray:
    scaled = (inputs - np.array(model["mean"])) / np.array(model["scale"])
    found: np.ndarray = 1 / (1 + np.exp(-(scaled @ np.array(model["weights"]) + model["intercept"])))
    return found


def with_answers(scores: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Returns what the model reads of the first candidates, shape (n, 13), from features of all and n log odds."""
    return np.column_stack([scores[: len(answers)], answers, answers.max() - answers])


def features(candidates: Sequence[Candidate]) -> np.ndarray:
    """Returns what the model reads of the scores of candidates, shape (n, 11)."""
    order = sorted(range(len(candidates)), key=lambda i: -candidates[i].score)
    found = np.empty((len(candidates), 11))
    found[order] = _features([candidates[i] for i in order])
    return found


def _features(candidates: Sequence[Candidate]) -> np.ndarray:
    """Returns what `features` does of candidates that are given best first."""
    score, vector, words = (
        np.array([getattr(c, name) for c in candidates], float) for name in ("score", "vector", "words")
    )
    links = score - np.array([c.base for c in candidates], float)
    score_mean, score_spread = _usual(score, "score")
    vector_mean, vector_spread = _usual(vector, "vector")
    count = len(candidates)
    return np.column_stack(
        [
            np.log1p(np.arange(count)),
            np.minimum((score - score_mean) / score_spread, _MAX_DEVIATIONS["score"]),
            np.minimum((score[0] - score) / score_spread, _MAX_DEVIATIONS["score"]),
            vector,
            vector[0] - vector,
            np.minimum((vector - vector_mean) / vector_spread, _MAX_DEVIATIONS["vector"]),
            words,
            words[0] - words,
            links,
            score[0] - score,
            np.full(count, np.log(min(count, DEPTH) / DEPTH)),
        ]
    )


def _usual(values: np.ndarray, name: str) -> tuple[float, float]:
    """Returns mean and deviation of the values that are usual for a question: without the best few."""
    first = _USUAL_FROM if len(values) >= _FEW else len(values) // 2
    usual = values[first:_USUAL_UNTIL]
    return float(usual.mean()), max(float(usual.std()), _MIN_SPREAD[name])


@lru_cache(maxsize=1)
def _models() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(Path(SHIPPED / MODEL_FILE).read_text(encoding="utf-8"))
    return stored


POOL_FACTOR = 3  # candidates per result
MAX_RESULTS = 100  # with more, each would be compared with each


def diversify_results(best: Sequence[Ranked], k: int) -> Sequence[Ranked]:
    """Returns the results to show, diverse where a scope's weights ask for it and `k` is at most `MAX_RESULTS`."""
    queries = {query.scope: query for query, _ in best}
    if k > MAX_RESULTS or not any(q.weights.diversity for q in queries.values()):
        return best
    pool = best[: POOL_FACTOR * k]
    memories = {
        scope: query.served.memories([c.memory_id for q, c in pool if q.scope == scope])
        for scope, query in queries.items()
    }
    return diversify(pool, memories, k)


def diversify(best: Sequence[Ranked], memories: Mapping[Scope, Mapping[str, Memory]], k: int) -> list[Ranked]:
    """Returns at most k of the candidates, best first; scores are those that they were chosen by.

    Args:
        best: candidates, best first; weights of their queries give the diversity, 0 leaves candidates as they are.
        memories: their memories, by scope and id.
        k: how many.
    """
    words = [frozenset(terms(memories[q.scope][c.memory_id].text)) for q, c in best]
    repeated = [0.0] * len(best)
    waiting, chosen = list(range(len(best))), list[Ranked]()
    while waiting and len(chosen) < k:
        scores = {n: best[n][1].score - best[n][0].weights.diversity * repeated[n] for n in waiting}
        first = max(waiting, key=lambda n: (scores[n], -n))
        waiting.remove(first)
        query, candidate = best[first]
        penalty = candidate.score - scores[first]
        chosen.append((query, replace(candidate, score=scores[first], base=candidate.base - penalty)))
        for n in waiting:
            repeated[n] = max(repeated[n], _jaccard(words[n], words[first]))
    return chosen


def _jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    union = len(a | b)
    return len(a & b) / union if union else 1.0
