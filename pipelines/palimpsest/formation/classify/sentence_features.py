"""What the model reads of a sentence: its words, cues in it and around it, and what rules say of it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from palimpsest.formation import cues
from palimpsest.formation.item import SENTENCE_KINDS
from palimpsest.formation.session import Session

NGRAMS = 3
"""Words of the longest sequence that counts."""

_TURNS, _BEFORE_CHARS, _AFTER_CHARS = 2, 250, 200
_LONG, _SHORT = 30, 5  # words
_WORD = re.compile(r"[\w']+|[?!.,]")
_DIGITS = re.compile(r"\d+")
_IN_SENTENCE = (
    *(cues.SAVE, cues.PREFERENCE, cues.NO_PREFERENCE, cues.DECISION, cues.NO_DECISION, cues.PROBLEM, cues.SOLUTION),
    *(cues.REFERS_BACK, cues.UNSOLVED, cues.NO_ANSWER, cues.REQUEST, cues.UNREAL, cues.FIRST_PERSON),
    cues.OPENING_PRONOUN,
    *(
        re.compile(pattern, re.IGNORECASE)
        for pattern in (
            r"\b(?:was|were|had|did|went|got|came|said|told|took|made|saw|\w+ed)\b",
            r"\b(?:will|'ll|going to|tonight|tomorrow|later|now)\b",
            r"\b(?:every|always|never|usually|each|daily|weekly|per)\b"
            r"|\bon (?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\ba (?:week|month|year|day)\b",
            r"\d",
            r"\b(?:please|don't|never)\b",
            r"\b(?:yesterday|today|this morning|last night|last week|just)\b",
            r"\b(?:my|our|his|her|their)\b",
            r"\b(?:is|are|has|have|lives?|works?)\b|'s\b|'re\b",
            r"\b(?:so|since then|ever since|turned out|it was|and now|no more|gone|works?|fine)\b",
            r"!",
        )
    ),
)


@dataclass(frozen=True)
class SentenceFeatures:
    """The features of one sentence.

    Attributes:
        ngrams: sequences of its words, in order, with repetitions; numbers are `0`.
        flags: the other features, each 0 to 1.
    """

    ngrams: tuple[str, ...]
    flags: tuple[float, ...]


def read_sentence(session: Session, n: int, i: int, by_rules: str | None) -> SentenceFeatures:
    """Returns the features of sentence `i` of turn `n`.

    Args:
        session: the session.
        n: number of the turn.
        i: number of the sentence in the turn.
        by_rules: the kind of item that rules form of it; None where they form none.
    """
    sentences = session.turns[n].sentences
    text, before, after = sentences[i].text, _before(session, n, i), _after(session, n, i)
    words = len(text.split())
    is_after_question = before.endswith("?")
    flags = (
        *(cue.search(text) is not None for cue in _IN_SENTENCE),
        *(by_rules == kind for kind in SENTENCE_KINDS),
        sentences[i].is_question,
        min(words, _LONG) / _LONG,
        words < _SHORT,
        is_after_question,
        is_after_question and "Assistant:" in before[-160:],
        i == 0,
        cues.PROBLEM.search(before) is not None,
        cues.NO_ANSWER.search(after) is not None,
        after.startswith("Assistant:"),
        "?" in after[:80],
        text[:1].islower(),
    )
    return SentenceFeatures(tuple(ngrams(text)), tuple(float(flag) for flag in flags))


def ngrams(text: str) -> list[str]:
    """Returns the sequences of one to three words and marks of a text, lower case, numbers as `0`."""
    words = _WORD.findall(_DIGITS.sub("0", text.lower()))
    return [" ".join(words[at : at + n]) for n in range(1, NGRAMS + 1) for at in range(len(words) - n + 1)]


def _before(session: Session, n: int, i: int) -> str:
    """Returns the end of what is said before a sentence, in its turn and in the turns before."""
    sentences = session.turns[n].sentences
    in_turn = (sentences[at].text for at in range(i - 1, -1, -1))
    earlier = (turn.line for turn in reversed(session.turns[max(0, n - _TURNS) : n]))
    nearest = _first(chain(in_turn, earlier), _BEFORE_CHARS)
    return " ".join(reversed(nearest))[-_BEFORE_CHARS:].strip()


def _after(session: Session, n: int, i: int) -> str:
    """Returns the beginning of what is said after a sentence, in its turn and in the turns after."""
    sentences = session.turns[n].sentences
    in_turn = (sentences[at].text for at in range(i + 1, len(sentences)))
    later = (turn.line for turn in session.turns[n + 1 : n + 1 + _TURNS])
    return " ".join(_first(chain(in_turn, later), _AFTER_CHARS))[:_AFTER_CHARS]


def _first(texts: Iterable[str], characters: int) -> list[str]:
    """Returns as many texts as have so many characters: a long turn is not read again for each of its sentences."""
    found: list[str] = []
    for text in texts:
        found.append(text)
        characters -= len(text)
        if characters <= 0:
            break
    return found
