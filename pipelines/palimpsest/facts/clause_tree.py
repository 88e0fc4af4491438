"""The clauses of a parsed text as facts need them: relative clauses and participles are clauses of their own."""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from palimpsest.text.parse import MAX_PARSED_CHARACTERS, Parse

SUBJECTS = frozenset({"nsubj", "nsubjpass"})
_HEADS = frozenset({"ROOT", "conj", "ccomp", "parataxis", "relcl", "acl", "advcl"})
_CONDITIONS = frozenset({"if", "unless", "whether", "should", "lest"})
_COMPARISONS = frozenset({"than", "like"})
_DENYING = frozenset({"never", "neither", "nor"})
_REPORTING = frozenset({"that", "how", "what", "why", "who", "when", "where", "which"})
_ABLE = frozenset({"can", "could"})
_REMINDING = frozenset({"remember", "note", "mind"})
"""Verbs by which a listener is to keep what is so: `Remember that my visa ends in May`."""
_ARRANGED = frozenset({"move", "relocate", "join", "start", "leave", "marry"})
"""What somebody is doing is still to come: `I'm moving to Ghent`."""
_EXCLUDING = frozenset({"not", "instead", "rather", "than", "except"})
_UNTRUE = frozenset({"almost", "nearly", "hardly", "barely", "scarcely", "supposedly", "allegedly"})
"""Before a verb: what it says is not quite so."""
_DOUBTING = frozenset({"suspect", "doubt", "fear", "assume", "presume", "consider", "imagine", "expect", "envisage"})
"""What fills these verbs is thought, not so."""


class Modality(Enum):
    """Whether a clause says that something is so, or something weaker."""

    STATED = "stated"
    PAST = "past"
    PLANNED = "planned"
    WISHED = "wished"
    REPORTED = "reported"
    SUPPOSED = "supposed"
    QUESTION = "question"


_WORDS_OF_MODALITY = """
reported: rumour rumor apparently allegedly reportedly supposedly say claim hear think believe joke guess reckon
wished: want hope wish dream prefer rather
supposed: if might may could would should maybe perhaps possibly suppose imagine unless whether
planned: plan intend consider aim propose schedule will going shall expect soon tomorrow
past: formerly previously once earlier originally
"""
_MODALITY_WORDS: Sequence[tuple[frozenset[str], Modality]] = [
    (frozenset(words.split()), Modality(name))
    for name, words in (line.split(": ") for line in _WORDS_OF_MODALITY.strip().splitlines())
]
"""The first of which a clause has a word decides."""


