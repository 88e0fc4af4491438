"""The vocabulary of facts: predicates, the clauses that state them, and what may fill them.

A clause that states none of them, or fills one with something else than it takes, is no fact: `on track` is no status
of a person, and `in a hurry` no place where one lives. What a predicate takes follows Wikidata's property constraints.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from palimpsest.text.date_mentions import MONTHS

# predicate | what it takes | marks | forms: verb and preposition
#
# What it takes: a `name` is an entity or capitalised words; a `place`, `person` or `group` is a name that is not known
# to be something else; `thing` is a noun phrase that stands alone. Marks: `one` at a time; `lasts`.
_PREDICATES = """
lives_in        | place         | one lasts | live in; live at; reside in; settle in; move to; relocate to; move in
comes_from      | place         | one lasts | come from; hail from; originate from
grew_up_in      | place         | one lasts | grow up in
born_in         | place date    | one lasts | bear in; bear at; bear on
died_in         | place date    | one       | die in; die at; die on
birthday        | date          | one lasts |
age             | amount        | one       |
works_for       | group         | lasts     | work for; work at; serve at; start at; employ by; hire by
works_as        | thing         | lasts     | work as; serve as
reports_to      | person        | one lasts | report to
teaches_at      | group         | lasts     | teach at
studied_at      | group         | lasts     | study at; graduate from; attend; educate at; enrol at; enroll at
studies         | thing         | lasts     | study; major in
member_of       | group team    | lasts     | join; sing in; play in
plays_for       | group         | lasts     | play for
married_to      | person        | one lasts | marry; marry to
engaged_to      | person        | one       | engage to
parent_of       | person amount | lasts     |
child_of        | person        | lasts     |
sibling_of      | person        | lasts     |
partner_of      | person        | one lasts |
friend_of       | person        | lasts     |
relative_of     | person        | lasts     |
has_pet         | thing         | lasts     |
named           | name          | one lasts | name; call; title; know as
speaks          | name          | lasts     | speak
plays           | activity      | lasts     | play
diet            | diet          | one lasts |
allergic_to     | thing         | lasts     |
prefers         | thing         | lasts     | prefer
likes           | thing         | lasts     | like; love; enjoy; adore
dislikes        | thing         | lasts     | dislike; hate; detest; loathe
favourite       | thing         | lasts     |
owns            | thing         | lasts     | own; possess; acquire; buy
drives          | thing         | lasts     | drive
uses            | name          |           | use; rely on; switch to; run on; build on; build upon; power by
email           | address       | lasts     |
handle          | handle        | lasts     |
phone           | digits        | one lasts |
address         | digits name   | one lasts |
responsible_for | thing         |           |
leads           | name          | lasts     | lead; head; chair; manage; direct; captain; take over
employs         | name          |           |
founded         | name          |           | found; establish
made            | name          |           | build; make; develop; design; create; invent; produce; paint
made_by         | name          |           | develop by; make by; build by; design by; write by; compose by
                |               |           | found by; paint by; publish by; produce by; release by; record by
wrote           | name          |           | write; author; compose
performs        | name          |           | perform
part_of         | name          |           | belong to; part of; form part
located_in      | place         |           | locate in; locate at; locate on; base in; headquarter in; situate in
                |               |           | lie in; lie on; stand in; stand on; be in; be at; be on
supplies        | name          |           | supply; deliver
depends_on      | name          |           | depend on; depend upon; require; need; block by; block on; wait for
                |               |           | wait on
replaces        | name          |           | replace; supersede; succeed; take over from; precede by
status          | status        | one       |
written_by      | name          |           |
dated           | date          | one       |
attended_by     | person        |           |
reviewed_by     | person        |           |
version         | digits        | one       |
due             | date          | one       | due on; due by; due
starts          | date          | one       | launch on; release on; go live on; start on; start at; start in
                |               |           | begin on; begin in; begin at; open on; open in
expiry_of       | month         | lasts     |
ends            | date          | one       | end on; end in; expire on; expire in; run out in; close on;
                |               |           | close in; finish on
