"""Words of a text by their tokens: where they are in the text, and the words of a value."""

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from palimpsest.facts.clause_tree import ClauseTree
from palimpsest.text.parse import MAX_PARSED_CHARACTERS

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
