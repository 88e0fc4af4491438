"""Items of a note by rules: what the turns of a session say in so many words, and nothing that they suggest.

Rules read what a sentence says, and a small model how much it is worth keeping; both decide. Precision comes first:
a supposition, a report or a single event of the past forms nothing.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from palimpsest.facts.clause_tree import ClauseTree
from palimpsest.formation.sentence_model import (
    DECISION,
    FIRST_PERSON,
    NO_ANSWER,
    NO_DECISION,
    NO_PREFERENCE,
    OPENING_PRONOUN,
    OPENING_WORD,
    PREFERENCE,
    PREFERENCE_VERBS,
    PRESENT_NAME,
    PROBLEM,
    REFERS_BACK,
    REQUEST,
    SAVE,
    SOLUTION,
    UNREAL,
    UNSOLVED,
    Judgment,
    SentenceModel,
    read_sentence,
    sentence_model,
)
from palimpsest.formation.session import Kind, NoteItem, Sentence, Session, Turn
from palimpsest.text.parse import Parse, parse_texts
from palimpsest.text.terms import query_terms
from palimpsest.text.words import word_set

# What is said around a sentence that rules read: the nearest of a kind before it, and whether a turn answers it.
#
# Each sentence and each turn is read once, however many sentences look at it: a long turn takes linear time.

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


# Whether a parsed sentence states a preference or a lasting fact of its speaker, or of somebody they name.


_SPEAKERS = frozenset({"i", "we"})
_OWN = frozenset({"my", "our"})
# What is thought, said or seen now is no lasting fact of who says it.
_PASSING = word_set(
    "think guess suppose know mean hope wish wonder feel see hear say tell ask agree believe remember forget thank "
    "understand imagine expect seem look sound smell doubt apologize appreciate promise bet swear admit confess "
    "want try love like enjoy hate let get find come give show notice realize recall miss talk"
)
# What somebody did once, and is so from then on.
_LASTING = word_set(
    "move switch buy sign book start begin quit stop join leave marry adopt order hire swap change take hand retire "
    "apply give lend rent sell enrol enroll register subscribe graduate graduate open close replace finish found "
    "become get turn drop pass bring work live grow study teach own run"
)
_FUTURE = frozenset({"will", "'ll", "going"})
_MODALS = frozenset({"can", "could", "may", "might", "would", "should", "must", "'d"})


def states_preference(text: str, parse: Parse) -> bool:
    """Returns whether a sentence states what somebody prefers, likes or avoids."""
    if PREFERENCE.search(text):
        return True
    if NO_PREFERENCE.search(text):
        return False
    tree = ClauseTree(parse)
    return any(
        parse.lemmas[head] in PREFERENCE_VERBS and _is_present(parse, tree, head) and _subject(parse, tree, head) != ""
        for head in tree.heads
        if parse.deps[head] in ("ROOT", "conj", "ccomp")
    )


def states_fact(parse: Parse) -> bool:
    """Returns whether the main clause of a sentence states a lasting fact."""
    tree = ClauseTree(parse)
    return any(_states_fact(parse, tree, head) for head in tree.heads if _is_main(parse, head))


def _is_main(parse: Parse, head: int) -> bool:
    if parse.deps[head] == "ROOT":
        return True
    # `It is cheap, I take it daily`: the parser reads the first clause as a complement of the second.
    return parse.deps[head] in ("conj", "ccomp", "parataxis") and parse.deps[parse.heads[head]] == "ROOT"


def _states_fact(parse: Parse, tree: ClauseTree, head: int) -> bool:
    subject = _subject(parse, tree, head)
    if not subject or (subject == "speaker" and parse.lemmas[head] in _PASSING):
        return False
    below = tree.children[head]
    if parse.lemmas[head] == "do" and not any(parse.deps[c] == "dobj" for c in below):
        return False  # `I do in the mornings`: what is done is said elsewhere
    helpers = {parse.words[c] for c in below if parse.deps[c] in ("aux", "auxpass")}
    if helpers & _MODALS or any(parse.words[c] in ("if", "unless", "whether") for c in below):
        return False
    if len(tree.own(head)) < 3:
        return False
    if _is_present(parse, tree, head):
        return True
    if helpers & {"have", "has", "'ve", "'s"} or helpers & _FUTURE:
        return True
    return subject != "name" and parse.lemmas[head] in _LASTING and parse.tags[head] == "VBD"


def _is_present(parse: Parse, tree: ClauseTree, head: int) -> bool:
    """Returns whether a clause says what is so, or is done as a rule or at present."""
    helpers = [c for c in tree.children[head] if parse.deps[c] in ("aux", "auxpass")]
    first = helpers[0] if helpers else head
    if parse.words[first] in _MODALS | _FUTURE:
        return False
    return parse.tags[first] in ("VBP", "VBZ") or (parse.tags[first] == "VB" and not helpers)


def _subject(parse: Parse, tree: ClauseTree, head: int) -> str:
    """Returns whose clause it is: the `speaker`'s, of something of theirs (`own`), of a `name`, or empty."""
    subject = tree.subject(head)
    if subject < 0:
        return ""
    words = {parse.words[i] for i in parse.subtree(subject)}
    if words & _SPEAKERS:
        return "speaker"
    if words & _OWN:
        return "own"
    is_named = any(parse.pos[i] == "PROPN" and parse.is_capitalized[i] for i in parse.subtree(subject))
    return "name" if is_named and not re.fullmatch(r"(?:mr|mrs|dr)\.?", parse.words[subject]) else ""


