"""What picks the sentences that a context quotes: the interface, and which compressor a name means."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.query.context.quotes import Sentences
from palimpsest.query.request.types import Memory

ENVIRONMENT_VARIABLE = "PALIMPSEST_COMPRESSOR"
LANGUAGE_MODEL = "lm"


@dataclass(frozen=True)
class Compression:
    """What a compressor did.

    Attributes:
        name: of the compressor.
        read: how many sentences it read; 0 where all results fit the budget, or where none is long.
        picked: how many of them it picked.
        failed: why it picked none, and the quotes are those chosen by words; None where it did.
    """

    name: str
    read: int = 0
    picked: int = 0
    failed: str | None = None


class Compressor(Protocol):
    """Picks sentences for one question. Safe to share between threads."""

    @property
    def name(self) -> str:
        """What results name it by."""

    def pick(
        self, question: str, memories: Sequence[Memory], sentences: Mapping[str, Sentences]
    ) -> tuple[Mapping[str, Sentences], Compression]:
        """Returns the sentences with a worth of 1 where it picks them, else 0, and what it did.

        Where it fails, the sentences are returned as they are.

        Args:
            question: the query.
            memories: results, best first.
            sentences: of the long ones, by id, with what each is worth by its words.
        """


def open_compressor(name: str | None, home: Path | None) -> Compressor | None:
    """Returns the compressor that searches may use; None where there is none.

    Args:
        name: `lm` for the model of PALIMPSEST_LM; empty for none; None for what PALIMPSEST_COMPRESSOR names.
        home: where the ledger of paid answers is; without one nothing is stored.

    Raises:
        PalimpsestError: the name is another, or a setting of the language model is missing or wrong.
    """
    name = os.environ.get(ENVIRONMENT_VARIABLE, "") if name is None else name
    if not name:
        return None
    if name != LANGUAGE_MODEL:
        raise PalimpsestError(f"compressor: {name[:40]!r} must be {LANGUAGE_MODEL} or empty; fix it")
    from palimpsest.query.context.lm_compressor import LmCompressor
    from palimpsest.relations.classify.lm.lm_settings import lm_settings

    return LmCompressor(lm_settings(), home)


def requested_compressor(compress: str, compressor: Compressor | None) -> Compressor | None:
    """Returns the compressor where a search asks for it.

    Raises:
        ArgumentError: it does, and there is none.
    """
    if compress != LANGUAGE_MODEL:
        return None
    if compressor is None:
        raise ArgumentError(
            "compress", f"no language model may read results here; set {ENVIRONMENT_VARIABLE}={LANGUAGE_MODEL}"
        )
    return compressor
