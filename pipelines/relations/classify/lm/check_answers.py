"""Whether a language model's answers are fit to build with: a server that answers nonsense stops the build."""

import json

import polars as pl

from palimpsest.core.errors import ComponentFailed
from palimpsest.relations.classify.label_types import UNPAID
from palimpsest.relations.classify.lm.ledger import Ledger
from palimpsest.relations.classify.lm.read_answer import GIVES_ORDERS
from palimpsest.store.home import Home

MOST_UNREADABLE = 0.5
"""Of all pairs of a collection that the model answered, earlier builds' included: one odd answer stops nothing."""


def check_readable(relations: pl.DataFrame, home: Home) -> None:
    """Stops the build where most answers of the model cannot be read; those are forgotten and will be asked again.

    Readable answers stay in the ledger, so that a run after the server is repaired does not pay for them again.

    Args:
        relations: a collection's relations; those that no model was asked about do not count.
        home: whose ledger holds the answers.

    Raises:
        ComponentFailed: more than half of the answers cannot be read.
    """
    asked = relations.filter(pl.col("labeler") == "dspy").select("newer_id", "older_id", "evidence")
    told = [(n, o, json.loads(e)) for n, o, e in asked.iter_rows()]
    answered = [t for t in told if t[2].get("rule") != UNPAID and t[2].get("why") != GIVES_ORDERS]
    unreadable = [(n, o) for n, o, evidence in answered if "failed" in evidence]
    if len(unreadable) <= MOST_UNREADABLE * len(answered):
        return
    ledger = Ledger(home.lm_ledger)
    ledger.drop(unreadable)
    ledger.close()
    raise ComponentFailed(
        f"labels: {len(unreadable)} of {len(answered)} answers of the model in PALIMPSEST_LM cannot be read; nothing"
        " was published, readable answers are kept; check the server and run again, or set PALIMPSEST_LABELER=offline"
    )
