"""The scorer of `turns`: vectors and words of a conversation, each turn scored with its neighbors by given shares.

A question's words are seldom all in the turn that answers it; the others are in the turns around. So a turn's vector
score gets a share of its neighbors', and each word of the question counts once, where it scores best: in the turn or,
by a share, in one nearby. Adding words over neighbors as well would count one word as often as it is repeated. A turn
of a few words gets less: next to an answer, "Noted." is none.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

import numpy as np

from palimpsest.query.ranking.scoring import BaseScores, LineLayout, Scored, base_scores, rescale
from palimpsest.query.request.strategies import ChatWeights, Weights
from palimpsest.query.request.types import Filters, Link
from palimpsest.query.scope.scope_arrays import REACH, Postings, Threads, TurnOrder, threads_for
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.view import ScopeView
from palimpsest.text.questions import asks_for_answers

# The scores of a chat with an assistant: each role by its own statistics, and an answer counts for its question.
#
# An assistant's turns are many times as long as the user's. They have more words and more windows, and repeat what the
# user stated: on one scale with the user's turns they win whatever the question is. So a score is compared with the
# scores of its own role first. An answer says what its question is about, so the turn before it takes a share of its
# scores; the answer itself, which is long, needs nothing from around it. A question about what the assistant wrote
# ("What did you recommend ...?") exchanges the roles. Where the assistant's turns are short, a chat is scored as other
# conversations are: `conversation`.

HALF_TRUSTED = 30
"""Turns of a role that is scored by its own statistics and by those of all turns in equal parts."""


def is_chat(view: ScopeView) -> bool:
    """Returns whether a scope has turns of an assistant with long answers, and others."""
    assistant = view.assistant_turns().values
    return bool(assistant.any()) and not bool(assistant.all())


def score_chat(view: ScopeView, query: ScopeQuery, chat: ChatWeights) -> Scored:
    """Scores every candidate of a chat; an answer that is no candidate adds nothing to its question.

    Where the question is about answers, each takes its shares of the turn before it, and the other turns score less.
    """
    weights, b = query.weights, base_scores(view, query)
    rows, assistant = b.rows, view.assistant_turns().values
    order = view.turn_order()
    about_answers = asks_for_answers(query.text)
    lesser, following = (~assistant, order.order.before) if about_answers else (assistant, order.order.after)
    words_weight = weights.words * chat.words
    unworded = role_scores(b.unworded, assistant, rows)
    answers = answer_rows(following, lesser, b.allowed)
    gain = chat.answer * order.smoothing_weight * np.append(unworded, 0.0)[answers]
    worded = answer_word_scores(b.postings, answers, chat.answer_words * order.smoothing_weight, b.allowed)
    own = unworded + np.where(lesser, chat.assistant, 0.0)
    alone = own + words_weight * role_scores(b.layout.z(b.words), assistant, rows)
    total = own + gain + words_weight * role_scores(b.layout.z(worded), assistant, rows)
    base = rescale(alone, b.base, b.layout)
    total = rescale(total, b.base, b.layout)

    def path(row: int) -> tuple[Link, ...]:
        lifted = float(total[row] - base[row])
        answer = int(answers[row])
        return (Link(str(view.ids[answer]), str(view.ids[row]), "near", lifted),) if answer >= 0 and lifted > 0 else ()

    return Scored(view.ids, b.layout, b.cosines, b.words, base, total, path)


def role_scores(scores: np.ndarray, assistant: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns scores with the mean and deviation of each role brought to those of all candidates; 0 for the others.

    Args:
        scores: shape (memories,).
        assistant: which memories are the assistant's, shape (memories,) bool.
        rows: local rows of the candidates.
    """
    out = np.zeros(len(scores))
    if len(rows) == 0:
        return out
    mean, deviation = float(scores[rows].mean()), float(scores[rows].std())
    roles = [role for role in (rows[assistant[rows]], rows[~assistant[rows]]) if len(role)]
    variance = sum(len(role) * float(scores[role].var()) for role in roles) / len(rows)
    for role in roles:
        own, trust = scores[role], len(role) / (len(role) + HALF_TRUSTED)
        center = trust * own.mean() + (1 - trust) * mean
        spread = float(np.sqrt(trust * own.var() + (1 - trust) * variance))
        out[role] = (own - center) / spread * deviation if spread > 1e-9 else 0.0
    return out


