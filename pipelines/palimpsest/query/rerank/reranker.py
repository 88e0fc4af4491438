"""What reranks: the interface, and which reranker a name means."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.rerank.answer_reader import AnswerReader

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
