"""The entity that each token means: a name, a pronoun, or a noun that says what the passage is about.

`I` is the speaker; `he` and `she` the last person that was a subject, else whom the passage is about; `it` the subject
before, else what the passage is about. `The hut` is the Stair Hut, and `the book` is what was stated to be one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from palimpsest.facts.clause_tree import SUBJECTS, ClauseTree, Phrases
from palimpsest.facts.fact import Named
from palimpsest.facts.fillers import TIME_WORDS, Filler
from palimpsest.facts.vocabulary import Filling, fits, may_have

_FIRST = frozenset({"i", "me", "my", "mine", "myself", "we", "us", "our", "ours"})
# Where the parser may find one of them; it reads `Im` and `Ive` as two words each.
_FIRST_PERSON = re.compile(
    r"(?<![^\W\d_])(?:i(?:m|ma|d|dve|ve|llve)?|me|my|mine|myself|we(?:re|ve|ll|d|dve|llve)?|us|ours?)(?![^\W\d_])",
    re.IGNORECASE,
)
_PERSON = frozenset({"he", "him", "his", "she", "her", "hers"})
_THING = frozenset({"it", "its"})
_RELATIVE = frozenset({"who", "which", "that"})
_PLACE_NOUNS = frozenset(
    {"town", "city", "village", "district", "county", "province", "region", "island", "river", "lake", "state", "port"}
)
_WEEKDAYS = frozenset({"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"})
_JOINING = re.compile(r"\b(?:and|for|of|on|with|to|in)\b")
_PAGES = frozenset({"page", "document", "policy", "agreement", "contract", "runbook", "handbook", "guide"})
_NOTE = re.compile(r"[,:]|\d{4}")  # in the title of a note or of minutes, which is no thing that `it` could be
_GENERAL = frozenset({"book", "work", "novel", "building", "incident", "project", "village", "town", "club", "company"})
_EMPTY_VERBS = frozenset({"be", "seem", "appear", "take", "happen", "rain", "snow", "mean", "follow"})
_ADVISING = frozenset(
    [
        "recommend",
        "advise",
        "suggest",
        "decide",
        "agree",
        "plan",
        "expect",
        "hope",
        "know",
        "think",
        "say",
        "believe",
        "forbid",
    ]
)
_EMPTY_IT = frozenset({"that", "to"})


def may_refer(text: str, named: Named) -> bool:
    """Returns whether a token of a text may mean an entity; where none may, the text states no facts of any."""
    about = named.mentions or named.topic or named.antecedent
    return bool(about or (named.speaker and _FIRST_PERSON.search(text)))


def _is_note(title: str) -> bool:
    """Returns whether a title names a text and not a thing: `Minutes, 4 May`, `Keys and access`."""
    is_name = all(w[0].isupper() for w in title.split() if not _JOINING.fullmatch(w) and w != "the")
    return bool(_NOTE.search(title)) or (bool(_JOINING.search(title)) and not is_name)


@dataclass(frozen=True)
class Referents:
    """What the tokens of a text mean.

    Attributes:
        tree: the clauses.
        phrases: of the text.
        named: the entities of the text.
    """

    tree: ClauseTree
    phrases: Phrases
    named: Named

    def entity(self, i: int) -> str:
        """Returns the id of the entity that token i means, empty where it means none."""
        return self.name(i) or self._pronouns.get(i, "") or self._renamed(i) or self._definite(i)

    def is_person(self, entity: str) -> bool:
        """Returns whether an entity is a person: by its type, or because the text calls it `he` or `she`."""
        return self._is_person(entity) or entity in self._persons

    def filling(self, entity: str, filler: Filler | None = None) -> Filling:
        """Returns what an entity, or what fills a clause, is to a predicate."""
        kind = "person" if entity and self.is_person(entity) else self.named.types.get(entity, "")
        is_name = bool(entity) or (filler is not None and self.tree.parse.pos[filler.token] == "PROPN")
        is_time = filler is not None and not entity and self.tree.parse.lemmas[filler.token] in TIME_WORDS
        return Filling(filler.value if filler else "", kind, is_name, is_time)

    def suits(self, subject: str, predicate: str, filling: Filling) -> bool:
        """Returns whether a predicate may be stated of a subject, with what fills it."""
        kind = "person" if self.is_person(subject) else self.named.types.get(subject, "")
        return may_have(kind, predicate) and fits(predicate, filling)

    @cached_property
    def _persons(self) -> frozenset[str]:
        words = self.tree.parse.words
        return frozenset(entity for i, entity in self._pronouns.items() if words[i] in _PERSON | _FIRST)

    def is_resolved(self, i: int) -> bool:
        """Returns whether the entity of token i is not named by it."""
        return not self.name(i)

    def name(self, i: int) -> str:
        """Returns the entity in whose name token i is; of two names that overlap the longer one counts."""
        at = self.phrases.offset(i)
        if self.tree.parse.words[i].removesuffix("s") in _WEEKDAYS:
            return ""
        inside = [m for m in self.named.mentions if m.start <= at < m.end]
        return max(inside, key=lambda m: (m.end - m.start, m.entity_id)).entity_id if inside else ""

    def _renamed(self, i: int) -> str:
        """Returns the name beside or in a noun phrase: `the painter Ana`, `its keeper, Ned`, `the town of Ghent`."""
        p = self.tree.parse
        for c in self.tree.children[i]:
            is_kind = any(
                p.words[b] in ("a", "an") for b in self.tree.children[c]
            )  # `two dogs, a Golden Retriever and`
            is_beside = p.deps[c] == "appos" and "ADP" not in p.pos[i:c] and not is_kind
            if is_beside and p.pos[i] == "NOUN" and (found := self.name(c)):
                return found
            if p.deps[c] == "prep" and p.words[c] == "of" and p.lemmas[i] in _PLACE_NOUNS:
                for below in self.tree.children[c]:
                    if p.deps[below] == "pobj" and (found := self.name(below)):
                        return found
        return ""

    def bearer(self, i: int) -> str:
        """Returns the entity that a noun is said of: `class` in `The Heron is a class` is said of the Heron."""
        if found := self.entity(i):
            return found
        p = self.tree.parse
        if p.deps[i] == "attr" and (subject := self.tree.subject(p.heads[i])) >= 0:
            return self.entity(subject)
        if p.deps[i] == "appos":
            return self.entity(p.heads[i])
        if p.deps[i] == "conj" and p.heads[i] != i:
            return self.bearer(p.heads[i]) if p.deps[p.heads[i]] in ("attr", "appos") else ""
        return ""

    @cached_property
    def _pronouns(self) -> dict[int, str]:
        """The entity of each pronoun, by its token."""
        p, found, last, person, mentioned = self.tree.parse, dict[int, str](), "", "", ""
        for i, word in enumerate(p.words):
            entity = ""
            if word in _FIRST:
                entity = self.named.speaker
            elif word in _PERSON:
                entity = self._person(i, person, mentioned)
            elif word in _THING and not self._is_empty(i):
                entity = next((e for e in (last, self._antecedent(i)) if e and self._may_be(e, is_person=False)), "")
            elif word == "here" and self.named.is_page and self._may_be(self.named.topic, is_person=False):
                entity = self.named.topic
            elif word in _RELATIVE and p.deps[i] in SUBJECTS:
                entity = self._relative(i)
            if entity:
                found[i] = entity
            name = self.name(i) or entity
            if p.deps[i] == "dobj" and p.pos[i] == "NOUN" and not self.named.is_page:
                last = ""  # `it` may be this thing
            if p.deps[i] in SUBJECTS and word not in _RELATIVE:
                last = name or self._renamed(i)
                person = last if self._is_person(last) and word not in _FIRST else person
            mentioned = name if self._is_person(name) and word not in _FIRST else mentioned
        return found

    def _antecedent(self, i: int) -> str:
        """Returns what a pronoun that nothing before it in the text explains refers to."""
        p, named = self.tree.parse, self.named
        if i == 0 and named.antecedent is not None:
            return named.antecedent
        if _is_note(named.topic_name) or (p.sentences == 1 and p.deps[i] not in (*SUBJECTS, "poss")):
            return ""
        return named.topic

    def _person(self, i: int, person: str, mentioned: str) -> str:
        candidates = (self.named.antecedent if i == 0 else "", person, self.named.topic, mentioned)
        return next((e for e in candidates if e and self._may_be(e, is_person=True)), "")

    def _is_person(self, entity: str) -> bool:
        return self.named.types.get(entity) == "person"

    def _may_be(self, entity: str, is_person: bool) -> bool:
        """Returns whether an entity may be a person, or may be a thing; by some names one cannot say."""
        kind = self.named.types.get(entity, "")
        return kind in ("person", "name", "") if is_person else kind != "person"

    def _is_empty(self, i: int) -> bool:
        """Returns whether `it` means nothing, as in `it is clear that`."""
        p = self.tree.parse
        after = p.words[i + 1 : i + 5]
        verb = p.heads[i]
        is_empty = p.lemmas[verb] in _EMPTY_VERBS and not _EMPTY_IT.isdisjoint(after[1:])
        below = {p.deps[c] for c in self.tree.children[verb]}
        is_empty |= (p.lemmas[verb] in _ADVISING and "xcomp" in below) or (
            p.deps[i] == "nsubjpass" and "ccomp" in below
        )
        return p.deps[i] == "expl" or (p.deps[i] in SUBJECTS and is_empty)

    def _relative(self, i: int) -> str:
        """Returns the entity of `who` in a relative clause: the noun before it, or what the noun is said of."""
        p = self.tree.parse
        verb = p.heads[i]
        while p.deps[verb] == "conj":
            verb = p.heads[verb]
        if p.deps[verb] != "relcl":
            return ""
        noun = p.heads[verb]
        return (self.name(noun) or self._said_of(noun)) if noun != i else ""

    def _said_of(self, noun: int) -> str:
        p = self.tree.parse
        if p.deps[noun] == "attr" and (subject := self.tree.subject(p.heads[noun])) >= 0:
            return self.name(subject) or self._pronouns_before(subject)
        return self.name(p.heads[noun]) if p.deps[noun] == "appos" else ""

    def _pronouns_before(self, i: int) -> str:
        """Returns the entity of a pronoun subject without the table that is being made."""
        word = self.tree.parse.words[i]
        if word in _FIRST:
            return self.named.speaker
        topic = self.named.topic
        if topic and (
            (word in _PERSON and self._may_be(topic, is_person=True))
            or (word in _THING and self._may_be(topic, is_person=False))
        ):
            return topic
        return ""

    def _definite(self, i: int) -> str:
        """Returns what the passage is about, where a definite noun says what kind of thing that is."""
        p, topic = self.tree.parse, self.named.topic
        if not topic or p.pos[i] not in ("NOUN", "PROPN"):
            return ""
        if p.pos[i] == "PROPN" and p.words[i] == self._surname:
            return topic
        below = self.tree.children[i]
        if any(p.deps[c] in ("poss", "amod", "compound", "nummod", "prep", "relcl", "acl") for c in below):
            return ""
        determiners = {p.words[c] for c in below if p.deps[c] == "det"}
        if "this" in determiners and p.lemmas[i] in _PAGES:
            return topic
        is_general = self.named.is_page and p.lemmas[i] in _GENERAL and not self._is_introduced(i)
        if "the" in determiners and is_general:
            return topic
        return topic if determiners & {"the", "this"} and p.lemmas[i] in self._kinds else ""

    @cached_property
    def _surname(self) -> str:
        """The last word of a title that may be a person's name."""
        words = self.named.topic_name.lower().split()
        return words[-1] if len(words) > 1 and self._may_be(self.named.topic, is_person=True) else ""

    def _is_introduced(self, i: int) -> bool:
        """Returns whether the text speaks of another thing of this kind before: `a book`."""
        p = self.tree.parse
        return any(
            p.lemmas[j] == p.lemmas[i] and any(p.words[c] in ("a", "an", "another") for c in self.tree.children[j])
            for j in range(i)
            if p.pos[j] == "NOUN" and p.deps[j] != "attr"
        )

    @cached_property
    def _kinds(self) -> frozenset[str]:
        """Lemmas of the nouns that say what the topic is."""
        return frozenset(self._find_kinds())

    def _find_kinds(self) -> Iterator[str]:
        p = self.tree.parse
        if self.named.topic_name:
            yield self.named.topic_name.split()[-1].lower()
        for head in self.tree.heads:
            subject = self.tree.subject(head)
            if p.lemmas[head] != "be" or subject < 0:
                continue
            if (self.name(subject) or self._pronouns.get(subject)) == self.named.topic:
                for c in self.tree.children[head]:
                    if p.deps[c] == "attr":
                        yield from (p.lemmas[j] for j in self.tree.joined(c))