scheduled_for   | date          | one       | schedule for; plan for; hold on; hold in; hold at; take place on
costs           | amount        | one       | cost; price at
capacity        | amount        | one       |
population      | amount        | one       |
height          | amount        | one       |
length          | amount        | one       |
budget          | amount        | one       |
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
founded: found by; establish by
"""
# What a thing has, or somebody is, by noun: the owner of the noun is the subject, that of a noun after `of` its object.
_NOUNS = """
due: deadline
costs: price cost fee
birthday: birthday
phone: phone mobile telephone
email: email mail
address: address
age: age
capacity: capacity
population: population
height: height elevation altitude
length: length
budget: budget
version: version
status: status state
named: name surname nickname
favourite: favourite favorite
married_to: wife husband spouse
engaged_to: fiance fiancee fiancé fiancée
partner_of: girlfriend boyfriend partner
parent_of: son daughter child kid
child_of: mother father mum mom dad parent
sibling_of: sister brother sibling twin
relative_of: aunt uncle cousin niece nephew grandmother grandfather grandma grandpa granddaughter grandson
friend_of: friend
has_pet: dog cat pet puppy kitten parrot rabbit horse hamster tortoise guinea
reports_to: boss manager supervisor
works_for: employer
comes_from: hometown
diet: diet
starts: start kickoff launch
ends: end expiry
"""
_ROLES = """
leads: lead leader head chair chairman chairwoman chairperson president director captain chief principal ceo cto mayor
wrote: author writer composer songwriter
founded: founder cofounder
made: designer architect builder maker inventor creator developer producer
owns: owner
works_for: employee
member_of: member
part_of: part district suburb tributary division subsidiary subtopic
replaces: successor
supplies: supplier
"""

_DATE = re.compile(
    r"\b(?:\d{4}|\d{1,2}(?:st|nd|rd|th)|\d{1,2}[:.]\d\d|\d{1,2} ?[ap]m|noon|midnight|today|tomorrow"
    rf"|(?:{'|'.join(MONTHS)})\w*|(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
    r"|(?:next|this|last) (?:week|month|year|spring|summer|autumn|fall|winter)|spring|summer|autumn|winter|q[1-4])\b",
    re.IGNORECASE,
)
_MONTH = re.compile(rf"\b(?:\d{{4}}|(?:{'|'.join(MONTHS)})\w*)\b", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_AMOUNT = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred"
    r"|thousand|million|billion)\b",
    re.IGNORECASE,
)
_TEAM = re.compile(r"\b(?:team|board|committee|council|crew|squad|band|choir|club|party|orchestra)$", re.IGNORECASE)
_ADDRESS = re.compile(r"\S+@\S+\.\w+")
_HANDLE = re.compile(r"@\w[\w-]*")
_STATUS_WORDS = """
accepted active approved archived available blocked cancelled canceled closed complete completed deferred
delayed deprecated done draft experimental final finished inactive live maintained merged obsolete open paused
pending planned postponed private proposed provisional public published rejected released resolved retired
stable stalled superseded unmaintained unstable withdrawn
"""
_STATUS = frozenset(_STATUS_WORDS.split())
_DIETS = re.compile(
    r"\b(?:vegetarian|vegan|pescatarian|pescetarian|flexitarian|omnivore|halal|kosher|gluten-free|lactose-free"
    r"|dairy-free|keto)\b",
    re.IGNORECASE,
)
_POINTING = re.compile(
    r"(?:the|this|that|these|those|your|his|her|its|their|our|such|some|any|every|each|another|all|both|what|more|most"
    r"|it|one|ones|how|when|being|getting|having|seeing|hearing|making|doing|something|anything|everything|nothing"
    r"|someone|anyone|everyone|thing|things|stuff|much|many|so|too|no|not)\b",
    re.IGNORECASE,
)
"""The first word of a phrase that means nothing without what was said before it."""
_VAGUE = re.compile(
    r"\b(?:idea|way|thing|stuff|lot|kind|sort|bit|one|feeling|moment|it|them|that|you|me)s?\b",
    re.IGNORECASE,
)
_MAX_THING_WORDS = 8


class Predicate(NamedTuple):
    """A predicate, and whether the clause states it of its object: `is led by` is `leads` of the other."""

    name: str
    is_inverse: bool = False


@dataclass(frozen=True)
class Slot:
    """A predicate of the vocabulary.

    Attributes:
        name: of the predicate.
        takes: kinds of what may fill it.
        is_single: whether a subject has one at a time.
        is_lasting: whether it holds for long, so that it belongs in a profile.
        forms: verb and preposition of the clauses that state it.
    """

    name: str
    takes: tuple[str, ...]
    is_single: bool
    is_lasting: bool
    forms: tuple[str, ...]


@dataclass(frozen=True)
class Filling:
    """What fills a predicate, as far as its kind depends on it.

    Attributes:
        text: its words.
        kind: type of the entity that it is; empty where it is none, or unknown.
        is_name: whether its noun is a proper noun, or an entity.
        is_time: whether its noun names a time.
    """

    text: str
    kind: str
    is_name: bool
    is_time: bool

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of slots that it may fill."""
        tests = {
            "name": self.is_name and not self.is_time,
            "place": self.is_name and not self.is_time and self.kind in ("place", "name", "thing", "title", ""),
            "person": self.is_name and not self.is_time and self.kind in ("person", "name", "thing", "title", ""),
            "group": self.is_name and not self.is_time and self.kind not in ("person", "date", "event"),
            "team": bool(_TEAM.search(self.text)),
            "date": bool(_DATE.search(self.text)),
            "month": bool(_MONTH.search(self.text)),
            "amount": bool(_AMOUNT.search(self.text)),
            "digits": bool(_DIGIT.search(self.text)),
            "address": bool(_ADDRESS.search(self.text)),
            "handle": bool(_HANDLE.fullmatch(self.text)),
            "status": self.text.lower() in _STATUS,
            "diet": bool(_DIETS.search(self.text)),
            "thing": not self.is_time and (self.is_name or not _VAGUE.search(self.text)) and _stands_alone(self.text),
            "activity": _stands_alone(self.text.removeprefix("the ").removeprefix("my "), max_words=2),
        }
        return frozenset(kind for kind, is_so in tests.items() if is_so)


