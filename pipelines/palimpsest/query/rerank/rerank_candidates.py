"""Puts the best candidates of a search in a new order: by their relevance, or by what another reranker says."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.context.changes import reasons_of_parts, without_ended_parts
from palimpsest.query.ranking.candidate import Ranked
from palimpsest.query.ranking.relevance import READ, relevance
from palimpsest.query.ranking.scoring import z_values
from palimpsest.query.request.types import Memory
from palimpsest.query.rerank.answer_reader import AnswerReader, is_prose

# What reranks: the interface, and which reranker a name means.

RERANKED = 30
"""Candidates that a reranker reads at most."""

ENVIRONMENT_VARIABLE = "PALIMPSEST_RERANKER"
LANGUAGE_MODEL = "lm"
NO_RERANKER = "none"


class RerankerFailed(Exception):
    """The reranker gave no scores; the message says why. The search goes on without it."""


class Reranker(Protocol):
    """Scores texts for one question. Safe to share between threads."""

    @property
    def name(self) -> str:
        """What results name it by."""

    def score(self, question: str, texts: Sequence[str]) -> np.ndarray:
        """Returns how well each text answers the question, shape (len(texts),) float64, on any one scale.

        Raises:
            RerankerFailed: it has no scores for these.
        """


AnyReranker = Reranker | AnswerReader
"""What reads the best candidates: the reader's log odds are one part of the relevance, another's scores an order."""


def open_reranker(name: str | None, home: Path | None) -> AnyReranker | None:
    """Returns a reranker, loaded at its first use; None where there is none.

    Args:
        name: `answers` for the model that is shipped, `lm` for the model of PALIMPSEST_LM, `none`, else the folder or
            the name of a cross-encoder; None for what PALIMPSEST_RERANKER names, which is `answers` by default.
        home: where the ledger of paid answers is; without one nothing is stored.

    Raises:
        PalimpsestError: `lm` is named, and a setting of the language model is missing or wrong.
    """
    name = os.environ.get(ENVIRONMENT_VARIABLE, "") or AnswerReader.name if name is None else name
    if name in ("", NO_RERANKER):
        return None
    if name == AnswerReader.name:
        return AnswerReader()
    if name == LANGUAGE_MODEL:
        from palimpsest.query.rerank.lm_reranker import LmReranker
        from palimpsest.relations.classify.lm.lm_settings import lm_settings

        return LmReranker(lm_settings(), home)
    if "\0" in name or name.startswith("-"):
        raise PalimpsestError(f"reranker: {name[:80]!r} is no folder and no name of a model; fix it")
    from palimpsest.query.rerank.cross_encoder import CrossEncoderReranker

    return CrossEncoderReranker(name)


# Puts the best candidates of a search in a new order: by their relevance, or by what another reranker says.


@dataclass(frozen=True)
class Reranking:
    """What a reranker did.

    Attributes:
        name: of the reranker.
        candidates: how many it read.
        failed: why it gave no scores, and the order is that of the ranking; None where it did.
    """

    name: str
    candidates: int
    failed: str | None = None


def rerank_candidates(reranker: Reranker, question: str, ranked: Sequence[Ranked]) -> tuple[list[Ranked], Reranking]:
    """Returns the candidates with the first `RERANKED` in a new order, the others after them as they were.

    The order is by z(score) + z(score of the reranker), each over the candidates that were read, ties as they were: a
    reranker alone is known to lose on texts unlike those that it was trained on.

    Args:
        reranker: reads the texts.
        question: the query.
        ranked: best first.
    """
    read, rest = list(ranked[:RERANKED]), list(ranked[RERANKED:])
    if len(read) < 2:
        return [*read, *rest], Reranking(reranker.name, 0)
    try:
        scores = reranker.score(question, [m.text for m in _memories(read)])
    except RerankerFailed as e:
        return [*read, *rest], Reranking(reranker.name, 0, str(e))
    own = np.array([candidate.score for _, candidate in read])
    fused = z_values(own) + z_values(scores)
    order = np.argsort(-fused, kind="stable").tolist()
    best = [(read[i][0], replace(read[i][1], rerank=float(scores[i]))) for i in order]
    return [*best, *rest], Reranking(reranker.name, len(read))


def with_relevance(reader: AnswerReader | None, question: str, ranked: Sequence[Ranked]) -> list[Ranked]:
    """Returns candidates with their relevance; where a reader reads the first `READ`, prose, those in order of it.

    Args:
        reader: reads the texts; without one the scores alone say what is relevant, and the order stays.
        question: the query.
        ranked: best first.
    """
    memories = _memories(ranked[:READ]) if reader is not None else []
    answers = reader.read(question, memories) if reader is not None and is_prose(memories) else np.empty(0)
    chances = relevance([c for _, c in ranked], answers).tolist()
    judged = [(q, replace(c, relevance=p)) for (q, c), p in zip(ranked, chances, strict=True)]
    first = sorted(judged[: len(answers)], key=lambda pair: -pair[1].relevance)
    return [*first, *judged[len(answers) :]]


def _memories(ranked: Sequence[Ranked]) -> list[Memory]:
    """Returns the memories of candidates, as results show them: a part that a newer memory ended answers nothing."""
    found: dict[tuple[int, str], Memory] = {}
    for query in {id(q): q for q, _ in ranked}.values():
        ids = [c.memory_id for q, c in ranked if q is query]
        memories = query.served.memories(ids)
        if not query.filters.history:
            memories = without_ended_parts(memories, reasons_of_parts(query.served, ids))
        found |= {(id(query), i): memory for i, memory in memories.items()}
    return [found[id(q), c.memory_id] for q, c in ranked]
