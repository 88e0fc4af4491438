"""Extracts facts from a parsed text: for each verb its subject and what fills it, where one of both is an entity.

The syntax is that of the labels' parser; entities are where the build found their names. A fact is what one clause
states with a predicate of the vocabulary: nothing is concluded, and a clause that states none of them is no fact.
Clauses are read as ClausIE reads them (Del Corro and Gemulla, 2013).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from palimpsest.facts.clause_tree import SUBJECTS, ClauseTree, Modality, Phrases
from palimpsest.facts.fact import Fact, Named
from palimpsest.facts.fillers import Filler, Fillers
from palimpsest.facts.referents import Referents
from palimpsest.facts.vocabulary import DATES, IS_A, Filling, Predicate, fits, is_occupation, of_noun, of_verb
from palimpsest.text.parse import Parse

# Facts that noun phrases state: `Ana Brandt, the lead of Basin,`, `my colleague Agathe`, `Ghent, Belgium`.

_CONFIDENCE = 0.8
_JOINED = re.compile(r"[\s,]*(?:and|or|&)\b")
_MAX_PLACES = 3  # town, state, country; more are a list
_FIRST_PERSON = re.compile(r"(?:my|our|your)\b", re.IGNORECASE)  # `my sister Ana` is a fact of who says it
_LABELS = frozenset({"name", "word", "title", "term", "number", "code"})
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
        yield Fact(entity, IS_A, "", value, *place, False, "stated", _CONFIDENCE)

    def _of_owned(self, owner: int, thing: int) -> Iterator[Fact]:
        """Yields facts of `my sister Ana`, `Ana's dog Rex` and `my job at Acme`."""
        p, entity = self.tree.parse, self.referents.entity(owner)
        is_lost = p.lemmas[p.heads[thing]] in _LOSING
        around = (*self.tree.children[thing], *(self.tree.children[p.heads[thing]] if is_lost else ()))
        for c in around if entity and p.lemmas[thing] in _PLACE_OF else ():
            for below in self.tree.children[c] if p.words[c] in ("at", "with") else ():
                target, name = self.referents.name(below), _PLACE_OF[p.lemmas[thing]]
                if target and self.referents.suits(entity, name, self.referents.filling(target)):
                    place = self.phrases.place([owner, below])
                    yield Fact(entity, name, target, "", *place, False, ENDED if is_lost else "stated", _CONFIDENCE)
        names = [c for c in self.tree.children[thing] if p.deps[c] == "appos" and self.referents.name(c)]
        if not entity or p.pos[thing] != "NOUN" or not names or self.referents.name(thing):
            return
        target, place = self.referents.name(names[0]), self.phrases.place([owner, names[0]])
        yield from self.of_noun(p.lemmas[thing], entity, target, place, _CONFIDENCE)

    def of_noun(self, noun: str, owner: str, named: str, place: tuple[int, int], confidence: float) -> Iterator[Fact]:
        """Yields what `the noun of owner is named` states."""
        predicate = of_noun(noun)
        if predicate is None or not owner or not named or owner == named:
            return
        subject, target = (named, owner) if predicate.is_inverse else (owner, named)
        if self.referents.suits(subject, predicate.name, self.referents.filling(target)):
            yield Fact(subject, predicate.name, target, "", *place, False, "stated", confidence)

    def _be(self, entity: str, noun: int, both: tuple[int, int]) -> Iterator[Fact]:
        place = self.phrases.place(both)
        value, owner = self.phrases.value(noun), self.owner(noun)
        if value and not _FIRST_PERSON.match(value):
            yield Fact(entity, IS_A, "", value, *place, False, "stated", _CONFIDENCE)
        yield from self.of_noun(self.tree.parse.lemmas[noun], owner, entity, place, _CONFIDENCE)


_FACTUAL = {Modality.STATED: 0.9, Modality.PAST: 0.85, Modality.PLANNED: 0.7}
_REFERRED = 0.8  # of the confidence where a pronoun is resolved
_BE, _HAVE = "be", "have"
LOCATED_IN = "located_in"
_STATES_WORDS = """
be live reside work own possess like love enjoy adore hate detest dislike loathe prefer use rely play speak
manage head chair depend need require belong have drive lie stand base locate
"""
_STATES = frozenset(_STATES_WORDS.split())
"""Verbs of what lasts: in the past tense they say what was so, others what has come about."""
_ENDING = frozenset(
    {"leave", "quit", "leave from", "resign from", "retire from", "sell", "give up", "break up with", "divorce"}
)
"""Verbs, with their preposition, after which what was stated of their subject and what fills them is so no longer."""
ENDED = "ended"
"""Modality of a fact that is so no longer, without a predicate where any of the two ends."""
_HANDED_OVER = frozenset({"take over"})
_OF_ADJECTIVE = {
    ("allergic", "to"): "allergic_to",
    ("married", "to"): "married_to",
    ("engaged", "to"): "engaged_to",
    ("afraid", "of"): "afraid_of",
    ("scared", "of"): "afraid_of",
    ("interested", "in"): "interested_in",
    ("fond", "of"): "likes",
    ("fan", "of"): "likes",
    **{("due", p): "due" for p in ("on", "by", "in")},
}
_BUSINESS = frozenset(
    {
        "store",
        "shop",
        "studio",
        "school",
        "farm",
        "business",
        "company",
        "cafe",
        "restaurant",
        "bakery",
        "gallery",
        "bar",
    }
)
_OPENING = frozenset({"open", "start", "launch", "run", "found"})
_PLACE_OF = {
    **dict.fromkeys(("job", "position", "internship"), "works_for"),
    **dict.fromkeys(
        ("degree", "undergrad", "bachelor", "master", "phd", "doctorate", "study", "semester"), "studied_at"
    ),
}
"""What somebody has at an organisation, and what it says: `my job at Acme`."""
_CHANGING = frozenset(
    {"move", "change", "shift", "slip", "rise", "increase", "fall", "drop", "grow", "go up", "extend"}
)
_LOSING = frozenset({"lose", "quit", "leave"})
_HAD = frozenset({"has_pet", "parent_of", "sibling_of"})
"""What somebody who has it has: `I have a dog`."""
_SHARED = frozenset({"lives_in", "has_pet", "parent_of", "owns", "drives", "uses"})
"""What holds for who says `we`, too."""
_TASTES = frozenset({"likes", "dislikes"})
_GENERAL = frozenset({"a", "an", "this", "that", "these", "those", "any", "each", "every", "no", "some"})
_WE = frozenset({"we", "us", "our", "ours"})
_OLD = re.compile(r"(\d{1,3}) years? old")


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
    nouns = NounFacts(tree, phrases, referents)
    for found in (_Extraction(tree, phrases, referents, nouns).facts(), nouns.facts()):
        for fact in found:
            key = fact.subject, fact.predicate, fact.object_entity, fact.value, fact.modality == ENDED
            if key not in best or (fact.confidence, -fact.start) > (best[key].confidence, -best[key].start):
                best[key] = fact
    return sorted(best.values())


@dataclass(frozen=True)
class _Clause:
    """A clause whose facts are read.

    Attributes:
        head: its verb.
        modality: of the facts that it states.
        is_over: whether it says that something is so no longer: `no longer works at`.
        is_passive: whether something is done to its subject.
        verb: its lemma with its particle.
        start, end: in characters of the text.
    """

    head: int
    modality: Modality
    is_over: bool
    is_passive: bool
    verb: str
    start: int
    end: int


@dataclass(frozen=True)
class _Extraction:
    tree: ClauseTree
    phrases: Phrases
    referents: Referents
    nouns: NounFacts

    def facts(self) -> Iterator[Fact]:
        """Yields the facts of each clause, some twice."""
        for head in self.tree.heads:
            modality, subject = self.tree.modality(head), self.tree.subject(head)
            is_over = self._is_over(head)
            if modality is Modality.WISHED and self._prefers(head):
                modality = Modality.STATED
            if modality not in _FACTUAL or subject < 0 or (self.tree.is_negated(head) and not is_over):
                continue
            place = self.phrases.place(self.tree.own(head))
            yield from self._of_status(head, subject, place)
            clause = _Clause(head, modality, is_over, self.tree.is_passive(head), self.tree.verb(head), *place)
            fillers = [f for f in Fillers(self.tree, self.phrases).of_verb(head) if not f.is_denied]
            is_planned = modality is Modality.PLANNED
            for token in self.tree.joined(subject) if self.tree.parse.deps[subject] in SUBJECTS else [subject]:
                for filler in fillers:
                    found = self._facts_of_filler(clause, token, filler)
                    yield from (f for f in found if not is_planned or f.predicate in DATES)

    def _is_general(self, subject: int) -> bool:
        """Returns whether a name is used as a word for a kind of things: `this APE`, `the API`, `CRDs`."""
        p = self.tree.parse
        if not (entity := self.referents.name(subject)):
            return False
        kind = self.referents.named.types.get(entity, "")
        before = {p.words[c] for c in self.tree.children[subject] if p.deps[c] == "det"}
        is_plural = kind == "acronym" and p.tags[subject] in ("NNS", "NNPS")
        return not before.isdisjoint(_GENERAL) or (kind == "acronym" and "the" in before) or is_plural

    def _prefers(self, head: int) -> bool:
        """Returns whether a verb says what somebody prefers as a rule, not what they would rather have now."""
        p = self.tree.parse
        return p.lemmas[head] == "prefer" and not any(p.deps[c] == "aux" for c in self.tree.children[head])

    def _of_status(self, head: int, subject: int, place: tuple[int, int]) -> Iterator[Fact]:
        """Yields what a participle without an agent says of a thing: `Heron is deprecated`."""
        p, entity = self.tree.parse, self.referents.entity(subject)
        is_state = any(p.deps[c] == "auxpass" and p.tags[c] in ("VBZ", "VBP") for c in self.tree.children[head])
        is_main = p.deps[head] in ("ROOT", "conj", "ccomp", "parataxis") and not self._is_general(subject)
        is_main &= not any(p.deps[c] in ("xcomp", "ccomp") for c in self.tree.children[head])  # `is proposed to use`
        if entity and is_main and is_state and not any(p.deps[c] == "agent" for c in self.tree.children[head]):
            filling = Filling(p.words[head], "", is_name=False, is_time=False)
            if self.referents.suits(entity, "status", filling):
                yield Fact(entity, "status", "", p.words[head], *place, False, "stated", _CONFIDENCE)

    def _is_over(self, head: int) -> bool:
        """Returns whether a denied clause says that something was so: `no longer`, `not any more`."""
        p = self.tree.parse
        words = [p.words[j] for c in self.tree.children[head] for j in (c, *self.tree.children[c])]
        return self.tree.is_negated(head) and not {"longer", "anymore", "more"}.isdisjoint(words)

    def _facts_of_filler(self, clause: _Clause, subject: int, filler: Filler) -> Iterator[Fact]:
        p = self.tree.parse
        is_own = p.deps[subject] in SUBJECTS | {"conj"}
        entity = self.referents.entity(subject) if is_own else self.referents.bearer(subject)
        if self._is_general(subject) or self._is_lost_job(clause, filler):
            return
        if entity:
            for fact in self._of_entity(clause, entity, filler):
                if p.words[subject] not in _WE or fact.predicate in _SHARED:
                    factor = _REFERRED if self.referents.is_resolved(subject) else 1.0
                    yield replace(fact, confidence=round(fact.confidence * factor, 3))
        elif not clause.is_passive and self._says_value(clause, filler):
            yield from self._of_property(clause, subject, filler)
        elif predicate := of_verb(clause.verb, filler.preposition, is_passive=clause.is_passive):
            yield from self._of_possession(clause, subject, predicate, filler)

    def _says_value(self, clause: _Clause, filler: Filler) -> bool:
        """Returns whether a clause says what its subject is, or is now: `the deadline moved to 7 May`."""
        return (clause.verb, filler.preposition) == (_BE, "") or (
            clause.verb in _CHANGING and filler.preposition == "to"
        )

    def _is_lost_job(self, clause: _Clause, filler: Filler) -> bool:
        return clause.verb in _LOSING and self.tree.parse.lemmas[filler.token] in _PLACE_OF

    def _of_entity(self, clause: _Clause, entity: str, filler: Filler) -> Iterator[Fact]:
        """Yields what a clause with an entity as subject states."""
        if clause.verb == _BE and not filler.preposition and not clause.is_passive:
            yield from self._of_being(clause, entity, filler)
        elif clause.verb == _BE and (name := self._of_adjective(clause.head, filler.preposition)):
            yield from self._fact(clause, entity, name, filler)
        elif clause.verb == _HAVE:
            noun = of_noun(self.tree.parse.lemmas[filler.token])
            if noun is not None and noun.name in _HAD and not filler.preposition:
                yield from self._fact(clause, entity, noun.name, filler)
        elif clause.verb in _OPENING and not filler.preposition and self.tree.parse.lemmas[filler.token] in _BUSINESS:
            yield from self._fact(clause, entity, "owns", filler)
        elif f"{clause.verb} {filler.preposition}".strip() in _ENDING:
            target = self.referents.entity(filler.token)
            if target or filler.value:
                yield self._make(clause, entity, "", target, "" if target else filler.value, ENDED)
        elif predicate := of_verb(clause.verb, filler.preposition, is_passive=clause.is_passive):
            yield from self._of_predicate(clause, entity, predicate, filler)

    def _of_predicate(self, clause: _Clause, entity: str, predicate: Predicate, filler: Filler) -> Iterator[Fact]:
        target = self.referents.entity(filler.token)
        if predicate.name == LOCATED_IN and self.referents.is_person(entity):
            predicate = Predicate("member_of")  # `Alma is on the Payments team`
            if "team" not in self.referents.filling("", filler).kinds:
                return
        if not predicate.is_inverse:
            yield from self._fact(clause, entity, predicate.name, filler)
        elif (
            target and target != entity and self.referents.suits(target, predicate.name, self.referents.filling(entity))
        ):
            yield self._make(clause, target, predicate.name, entity, "")
        if clause.verb in _HANDED_OVER and target and not filler.preposition:
            for other in self._behind(filler.token, clause.head, "from"):
                yield self._make(clause, other, predicate.name, target, "", ENDED)

    def _behind(self, noun: int, verb: int, preposition: str) -> Iterator[str]:
        """Yields the entities behind a preposition of a verb or of its object."""
        p = self.tree.parse
        for c in (*self.tree.children[noun], *self.tree.children[verb]):
            if p.deps[c] == "prep" and p.words[c] == preposition:
                yield from (e for b in self.tree.children[c] if p.deps[b] == "pobj" and (e := self.referents.entity(b)))

    def _of_adjective(self, head: int, preposition: str) -> str:
        """Returns the predicate of `due on`, empty for other adjectives."""
        p = self.tree.parse
        adjectives = [p.lemmas[c] for c in self.tree.children[head] if p.deps[c] == "acomp"]
        return next((n for a in adjectives if (n := _OF_ADJECTIVE.get((a, preposition)))), "")

    def _fillers_behind(self, word: int, preposition: str) -> Iterator[Filler]:
        """Yields what fills a preposition of an adjective: `allergic to nuts`."""
        p, fillers = self.tree.parse, Fillers(self.tree, self.phrases)
        for c in self.tree.children[word]:
            if p.deps[c] == "prep" and p.words[c] == preposition:
                yield from fillers.behind(c)

    def _of_being(self, clause: _Clause, entity: str, filler: Filler) -> Iterator[Fact]:
        """Yields what something is said to be: a diet, a status, an age, a role, a kind of thing."""
        p, noun = self.tree.parse, filler.token
        if old := _OLD.search(filler.value):
            yield self._make(clause, entity, "age", "", old[1])
            return
        for name in ("diet", "status"):
            yield from self._fact(clause, entity, name, filler)
        if is_occupation(filler.value) and self.referents.is_person(entity):
            yield self._make(clause, entity, "works_as", "", filler.value)
        for (adjective, preposition), name in _OF_ADJECTIVE.items():
            if p.lemmas[noun] == adjective:
                for below in self._fillers_behind(noun, preposition):
                    yield from self._fact(clause, entity, name, below)
        place, owner = (clause.start, clause.end), self.nouns.owner(noun)
        yield from self.nouns.of_noun(p.lemmas[noun], owner, entity, place, _FACTUAL[clause.modality])
        if filler.value and p.pos[noun] in ("NOUN", "PROPN") and not _FIRST_PERSON.match(filler.value):
            yield self._make(clause, entity, IS_A, "", filler.value)

    def _of_property(self, clause: _Clause, noun: int, filler: Filler) -> Iterator[Fact]:
        """Yields facts of `The deadline of Heron is 4 May` and `My favourite editor is Vim`."""
        p, owner = self.tree.parse, self.nouns.owner(noun) or self._topic_of(noun)
        kinds = [p.words[c] for c in self.tree.children[noun] if p.deps[c] == "compound"]
        predicate = next((found for n in (*kinds, p.lemmas[noun]) if (found := of_noun(n))), None)
        favourite = next((p.words[c] for c in self.tree.children[noun] if p.words[c] in ("favourite", "favorite")), "")
        if not owner or p.pos[noun] != "NOUN":
            return
        if favourite and filler.value:
            yield self._make(clause, owner, "favourite", "", f"{p.lemmas[noun]}: {filler.value}")
        elif predicate is not None and (target := self.referents.entity(filler.token)):
            yield from self.nouns.of_noun(
                p.lemmas[noun], owner, target, (clause.start, clause.end), _FACTUAL[clause.modality]
            )
        elif predicate is not None and not predicate.is_inverse:
            yield from self._fact(clause, owner, predicate.name, filler)

    def _of_possession(self, clause: _Clause, noun: int, predicate: Predicate, filler: Filler) -> Iterator[Fact]:
        """Yields when something that somebody has ends: `My passport expires in June 2027`."""
        p, owner = self.tree.parse, self.nouns.owner(noun)
        is_own = owner and p.pos[noun] == "NOUN" and self.referents.is_person(owner)
        if predicate.name == "ends" and is_own and fits("expiry_of", self.referents.filling("", filler)):
            yield self._make(clause, owner, "expiry_of", "", f"{p.words[noun]}: {filler.value}")

    def _topic_of(self, noun: int) -> str:
        """Returns what a passage is about where a noun with an article has no other owner: `The director was Ana`."""
        p, named = self.tree.parse, self.referents.named
        below = self.tree.children[noun]
        is_bare = {p.deps[c] for c in below} <= {"det", "amod"} and any(p.words[c] == "the" for c in below)
        return named.topic if named.is_page and is_bare and of_noun(p.lemmas[noun]) else ""

    def _fact(self, clause: _Clause, subject: str, predicate: str, filler: Filler) -> Iterator[Fact]:
        """Yields a fact where the filler is what the predicate takes."""
        target = self.referents.entity(filler.token)
        filling = self.referents.filling(target, filler)
        if predicate == LOCATED_IN and clause.verb == _BE and filling.kind != "place" and not clause.is_passive:
            return  # `the tram is on Grit Lane`, and not `the twins are in Part II`
        if predicate in _TASTES and (
            clause.modality is Modality.PAST or filling.text.lower().startswith(("a ", "an "))
        ):
            return  # what somebody enjoyed once
        if target != subject and (target or filler.value) and self.referents.suits(subject, predicate, filling):
            yield self._make(clause, subject, predicate, target, "" if target else filler.value)

    def _make(self, clause: _Clause, subject: str, predicate: str, target: str, value: str, modality: str = "") -> Fact:
        past = clause.modality is Modality.PAST and clause.verb in _STATES
        said = "planned" if clause.modality is Modality.PLANNED else "past" if past else "stated"
        how = modality or (ENDED if clause.is_over else said)
        return Fact(subject, predicate, target, value, clause.start, clause.end, False, how, _FACTUAL[clause.modality])
