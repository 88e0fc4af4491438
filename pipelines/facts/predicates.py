"""Predicates: one name for the verbs, prepositions and nouns that state the same of an entity.

What the vocabulary does not list keeps its own words: `keep_to`, `deadline`.
"""

from typing import NamedTuple

_FORWARD = """
works_for: work for; work at; work with; serve at; join
leads: lead; head; chair; manage; direct; run by person; captain
lives_in: live in; live at; reside in; settle in
located_in: locate in; base in; situate in; lie in; lie on; stand in; stand on; be in; be at; be on; sit in
part_of: belong to; part of; member of; form part
owns: own; possess; acquire; buy
supplies: supply; deliver; provide
uses: use; run on; rely on; operate
made_by: develop by; make by; build by; design by; write by; compose by; found by; paint by; publish by; produce by
depends_on: depend on; require; need
replaces: replace; supersede; succeed
named: name; call; title
married_to: marry; marry to
born_in: bear in; bear at
died_in: die in
studied_at: study at; graduate from; attend
costs: cost; price at; charge
due: due on; due by; due
starts: start on; start at; start in; begin on; begin in; begin at; open on; open in
ends: end on; end in; expire on; expire in; close on; close in; finish on
scheduled_for: schedule for; plan for; hold on; hold in; hold at; take place on
reports_to: report to
teaches_at: teach at
plays_for: play for; play in
performs: perform; play
wrote: write; author; compose
made: build; make; develop; design; create; found; invent; produce; paint; publish
"""
_INVERSE = """
leads: lead by; head by; chair by; manage by; run by
owns: own by; acquire by; buy by
supplies: supply by; deliver by; provide by; supply from
uses: use by; operate by
replaces: replace by; supersede by; succeed by; replace with
employs: hire by; employ by
"""


class Predicate(NamedTuple):
    """A predicate, and whether the clause states it of its object: `is led by` is `leads` of the other."""

    name: str
    is_inverse: bool


def _read(lines: str) -> dict[str, str]:
    return {
        form: name
        for line in lines.strip().splitlines()
        for name, forms in [line.split(": ")]
        for form in forms.split("; ")
    }


_FORWARD_NAMES, _INVERSE_NAMES = _read(_FORWARD), _read(_INVERSE)
_NAMES = frozenset(_FORWARD_NAMES.values()) | frozenset(_INVERSE_NAMES.values())
VOCABULARY = tuple(sorted(_NAMES))
"""Every predicate that has a name of its own, sorted."""


def find_predicate(verb: str, preposition: str, is_passive: bool) -> Predicate:
    """Returns the predicate of a verb, its lemma, and a preposition, empty for a direct object.

    Args:
        verb: lemma of the verb, of a noun for `part of`.
        preposition: between the verb and what fills it.
        is_passive: whether the subject is what something is done to.
    """
    form = f"{verb} {preposition}".strip()
    if is_passive and preposition == "by" and form in _INVERSE_NAMES:
        return Predicate(_INVERSE_NAMES[form], True)
    if form in _FORWARD_NAMES and (preposition or not is_passive or verb in ("name", "call", "title")):
        return Predicate(_FORWARD_NAMES[form], False)
    return Predicate("_".join((*(["be"] if is_passive else []), *form.split())), False)


def normalize_predicate(predicate: str) -> str:
    """Returns the predicate that a name means: `reside_in` is `lives_in`, `be_publish_in` is `publish_in`."""
    form = "_".join(predicate.lower().split()).replace("-", "_")
    if form in _NAMES:
        return form
    first, *rest = form.split("_")
    if first == "be" and len(rest) > 1:
        return "_".join(rest)
    return _FORWARD_NAMES.get(" ".join((first, *rest)), form)