def _stands_alone(text: str, max_words: int = _MAX_THING_WORDS) -> bool:
    return 0 < len(text.split()) <= max_words and not _POINTING.match(text)


def _slots() -> dict[str, Slot]:
    rows: list[list[str]] = []
    for line in _PREDICATES.strip().splitlines():
        name, takes, marks, forms = (part.strip() for part in line.split("|"))
        if name:
            rows.append([name, takes, marks, forms])
        else:
            rows[-1][-1] += f"; {forms}"
    return {
        name: Slot(
            name,
            tuple(takes.split()),
            is_single="one" in marks.split(),
            is_lasting="lasts" in marks.split(),
            forms=tuple(f.strip() for f in forms.split(";") if f.strip()),
        )
        for name, takes, marks, forms in rows
    }


def _names_by_word(lines: str) -> dict[str, str]:
    pairs = (line.split(": ") for line in lines.strip().splitlines())
    return {word: name for name, words in pairs for word in words.split()}


def _names_by_form(lines: str) -> dict[str, str]:
    pairs = (line.split(": ") for line in lines.strip().splitlines())
    return {form: name for name, forms in pairs for form in forms.split("; ")}


SLOTS = _slots()
VOCABULARY = tuple(sorted(SLOTS))
"""Every predicate, sorted."""
SINGLE_VALUED = frozenset(s.name for s in SLOTS.values() if s.is_single)
"""Predicates of which a subject has one at a time: of two values the newer one counts."""
LASTING = frozenset(s.name for s in SLOTS.values() if s.is_lasting)
"""Predicates that hold for long: what a profile shows."""
DATES = frozenset(s.name for s in SLOTS.values() if s.takes == ("date",))
"""Predicates that only a date fills."""
_BY_FORM = {form: slot.name for slot in reversed(SLOTS.values()) for form in slot.forms}
_BY_INVERSE, _BY_NOUN, _BY_ROLE = _names_by_form(_INVERSE), _names_by_word(_NOUNS), _names_by_word(_ROLES)
_NAMING = frozenset({"name", "call", "title"})
_WORKING = re.compile(
    r"an? (?:\S+ ){0,3}?(?:\w{3,}(?:ist|ician|ographer|ologist|eer|wright|smith)"
    r"|accountant|actor|actress|advisor|analyst"
    r"|architect|astronomer|attorney|author|baker|banker|barber|barista|bookkeeper|bricklayer|brewer|builder|butcher"
    r"|captain|caretaker|carpenter|cashier|chef|cleaner|clerk|coach|consultant|contractor|cook|coordinator|counselor"
    r"|counsellor|dancer|designer|developer|director|doctor|driver|editor|electrician|farmer|firefighter|fisherman"
    r"|gardener|geologist|hairdresser|historian|inspector|instructor|interpreter|janitor|joiner|judge|lawyer|lecturer"
    r"|librarian|lifeguard|mason|mechanic|mentor|midwife|model|musician|nanny|nurse|officer|painter|paramedic"
    r"|photographer|physician|pilot|plumber|police officer|postman|potter|principal|producer|professor|programmer"
    r"|psychiatrist|ranger|realtor|recruiter|reporter|researcher|sailor|salesman|saleswoman|scientist|secretary"
    r"|singer|social worker|soldier|solicitor|student|surgeon|surveyor|tailor|teacher|technician|trainer|translator"
    r"|tutor|vet|waiter|waitress|welder|writer|manager)",
    re.IGNORECASE,
)
IS_A = "is_a"
"""What something is said to be: evidence of the type of a node, and no fact of its own."""


