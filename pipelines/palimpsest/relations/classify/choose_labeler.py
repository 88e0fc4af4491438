"""Which labeler a build uses: the offline one, an LM, or both. Set by the environment, never by a document.

`PALIMPSEST_LABELER` is offline (the default), dspy or cascade; the last two need `PALIMPSEST_LM`.
"""

import os
from collections.abc import Callable

import polars as pl

from palimpsest.core.batches.choose_runner import configured_runner
from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import content_id
from palimpsest.relations.classify.label_batches import DistributedLabeler
from palimpsest.relations.classify.label_types import CANDIDATE_ODDS, RelationLabeler
from palimpsest.relations.classify.offline_labeler import offline_labeler, shipped_key
from palimpsest.store.home import Home

LABELERS = ("offline", "dspy", "cascade")
_CASCADE_LM_SHARE = 0.8
_TOKENS_PER_CALL = (1000, 120)  # read, written


def configured_labeler() -> str:
    """Returns the name of the labeler that the environment sets.

    Raises:
        PalimpsestError: there is none of that name, or the LM it needs is not set.
    """
    name = os.environ.get("PALIMPSEST_LABELER") or "offline"
    if name not in LABELERS:
        raise PalimpsestError(f"PALIMPSEST_LABELER: {name!r} must be one of {', '.join(LABELERS)}; set one or unset it")
    if name != "offline":
        from palimpsest.relations.classify.lm.lm_settings import lm_settings

        lm_settings()
    return name


def labeler_key() -> str:
    """Returns a key that differs between the labelers of two builds, without loading any."""
    name = configured_labeler()
    if name == "offline":
        return shipped_key()
    from palimpsest.relations.classify.lm.lm_settings import lm_settings
    from palimpsest.relations.classify.lm.relation_program import program_hash

    code = code_hash(("palimpsest.relations.classify.cascade_labeler", "palimpsest.relations.classify.lm.lm_labeler"))
    return content_id(name, shipped_key(), program_hash(), *lm_settings().key_parts, code)


def build_labeler(home: Home, max_cost: float | None = None, none_odds: float = CANDIDATE_ODDS) -> RelationLabeler:
    """Returns the labeler that the environment sets; the default odds are those of pairs that a build finds."""
    name = configured_labeler()
    if name != "offline":
        return lm_labeler(name, lambda: offline_labeler(none_odds), home, max_cost)
    labeler = offline_labeler(none_odds)
    return labeler if (runner := configured_runner()) is None else DistributedLabeler(labeler, runner)


def lm_labeler(
    name: str, load_offline: Callable[[], RelationLabeler], home: Home, max_cost: float | None
) -> RelationLabeler:
    """Returns the LM's labeler (`dspy`), which loads no other, or the cascade of both."""
    from palimpsest.relations.classify.cascade_labeler import CascadeLabeler
    from palimpsest.relations.classify.lm.ledger import Ledger
    from palimpsest.relations.classify.lm.lm_labeler import LmLabeler
    from palimpsest.relations.classify.lm.lm_settings import lm_settings

    lm = LmLabeler(lm_settings(), Ledger(home.lm_ledger), max_cost=max_cost)
    return lm if name == "dspy" else CascadeLabeler(load_offline(), lm)


def expected_calls(home: Home, new_pairs: int, relations: pl.DataFrame | None = None) -> tuple[int, float]:
    """Returns (calls, cost) that a build may need with the labeler that the environment sets.

    An estimate for a dry run; the stage itself reports what it needs before its first call.

    Args:
        home: of the build.
        new_pairs: candidate pairs that are in no earlier build.
        relations: of the published build, in collections that are built again; those of another program are labelled
            again.
    """
    name = configured_labeler()
    if name == "offline":
        return 0, 0.0
    from palimpsest.relations.classify.lm.lm_settings import lm_settings

    pairs = new_pairs
    if relations is not None:
        unchanged = ("person", build_labeler(home).program_hash)
        pairs += relations.filter(~pl.col("program_hash").is_in(unchanged)).height
    calls = round(pairs * (_CASCADE_LM_SHARE if name == "cascade" else 1.0))
    return calls, calls * lm_settings().cost(*_TOKENS_PER_CALL)
