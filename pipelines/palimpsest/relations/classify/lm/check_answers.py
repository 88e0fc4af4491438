"""Stops a build whose language model returns unreadable answers."""

import json

import polars as pl

from palimpsest.core.errors import ComponentFailed
from palimpsest.relations.classify.label_types import UNPAID
from palimpsest.relations.classify.lm.ledger import Ledger
from palimpsest.relations.classify.lm.read_answer import CONTAINS_INSTRUCTIONS
from palimpsest.store.home import Home

MAX_UNREADABLE_SHARE = 0.5
"""Of all pairs of a collection that the model answered, those of earlier builds included."""


def check_answers(relations: pl.DataFrame, home: Home) -> None:
    """Stops the build where most answers of the model are unreadable, and removes those from the ledger.

    Readable answers stay in the ledger, so that a run after the server is repaired does not pay for them again.

    Args:
        relations: a collection's relations; those without an answer of the model do not count.
        home: whose ledger has the answers.

    Raises:
        ComponentFailed: more than half of the answers are unreadable.
    """
    by_lm = relations.filter(pl.col("labeler") == "dspy").select("newer_id", "older_id", "evidence")
    rows = [(newer, older, json.loads(evidence)) for newer, older, evidence in by_lm.iter_rows()]
    answered = [r for r in rows if r[2].get("rule") != UNPAID and r[2].get("why") != CONTAINS_INSTRUCTIONS]
    unreadable = [(newer, older) for newer, older, evidence in answered if "failed" in evidence]
    if len(unreadable) <= MAX_UNREADABLE_SHARE * len(answered):
        return
    ledger = Ledger(home.lm_ledger)
    ledger.drop(unreadable)
    ledger.close()
    raise ComponentFailed(
        f"labels: {len(unreadable)} of {len(answered)} answers of the model in PALIMPSEST_LM cannot be read; nothing"
        " was published, readable answers are kept; check the server and run again, or set PALIMPSEST_LABELER=offline"
    )