@dataclass(frozen=True)
class ClauseTree:
    """The clauses of a parse.

    Attributes:
        parse: of the text.
    """

    parse: Parse

    @cached_property
    def children(self) -> list[list[int]]:
        """The tokens that depend on each token."""
        children: list[list[int]] = [[] for _ in self.parse.words]
        for i, head in enumerate(self.parse.heads):
            if head != i:
                children[head].append(i)
        return children

    @cached_property
    def heads(self) -> list[int]:
        """The verb of each clause, in order."""
        p = self.parse
        return [
            i for i, dep in enumerate(p.deps) if dep in _HEADS and p.pos[i] in ("VERB", "AUX") and p.tags[i] != "MD"
        ]

    def own(self, head: int) -> frozenset[int]:
        """Returns the tokens of a clause, without those of the clauses below it."""
        inside, stack, heads = set(), [head], set(self.heads) - {head}
        while stack:
            i = stack.pop()
            inside.add(i)
            below = (c for c in self.children[i] if self.parse.deps[c] != "pcomp")
            stack += [c for c in below if c not in heads and c not in inside]
        return frozenset(inside)

    def modality(self, head: int) -> Modality:
        """Returns the modality of a clause; that of a clause under a condition, or that gives one, is supposed."""
        p = self.parse
        for clause in (head, p.heads[head]) if p.deps[head] in ("relcl", "acl", "conj") else (head,):
            for c in self.children[clause]:
                if p.words[c] in _CONDITIONS or (p.deps[c] == "mark" and p.words[c] in _COMPARISONS):
                    return Modality.SUPPOSED
                if p.deps[c] == "advcl" and any(p.words[m] in _CONDITIONS for m in self.children[c]):
                    return Modality.SUPPOSED
        if self._is_unreal(head):
            return Modality.SUPPOSED
        if any(p.words[c] == "according" and p.deps[c] == "prep" for c in self.children[head]):
            return Modality.REPORTED
        if p.deps[head] in ("ccomp", "advcl") and (above := self._above(head)) is not None:
            return above
        if p.deps[head] == "conj" and p.tags[head] == "VB" and not any(p.deps[c] == "aux" for c in self.children[head]):
            return self.modality(p.heads[head])  # `will ask and report`
        return self._stated_modality(head, self.own(head))

    def _stated_modality(self, head: int, own: frozenset[int]) -> Modality:
        """Returns the modality that the words of a clause and its tense give it, `own` its tokens."""
        p = self.parse
        end = max(own)
        if "?" in p.words[end : end + 2]:
            return Modality.QUESTION
        near = {w for i in own if p.pos[i] != "PROPN" for w in (p.lemmas[i], p.words[i])}
        above = p.lemmas[p.heads[head]] if p.deps[head] == "ccomp" else ""
        for words, modality in _MODALITY_WORDS:
            if not words.isdisjoint(near) or above in words:
                return modality
        if p.tags[head] == "VBG" and p.lemmas[head] in _ARRANGED and self._is_present(head):
            return Modality.PLANNED
        return Modality.PAST if self._is_past(head) else Modality.STATED

    def _is_present(self, head: int) -> bool:
        return any(self.parse.tags[c] in ("VBP", "VBZ") for c in self.children[head] if self.parse.deps[c] == "aux")

    def _is_past(self, head: int) -> bool:
        p = self.parse
        helpers = [p.tags[c] for c in self.children[head] if p.deps[c] in ("aux", "auxpass")]
        return "VBD" in helpers if helpers else p.tags[head] == "VBD"

    def _is_unreal(self, head: int) -> bool:
        """Returns whether a verb says what can, should or did not quite happen: `Let Ana call`, `Ana almost left`."""
        p, below = self.parse, self.children[head]
        helpers = [c for c in below if p.deps[c] in ("aux", "auxpass")]
        if any(p.words[c] in _ABLE for c in helpers) or (p.lemmas[head] in _DOUBTING and not self.is_passive(head)):
            return True
        if any(p.deps[c] in ("advmod", "neg") and p.words[c] in _UNTRUE for c in below if c < head):
            return True
        is_bare = p.tags[head] == "VB" and {p.words[c] for c in helpers} <= {"to"}
        return is_bare and p.deps[head] in ("ROOT", "ccomp")

    def _above(self, head: int) -> Modality | None:
        """Returns the modality that what is reported has from the verb above it."""
        p, above = self.parse, self.parse.heads[head]
        is_reminder = p.tags[above] == "VB" and p.lemmas[above] in _REMINDING and self.subject(above) < 0
        is_reported = any(p.words[c] in _REPORTING for c in self.children[head]) and not is_reminder
        return Modality.REPORTED if p.deps[head] == "ccomp" and is_reported else None

    def is_negated(self, head: int) -> bool:
        """Returns whether a clause denies its verb."""
        p = self.parse
        below = [j for c in (head, *self.children[head]) for j in (c, *self.children[c])]
        if any(p.words[c] == "longer" and self._denies(c) and c < head for c in self.children[head]):
            return True
        return self._denies(head) or any(p.words[j] in _DENYING for j in below)

    def is_denied(self, i: int) -> bool:
        """Returns whether a preposition is denied: `near Ghent, not in it`, `no longer on Mondays`."""
        p = self.parse
        return self._denies(i) or (p.words[p.heads[i]] == "longer" and self._denies(p.heads[i]))

    def _denies(self, i: int) -> bool:
        return any(self.parse.deps[c] == "neg" for c in self.children[i])

    def is_passive(self, head: int) -> bool:
        """Returns whether something is done to the subject of a verb, a bare participle's too."""
        p = self.parse
        if any(p.deps[c] == "auxpass" for c in self.children[head]):
            return True
        if any(p.deps[c] in (*SUBJECTS, "aux") for c in self.children[head]):
            return False
        if p.tags[head] == "VBN" and p.deps[head] in ("acl", "advcl"):
            return True
        has_object = any(p.deps[c] == "dobj" for c in self.children[head])
        is_participle = p.tags[head] in ("VBN", "VBD") and not has_object
        return is_participle and p.deps[head] == "conj" and self.is_passive(p.heads[head])

    def verb(self, head: int) -> str:
        """Returns the lemma of a verb with its particle: `break out`."""
        p = self.parse
        particles = [p.words[c] for c in self.children[head] if p.deps[c] == "prt"]
        return " ".join((p.lemmas[head], *particles[:1]))

    def subject(self, head: int) -> int:
        """Returns the token that the subject of a clause is, -1 where there is none.

        A joined verb, and a participle beside a clause, have the subject of that clause; a participle after a noun has
        the noun.
        """
        p, seen = self.parse, set[int]()
        while head not in seen:
            seen.add(head)
            for child in self.children[head]:
                if p.deps[child] in SUBJECTS:
                    return child
                if p.deps[child] in ("expl", "csubj", "csubjpass"):
                    return -1
            if p.deps[head] == "acl":
                return self._described(head) if p.tags[head] in ("VBN", "VBG") else -1
            if p.deps[head] == "advcl" and (p.tags[head] not in ("VBN", "VBG") or self._is_introduced(head)):
                return -1
            if p.deps[head] not in ("conj", "advcl"):
                return -1
            head = p.heads[head]
        return -1

    def _described(self, participle: int) -> int:
        """Returns the noun that a participle describes; after a comma that is the noun above phrases in between.

        `A work in two volumes, published in 1889`; `It was promoted by Vale, built in a year`: the parser takes the
        word before the comma.
        """
        p = self.parse
        noun = p.heads[participle]
        if participle and p.words[participle - 1] != ",":
            return noun
        while p.deps[noun] in ("pobj", "conj", "appos") and noun != p.heads[noun]:
            noun = p.heads[noun]
            if p.deps[noun] == "agent":
                return self.subject(p.heads[noun])
            noun = p.heads[noun] if p.deps[noun] == "prep" else noun
        return noun if p.pos[noun] not in ("VERB", "AUX") else self.subject(noun)

    def _is_introduced(self, head: int) -> bool:
        return any(self.parse.deps[c] in ("mark", "prep") and c < head for c in self.children[head])

    def joined(self, i: int) -> list[int]:
        """Returns a token and what is joined to it by `and`, in order."""
        found, p = [i], self.parse
        for child in self.children[i]:
            if p.deps[child] == "conj" and p.pos[child] not in ("VERB", "AUX") and not self._is_excluded(child):
                found += self.joined(child)
        return found

    def _is_excluded(self, i: int) -> bool:
        """Returns whether words before a joined one exclude it: `tea, not coffee`, `nine instead of ten`."""
        first = min(self.parse.subtree(i))
        return not _EXCLUDING.isdisjoint(self.parse.words[max(first - 2, self.parse.heads[i]) : first + 1])


