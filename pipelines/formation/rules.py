"""Items of a note by rules: what the turns of a session say in so many words, and nothing that they suggest.

Precision comes first: a sentence that is a question, a supposition, a report or a single event of the past forms
nothing. Only sentences with a cue are parsed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from palimpsest.formation.cues import (
    DECISION,
    FIRST_PERSON,
    NO_ANSWER,
    NO_DECISION,
    OPENING_PRONOUN,
    OPENING_WORD,
    PRESENT_NAME,
    PROBLEM,
    REFERS_BACK,
    REQUEST,
    SAVE,
    SOLUTION,
    UNREAL,
    UNSOLVED,
)
from palimpsest.formation.item import NoteItem
from palimpsest.formation.session import Sentence, Session, Turn
from palimpsest.formation.stated import states_fact, states_preference
from palimpsest.formation.third_person import third_person
from palimpsest.relations.classify.features.parse import Parse, parse_texts
from palimpsest.text.terms import query_terms

_SAVED, _PREFERENCE, _DECISION, _FACT, _SOLUTION, _GAP = 0.95, 0.9, 0.85, 0.8, 0.7, 0.6
_ANSWERS_WITHIN = 2  # turns
_LOOKS_BACK = 2  # turns, for a problem or the question that a decision answers
_MIN_WORDS = 3


def form_items(sessions: Sequence[Session]) -> Iterator[list[NoteItem]]:
    """Yields the items of each session, in the order of its turns; a pure function of each session alone."""
    read = [[t.sentences if t.is_person else [] for t in s.turns] for s in sessions]
    texts = dict.fromkeys(_to_parse(s) for turns in read for sentences in turns for s in sentences if _has_cue(s))
    parses = dict(zip(texts, parse_texts(texts), strict=True))
    for session, turns in zip(sessions, read, strict=True):
        yield list(_SessionRules(session, turns, parses).items())


def _has_cue(sentence: Sentence) -> bool:
    text = sentence.text
    if sentence.is_question or len(text.split()) < _MIN_WORDS:
        return False
    return sentence.turn.is_saved or any(cue.search(text) for cue in (FIRST_PERSON, SAVE, PRESENT_NAME, DECISION))


def _to_parse(sentence: Sentence) -> str:
    """Returns the words of a sentence that are read: of an explicit save what is to be remembered."""
    saved = SAVE.search(sentence.text)
    text = saved["saved"] if saved else sentence.text
    text = OPENING_WORD.sub("", text)
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class _SessionRules:
    session: Session
    sentences: Sequence[Sequence[Sentence]]
    parses: Mapping[str, Parse]

    def items(self) -> Iterator[NoteItem]:
        """Yields the items of all turns."""
        for n, sentences in enumerate(self.sentences):
            for i, sentence in enumerate(sentences):
                item = self._gap(n, i) if sentence.is_question else self._solution(n, i) or self._stated(sentence)
                if item is not None:
                    yield self._with_question(item, n, i) if item.kind == "decision" else item

    def _stated(self, sentence: Sentence) -> NoteItem | None:
        text = _to_parse(sentence)
        parse = self.parses.get(text)
        if parse is None:
            return None
        turn, statement = sentence.turn, third_person(text, parse, sentence.turn.name)
        if OPENING_PRONOUN.match(statement) and not sentence.turn.is_saved:
            return None  # it cannot be read alone
        item = NoteItem("fact", statement, sentence.span, _FACT)
        is_saved = turn.is_saved or SAVE.search(sentence.text) is not None
        is_preference = states_preference(text, parse)
        if is_saved:
            return replace(item, kind="preference" if is_preference else "fact", confidence=_SAVED, is_saved=True)
        if NO_DECISION.search(text):
            return None
        if UNREAL.search(text):
            return replace(item, kind="preference", confidence=_PREFERENCE) if is_preference else None
        if DECISION.search(text) and len(text.split()) > _MIN_WORDS:
            return replace(item, kind="decision", statement=_decision(text, statement, turn), confidence=_DECISION)
        if is_preference:
            return replace(item, kind="preference", confidence=_PREFERENCE)
        return item if states_fact(parse) else None

    def _solution(self, n: int, i: int) -> NoteItem | None:
        """Returns what solved a problem that this turn names, or a person's turn shortly before it.

        Where no words name a problem but those of the solution refer back (`fixed it`), it is the statement before.
        """
        sentence = self.sentences[n][i]
        if not SOLUTION.search(sentence.text) or UNSOLVED.search(sentence.text):
            return None
        said = (s for s in self._before(n, i) if not s.is_question and len(s.text.split()) >= _MIN_WORDS)
        before = [s for s in said if not SOLUTION.search(s.text)]
        problem = next((s for s in before if PROBLEM.search(s.text)), None)
        if problem is None and not PROBLEM.search(sentence.text):
            if not before or not REFERS_BACK.search(sentence.text):
                return None
            problem = before[0]
        words = [s.text.rstrip(".!") + "." for s in (problem, sentence) if s is not None]
        statement = f"{sentence.turn.name} says: {' '.join(words)}"
        evidence = (problem.span,) if problem is not None else ()
        return NoteItem("solution", statement, sentence.span, _SOLUTION, evidence)

    def _before(self, n: int, i: int) -> list[Sentence]:
        """Returns what people say before a sentence, in its turn and in the last few turns, the nearest first."""
        turns = [self.sentences[n][:i], *reversed(self.sentences[max(0, n - _LOOKS_BACK) : n])]
        return [s for sentences in turns for s in reversed(sentences)]

    def _with_question(self, item: NoteItem, n: int, i: int) -> NoteItem:
        """Returns a decision with the question that it answers, which says what it is about."""
        question = next(iter(self._before(n, i)), None)
        if question is None or not question.is_question:
            return item
        name = self.sentences[n][i].turn.name
        words = f"{name} decided: {question.text} {self.sentences[n][i].text}"
        return replace(item, statement=words, evidence=(question.span,))

    def _gap(self, n: int, i: int) -> NoteItem | None:
        """Returns a question of a person that no later turn of the session answers."""
        sentence = self.sentences[n][i]
        if len(sentence.text.split()) < _MIN_WORDS or REQUEST.search(sentence.text):
            return None
        turns = self.session.turns[n + 1 : n + 1 + _ANSWERS_WITHIN]
        is_last = i + 1 == len(self.sentences[n])
        for k, turn in enumerate(turns):
            if turn.speaker != sentence.turn.speaker and _answers(turn, sentence, is_reply=is_last and k == 0):
                return None
        return NoteItem("gap", f"Open question of {sentence.turn.name}: {sentence.text}", sentence.span, _GAP)


def _answers(turn: Turn, question: Sentence, is_reply: bool) -> bool:
    """Returns whether a turn may answer a question: it replies to it, or it shares a word with it."""
    sentences = turn.sentences
    if NO_ANSWER.search(turn.text) or UNREAL.search(turn.text) or all(s.is_question for s in sentences):
        return False
    return is_reply or bool(set(query_terms(question.text)) & set(query_terms(turn.text)))


def _decision(text: str, statement: str, turn: Turn) -> str:
    """Returns a decision that says whose it is."""
    return statement if re.match(r"(?:I|We)\b", text) else f"{turn.name} decided: {statement}"