# A sentence in the first person as a statement that can be read alone: the speaker's name replaces `I`.

_PRESENT = {"am": "is", "'m": "is", "have": "has", "'ve": "has", "do": "does"}
_WILL = {"'ll": "will"}
_AFTER_WE = {"'re": "are", "'ve": "have", "'ll": "will"}
_SIBILANT = ("s", "x", "z", "ch", "sh", "o")
_SINGULAR, _PLURAL = "i", "we"


def third_person(text: str, parse: Parse, name: str) -> str:
    """Returns a sentence with `name` in place of the first person, and verbs that agree with it.

    Args:
        text: the sentence, with single spaces.
        parse: of the sentence.
        name: who says it.
    """
    tree = ClauseTree(parse)
    verbs = _verbs_of_speaker(parse, tree)
    is_plural = False
    pieces: list[str] = []
    position = 0
    for i, word in enumerate(parse.words):
        start = parse.starts[i]
        original = text[start : start + len(word)]
        new = _pronoun(word, parse.deps[i], name, is_plural)
        is_plural |= word == _PLURAL
        if new is None and i > 0 and parse.words[i - 1] in (_SINGULAR, _PLURAL):
            new = _contraction(parse, i)
        if new is None and i in verbs:
            new = _verb(word, parse.tags[i], parse.lemmas[i])
        if new is None:
            continue
        gap = text[position:start]
        if original[:1] == "'" and not gap.endswith(" "):
            gap += " "
        pieces += [gap, new]
        position = start + len(word)
    out = " ".join("".join([*pieces, text[position:]]).split())
    return out[:1].upper() + out[1:]


def _verbs_of_speaker(parse: Parse, tree: ClauseTree) -> set[int]:
    """Returns the verbs in the present whose subject is `I`, auxiliaries instead of the verb where there are some."""
    found: set[int] = set()
    for head in tree.heads:
        subject = tree.subject(head)
        if subject < 0 or parse.words[subject] != _SINGULAR or len(tree.joined(subject)) > 1:
            continue
        helpers = [c for c in tree.children[head] if parse.deps[c] in ("aux", "auxpass")]
        is_finite = parse.tags[head] in ("VBP", "VB") and not helpers
        found.update([head] if is_finite else helpers[:1])
    return found


def _pronoun(word: str, dep: str, name: str, is_plural: bool) -> str | None:
    if word == _SINGULAR:
        return name
    if word in ("me", "myself"):
        return name
    if word in ("my", "mine"):
        return f"{name}'s"
    if word == _PLURAL:
        return "they" if is_plural else f"{name} and others"
    if word == "us":
        return "them" if is_plural else f"{name} and others"
    if word == "ourselves":
        return "themselves"
    if word in ("our", "ours"):
        return "their" if is_plural else f"{name}'s"
    return None


def _contraction(parse: Parse, place: int) -> str | None:
    """Returns a contracted auxiliary in full, which a name cannot have; None for any other word."""
    word, subject = parse.words[place], parse.words[place - 1]
    if word == "'d":
        return "had" if _is_had(parse, place) else "would"
    return _AFTER_WE.get(word) if subject == _PLURAL else None


def _is_had(parse: Parse, place: int) -> bool:
    """Returns whether `'d` is `had`: before `better`, and where the next verb of its group is no infinitive.

    The tag of `'d` alone does not say: a parser calls it a modal before most adverbs and irregular participles.
    """
    head = parse.heads[place]
    later = range(place + 1, len(parse.words))
    if parse.words[place + 1 : place + 2] == ("better",):
        return True
    group = (i for i in later if i == head or (parse.heads[i] == head and parse.deps[i] in ("aux", "auxpass")))
    verb = next(group, None)
    return parse.tags[place] != "MD" if verb is None else parse.tags[verb] in ("VBN", "VBD")


def _verb(word: str, tag: str, lemma: str) -> str | None:
    if word in _WILL:
        return _WILL[word]
    if word in _PRESENT:
        return _PRESENT[word]
    if tag not in ("VBP", "VB") or word == "'d":
        return None
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(_SIBILANT) else "s")


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
