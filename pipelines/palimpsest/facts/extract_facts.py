"""Extracts facts from a parsed text: for each verb its subject and what fills it, where one of both is an entity.

The syntax is that of the labels' parser; entities are where the build found their names. A fact is the words of one
clause: nothing is concluded. Open information extraction by clauses follows ClausIE (Del Corro and Gemulla, 2013),
restricted to clauses about entities.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from palimpsest.facts.clause_tree import SUBJECTS, ClauseTree, Modality, Phrases
from palimpsest.facts.fact import LOCATED_IN, TIMES, Fact, Named, Predicate, find_predicate, find_role, is_property
from palimpsest.facts.referents import Referents
from palimpsest.text.date_mentions import MONTH_NAMES
from palimpsest.text.parse import Parse

# What fills a verb: objects, complements, and nouns behind prepositions, with the words that name the predicate.

_TIME_WORD_LIST = """
today tomorrow yesterday now currently morning afternoon evening night noon midnight week month year day hour minute
weekend spring summer autumn winter fall term semester quarter since until monday tuesday wednesday thursday friday
saturday sunday daily weekly monthly yearly always never sometimes often usually
"""
TIME_WORDS = frozenset(_TIME_WORD_LIST.split()) | frozenset(MONTH_NAMES)
"""Lemmas that name a time."""
_OBJECTS = frozenset({"dobj", "attr", "oprd", "dative", "acomp"})
_OF_NOUN = frozenset({"in", "on", "at", "for", "from", "between", "since", "until", "by", "to", "as", "after", "with"})
"""Prepositions after an object that say something of the verb too: `raised money for a line`."""
_RELATIVE = frozenset({"which", "who", "that", "whom", "whose", "what", "there", "this", "these", "those", "they"})
_EMPTY = frozenset(
    {"it", "one", "some", "many", "you", "us", "we", "them", "himself", "herself", "itself", "themselves"}
)
_DETERMINERS = frozenset({"det", "poss", "nummod", "amod", "compound"})
_EMPTY_VALUES = frozenset({"the first", "the last", "the only", "the best", "this", "that"})
_DEICTIC = frozenset({"today", "tomorrow", "yesterday", "tonight", "now"})
_OBLIGING = frozenset({"have", "need", "ought"})
"""What somebody has to do, they need not do."""
_IDIOMS = frozenset(
    {"case", "fact", "order", "general", "turn", "particular", "addition", "detail", "full", "question"}
)
_INTRODUCING = frozenset(
    {"unlike", "according", "instead", "apart", "despite", "except", "besides", "thanks", "regarding"}
)
"""Prepositions that say nothing of what the clause is about."""
_ASIDE = re.compile(
    r"by the way|on the (?:other|one) hand|on the whole|in (?:my|our|his|her|their) (?:opinion|view|mind)|in the end"
    r"|in the meantime|at (?:the|this|that) moment|at the same time|at the (?:latest|earliest|most)"
    r"|as a (?:result|rule)"
    r"|for the (?:most part|moment|time being)|for (?:example|instance|now)"
    r"|in (?:time|total|return|turn|short|practice)"
    r"|on (?:time|average|purpose)|at (?:first|last|least|most|all)|of course|as usual|as well"
)
_RANGE = frozenset({"in", "on", "at", "from", "to", "between"})
_RATE = re.compile(r"(?:an?|per) (?:word|piece|hour|day|night|week|month|year|head|kilo|litre)")
_TIME = re.compile(r"\d{4}|\d{1,2}:\d\d|\d{1,2}(?:st|nd|rd|th)")


@dataclass(frozen=True)
class Filler:
    """What fills a verb.

    Attributes:
        preposition: before it; empty for an object.
        extension: words that follow the verb in the predicate: `to pay` in `offered to pay for gloves`.
        token: its noun.
        value: its words.
        is_time: whether it names a time, or another thing that is no place: `on loan`.
        is_denied: whether `no` comes before it.
        is_adverb: whether it is a time without a preposition: `writes every night`.
    """

    preposition: str
    extension: tuple[str, ...]
    token: int
    value: str
    is_time: bool
    is_denied: bool = False
    is_adverb: bool = False


@dataclass(frozen=True)
class Fillers:
    """Reads what fills the verbs of a text."""

    tree: ClauseTree
    phrases: Phrases

    def of_verb(self, head: int, extension: tuple[str, ...] = ()) -> Iterator[Filler]:
        """Yields what fills a verb, joined words too, and what fills an infinitive below it."""
        p = self.tree.parse
        for child in self.tree.children[head]:
            dep = p.deps[child]
            if dep in _OBJECTS and p.pos[child] != "ADP":
                for i in self.tree.joined(child):
                    yield from self._object(i, extension, "with to as after" if p.lemmas[head] == "have" else "")
            elif p.words[child] in _INTRODUCING:
                continue
            elif dep in ("prep", "agent") or (dep == "dative" and p.pos[child] == "ADP"):
                yield from self._behind(child, extension)
            elif dep == "npadvmod" and self.is_time(child) and p.words[child] not in _DEICTIC:
                yield from (replace(f, is_adverb=True) for f in self._filler("", extension, child))
            elif dep == "xcomp" and p.pos[child] == "VERB" and not extension and p.lemmas[head] not in _OBLIGING:
                to = [p.words[c] for c in self.tree.children[child] if p.deps[c] == "aux" and p.words[c] == "to"]
                yield from self.of_verb(child, (*to, self.tree.verb(child)))
            elif dep == "advmod" and p.words[child] == "here":
                yield Filler("in", extension, child, "", is_time=False)
            elif dep == "xcomp" and p.pos[child] in ("ADJ", "NOUN"):
                yield from self._object(child, extension)

    def _object(self, i: int, extension: tuple[str, ...], of_object: str = "") -> Iterator[Filler]:
        """Yields an object and what prepositions after it say of the verb; those `of_object` say it of the object."""
        p = self.tree.parse
        below = self._prepositions(i) if p.pos[i] != "ADJ" else []
        below = [c for c in below if p.words[c] not in of_object.split() and not self._is_of_noun(i, c)]
        is_denied = False
        for filler in self._filler("", extension, i, below):
            is_denied = filler.is_denied
            yield filler
        for preposition in below:
            yield from self._behind(preposition, extension, is_denied)

    def _is_of_noun(self, i: int, preposition: int) -> bool:
        """Returns whether a preposition says which one a noun means: `the school in Ghent`, `a history to the war`."""
        p = self.tree.parse
        below = self.tree.children[preposition]
        if p.words[preposition] not in _RANGE or any(self.is_time(b) or p.pos[b] == "PRON" for b in below):
            return False
        is_definite = any(p.words[c] == "the" for c in self.tree.children[i])
        if p.deps[i] != "attr":
            return is_definite
        return p.words[preposition] in ("from", "to") or (is_definite and all(p.pos[b] != "PROPN" for b in below))

    def _prepositions(self, i: int) -> list[int]:
        """Returns the prepositions after an object that say something of its verb, those after a measure of it too."""
        p, found = self.tree.parse, list[int]()
        for c in self.tree.children[i]:
            if p.deps[c] == "prep" and c > i:
                if p.words[c] in _OF_NOUN:
                    found.append(c)
                elif p.words[c] == "of":
                    measures = (b for b in self.tree.children[c] if p.deps[b] == "pobj" and self._is_measure(b))
                    found += [j for b in measures for j in self._prepositions(b)]
        return found

    def _is_measure(self, i: int) -> bool:
        return any(self.tree.parse.deps[c] == "nummod" for c in self.tree.children[i])

    def _behind(self, preposition: int, extension: tuple[str, ...], is_denied: bool = False) -> Iterator[Filler]:
        p = self.tree.parse
        outer = p.words[p.heads[preposition]]
        name = f"out {p.words[preposition]}" if outer == "out" else p.words[preposition]
        is_denied |= self.tree.is_denied(preposition)
        if any(
            p.words[c] in _INTRODUCING or (p.words[c], p.words[preposition]) == ("for", "as")
            for c in (preposition, *self.tree.children[preposition])
        ):
            return
        for below in self.tree.children[preposition]:
            if p.deps[below] == "pobj":
                for i in self._listed(below):
                    for filler in self._filler(name, extension, i):
                        yield replace(filler, is_denied=filler.is_denied or is_denied)
            elif p.deps[below] == "prep":  # `on to the board`
                yield from self._behind(below, extension, is_denied)

    def _listed(self, i: int) -> list[int]:
        """Returns a noun and what is joined to it; in a relative clause not what a comma separates.

        `The Tern, which joins it at Ghent, the Orne and the Yser`: the list is that of the clause before.
        """
        p, joined = self.tree.parse, self.tree.joined(i)
        is_relative = p.deps[p.heads[p.heads[i]]] == "relcl"
        return [j for j in joined if not (is_relative and "," in p.words[i:j])]

    def _filler(
        self, preposition: str, extension: tuple[str, ...], i: int, without: list[int] | None = None
    ) -> Iterator[Filler]:
        p = self.tree.parse
        is_bare = not any(p.deps[c] in _DETERMINERS for c in self.tree.children[i])
        if p.words[i] in _RELATIVE or (preposition and is_bare and p.words[i] in _IDIOMS):
            return
        if _TIME.fullmatch(p.words[i]):
            without = [c for c in self.tree.children[i] if p.deps[c] == "prep"]
        value = "" if p.words[i] in _EMPTY or p.pos[i] == "PRON" else self.phrases.value(i, without or ())
        if preposition and _ASIDE.fullmatch(f"{preposition} {value}".lower()):
            return
        is_denied = value.startswith("no ")
        is_place = any(p.deps[c] in _DETERMINERS for c in self.tree.children[i]) or p.pos[i] == "PROPN"
        yield Filler(
            preposition,
            extension,
            i,
            "" if value.lower() in _EMPTY_VALUES or _RATE.fullmatch(value) else value.removeprefix("no "),
            self.is_time(i) or not is_place,
            is_denied,
        )

    def is_time(self, i: int) -> bool:
        """Returns whether a noun names a time."""
        p = self.tree.parse
        return p.lemmas[i] in TIME_WORDS or p.words[i] in TIME_WORDS or bool(_TIME.fullmatch(p.words[i]))


# Facts that noun phrases state: `Ana Brandt, the lead of Basin,` and `my colleague Agathe`.

_CONFIDENCE = 0.8
_JOINED = re.compile(r"[\s,]*(?:and|or|&)\b")
_MAX_PLACES = 3  # town, state, country; more are a list
_FIRST_PERSON = re.compile(r"(?:my|our|your)\b", re.IGNORECASE)  # `my sister Ana` is a fact of who says it
_LABELS = frozenset({"name", "word", "title", "term", "number", "code"})
_POSSESSIVES = frozenset({"my", "his", "her", "its"})
_OWNER_PREPOSITIONS = frozenset({"of", "for", "at"})


@dataclass(frozen=True)
class NounFacts:
    """The facts of the noun phrases of a text."""

    tree: ClauseTree
    phrases: Phrases
    referents: Referents

    def facts(self) -> Iterator[Fact]:
        """Yields the facts of appositions and of nouns that have an owner and a name."""
        p = self.tree.parse
        yield from self._of_places()
        for i, dep in enumerate(p.deps):
            if dep == "appos":
                yield from self._of_apposition(p.heads[i], i)
            elif p.pos[i] == "NOUN" and dep in ("compound", "nmod") and i + 1 < len(p.words):
                yield from self._of_title(i)
            elif dep == "poss":
                yield from self._of_owned(i, p.heads[i])

    def _of_places(self) -> Iterator[Fact]:
        """Yields places followed by the place that they are in: `Ghent, Belgium`."""
        types, text = self.referents.named.types, self.phrases.text
        mentions = sorted((m.start, m.end, m.entity_id) for m in self.referents.named.mentions)
        chains: list[list[tuple[int, int, str]]] = []
        for place in (m for m in mentions if types.get(m[2]) == "place"):
            if chains and text[chains[-1][-1][1] : place[0]].split() == [","]:
                chains[-1].append(place)
            else:
                chains.append([place])
        for chain in chains:
            is_list = _JOINED.match(text, chain[-1][1]) or len(chain) > _MAX_PLACES
            for (start, _, inner), (_, end, outer) in pairwise([] if is_list else chain):
                if inner != outer:
                    yield Fact(inner, LOCATED_IN, outer, "", start, end, False, "stated", _CONFIDENCE)

    def owner(self, noun: int) -> str:
        """Returns the entity whose property a noun is: `Heron's deadline`, `the deadline of Heron`."""
        p = self.tree.parse
        for child in self.tree.children[noun]:
            if p.deps[child] == "poss" and (entity := self.referents.entity(child)):
                return entity
            if p.deps[child] == "prep" and p.words[child] in _OWNER_PREPOSITIONS:
                for below in self.tree.children[child]:
                    if p.deps[below] == "pobj" and (entity := self.referents.entity(below)):
                        return entity
        return ""

    def _of_apposition(self, noun: int, other: int) -> Iterator[Fact]:
        """Yields facts of `Ana, the lead of Basin` and `the lead of Basin, Ana`."""
        for named, kind in ((noun, other), (other, noun)):
            entity = self.referents.name(named)
            if not entity or self.referents.name(kind) or self.tree.parse.pos[kind] != "NOUN":
                continue
            if self.tree.parse.lemmas[kind] in _LABELS or "|" in self.tree.parse.words:  # a row of a table
                continue
            if kind > named and self._is_verb_form(kind):
                continue
            if kind < named and "ADP" in self.tree.parse.pos[kind:named]:
                continue
            yield from self._be(entity, kind, (noun, other))

    def _is_verb_form(self, noun: int) -> bool:
        """Returns whether a plural beside a name may be a verb: `Ana, whose mother sings, studies law`."""
        p = self.tree.parse
        return p.tags[noun] == "NNS" and not any(p.deps[c] in ("nummod", "det") for c in self.tree.children[noun])

    def _of_title(self, noun: int) -> Iterator[Fact]:
        """Yields what a noun right before a name states: `the geologist Ewart Lamming`."""
        p = self.tree.parse
        entity = self.referents.name(noun + 1)
        is_person = self.referents.named.types.get(entity) == "person"
        if not is_person or self.referents.name(noun) or self.referents.name(p.heads[noun]) != entity:
            return
        first = noun
        while first and p.deps[first - 1] in ("compound", "amod") and not self.referents.name(first - 1):
            first -= 1
        start, end = self.phrases.place([first, noun])
        place = self.phrases.place([first, p.heads[noun]])
        value = " ".join(self.phrases.text[start:end].split())
        yield Fact(entity, "be", "", value, *place, False, "stated", _CONFIDENCE)

    def _of_owned(self, owner: int, thing: int) -> Iterator[Fact]:
        """Yields facts of `my colleague Agathe` and `his Hotel Patience`."""
        p, entity = self.tree.parse, self.referents.entity(owner)
        if not entity:
            return
        place = self.phrases.place([owner, thing])
        names = [c for c in self.tree.children[thing] if p.deps[c] == "appos" and self.referents.name(c)]
        if p.pos[thing] == "NOUN" and names and not self.referents.name(thing):
            target = self.referents.name(names[0])
            if target != entity:
                place = self.phrases.place([owner, names[0]])
                yield Fact(entity, p.lemmas[thing], target, "", *place, False, "stated", _CONFIDENCE)
        elif (target := self.referents.name(thing)) and target != entity and p.words[owner] in _POSSESSIVES:
            yield Fact(entity, "have", target, "", *place, False, "stated", _CONFIDENCE)

    def _be(self, entity: str, noun: int, both: tuple[int, int]) -> Iterator[Fact]:
        p = self.tree.parse
        place = self.phrases.place(both)
        value, owner = self.phrases.value(noun), self.owner(noun)
        if value and not _FIRST_PERSON.match(value):
            yield Fact(entity, "be", "", value, *place, False, "stated", _CONFIDENCE)
        role = find_role(p.lemmas[noun])
        if role and owner and owner != entity and self.referents.may_have_role(entity, role):
            yield Fact(entity, role, owner, "", *place, False, "stated", _CONFIDENCE)


# Extracts facts from a parsed text: for each verb its subject and what fills it, where one of both is an entity.

_FACTUAL = {Modality.STATED: 0.9, Modality.PAST: 0.85, Modality.PLANNED: 0.7}
_REFERRED = 0.8  # of the confidence where a pronoun is resolved
_BE = "be"
_PLACING = frozenset({"in", "at", "into", "inside", "within"})  # of a thing, not of a person


def extract_facts(text: str, parse: Parse, named: Named) -> list[Fact]:
    """Returns the facts that a text states of the entities it names, sorted; each once, with its best confidence.

    Args:
        text: the text; only its beginning is parsed.
        parse: of the text.
        named: the entities of the memory; of two names that overlap the longer one counts.
    """
    best: dict[tuple[object, ...], Fact] = {}
    tree = ClauseTree(parse)
    phrases = Phrases(text, tree)
    referents = Referents(tree, phrases, named)
    for found in (_Extraction(tree, phrases, referents).facts(), NounFacts(tree, phrases, referents).facts()):
        for fact in found:
            key = fact.subject, fact.predicate, fact.object_entity, fact.value, fact.is_negated
            if key not in best or (fact.confidence, -fact.start) > (best[key].confidence, -best[key].start):
                best[key] = fact
    return sorted(best.values())


@dataclass(frozen=True)
class _Clause:
    """A clause whose facts are read."""

    head: int
    modality: Modality
    is_negated: bool
    is_passive: bool
    verb: str
    has_object: bool
    start: int
    end: int


@dataclass(frozen=True)
class _Extraction:
    tree: ClauseTree
    phrases: Phrases
    referents: Referents

    def facts(self) -> Iterator[Fact]:
        """Yields the facts of each clause, some twice."""
        for head in self.tree.heads:
            modality = self.tree.modality(head)
            subject = self.tree.subject(head)
            if modality not in _FACTUAL or subject < 0:
                continue
            start, end = self.phrases.place(self.tree.own(head))
            fillers = list(Fillers(self.tree, self.phrases).of_verb(head))
            clause = _Clause(
                head,
                modality,
                self.tree.is_negated(head),
                self.tree.is_passive(head),
                self.tree.verb(head),
                any(not f.preposition for f in fillers),
                start,
                end,
            )
            for token in self.tree.joined(subject) if self.tree.parse.deps[subject] in SUBJECTS else [subject]:
                yield from self._facts_of_subject(clause, token, fillers)

    def _facts_of_subject(self, clause: _Clause, subject: int, fillers: list[Filler]) -> Iterator[Fact]:
        is_own = self.tree.parse.deps[subject] in SUBJECTS | {"conj"}
        entity = self.referents.entity(subject) if is_own else self.referents.bearer(subject)
        factor = _REFERRED if self.referents.is_resolved(subject) else 1.0
        for filler in fillers:
            if entity:
                yield from self._facts_of_filler(clause, entity, filler, factor)
            elif clause.verb == _BE and not clause.is_passive and not (clause.has_object and filler.preposition):
                yield from self._facts_of_noun(clause, subject, filler)
            elif clause.is_passive and filler.preposition == "by" and (agent := self.referents.entity(filler.token)):
                name = find_predicate(clause.verb, "", is_passive=False).name
                yield from self._fact(clause, agent, name, "", self.phrases.value(subject), 1.0)

    def _facts_of_filler(self, clause: _Clause, entity: str, filler: Filler, factor: float) -> Iterator[Fact]:
        verb = " ".join((clause.verb, *filler.extension))
        predicate = find_predicate(verb, filler.preposition, clause.is_passive and not filler.extension, filler.is_time)
        target = self.referents.entity(filler.token)
        if target and filler.preposition in _PLACING and self.referents.is_person(target):
            return  # a list that goes on with another clause: `She leads support in Ghent, and Ravi sales`
        if predicate.is_inverse and target:
            yield from self._fact(clause, target, predicate.name, entity, "", factor)
        elif target or filler.value:
            name, value = self._name(clause, predicate, verb, filler, entity, target), "" if target else filler.value
            yield from self._fact(clause, entity, name, target, value, factor, filler.is_denied)
        if clause.verb == _BE and not filler.preposition and not target:
            yield from self._facts_of_role(clause, entity, filler.token, factor)

    def _name(self, clause: _Clause, predicate: Predicate, verb: str, filler: Filler, entity: str, target: str) -> str:
        """Returns a predicate.

        A person, and what is in an organisation or a person, is not `located_in` it; who opens a shop in May does not
        start then.
        """
        is_place = not self.referents.is_person(entity) and self.referents.may_be_place(target)
        is_of_object = predicate.name in TIMES and clause.has_object and not clause.is_passive
        if filler.is_adverb or predicate.is_inverse or (predicate.name == LOCATED_IN and not is_place) or is_of_object:
            return "_".join((*verb.split(), *filler.preposition.split()))
        return predicate.name

    def _facts_of_role(self, clause: _Clause, entity: str, noun: int, factor: float) -> Iterator[Fact]:
        """Yields what `Ana is the lead of Basin` states: that she leads it."""
        name, owner = find_role(self.tree.parse.lemmas[noun]), self._owner(noun)
        if name and owner and self.referents.may_have_role(entity, name):
            yield from self._fact(clause, entity, name, owner, "", factor)

    def _facts_of_noun(self, clause: _Clause, noun: int, filler: Filler) -> Iterator[Fact]:
        """Yields facts of `The deadline of Heron is 4 May` and `Its designer was Ana`."""
        p, owner = self.tree.parse, self._owner(noun) or self._topic_of(noun)
        if not owner or p.pos[noun] != "NOUN" or filler.extension:
            return
        target, name = self.referents.entity(filler.token), p.lemmas[noun]
        role = find_role(name)
        if role and target and not filler.preposition:
            yield from self._fact(clause, target, role, owner, "", 1.0)
        predicate = f"{name}_{filler.preposition}" if filler.preposition else name
        yield from self._fact(clause, owner, predicate, target, "" if target else filler.value, 1.0)

    def _topic_of(self, noun: int) -> str:
        """Returns what a passage is about where a noun with an article has no other owner: `The director was Ana`."""
        p, named = self.tree.parse, self.referents.named
        below = self.tree.children[noun]
        is_bare = {p.deps[c] for c in below} <= {"det", "amod"} and any(p.words[c] == "the" for c in below)
        return named.topic if named.is_page and is_bare and is_property(p.lemmas[noun]) else ""

    def _owner(self, noun: int) -> str:
        return NounFacts(self.tree, self.phrases, self.referents).owner(noun)

    def _fact(
        self,
        clause: _Clause,
        subject: str,
        predicate: str,
        target: str,
        value: str,
        factor: float,
        is_denied: bool = False,
    ) -> Iterator[Fact]:
        if target == subject or not (target or value) or not predicate:
            return
        confidence = round(_FACTUAL[clause.modality] * factor, 3)
        place = clause.start, clause.end
        yield Fact(
            subject, predicate, target, value, *place, clause.is_negated != is_denied, clause.modality.value, confidence
        )
