"""Items of a note by rules: what the turns of a session say in so many words, and nothing that they suggest.

Rules read what a sentence says, and a small model how much it is worth keeping; both decide. Precision comes first:
a supposition, a report or a single event of the past forms nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from palimpsest.formation.classify.judge import Judgment
from palimpsest.formation.classify.sentence_features import read_sentence
from palimpsest.formation.classify.sentence_model import SentenceModel, sentence_model
from palimpsest.formation.cues import (
    DECISION,
    FIRST_PERSON,
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
from palimpsest.formation.item import Kind, NoteItem
from palimpsest.formation.neighbours import (
    MIN_WORDS,
    Reply,
    SaidBefore,
    is_said,
    is_statement,
    is_unsolved,
    states_open_problem,
    states_problem,
)
from palimpsest.formation.session import Sentence, Session, Turn
from palimpsest.formation.stated import states_fact, states_preference
from palimpsest.formation.third_person import third_person
from palimpsest.text.parse import Parse, parse_texts

_SAVED, _PREFERENCE, _DECISION, _FACT, _SOLUTION, _GAP = 0.95, 0.9, 0.85, 0.8, 0.7, 0.6
_ANSWERS_WITHIN = 2  # turns
_MIN_READ = 2  # words of a sentence that is read


def form_items(sessions: Sequence[Session], model: SentenceModel | None = None) -> Iterator[list[NoteItem]]:
    """Yields the items of each session, in the order of its turns; a pure function of each session alone.

    Args:
        sessions: the sessions.
        model: judges sentences; without one the model that comes with Palimpsest.

    Raises:
        ComponentFailed: the file of the model that judges sentences is missing or damaged.
    """
    model = model or sentence_model()
    for rules in read_by_rules(sessions):
        yield list(rules.items(model))


def read_by_rules(sessions: Sequence[Session]) -> Iterator["SessionRules"]:
    """Yields each session with the parses of its sentences that have a cue."""
    read = [[t.sentences if t.is_person else () for t in s.turns] for s in sessions]
    texts = dict.fromkeys(_to_parse(s) for turns in read for sentences in turns for s in sentences if _has_cue(s))
    parses = dict(zip(texts, parse_texts(texts), strict=True))
    for session, turns in zip(sessions, read, strict=True):
        yield SessionRules(session, turns, parses)


def _has_cue(sentence: Sentence) -> bool:
    text = sentence.text
    if sentence.is_question or len(text.split()) < MIN_WORDS:
        return False
    return sentence.turn.is_saved or any(cue.search(text) for cue in (FIRST_PERSON, SAVE, PRESENT_NAME, DECISION))


def _to_parse(sentence: Sentence) -> str:
    """Returns the words of a sentence that are read: of an explicit save what is to be remembered."""
    saved = SAVE.search(sentence.text)
    text = saved["saved"] if saved else sentence.text
    text = OPENING_WORD.sub("", text)
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class SessionRules:
    """What rules find in the sentences of a session.

    Attributes:
        session: the session.
        sentences: of each turn of a person; none of other turns.
        parses: of the texts that have a cue.
    """

    session: Session
    sentences: Sequence[Sequence[Sentence]]
    parses: Mapping[str, Parse]

    def places(self) -> list[tuple[int, int]]:
        """Returns the turn and the number of each sentence that is read."""
        return [
            (n, i)
            for n, sentences in enumerate(self.sentences)
            for i, s in enumerate(sentences)
            if len(s.text.split()) >= _MIN_READ
        ]

    def items(self, model: SentenceModel) -> Iterator[NoteItem]:
        """Yields the items of all turns, by rules and model together."""
        places = self.places()
        found = [self.by_rules(n, i) for n, i in places]
        kinds = [item.kind if item is not None else None for item in found]
        features = [read_sentence(self.session, n, i, kind) for (n, i), kind in zip(places, kinds, strict=True)]
        for (n, i), by_rules, row in zip(places, found, model.predict(features), strict=True):
            item = self._decided(by_rules, Judgment.of(row), n, i)
            if item is not None:
                yield self._with_question(item, n, i) if item.kind == "decision" else item

    def by_rules(self, n: int, i: int) -> NoteItem | None:
        """Returns what rules alone find in a sentence."""
        sentence = self.sentences[n][i]
        if sentence.is_question:
            return self._gap(n, i)
        return self._solution(n, i) or (self._stated(sentence) if _has_cue(sentence) else None)

    def _decided(self, by_rules: NoteItem | None, judgment: Judgment, n: int, i: int) -> NoteItem | None:
        """Returns what a sentence forms; what somebody saves is formed in any case."""
        if by_rules is not None and by_rules.is_saved:
            return by_rules
        kind = judgment.decide(by_rules.kind if by_rules is not None else None)
        if kind is None or (kind == "gap" and by_rules is None and self.sentences[n][i].is_question):
            return None  # rules know which questions were answered
        return by_rules if by_rules is not None and by_rules.kind == kind else self._item(kind, n, i)

    def _item(self, kind: Kind, n: int, i: int) -> NoteItem:
        """Returns an item of a kind that rules did not find."""
        sentence = self.sentences[n][i]
        if kind == "gap":
            return _open_question(sentence)
        if kind == "solution":
            return _solved(
                sentence, self._before.nearest(states_problem, n, i) or self._before.nearest(is_statement, n, i)
            )
        text, turn = _to_parse(sentence), sentence.turn
        parse = self.parses.get(text) or next(parse_texts([text]))
        statement = third_person(text, parse, turn.name)
        if kind == "decision":
            return NoteItem(kind, _decision(text, statement, turn), sentence.span, _DECISION)
        opener = self._before.nearest(is_said, n, i) if OPENING_PRONOUN.match(statement) else None
        if opener is None:
            return NoteItem(kind, statement, sentence.span, _FACT)
        return NoteItem(kind, f"{turn.name} says: {opener.text} {sentence.text}", sentence.span, _FACT, (opener.span,))

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
        if DECISION.search(text) and len(text.split()) > MIN_WORDS:
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
        problem = self._before.nearest(states_open_problem, n, i)
        if problem is None and not PROBLEM.search(sentence.text):
            problem = self._before.nearest(is_unsolved, n, i)
            if problem is None or not REFERS_BACK.search(sentence.text):
                return None
        return _solved(sentence, problem)

    @cached_property
    def _before(self) -> SaidBefore:
        return SaidBefore(self.sentences)

    @cached_property
    def _replies(self) -> list[Reply]:
        return [Reply(turn) for turn in self.session.turns]

    def _with_question(self, item: NoteItem, n: int, i: int) -> NoteItem:
        """Returns a decision with the question that it answers, which says what it is about."""
        question = self._before.nearest(is_said, n, i)
        if question is None or not question.is_question:
            return item
        name = self.sentences[n][i].turn.name
        words = f"{name} decided: {question.text} {self.sentences[n][i].text}"
        return replace(item, statement=words, evidence=(question.span,))

    def _gap(self, n: int, i: int) -> NoteItem | None:
        """Returns a question of a person that no later turn of the session answers."""
        sentence = self.sentences[n][i]
        if len(sentence.text.split()) < MIN_WORDS or REQUEST.search(sentence.text):
            return None
        replies = self._replies[n + 1 : n + 1 + _ANSWERS_WITHIN]
        is_last = i + 1 == len(self.sentences[n])
        for k, reply in enumerate(replies):
            if reply.turn.speaker != sentence.turn.speaker and reply.answers(sentence, is_next=is_last and k == 0):
                return None
        return _open_question(sentence)


def _open_question(sentence: Sentence) -> NoteItem:
    return NoteItem("gap", f"Open question of {sentence.turn.name}: {sentence.text}", sentence.span, _GAP)


def _solved(sentence: Sentence, problem: Sentence | None) -> NoteItem:
    """Returns what solved a problem; without one the sentence names it itself."""
    words = [s.text.rstrip(".!") + "." for s in (problem, sentence) if s is not None]
    statement = f"{sentence.turn.name} says: {' '.join(words)}"
    evidence = (problem.span,) if problem is not None else ()
    return NoteItem("solution", statement, sentence.span, _SOLUTION, evidence)


def _decision(text: str, statement: str, turn: Turn) -> str:
    """Returns a decision that says whose it is."""
    return statement if re.match(r"(?:I|We)\b", text) else f"{turn.name} decided: {statement}"