def answer_rows(after: np.ndarray, assistant: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Returns the local row of each turn's answer: the assistant's turn after one that is not; -1 where there is none.

    With the rows before and the turns of the others in their place it is the turn that each answer answers.

    Args:
        after: local rows of the following turns, -1 for none.
        assistant: which memories are the assistant's, shape (memories,) bool.
        candidates: which memories count, likewise.
    """
    return np.where(~assistant & (after >= 0) & (assistant & candidates)[after], after, -1)


def answer_word_scores(
    postings: list[Postings], answers: np.ndarray, shares: np.ndarray, candidates: np.ndarray
) -> np.ndarray:
    """Returns the sum over terms of each turn's score for the term, its own or a share of its answer's.

    Args:
        postings: of the question's terms.
        answers: local row of each turn's answer, -1 for none, shape (memories,).
        shares: share of its answer's score that each turn takes, shape (memories,).
        candidates: which memories count, shape (memories,) bool.
    """
    out = np.zeros(len(candidates))
    for term in postings:
        own = np.zeros(len(candidates) + 1)  # the last row is no answer
        own[term.rows] = term.scores
        own[:-1][~candidates] = 0.0
        out += np.maximum(own[:-1], shares * own[answers])
    return out


# Exact scores of the turns of a large scope that lead by estimated cosines; see `scope.estimated_cosines`.

LEADERS = 400
"""Four times the candidates of a search: by its estimate no candidate falls behind so many."""


def score_leaders(view: ScopeView, query: ScopeQuery, layout: LineLayout, b: BaseScores, total: np.ndarray) -> None:
    """Puts exact cosines in place of the estimates of the best turns and their neighbors, and what follows from them.

    Mean and deviation of the cosines stay those of the estimates: their errors cancel out over so many.

    Args:
        view: the scope.
        query: the query of the scope, whose fusion is `z`.
        layout: of the scores.
        b: by estimated cosines; changed.
        total: `unworded` with shares of neighbors, and whatever else counts; changed.
    """
    assert b.cosine_stats is not None  # the fusion is by them
    deviation, shares = b.cosine_stats.std, query.weights.shares
    if deviation == 0:
        return
    leaders = layout.leading(total, LEADERS)
    offsets = range(-len(shares), len(shares) + 1)
    reached = layout.candidates(np.unique(np.concatenate([leaders + offset for offset in offsets])))
    exact = view.cosines_of(query.vector, layout.local_rows(reached)).astype(layout.dtype)
    change = np.zeros_like(total)
    change[reached] = (exact - b.cosines[reached]) * (query.weights.vector / deviation)
    b.cosines[reached] = exact
    for scores in (b.unworded, b.base):
        scores[reached] += change[reached]
    near = sum(share * (change[leaders - i] + change[leaders + i]) for i, share in enumerate(shares, 1))
    total[leaders] += change[leaders] + layout.smoothing_weight[leaders] * near


_LEAST_DEVIATION = 1e-9  # of the word scores of a query
_SLICE = 32_768  # places of the line at a time
_Slice = tuple[slice, list[tuple[slice, slice]]]
"""A slice of the line, and those one, two, ... places before and after it."""
_RARE = 16  # a term of one turn in so many is scored place by place; more common ones along the whole line


def score_turns(view: ScopeView, query: ScopeQuery) -> Scored:
    """Scores every candidate of a scope; a memory that is no candidate adds nothing to its neighbors.

    A scope with long turns of an assistant is scored by `chat`.
    """
    if query.weights.chat is not None and is_chat(view):
        return score_chat(view, query, query.weights.chat)
    weights, order = query.weights, view.turn_order()
    layout = _layout(view, query.filters, order)
    estimates = view.estimated_cosines(query.vector) if weights.fusion == "z" else None
    b = base_scores(view, query, layout, estimates)
    total = smooth(b.unworded, layout.smoothing_weight, weights.shares)
    nearby = nearby_word_scores(b.placed, b.words, layout.smoothing_weight, weights.nearby)
    worded, nearby_stats = layout.z_with_stats(nearby)
    worded *= weights.words
    total += worded
    if estimates is not None:
        score_leaders(view, query, layout, b, total)

    scale = weights.words / max(nearby_stats.std, _LEAST_DEVIATION)

    def path(row: int) -> tuple[Link, ...]:
        return _best_neighbor(view, b, order, weights, scale, row)

    total = rescale(total, b.base, layout)
    stats = None if b.cosine_stats is None else (b.cosine_stats, b.words_stats)
    return Scored(view.ids, layout, b.cosines, b.words, b.base, total, path, estimates, stats)


def _layout(view: ScopeView, filters: Filters, order: TurnOrder) -> LineLayout:
    """Returns the layout of a view's candidates; queries with the same candidates share it."""
    allowed = view.allowed(filters)
    key = blake2b(np.packbits(allowed).tobytes(), digest_size=16).hexdigest()
    return view.cached(f"line {key}", lambda: LineLayout(allowed, order))


def smooth(line: np.ndarray, weight: np.ndarray, shares: Sequence[float]) -> np.ndarray:
    """Returns scores plus shares of those one turn away, two turns away and so on, on both sides.

    Args:
        line: scores in the line of a `TurnOrder`; 0 for memories that must not count.
        weight: of what is added to each, shape of `line`.
        shares: of the neighbors at distance 1, 2, ..., `REACH` at most.
    """
    out = line.copy()

    def add_shares(part: _Slice) -> None:
        here, near = part
        added = np.zeros(here.stop - here.start, line.dtype)
        for share, (before, after) in zip(shares, near, strict=True):
            both = line[before] + line[after]
            both *= share
            added += both
        added *= weight[here]
        out[here] += added

    threads_for(len(line)).map(add_shares, _slices(len(line), len(shares)))
    return out


def nearby_word_scores(
    postings: Iterable[Postings], own: np.ndarray, weight: np.ndarray, shares: Sequence[float]
) -> np.ndarray:
    """Returns the sum over terms of each candidate's best score for the term, its own or a share of one nearby.

    Args:
        postings: of the question's terms, by place in the line; candidates alone, others add nothing to their
            neighbors.
        own: sums over terms of each turn's own score, in the line.
        weight: share of what its neighbors add that a turn takes, in the line.
        shares: of a term's score one, two, ... turns away, on both sides, `REACH` at most.
    """
    line, best = np.zeros_like(own), np.zeros_like(own)
    threads = threads_for(len(line))
    for term in postings:
        line[term.rows] = term.scores
        if len(term.rows) * _RARE < len(line):
            _add_best_around(best, line, term, shares)
        else:
            _add_best(best, line, shares, threads)
            line[term.rows] = 0.0

    def add_own(part: _Slice) -> None:
        here, _ = part
        best[here] = (best[here] - own[here]) * weight[here] + own[here]

    threads.map(add_own, _slices(len(line), 0))
    return best


def _add_best(sums: np.ndarray, line: np.ndarray, shares: Sequence[float], threads: Threads) -> None:
    """Adds the best score of a term at each place of the line: for terms of many turns."""

    def add_part(part: _Slice) -> None:
        here, near = part
        best = line[here].copy()
        for share, (before, after) in zip(shares, near, strict=True):
            nearest = np.maximum(line[before], line[after])
            nearest *= share
            np.maximum(best, nearest, out=best)
        sums[here] += best

    threads.map(add_part, _slices(len(line), len(shares)))


def _add_best_around(sums: np.ndarray, line: np.ndarray, term: Postings, shares: Sequence[float]) -> None:
    """Does the same at the places of a term and around them, and leaves the line empty: for terms of few turns."""
    reached = [term.rows]
    for distance, share in enumerate(shares, 1):
        for at in (term.rows - distance, term.rows + distance):
            line[at] = np.maximum(line[at], share * term.scores)
            reached.append(at)
    for at in reached:  # a place that is reached twice adds 0 the second time
        sums[at] += line[at]
        line[at] = 0.0


def _slices(length: int, reach: int) -> Iterator[_Slice]:
    """Yields slices of the line that fit the processor's cache, each with those one, two, ... places off both sides."""
    assert reach <= REACH
    for start in range(REACH, length - REACH, _SLICE):
        stop = min(start + _SLICE, length - REACH)
        near = [(slice(start - d, stop - d), slice(start + d, stop + d)) for d in range(1, reach + 1)]
        yield slice(start, stop), near


def _best_neighbor(
    view: ScopeView,
    b: BaseScores,
    order: TurnOrder,
    weights: Weights,
    scale: float,
    row: int,
) -> tuple[Link, ...]:
    """Returns the link from the neighbor that adds most: of its base score, and by words that score better there."""
    smoothing = float(order.smoothing_weight[row])
    gains = {
        at: smoothing * share * float(b.unworded[order.places[at]]) for at, share in _around(order, row, weights.shares)
    }
    near = [(at, share) for at, share in _around(order, row, weights.nearby) if b.allowed[at]]
    rows, near_shares = np.array([row, *(at for at, _ in near)], np.int64), np.array([share for _, share in near])
    for term in b.postings if near else ():
        scores = term.scores_of(rows)
        here, there = scores[0], scores[1:] * near_shares
        best = int(there.argmax())
        if there[best] > here:
            at = near[best][0]
            gains[at] = gains.get(at, 0.0) + smoothing * scale * float(there[best] - here)
    gain, source = max(((g, -at) for at, g in gains.items()), default=(0.0, 0))
    return (Link(str(view.ids[-source]), str(view.ids[row]), "near", gain),) if gain > 0 else ()


def _around(order: TurnOrder, row: int, shares: tuple[float, ...]) -> list[tuple[int, float]]:
    """Returns the turns around one with the share of each."""
    return [(at, shares[abs(offset) - 1]) for offset, at in order.order.neighbors(row, len(shares))]
