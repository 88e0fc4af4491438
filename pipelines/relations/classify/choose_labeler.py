"""Which labeler a build uses: the offline one, an LM, or both. Chosen by the environment, never by a document.

`PALIMPSEST_LABELER` is offline (the default), dspy or cascade; the last two need `PALIMPSEST_LM`.
"""

import os
from typing import Any

import polars as pl

from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import content_id
from palimpsest.relations.classify.label_types import RelationLabeler
from palimpsest.relations.classify.model.model_cache import default_key, default_model
from palimpsest.relations.classify.offline_labeler import CANDIDATE_ODDS, OfflineLabeler
from palimpsest.store.home import Home

NAMES = ("offline", "dspy", "cascade")


def configured_labeler() -> str:
    """Returns the name of the labeler that the environment asks for.

    Raises:
        PalimpsestError: there is none of that name, or the LM it needs is not named.
    """
    name = os.environ.get("PALIMPSEST_LABELER") or "offline"
    if name not in NAMES:
        raise PalimpsestError(f"PALIMPSEST_LABELER: {name!r} is none of {', '.join(NAMES)}; set one of them or nothing")
    if name != "offline":
        from palimpsest.relations.classify.lm.lm_settings import lm_settings

        lm_settings()
    return name


def labeler_key() -> str:
    """Returns what tells one labeler of a build from another, without training or loading any."""
    name = configured_labeler()
    if name == "offline":
        return content_id(name, default_key())
    from palimpsest.relations.classify.lm.lm_settings import lm_settings
    from palimpsest.relations.classify.lm.relation_program import program_hash

    code = code_hash(("palimpsest.relations.classify.cascade_labeler", "palimpsest.relations.classify.lm.lm_labeler"))
    return content_id(name, default_key(), program_hash(), lm_settings().model, code)


def build_labeler(home: Home, max_cost: float | None = None, none_odds: float = CANDIDATE_ODDS) -> RelationLabeler:
    """Returns the labeler that the environment names, by default for pairs that a build found."""
    offline = OfflineLabeler(default_model(), none_odds)
    name = configured_labeler()
    return offline if name == "offline" else lm_labeler(name, offline, home, max_cost)


def lm_labeler(name: str, offline: OfflineLabeler, home: Home, max_cost: float | None) -> Any:
    """Returns the LM's labeler, or the cascade of both."""
    from palimpsest.relations.classify.cascade_labeler import CascadeLabeler
    from palimpsest.relations.classify.lm.ledger import Ledger
    from palimpsest.relations.classify.lm.lm_labeler import LmLabeler
    from palimpsest.relations.classify.lm.lm_settings import lm_settings

    lm = LmLabeler(lm_settings(), Ledger(home.lm_ledger), max_cost=max_cost)
    return lm if name == "dspy" else CascadeLabeler(offline, lm)


_ASKED_BY_CASCADE = 0.8
_TOKENS_A_CALL = (1000, 120)


def expected_calls(home: Home, new_pairs: int, relations: pl.DataFrame | None = None) -> tuple[int, float]:
    """Returns (calls, money) that a build may cost with the labeler that the environment names.

    An estimate for a dry run; the stage itself tells what it needs before it asks.

    Args:
        home: of the build.
        new_pairs: candidate pairs that no build knew.
        relations: of the published build, in collections that are built again: those of another program are asked anew.
    """
    name = configured_labeler()
    if name == "offline":
        return 0, 0.0
    from palimpsest.relations.classify.lm.lm_settings import lm_settings

    pairs = new_pairs
    if relations is not None:
        standing = ("person", build_labeler(home).program_hash)
        pairs += relations.filter(~pl.col("program_hash").is_in(standing)).height
    calls = round(pairs * (_ASKED_BY_CASCADE if name == "cascade" else 1.0))
    return calls, calls * lm_settings().cost(*_TOKENS_A_CALL)
