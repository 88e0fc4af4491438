"""A fact: subject, predicate, and another entity or a value, as one clause of a memory states it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple


@dataclass(frozen=True)
class Mentioned:
    """An entity where a text names it, in characters of the text."""

    entity_id: str
    start: int
    end: int


@dataclass(frozen=True)
class Named:
    """The entities of a memory.

    Attributes:
        mentions: where its text names them.
        types: of the entities, by id; `name` may be a person or a thing.
        speaker: who says `I`; empty where that is no entity.
        topic: what the passage is about, by its title; empty where that is no entity.
        topic_name: the title.
        antecedent: what a pronoun that opens the text refers to; empty where it is no entity, None where unknown.
        is_page: whether the text is a passage and not a single statement.
    """

    mentions: Sequence[Mentioned]
    types: Mapping[str, str]
    speaker: str = ""
    topic: str = ""
    topic_name: str = ""
    antecedent: str | None = None
    is_page: bool = False

    @property
    def entities(self) -> tuple[str, ...]:
        """Ids of the entities that the text names or is about; empty where there is none."""
        return *(m.entity_id for m in self.mentions), self.speaker, self.topic, self.antecedent or ""

    def with_own_types(self) -> "Named":
        """Returns the same with the types of these entities only: it is sent to another process."""
        return replace(self, types={e: self.types[e] for e in self.entities if e in self.types})


@dataclass(frozen=True, order=True)
class StatedEntity:
    """What a language model states of an entity that a memory names: its type, and its importance, 0 to 1."""

    entity_id: str
    type: str
    importance: float


@dataclass(frozen=True, order=True)
class Fact:
    """What one clause states of an entity.

    Attributes:
        subject: id of an entity.
        predicate: of the vocabulary of `predicates`, else the verb and its preposition: `supply`, `keep_to`.
        object_entity: id of the other entity; empty where the fact has a value.
        value: the words that fill the predicate; empty where there is another entity.
        start, end: the clause, in characters of the text.
        is_negated: the clause denies it.
        modality: `stated`, `past` or `planned`; what is wished, supposed, reported or in question is no fact.
        confidence: in [0, 1].
    """

    subject: str
    predicate: str
    object_entity: str
    value: str
    start: int
    end: int
    is_negated: bool
    modality: str
    confidence: float


# Predicates: one name for the verbs, prepositions and nouns that state the same of an entity.
#
# What the vocabulary does not list keeps its own words: `keep_to`, `deadline`.

_FORWARD = """
works_for: work for; work at; serve at; join
leads: lead; head; chair; manage; direct; run by person; captain
lives_in: live in; live at; reside in; settle in; move to
located_in: locate in; locate at; locate on; base in; headquarter in; situate in
located_in: lie in; lie on; stand in; stand on; be in; be at; be on
part_of: belong to; part of; member of; form part
owns: own; possess; acquire; buy
supplies: supply; deliver; provide
uses: use; rely on; switch to
made_by: develop by; make by; build by; design by; write by; compose by; found by; paint by; publish by
made_by: produce by; release by; record by; be by
depends_on: depend on; require; need
replaces: replace; supersede; succeed; take over from; precede by
named: name; call; title; know as
married_to: marry; marry to
born_in: bear in; bear at
died_in: die in
studied_at: study at; graduate from; attend; educate at
costs: cost; price at
due: due on; due by; due
starts: start on; start at; start in; begin on; begin in; begin at; open on; open in
ends: end on; end in; expire on; expire in; close on; close in; finish on
scheduled_for: schedule for; plan for; hold on; hold in; hold at; take place on
reports_to: report to
teaches_at: teach at
plays_for: play for
performs: perform
wrote: write; author; compose
made: build; make; develop; design; create; found; invent; produce; paint
"""
_INVERSE = """
leads: lead by; head by; chair by; manage by; run by; direct by
owns: own by; acquire by; buy by
supplies: supply by; deliver by; provide by; supply from
uses: use by; operate by
replaces: replace by; supersede by; succeed by; follow by
employs: hire by; employ by
performs: perform by; sing by; voice by; star; play by
part_of: comprise; consist of; include; contain
"""


_PREPOSITION_LIST = """
about above across after against along among around as at before behind below beside between beyond by down during for
from in inside into near of off on onto out outside over past since through to towards under until up upon with within
without
"""
_PREPOSITIONS = frozenset(_PREPOSITION_LIST.split())
_NAMING = frozenset({"name", "call", "title"})


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


LOCATED_IN = "located_in"
_NO_TIMES = frozenset({LOCATED_IN, "lives_in", "part_of", "made_by"})
"""Predicates that no time fills: `lives in May`, `released by May`."""
TIMES = frozenset({"starts", "ends", "scheduled_for"})
"""Predicates that only a time fills: `opened in Ghent` is no start."""
_ROLES = """
leads: lead leader head chair chairman chairwoman president director captain chief manager mayor principal boss ceo
wrote: author writer composer
made: founder designer architect builder maker inventor creator developer producer
owns: owner
works_for: employee
part_of: member part district suburb tributary division
married_to: wife husband spouse
child_of: son daughter child
sibling_of: brother sister sibling
replaces: successor
supplies: supplier
"""
_PROPERTIES = frozenset(
    {"cause", "reason", "price", "cost", "address", "deadline", "purpose", "capacity", "population", "height", "length"}
)
_ROLE_OF_NOUN = {
    noun: name for line in _ROLES.strip().splitlines() for name, nouns in [line.split(": ")] for noun in nouns.split()
}


def is_property(noun: str) -> bool:
    """Returns whether a noun is what a thing has one of, so that `the director` has no need of an owner."""
    return noun in _ROLE_OF_NOUN or noun in _PROPERTIES


def find_role(noun: str) -> str:
    """Returns the predicate of somebody who is the `noun` of something, empty where there is none.

    `the director of Basin` is somebody who `leads` Basin.
    """
    return _ROLE_OF_NOUN.get(noun, "")


def find_predicate(verb: str, preposition: str, is_passive: bool, is_time: bool = False) -> Predicate:
    """Returns the predicate of a verb, its lemma, and a preposition, empty for a direct object.

    Args:
        verb: lemma of the verb, with its particle.
        preposition: between the verb and what fills it.
        is_passive: whether the subject is what something is done to.
        is_time: whether what fills it is a time: `born in May` says no place.
    """
    form = f"{verb} {preposition}".strip()
    if form in _INVERSE_NAMES and is_passive == (preposition == "by"):
        return Predicate(_INVERSE_NAMES[form], True)
    name = _FORWARD_NAMES.get(form, "")
    is_fit = name not in (_NO_TIMES if is_time else TIMES) and (preposition or is_passive == (verb in _NAMING))
    if name and is_fit:
        return Predicate(name, False)
    words = form.split() if preposition or not is_passive else ["be", *form.split()]
    return Predicate("_".join(words), False)


def normalize_predicate(predicate: str) -> str:
    """Returns the predicate that a name means: `reside_in` is `lives_in`, `be_publish_in` is `publish_in`."""
    form = "_".join(predicate.lower().split()).replace("-", "_")
    if form in _NAMES:
        return form
    first, *rest = form.split("_")
    if first == "be" and rest and " ".join((first, *rest)) not in _FORWARD_NAMES and rest[0] not in _PREPOSITIONS:
        return normalize_predicate("_".join(rest))
    return _FORWARD_NAMES.get(" ".join((first, *rest)), form)
