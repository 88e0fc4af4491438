"""Extracts facts from a parsed text: for each verb its subject and what fills it, where one of both is an entity.

The syntax is that of the labels' parser; entities are where the build found their names. A fact is the words of one
clause: nothing is concluded. Open information extraction by clauses follows ClausIE (Del Corro and Gemulla, 2013),
restricted to clauses about entities.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from palimpsest.facts.clause_tree import SUBJECTS, ClauseTree, Modality
from palimpsest.facts.fact import Fact, Named
from palimpsest.facts.fillers import Filler, Fillers
from palimpsest.facts.noun_facts import NounFacts
from palimpsest.facts.phrases import Phrases
from palimpsest.facts.predicates import LOCATED_IN, TIMES, Predicate, find_predicate, find_role, is_property
from palimpsest.facts.referents import Referents
from palimpsest.text.parse import Parse

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
