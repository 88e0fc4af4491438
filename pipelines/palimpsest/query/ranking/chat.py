"""The scores of a chat with an assistant: each role by its own statistics, and an answer counts for its question.

An assistant's turns are many times as long as the user's. They have more words and more windows, and repeat what the
user stated: on one scale with the user's turns they win whatever the question is. So a score is compared with the
scores of its own role first. An answer tells what its question is about, so the turn before it takes a share of its
scores; the answer itself, which is long, needs nothing from around it. A question about what the assistant wrote
("What did you recommend ...?") exchanges the roles. Where the assistant's turns are short, a chat is scored as other
conversations are: `conversation`.
"""

import numpy as np

from palimpsest.query.ranking.scoring import Scored, base_scores, rescale
from palimpsest.query.request.strategies import ChatWeights
from palimpsest.query.request.types import Link
from palimpsest.query.scope.scope_arrays import Postings
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.view import ScopeView
from palimpsest.text.assistant_cue import asks_for_answers

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
