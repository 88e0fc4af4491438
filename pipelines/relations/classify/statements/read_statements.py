"""Reads the statements of a parsed text: one for each clause, by its syntax and a few words of English."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from palimpsest.relations.classify.features.parse import Parse
from palimpsest.relations.classify.statements.statement import Modality, Statement
from palimpsest.relations.classify.statements.value_types import TIME_WORDS, value_type

MAX_STATEMENTS = 12
"""Of one text; later clauses are not read."""
_CLAUSE_DEPS = frozenset({"ROOT", "conj", "ccomp", "parataxis"})
_SUBJECTS = frozenset({"nsubj", "nsubjpass", "csubj", "expl"})
_WORDS = """
changes: move change switch shift raise lower increase reduce cut extend postpone push bring delay transfer rename
changes: relocate promote bump swap convert migrate go turn become grow drop fall rise climb advance upgrade downgrade
ends: stop end quit cease cancel drop abandon retire close finish leave expire lapse scrap abolish
if: if when unless while whenever where
except: during for except without under besides
since: since from until till as starting after before
planned: plan intend consider aim propose schedule will going shall expect soon tomorrow
wished: want hope wish dream prefer rather
reported: rumour rumor apparently allegedly reportedly supposedly say claim hear think believe joke guess reckon
supposed: if might may could would should maybe perhaps possibly suppose imagine unless whether
past: formerly previously once earlier originally
"""


def _words(name: str) -> frozenset[str]:
    lines = (line.split(": ") for line in _WORDS.strip().splitlines())
    return frozenset(word for label, words in lines if label == name for word in words.split())


_CHANGES, _ENDS, _IF, _EXCEPT, _SINCE = map(_words, ("changes", "ends", "if", "except", "since"))
_MODALITY_WORDS: Sequence[tuple[frozenset[str], Modality]] = (
    (_words("reported"), Modality.REPORTED),
    (_words("wished"), Modality.WISHED),
    (_words("supposed"), Modality.SUPPOSED),
    (_words("planned"), Modality.PLANNED),
    (_words("past"), Modality.PAST),
)
"""The first of which a clause has a word decides."""


def read_statements(parse: Parse) -> tuple[Statement, ...]:
    """Returns the statements of a text, in the order of their verbs."""
    clauses = Clauses(parse)
    return tuple(clauses.statement(head) for head in clauses.heads[:MAX_STATEMENTS])


@dataclass(frozen=True)
class Clauses:
    """The clauses of a parsed text.

    Attributes:
        parse: the text.
    """

    parse: Parse

    @cached_property
    def heads(self) -> list[int]:
        """The verb, or the root, of each clause."""
        p = self.parse
        return [
            i
            for i, dep in enumerate(p.deps)
            if dep == "ROOT" or (dep in _CLAUSE_DEPS and p.pos[i] in ("VERB", "AUX") and self._has_subject_or_joins(i))
        ]

    @cached_property
    def children(self) -> list[list[int]]:
        """The tokens that depend on each token."""
        children: list[list[int]] = [[] for _ in self.parse.words]
        for i, head in enumerate(self.parse.heads):
            if head != i:
                children[head].append(i)
        return children

    def _has_subject_or_joins(self, i: int) -> bool:
        return self.parse.deps[i] == "conj" or any(self.parse.deps[c] in _SUBJECTS for c in self.children[i])

    def statement(self, head: int) -> Statement:
        """Returns what the clause of a verb states."""
        p = self.parse
        own = self.own_tokens(head)
        subject_head = self.subject_head(head)
        subject = self._inside(subject_head, own) if subject_head >= 0 else frozenset()
        condition = self._conditions(head, own)
        since = self._since(head, own)
        time = since | {i for i in own - subject if self._names_a_time(i)}
        rest = own - subject - condition - since
        is_changed = p.lemmas[head] in _CHANGES
        if is_changed and (thing := self._object(head)) >= 0 and self._has_target(head):
            # `The team moved the stand-up to ten`: the stand-up has changed, not the team.
            subject = self._inside(thing, own)
            rest -= subject
        slot = self._slot(head, subject, rest)
        value = frozenset(i for i in rest - slot if p.is_content(i) and (i != head or self._is_state(head)))
        return Statement(
            subject=self._lemmas(i for i in subject if p.is_content(i) or i == subject_head),
            slot=self._lemmas(slot),
            value=self._lemmas(value),
            value_type=value_type(p, sorted(value), head),
            time=self._lemmas(time),
            condition=self._lemmas(i for i in condition if p.is_content(i)),
            is_negated=any(p.deps[i] == "neg" or p.words[i] in ("no", "never", "without") for i in own - subject),
            is_ended=p.lemmas[head] in _ENDS,
            is_changed=is_changed,
            modality=self.modality(head, own, is_changed),
        )

    def own_tokens(self, head: int) -> frozenset[int]:
        """The tokens of a clause, without those of the clauses below it."""
        inside, stack, heads = set(), [head], set(self.heads) - {head}
        while stack:
            i = stack.pop()
            inside.add(i)
            stack += [c for c in self.children[i] if c not in heads and c not in inside]
        return frozenset(inside)

    def _inside(self, top: int, own: frozenset[int]) -> frozenset[int]:
        return self.parse.subtree(top) & own

    def subject_head(self, head: int) -> int:
        """The subject of a clause; a joined verb has that of the verb before it. -1 where there is none."""
        p, seen = self.parse, set()
        while head not in seen:
            seen.add(head)
            for child in self.children[head]:
                if p.deps[child] in _SUBJECTS:
                    return child
            if p.deps[head] != "conj":
                break
            head = p.heads[head]
        return -1

    def _object(self, head: int) -> int:
        return next((c for c in self.children[head] if self.parse.deps[c] in ("dobj", "nsubjpass")), -1)

    def _has_target(self, head: int) -> bool:
        return any(self.parse.words[c] in ("to", "from", "until", "till", "into", "by") for c in self.children[head])

    def _conditions(self, head: int, own: frozenset[int]) -> frozenset[int]:
        p = self.parse
        found: set[int] = set()
        for child in self.children[head]:
            marks = {p.words[c] for c in self.children[child] if p.deps[c] in ("mark", "advmod")}
            if (p.deps[child] == "advcl" and marks & _IF) or (p.deps[child] == "prep" and p.words[child] in _EXCEPT):
                found |= self._inside(child, own)
        return frozenset(found)

    def _since(self, head: int, own: frozenset[int]) -> frozenset[int]:
        """`since May`, `from next week on`: when a value begins to hold, not the value."""
        p = self.parse
        starts = (c for c in self.children[head] if p.words[c] in _SINCE)
        dated = (c for c in starts if any(self._names_a_time(i) for i in self._inside(c, own)))
        return frozenset(i for c in dated for i in self._inside(c, own))

    def _names_a_time(self, i: int) -> bool:
        p = self.parse
        return (p.lemmas[i] in TIME_WORDS or p.words[i] in TIME_WORDS) and p.pos[i] not in ("AUX", "VERB")

    def _slot(self, head: int, subject: frozenset[int], rest: frozenset[int]) -> frozenset[int]:
        """The words that name the slot: of a form of `be` the noun of the subject, else the verb with its particles."""
        p = self.parse
        if p.lemmas[head] == "be" or p.lemmas[head] in _CHANGES or self._is_state(head):
            nouns = frozenset(i for i in subject if p.pos[i] == "NOUN" and p.heads[i] not in subject)
            return nouns or frozenset(i for i in subject if p.pos[i] == "NOUN")
        particles = (c for c in self.children[head] if p.deps[c] == "prt" and c in rest)
        return frozenset({head, *particles}) if p.is_content(head) else frozenset()

    def _is_state(self, head: int) -> bool:
        """Returns whether a participle is what its subject is: `the shop is closed`."""
        p = self.parse
        return p.tags[head] == "VBN" and any(p.deps[c] == "auxpass" for c in self.children[head])

    def modality(self, head: int, own: frozenset[int], is_changed: bool) -> Modality:
        """Returns the modality of the clause of a verb, `own` its tokens."""
        p = self.parse
        end = max(own)
        if "?" in p.words[end : end + 2]:
            return Modality.ASKED
        near = {w for i in own if p.pos[i] != "PROPN" for w in (p.lemmas[i], p.words[i])}
        above = p.lemmas[p.heads[head]] if p.deps[head] == "ccomp" else ""
        for words, modality in _MODALITY_WORDS:
            if not words.isdisjoint(near) or above in words:
                return modality
        if not is_changed and self._is_past(head):  # what somebody changed to is so from then on
            return Modality.PAST
        return Modality.STATED

    def _is_past(self, head: int) -> bool:
        p = self.parse
        helpers = [p.tags[c] for c in self.children[head] if p.deps[c] in ("aux", "auxpass")]
        return "VBD" in helpers if helpers else p.tags[head] == "VBD"

    def _lemmas(self, tokens: Iterable[int]) -> frozenset[str]:
        return frozenset(self.parse.lemmas[i] for i in tokens)