# Words of a text by their tokens: where they are in the text, and the words of a value.

MAX_VALUE_CHARS = 120
_CUT = frozenset({"conj", "cc", "relcl", "appos", "punct", "advcl", "acl", "mark", "preconj"})
_CLAUSES = frozenset({"relcl", "advcl", "appos"})
_BRACKETS = '()[]"“”'


@dataclass(frozen=True)
class Phrases:
    """The phrases of a text.

    Attributes:
        text: the text.
        tree: of its parse.
    """

    text: str
    tree: ClauseTree

    def value(self, i: int, without: Collection[int] = ()) -> str:
        """Returns the words of a value, without what is joined to it, clauses about it, and the tokens `without`.

        Empty where they are too many.
        """
        p = self.tree.parse
        cut = {
            j for c in self.tree.children[i] if p.deps[c] in _CUT and p.words[c] not in ("-", "%") for j in p.subtree(c)
        }
        cut |= {j for c in p.subtree(i) if c != i and self._is_clause(c) for j in p.subtree(c)}
        cut |= {j for c in without for j in p.subtree(c)}
        tokens = p.subtree(i) - cut
        start, end = self.place([j for j in tokens if all(k in tokens for k in range(min(i, j), max(i, j)))])
        phrase = " ".join(self.text[start:end].split()).strip(_BRACKETS + " ,;")
        return phrase if len(phrase) <= MAX_VALUE_CHARS else ""

    def _is_clause(self, i: int) -> bool:
        """Returns whether a token below a value is a clause that says something of its own."""
        p = self.tree.parse
        is_participle = p.deps[i] == "acl" and p.words[i - 1] == ","
        return p.deps[i] in _CLAUSES or is_participle

    def place(self, tokens: Collection[int]) -> tuple[int, int]:
        """Returns the span of tokens in characters of the text."""
        last, starts = max(tokens), self.tree.parse.starts
        return self.offset(min(tokens)), self._to_text(starts[last] + len(self.tree.parse.words[last]) - 1) + 1

    def offset(self, i: int) -> int:
        """Returns where token i begins in the text."""
        return self._to_text(self.tree.parse.starts[i])

    def _to_text(self, parsed: int) -> int:
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
