"""Slots by the words that name them: `lives`, `moved` and `home` name one, so their values can exclude each other."""

from collections.abc import Collection

from palimpsest.relations.classify.rules.slots import SLOT_OF_NOUN

_VERBS = """
home: live reside settle dwell
employer: work
price: cost charge sell
duration: take last
start: start begin open kick
end: end close finish expire
venue: meet gather host happen
head: lead head run chair manage report coach
owner: own belong maintain
spouse: marry
weight: weigh
vehicle: drive ride commute
drink: drink
diet: eat
tool: use write run
attendance: attend join
study: study learn
sport: play train
"""
_SLOT_OF_LEMMA = {
    **SLOT_OF_NOUN,
    **{
        lemma: slot
        for line in _VERBS.strip().splitlines()
        for slot, verbs in [line.split(": ")]
        for lemma in verbs.split()
    },
}


def slot_names(lemmas: Collection[str]) -> frozenset[str]:
    """Returns the slots that some words name; none where the lexicon has none of them."""
    return frozenset(_SLOT_OF_LEMMA[lemma] for lemma in lemmas if lemma in _SLOT_OF_LEMMA)
