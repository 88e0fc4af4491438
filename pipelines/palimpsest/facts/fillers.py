"""What fills the verbs of a text: objects, complements, and nouns behind prepositions."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from palimpsest.facts.clause_tree import ClauseTree, Phrases
from palimpsest.text.date_mentions import MONTH_NAMES

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
_LIKING = frozenset({"love", "like", "enjoy", "hate", "dislike", "prefer"})
_EMPTY_DOING = frozenset(
    {"do", "be", "have", "see", "hear", "know", "get", "think", "say", "tell", "make", "call", "meet"}
)
"""What one may like to do once, or says nothing without its object."""
_TRAILING = re.compile(r"(?: (?:too|also|either|as well|a lot|(?:very|so) much)| of (?:my|our) own)+$", re.IGNORECASE)
"""What the end of a value adds of who says it: `reading poetry too`."""
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
        token: its noun.
        value: its words.
        is_time: whether it names a time, or another thing that is no place: `on loan`.
        is_denied: whether `no` comes before it.
    """

    preposition: str
    token: int
    value: str
    is_time: bool
    is_denied: bool = False


@dataclass(frozen=True)
class Fillers:
    """Reads what fills the verbs of a text."""

    tree: ClauseTree
    phrases: Phrases

    def of_verb(self, head: int) -> Iterator[Filler]:
        """Yields what fills a verb, joined words too; not what fills an infinitive below it."""
        p = self.tree.parse
        for child in self.tree.children[head]:
            dep = p.deps[child]
            if dep in _OBJECTS and (p.pos[child] != "ADP" or p.words[child] == "due"):
                for i in self.tree.joined(child):
                    yield from self._object(i, "with to as after" if p.lemmas[head] == "have" else "")
            elif p.words[child] in _INTRODUCING:
                continue
            elif dep in ("prep", "agent") or (dep == "dative" and p.pos[child] == "ADP"):
                yield from self.behind(child)
            elif self._is_plain_time(child):
                yield from self._filler("", child)
            elif self._is_liked_doing(head, child):
                for i in self._joined_verbs(child):
                    for filler in self._filler("", i):
                        is_bare = p.tags[i] == "VB" and filler.value and not filler.value.startswith("to ")
                        yield replace(filler, value=f"to {filler.value}") if is_bare else filler
            elif dep == "advmod" and p.words[child] == "here":
                yield Filler("in", child, "", is_time=False)
            elif dep == "xcomp" and p.pos[child] in ("ADJ", "NOUN"):
                yield from self._object(child)

    def _is_plain_time(self, i: int) -> bool:
        """Returns whether a token is a time without a preposition: `writes every night`."""
        p = self.tree.parse
        return p.deps[i] == "npadvmod" and self.is_time(i) and p.words[i] not in _DEICTIC

    def _joined_verbs(self, verb: int) -> list[int]:
        """Returns a verb and those that are joined to it: `likes to hike, read and cook`."""
        p = self.tree.parse
        joined = (c for c in self.tree.children[verb] if p.deps[c] == "conj" and p.tags[c] == p.tags[verb])
        return [verb, *(i for c in joined for i in self._joined_verbs(c))]

    def _is_liked_doing(self, verb: int, i: int) -> bool:
        """Returns whether a token is what somebody likes to do: `loves hiking`, `likes to hike`."""
        p = self.tree.parse
        is_verb = p.tags[i] == "VBG" or (p.tags[i] == "VB" and p.lemmas[i] not in _EMPTY_DOING)
        return p.deps[i] in ("xcomp", "dobj") and is_verb and p.lemmas[verb] in _LIKING

    def _object(self, i: int, of_object: str = "") -> Iterator[Filler]:
        """Yields an object and what prepositions after it say of the verb; those `of_object` say it of the object."""
        p = self.tree.parse
        below = self._prepositions(i) if p.pos[i] != "ADJ" else []
        below = [c for c in below if p.words[c] not in of_object.split() and not self._is_of_noun(i, c)]
        is_denied = False
        for filler in self._filler("", i, below):
            is_denied = filler.is_denied
            yield filler
        for preposition in below:
            yield from self.behind(preposition, is_denied)

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

    def behind(self, preposition: int, is_denied: bool = False) -> Iterator[Filler]:
        """Yields what fills a preposition."""
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
                    for filler in self._filler(name, i):
                        yield replace(filler, is_denied=filler.is_denied or is_denied)
            elif p.deps[below] == "prep":  # `on to the board`
                yield from self.behind(below, is_denied)

    def _listed(self, i: int) -> list[int]:
        """Returns a noun and what is joined to it; in a relative clause not what a comma separates.

        `The Tern, which joins it at Ghent, the Orne and the Yser`: the list is that of the clause before.
        """
        p, joined = self.tree.parse, self.tree.joined(i)
        is_relative = p.deps[p.heads[p.heads[i]]] == "relcl"
        return [j for j in joined if not (is_relative and "," in p.words[i:j])]

    def _filler(self, preposition: str, i: int, without: list[int] | None = None) -> Iterator[Filler]:
        p = self.tree.parse
        is_bare = not any(p.deps[c] in _DETERMINERS for c in self.tree.children[i])
        if p.words[i] in _RELATIVE or (preposition and is_bare and p.words[i] in _IDIOMS):
            return
        if _TIME.fullmatch(p.words[i]):
            without = [c for c in self.tree.children[i] if p.deps[c] == "prep"]
        value = "" if p.words[i] in _EMPTY or p.pos[i] == "PRON" else self.phrases.value(i, without or ())
        if preposition and _ASIDE.fullmatch(f"{preposition} {value}".lower()):
            return
        value, is_denied = _TRAILING.sub("", value), value.startswith("no ")
        is_place = any(p.deps[c] in _DETERMINERS for c in self.tree.children[i]) or p.pos[i] == "PROPN"
        yield Filler(
            preposition,
            i,
            "" if value.lower() in _EMPTY_VALUES or _RATE.fullmatch(value) else value.removeprefix("no "),
            self.is_time(i) or not is_place,
            is_denied,
        )

    def is_time(self, i: int) -> bool:
        """Returns whether a noun names a time."""
        p = self.tree.parse
        return p.lemmas[i] in TIME_WORDS or p.words[i] in TIME_WORDS or bool(_TIME.fullmatch(p.words[i]))
