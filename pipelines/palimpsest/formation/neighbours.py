"""What is said around a sentence that rules read: the nearest of a kind before it, and whether a turn answers it.

Each sentence and each turn is read once, however many sentences look at it: a long turn takes linear time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from palimpsest.formation.cues import NO_ANSWER, PROBLEM, SOLUTION, UNREAL
from palimpsest.formation.session import Sentence, Turn
from palimpsest.text.terms import query_terms

MIN_WORDS = 3
"""A shorter sentence states and asks too little."""
_LOOKS_BACK = 2  # turns
_Test: TypeAlias = Callable[[Sentence], bool]


def is_said(sentence: Sentence) -> bool:
    """Returns whether it may be looked back at: any sentence."""
    return True


def is_statement(sentence: Sentence) -> bool:
    """Returns whether it is no question, and more than a word or two."""
    return not sentence.is_question and len(sentence.text.split()) >= MIN_WORDS


def states_problem(sentence: Sentence) -> bool:
    """Returns whether it is a statement that names a problem."""
    return is_statement(sentence) and PROBLEM.search(sentence.text) is not None


def is_unsolved(sentence: Sentence) -> bool:
    """Returns whether it is a statement that names no solution."""
    return is_statement(sentence) and SOLUTION.search(sentence.text) is None


def states_open_problem(sentence: Sentence) -> bool:
    """Returns whether it is a statement that names a problem and no solution."""
    return is_unsolved(sentence) and PROBLEM.search(sentence.text) is not None


@dataclass(frozen=True)
class SaidBefore:
    """What people say before a sentence, in its turn and in the last few turns.

    Attributes:
        sentences: of each turn of a person; none of other turns.
    """

    sentences: Sequence[Sequence[Sentence]]
    _found: dict[tuple[_Test, int], list[int]] = field(default_factory=dict, repr=False, compare=False)

    def nearest(self, is_meant: _Test, n: int, i: int) -> Sentence | None:
        """Returns the last sentence before sentence `i` of turn `n` that a test accepts; None where there is none."""
        for turn in range(n, max(0, n - _LOOKS_BACK) - 1, -1):
            sentences = self.sentences[turn]
            at = self._last(is_meant, turn)[i if turn == n else len(sentences)]
            if at >= 0:
                return sentences[at]
        return None

    def _last(self, is_meant: _Test, turn: int) -> list[int]:
        """Returns for each place in a turn, its end too, the number of the last meant sentence before it, or -1."""
        found = self._found.get((is_meant, turn))
        if found is None:
            found = [-1]
            for at, sentence in enumerate(self.sentences[turn]):
                found.append(at if is_meant(sentence) else found[-1])
            self._found[is_meant, turn] = found
        return found


@dataclass(frozen=True)
class Reply:
    """A turn as an answer to questions of the turns before it."""

    turn: Turn

    def answers(self, question: Sentence, is_next: bool) -> bool:
        """Returns whether it may answer a question: it comes next, or it shares a word with it."""
        if not self._may_answer:
            return False
        return is_next or not self._terms.isdisjoint(query_terms(question.text))

    @cached_property
    def _may_answer(self) -> bool:
        text = self.turn.text
        is_unsure = NO_ANSWER.search(text) or UNREAL.search(text)
        return not is_unsure and not all(s.is_question for s in self.turn.sentences)

    @cached_property
    def _terms(self) -> frozenset[str]:
        return frozenset(query_terms(self.turn.text))
