"""Notes of a collection by a language model: the table, and what a build may need to pay for it."""

from palimpsest.core.progress import say
from palimpsest.formation.lm.lm_items import LmReflection
from palimpsest.formation.note_table import NoteInputs, Notes, note_table, sessions_of
from palimpsest.relations.classify.lm.ledger import Ledger, ledger_to_estimate
from palimpsest.relations.classify.lm.lm_settings import lm_settings
from palimpsest.store.home import Home


def lm_notes(
    inputs: NoteInputs, home: Home, max_cost: float | None = None, with_rules: bool = False
) -> tuple[Notes, dict[str, float]]:
    """Returns the notes of every session as a model reads it, and figures of the calls.

    Answers are in the ledger of the home, and paid once. Sessions beyond the budget have no items by the model; a build
    that runs this again reads them.

    Raises:
        PalimpsestError: no model is set, or a budget without a price.
        ComponentFailed: most answers cannot be read.
    """
    ledger = Ledger(home.lm_ledger)
    try:
        reflection = LmReflection(lm_settings(), ledger, max_cost, with_rules=with_rules)
        notes = note_table(inputs, reflection.form_items, None)
    finally:
        ledger.close()
    run = reflection.run
    notes.dropped.update(reflection.dropped)
    for reason, n in sorted(run.without_answer.items()):
        say(f"reflection: {n} sessions were not read ({reason})")
    for reason, n in sorted(reflection.dropped.items()):
        say(f"reflection: {n} items were dropped ({reason})")
    return notes, {
        "lm_calls": run.calls,
        "tokens": run.tokens,
        "cost": run.cost,
        "lm_without_answer": run.without_answer.total(),
        "unpaid": run.unpaid,
    }


def expected_reflection_calls(inputs: NoteInputs, home: Home) -> tuple[int, float]:
    """Returns (calls, cost) that a build would need: exactly the calls, and the most that they can cost.

    Raises:
        PalimpsestError: no model is set.
    """
    with ledger_to_estimate(home.lm_ledger) as ledger:
        return LmReflection(lm_settings(), ledger).estimate(sessions_of(inputs))