def of_verb(verb: str, preposition: str, *, is_passive: bool) -> Predicate | None:
    """Returns the predicate of a verb, its lemma, and a preposition, empty for a direct object; None where it is none.

    Args:
        verb: lemma of the verb, with its particle.
        preposition: between the verb and what fills it.
        is_passive: whether the subject is what something is done to.
    """
    form = f"{verb} {preposition}".strip()
    if form in _BY_INVERSE and is_passive == (preposition == "by"):
        return Predicate(_BY_INVERSE[form], True)
    name = _BY_FORM.get(form)
    is_fit = preposition or is_passive == (verb in _NAMING)
    return Predicate(name) if name and is_fit else None


def of_noun(noun: str) -> Predicate | None:
    """Returns the predicate of what somebody or something has: `deadline`, `sister`; None where it is none.

    Of a role the subject is who has it: `the director of Basin` leads Basin.
    """
    if noun in _BY_NOUN:
        return Predicate(_BY_NOUN[noun])
    return Predicate(_BY_ROLE[noun], True) if noun in _BY_ROLE else None


_OF_PERSONS_WORDS = """
lives_in grew_up_in birthday age works_for works_as reports_to teaches_at studied_at studies plays_for
married_to engaged_to parent_of child_of sibling_of partner_of friend_of relative_of has_pet speaks plays diet
allergic_to prefers likes dislikes favourite drives email handle phone comes_from responsible_for expiry_of
"""
_OF_PERSONS = frozenset(_OF_PERSONS_WORDS.split())
_OF_THINGS_WORDS = """
part_of located_in made_by written_by dated attended_by reviewed_by due starts ends scheduled_for costs capacity
population length budget status version supplies
"""
_OF_THINGS = frozenset(_OF_THINGS_WORDS.split())


def may_have(kind: str, predicate: str) -> bool:
    """Returns whether a predicate may be stated of an entity of a kind; unknown kinds may be of any."""
    if kind in ("person", "name", "title", ""):
        return kind != "person" or predicate not in _OF_THINGS
    return predicate not in _OF_PERSONS


_LABELS = {"has_pet": "has", "named": "is named", "made_by": "was made by", "written_by": "was written by"}
_IS = frozenset(s for s in SLOTS if s.endswith(("_of", "_to")) and s not in ("reports_to", "expiry_of")) | {
    "born_in",
    "due",
    "located_in",
    "responsible_for",
}
_OWNED = frozenset({"favourite", "expiry_of"})
"""Predicates of what somebody has, whose value names it: `editor: Vim`."""


def label(predicate: str) -> str:
    """Returns a predicate as words between a subject and a value: `is parent of`, `phone:`."""
    words = predicate.replace("_", " ")
    if predicate in _LABELS:
        return _LABELS[predicate]
    is_noun = predicate in SLOTS and not {"amount", "digits", "address", "handle", "diet", "status"}.isdisjoint(
        SLOTS[predicate].takes
    )
    return f"is {words}" if predicate in _IS else f"{words}:" if is_noun or predicate == "birthday" else words


def fact_words(subject: str, predicate: str, value: str, is_negated: bool = False) -> str:
    """Returns a fact in words: `Ana lives in Berlin`, `Ana's phone: 555`, `Ana is not parent of Bo`."""
    words = label(predicate)
    verb, _, rest = words.partition(" ")
    if is_negated:
        words = f"is not {rest}" if verb == "is" else f"not {words}"
    owner = f"{subject}'s" if subject and (words.endswith(":") or predicate in _OWNED) else subject
    return " ".join(part for part in (owner, words, value) if part)


def fits(predicate: str, filling: Filling) -> bool:
    """Returns whether something may fill a predicate."""
    return not filling.kinds.isdisjoint(SLOTS[predicate].takes)


def is_occupation(text: str) -> bool:
    """Returns whether words such as `a primary school teacher` name what somebody works as."""
    return _WORKING.fullmatch(text) is not None


def normalize_predicate(predicate: str) -> str:
    """Returns the predicate of the vocabulary that a name means, else the name: `reside_in` is `lives_in`."""
    form = "_".join(predicate.lower().split()).replace("-", "_")
    if form in SLOTS:
        return form
    if form == "be":
        return IS_A
    words = form.split("_")
    if words[0] == "be" and len(words) > 1 and " ".join(words) not in _BY_FORM:
        words = words[1:]
    if len(words) == 1 and (noun := of_noun(words[0])) is not None:
        return noun.name
    return _BY_FORM.get(" ".join(words), "_".join(words))
