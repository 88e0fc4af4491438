"""Facts that noun phrases state: `Ana Brandt, the lead of Basin,` and `my colleague Agathe`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from palimpsest.facts.clause_tree import ClauseTree
from palimpsest.facts.fact import Fact
from palimpsest.facts.phrases import Phrases
from palimpsest.facts.predicates import LOCATED_IN, find_role
from palimpsest.facts.referents import Referents

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
