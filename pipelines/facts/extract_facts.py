"""Extracts facts from a parsed text: for each verb its subject and what fills it, where one of both is an entity.

The syntax is that of the labels' parser; entities are where the build found their names. A fact is the words of one
clause: nothing is concluded. `I` is the speaker, `it`, `he` and `she` the subject of the clause before, else what the
passage is about. Open information extraction by clauses follows ClausIE (Del Corro
and Gemulla, 2013), restricted to clauses about entities.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from palimpsest.facts.fact import Fact, Named
from palimpsest.facts.predicates import find_predicate
from palimpsest.relations.classify.features.parse import MAX_PARSED_CHARACTERS, Parse
from palimpsest.relations.classify.statements.read_statements import Clauses
from palimpsest.relations.classify.statements.statement import Modality

MAX_VALUE_CHARS = 120
_FACTUAL = {Modality.STATED: 0.9, Modality.PAST: 0.85, Modality.PLANNED: 0.7}
_OBJECTS = frozenset({"dobj", "attr", "oprd", "dative"})
_SUBJECTS = frozenset({"nsubj", "nsubjpass"})
_RELATIVE = frozenset({"which", "who", "that", "whom", "whose", "it", "they", "he", "she", "this", "there", "what"})
_FIRST_PERSON, _THIRD_PERSON = frozenset({"i"}), frozenset({"it", "he", "she"})
_NO_PERSONS = frozenset({"place", "organisation", "code", "acronym", "product"})
_REFERRED = 0.8  # of the confidence where a pronoun is resolved
_BE = "be"


def extract_facts(text: str, parse: Parse, named: Named) -> list[Fact]:
    """Returns the facts that a text states of the entities it names, sorted.

    Args:
        text: the text; only its beginning is parsed.
        parse: of the text.
        named: the entities of the memory; of two names that overlap the longer one counts.
    """
    return sorted(set(_Extraction(text, parse, named).facts()))


@dataclass(frozen=True)
class _Extraction:
    text: str
    parse: Parse
    named: Named

    def facts(self) -> Iterator[Fact]:
        """Yields the facts of each clause, some twice."""
        for head in self._clauses.heads:
            if self.parse.pos[head] in ("VERB", "AUX"):
                yield from self._facts_of_clause(head)

    @cached_property
    def _referents(self) -> dict[int, str]:
        """The entity that each pronoun that is a subject refers to, by its token."""
        p, found, last = self.parse, dict[int, str](), ""
        for i in sorted(i for i, dep in enumerate(p.deps) if dep in _SUBJECTS):
            if p.words[i] in _FIRST_PERSON:
                entity = self.named.speaker
            elif p.words[i] in _THIRD_PERSON:
                entity = next((e for e in (last, self.named.topic) if e and self._fits(p.words[i], e)), "")
            else:
                last = self._named(i) or ""
                continue
            if entity:
                found[i] = entity
        return found

    def _fits(self, pronoun: str, entity: str) -> bool:
        kind = self.named.types.get(entity, "")
        return kind != "person" if pronoun == "it" else kind not in _NO_PERSONS

    @cached_property
    def _clauses(self) -> Clauses:
        return Clauses(self.parse)

    def _facts_of_clause(self, head: int) -> Iterator[Fact]:
        p, own = self.parse, self._clauses.own_tokens(head)
        modality = self._clauses.modality(head, own, is_changed=False)
        subject = self._clauses.subject_head(head)
        if modality not in _FACTUAL or subject < 0 or p.deps[subject] not in _SUBJECTS:
            return
        is_passive = any(p.deps[c] == "auxpass" for c in self._clauses.children[head])
        is_negated = any(p.deps[c] == "neg" for c in self._clauses.children[head]) or "never" in {
            p.words[c] for c in self._clauses.children[head]
        }
        verb = p.lemmas[head]
        start, end = self._place(own)
        confidence = round(_FACTUAL[modality] * (_REFERRED if subject in self._referents else 1.0), 3)
        for preposition, filler in self._fillers(head):
            for owner, name, is_inverse in self._subjects(subject, verb, preposition, is_passive):
                target = self._entity(filler) or ""
                value = "" if target else self._phrase(filler)
                if is_inverse:
                    if not target:
                        continue
                    owner, target = target, owner
                if target == owner or not (target or value):
                    continue
                yield Fact(owner, name, target, value, start, end, is_negated, modality.value, confidence)

    def _subjects(self, subject: int, verb: str, preposition: str, is_passive: bool) -> Iterator[tuple[str, str, bool]]:
        """Yields (entity, predicate, is inverse): the subject itself, or what it is the deadline or the owner of."""
        p = self.parse
        if (entity := self._entity(subject)) is not None:
            predicate = find_predicate(verb, preposition, is_passive)
            yield entity, predicate.name, predicate.is_inverse
        elif verb == _BE and p.pos[subject] == "NOUN" and (entity := self._owner(subject)) is not None:
            noun = p.lemmas[subject]
            yield entity, f"{noun}_{preposition}" if preposition else noun, False

    def _owner(self, noun: int) -> str | None:
        """Returns the entity whose property a noun is: `Heron's deadline`, `the deadline of Heron`."""
        p = self.parse
        for child in self._clauses.children[noun]:
            if p.deps[child] == "poss" and (entity := self._entity(child)):
                return entity
            if p.deps[child] == "prep" and p.words[child] in ("of", "for"):
                for below in self._clauses.children[child]:
                    if p.deps[below] == "pobj" and (entity := self._entity(below)):
                        return entity
        return None

    def _fillers(self, head: int) -> Iterator[tuple[str, int]]:
        """Yields (preposition, token) of what fills a verb, joined ones too."""
        p = self.parse
        for child in self._clauses.children[head]:
            if p.deps[child] in _OBJECTS:
                yield from (("", i) for i in self._joined(child))
            elif p.deps[child] in ("prep", "agent"):
                for below in self._clauses.children[child]:
                    if p.deps[below] == "pobj":
                        yield from ((p.words[child], i) for i in self._joined(below))

    def _joined(self, i: int) -> Iterator[int]:
        if self.parse.words[i] in _RELATIVE:
            return
        yield i
        for child in self._clauses.children[i]:
            if self.parse.deps[child] == "conj":
                yield from self._joined(child)

    def _entity(self, i: int) -> str | None:
        """Returns the entity whose name token i is in, or that it refers to."""
        return self._referents.get(i) or self._named(i)

    def _named(self, i: int) -> str | None:
        at = self._offset(self.parse.starts[i])
        inside = [m for m in self.named.mentions if m.start <= at < m.end]
        return max(inside, key=lambda m: (m.end - m.start, m.entity_id)).entity_id if inside else None

    def _phrase(self, i: int) -> str:
        """Returns the words of a value, without what is joined to it and clauses about it."""
        p = self.parse
        cut = {
            j
            for c in self._clauses.children[i]
            if p.deps[c] in ("conj", "cc", "relcl", "appos", "punct", "advcl")
            for j in p.subtree(c)
        }
        start, end = self._place(frozenset(p.subtree(i) - cut))
        phrase = " ".join(self.text[start:end].split())
        return phrase if len(phrase) <= MAX_VALUE_CHARS else ""

    def _place(self, tokens: frozenset[int]) -> tuple[int, int]:
        """Returns the span of tokens in characters of the text."""
        last = max(tokens)
        starts = self.parse.starts
        return self._offset(starts[min(tokens)]), self._offset(starts[last] + len(self.parse.words[last]) - 1) + 1

    def _offset(self, parsed: int) -> int:
        """Returns the place in the text of a place in what was parsed, which has single spaces."""
        begins, at = self._words
        word = bisect_right(begins, parsed) - 1
        return at[word] + parsed - begins[word]

    @cached_property
    def _words(self) -> tuple[list[int], list[int]]:
        """Where each word begins in what was parsed, and in the text."""
        begins, at, place, parsed = list[int](), list[int](), 0, 0
        for word in self.text[:MAX_PARSED_CHARACTERS].split():
            place = self.text.index(word, place)
            begins.append(parsed)
            at.append(place)
            parsed += len(word) + 1
            place += len(word)
        return begins or [0], at or [0]
