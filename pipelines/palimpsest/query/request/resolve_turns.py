"""A follow-up question in words that stand alone: what it leaves open is taken from the turns before it.

No model is called. Pronouns become the names or phrases that they refer to, by the oldest results on the matter (Hobbs,
1978; Lappin and Leass, 1994): the latest exchange first, in it the answer to the question, then the subject of the
question. What a question omits is taken from the last question. Turns are read here only: nothing keeps them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from palimpsest.query.request.dependence import (
    AUXILIARIES,
    DETERMINERS,
    HE_OR_SHE,
    IT,
    PLACE_PREPOSITIONS,
    PREPOSITIONS,
    QUESTION_WORDS,
    TOKEN,
    Dependence,
    Kind,
    Name,
    Omission,
    OpenPronoun,
    Turn,
    asks_person,
    content_words,
    find_dependence,
    find_names,
    is_content,
    is_definition,
    is_time,
    person_defined,
    person_phrase,
    split_sentences,
    subject_phrase,
)
from palimpsest.text.words import word_set

# A phrase or a time put into the last question: `and the catalogue` after `when is the novel due`.

_THAT = re.compile(r"\b(?:that|this|then|it)\b", re.IGNORECASE)
_SUBJECTS = HE_OR_SHE | {"i", "we", "you"}
_MAX_PHRASE = 5  # words of a noun phrase
_PREFIX = re.compile(r"[^\W\d]*")


def put_into_frame(question: str, phrase: str) -> str:
    """Returns a question with a phrase in place of the one it refers to; "" where no place in it is one.

    A person takes the place of `I` or `she`, a phrase with a preposition stands at the end.

    Args:
        question: the last question.
        phrase: what the follow-up adds, such as `in Brakel`.
    """
    words = list(TOKEN.finditer(question))
    span = _name_span(question, phrase) or _shared_span(words, phrase) or _preposition_span(words, phrase)
    span = span or _noun_span(words, phrase) or _subject_span(words, phrase)
    first = TOKEN.search(phrase)
    governed = first is not None and first.group().lower() in PREPOSITIONS
    if span is None:
        return f"{question.rstrip(' ?.!')} {phrase}?" if governed else ""
    start, end = span
    if governed:
        before = [w for w in words if w.end() <= start]
        if before and before[-1].group().lower() in PREPOSITIONS:
            start = before[-1].start()
    return f"{question[:start]}{phrase}{question[end:]}"


def put_time_into_frame(question: str, phrase: str) -> str:
    """Returns a question with another time in it: what it says of time is removed."""
    out, removed, end = [], [], 0
    words = list(TOKEN.finditer(question))
    for i, word in enumerate(words):
        following = words[i + 1] if i + 1 < len(words) else None
        before_time = following is not None and is_time(following.group())
        governs = before_time and word.group().lower() in PREPOSITIONS | DETERMINERS
        if governs or is_time(word.group()):
            out.append(question[end : word.start()])
            end = word.end()
            removed += [] if governs else [word.group()]
    if removed and (that := _THAT.search(phrase)):
        phrase = f"{phrase[: that.start()]}{' '.join(removed)}{phrase[that.end() :]}"
    kept = " ".join("".join([*out, question[end:]]).split()).rstrip(" ?.!")
    return f"{kept} {phrase}?"


def _name_span(question: str, phrase: str) -> tuple[int, int] | None:
    """Returns the place of the name of the same kind as the one in the phrase."""
    names = find_names(phrase)
    if not names:
        return None
    new, places = names[0], [(n, question.find(n.text)) for n in find_names(question)]
    first = TOKEN.search(phrase)
    in_place = first is not None and first.group().lower() in PLACE_PREPOSITIONS
    fitting = [(n, at) for n, at in places if _same_shape(n, new) and (n.is_place == in_place)]
    fitting = fitting or [(n, at) for n, at in places if _same_shape(n, new)]
    return (fitting[0][1], fitting[0][1] + len(fitting[0][0].text)) if fitting else None


def _same_shape(one: Name, two: Name) -> bool:
    if any(c.isdigit() for c in one.text + two.text):
        return _prefix(one.text) == _prefix(two.text)
    return one.may_be_person == two.may_be_person


def _prefix(name: str) -> str:
    found = _PREFIX.match(name)
    return found.group().lower()[:2] if found else ""


def _shared_span(words: list[re.Match[str]], phrase: str) -> tuple[int, int] | None:
    """Returns the noun phrase of the question that shares a word with the new one."""
    mine = {m.group().lower() for m in TOKEN.finditer(phrase) if is_content(m.group())}
    at = next((i for i, w in enumerate(words) if w.group().lower() in mine), None)
    return None if at is None else _grow(words, at, mine)


def _grow(words: list[re.Match[str]], at: int, mine: set[str]) -> tuple[int, int]:
    start = at
    while start and (_in_phrase(words[start - 1].group()) or words[start - 1].group().lower() in DETERMINERS):
        start -= 1
    end = max(i for i in range(at, min(len(words), at + _MAX_PHRASE)) if words[i].group().lower() in mine)
    return words[start].start(), words[end].end()


def _in_phrase(word: str) -> bool:
    return is_content(word) and word.lower() not in AUXILIARIES


def _preposition_span(words: list[re.Match[str]], phrase: str) -> tuple[int, int] | None:
    """Returns what follows the phrase's own preposition in the question."""
    first = TOKEN.search(phrase)
    if first is None or (preposition := first.group().lower()) not in PREPOSITIONS:
        return None
    at = next((i for i, w in enumerate(words) if i and w.group().lower() == preposition), None)
    if at is None or at + 1 >= len(words) or words[at + 1].group().lower() in QUESTION_WORDS:
        return None
    end = at + 1
    while end + 1 < len(words) and words[end + 1].group().lower() not in PREPOSITIONS:
        end += 1
    return words[at + 1].start(), words[end].end()


def _noun_span(words: list[re.Match[str]], phrase: str) -> tuple[int, int] | None:
    """Returns the first noun phrase with an article or a possessive: the subject, in most questions."""
    first = TOKEN.search(phrase)
    if first is not None and first.group().lower() in PREPOSITIONS:
        return None
    at = next((i for i, w in enumerate(words) if w.group().lower() in DETERMINERS), None)
    if at is None:
        return None
    end = at
    while end + 1 < len(words) and _in_phrase(words[end + 1].group()):
        end += 1
    inverted = any(w.group().lower() in AUXILIARIES for w in words[:at])
    inverted = inverted and not is_definition("".join(f"{w.group()} " for w in words))
    if inverted and end == len(words) - 1 and end > at + 1:  # the verb ends such a question
        end -= 1
    return (words[at].start(), words[end].end()) if end > at else None


def _subject_span(words: list[re.Match[str]], phrase: str) -> tuple[int, int] | None:
    """Returns the pronoun that is the subject of a question, where the phrase is a person."""
    is_person = bool(person_phrase(phrase)) or any(n.may_be_person for n in find_names(phrase))
    subject = next((w for w in words if w.group().lower() in _SUBJECTS), None) if is_person else None
    return subject.span() if subject else None


MAX_TURNS = 5
MAX_TURN_CHARS = 2_000
_MAX_NAMES = 4  # that a plural refers to
_MAX_ANSWER_WORDS = 6  # of an answer that is a name or a phrase
_MIN_CONTENT = 2  # words; a question with fewer is completed by the last question
_CITATION = re.compile(r"\s*\[(?:(?:memory|pending):[0-9a-f]{1,16}|\d{1,4}(?:, ?\d{1,4})*)\]")
_REFUSAL = re.compile(
    r"\W*(?:sorry\W+)?(?:but )?(?:(?:i|we)(?:['\u2019]m| am| are)? ?"
    r"(?:do not|don['\u2019]t|cannot|can['\u2019]t|could not|couldn['\u2019]t|unable to|not sure|have no|found no)\b"
    r" ?(?:have|know|see|find|recall|remember|say|tell|memor|record|information|mention|\W|$)|there (?:is|are) no\b)",
    re.IGNORECASE,
)
_CLAUSE_SUBJECTS = word_set("i you we they he she it")
_POSSESSIVES = word_set("his her its their hers theirs")


@dataclass(frozen=True)
class ResolvedText:
    """A question as it is searched.

    Attributes:
        text: the question with what it left open filled in; the question itself where it is complete.
        changes: what was filled in, one line each; empty where the text is unchanged.
    """

    text: str
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Exchange:
    """A question or statement of the user, and what was answered."""

    question: str
    answer: str


def resolve_text(text: str, turns: Sequence[str], brief: str = "") -> ResolvedText:
    """Returns a question with what it leaves open taken from the turns before it, or from the brief.

    A question that is complete by itself is returned as it is.

    Args:
        text: the question.
        turns: what was written before, oldest first; the last `MAX_TURNS` are read. A turn may begin with `user:` or
            `assistant:`.
        brief: what the conversation is about, as if it had been said first.
    """
    dependence = find_dependence(text)
    exchanges = _exchanges(turns, brief)
    if dependence.is_complete or not exchanges:
        return ResolvedText(text)
    if dependence.omission is not Omission.NOTHING:
        return _complete(text, dependence, exchanges)
    return _replace_pronouns(text, dependence.pronouns, exchanges)


def _exchanges(turns: Sequence[str], brief: str) -> list[_Exchange]:
    """Returns the exchanges, the latest first; the questions of earlier ones are resolved too."""
    read = [
        Turn.parse(_CITATION.sub("", t[:MAX_TURN_CHARS]))
        for t in [*([brief] if brief.strip() else []), *turns[-MAX_TURNS:]]
    ]
    pairs: list[tuple[str, str]] = []
    for turn in read:
        if not turn.text:
            continue
        answers = turn.by_assistant or (turn.by_assistant is None and not turn.is_question and _is_open(pairs))
        if answers and pairs:
            answer = "" if _REFUSAL.match(turn.text) else turn.text
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]} {answer}".strip())
        else:
            pairs.append((turn.text, ""))
    out: list[_Exchange] = []
    for question, answer in pairs:
        dependence = find_dependence(question)
        if out and dependence.omission is not Omission.NOTHING:
            question = _complete(question, dependence, out).text
        elif out and dependence.pronouns:
            question = _replace_pronouns(question, dependence.pronouns, out).text
        out.insert(0, _Exchange(question, answer))
    return out


def _is_open(pairs: Sequence[tuple[str, str]]) -> bool:
    return bool(pairs) and not pairs[-1][1]


def _complete(text: str, dependence: Dependence, exchanges: Sequence[_Exchange]) -> ResolvedText:
    """Completes a question that omits its verb from the latest exchange."""
    last = exchanges[0]
    if dependence.omission is Omission.EVERYTHING:
        known = {w.lower() for w in content_words(last.question)}
        added = [n.text for n in find_names(last.answer) if not {w.lower() for w in n.text.split()} <= known]
        asks_entity = _first_question_word(last.question) not in ("", "when", "how", "why")
        names = (
            " ".join(added[:_MAX_NAMES]) if not asks_entity or len(content_words(last.question)) < _MIN_CONTENT else ""
        )
        resolved = f"{last.question.rstrip(' ?.!')} {names}".strip() + f". {text}"
        return ResolvedText(resolved, (f"{text.strip()!r} follows {last.question!r}",))
    phrase = dependence.phrase
    if dependence.omission is Omission.TIME:
        resolved = put_time_into_frame(last.question, phrase)
    else:
        resolved = put_into_frame(last.question, phrase) if Turn(last.question).is_question else ""
    if not resolved:
        return ResolvedText(text)
    if dependence.pronouns:
        inner = find_dependence(resolved)
        resolved = _replace_pronouns(resolved, inner.pronouns, exchanges).text
    return ResolvedText(resolved, (f"{phrase!r} put into {last.question!r}",))


def _first_question_word(text: str) -> str:
    words = [m.group().lower() for m in TOKEN.finditer(text)][:3]
    return next((w.removesuffix("'s") for w in words if w in QUESTION_WORDS), "")


def _replace_pronouns(text: str, pronouns: Sequence[OpenPronoun], exchanges: Sequence[_Exchange]) -> ResolvedText:
    """Puts referents in place of pronouns; the last question's words too where the question has few of its own."""
    changes, out, end = [], [], 0
    placed: set[str] = set()
    for pronoun in pronouns:
        referent = _referent(pronoun, exchanges)
        if not referent or referent in placed:  # the name stands once: her is clear after it, and them is another
            continue
        placed.add(referent)
        shown = f"{referent}'s" if _is_possessive(text, pronoun) else referent
        if pronoun.kind is Kind.PLACE and not text[: pronoun.start].rstrip().lower().endswith((" in", " from", " to")):
            shown = f"in {referent}"
        out += [text[end : pronoun.start], shown]
        end = pronoun.end
        changes.append(f"{pronoun.word} = {referent}")
    resolved = "".join([*out, text[end:]])
    if not pronouns:
        return ResolvedText(text)
    settled = any(p.kind in (Kind.PERSON, Kind.PLACE) for p in pronouns)
    if len(content_words(text)) < (1 if settled else _MIN_CONTENT):
        known = {w.lower() for w in content_words(resolved)}
        added = [w for w in content_words(exchanges[0].question) if w.lower() not in known]
        if added:
            resolved = f"{resolved.rstrip()} {' '.join(added)}"
            changes.append(f"added {' '.join(added)!r} from {exchanges[0].question!r}")
    return ResolvedText(resolved, tuple(changes)) if changes else ResolvedText(text)


def _is_possessive(text: str, pronoun: OpenPronoun) -> bool:
    following = TOKEN.match(text, pronoun.end + 1)
    return pronoun.word.lower() in _POSSESSIVES and following is not None and is_content(following.group())


def _referent(pronoun: OpenPronoun, exchanges: Sequence[_Exchange]) -> str:
    """Returns what a pronoun refers to: the best of the latest exchange that has a candidate; "" where none has."""
    find = {Kind.PERSON: _person, Kind.GROUP: _group, Kind.THING: _thing, Kind.PLACE: _place}[pronoun.kind]
    found = next((f for e in exchanges if (f := find(e))), "")
    if found or pronoun.kind is Kind.PERSON:
        return found
    return next((f for e in exchanges if (f := subject_phrase(e.question))), "")


def _person(exchange: _Exchange) -> str:
    """Returns the person of an exchange: who the answer names if the question wants a person, else the question's.

    Of `who is Tom` it is Tom, whomever the answer names.
    """
    if defined := person_defined(exchange.question):
        return defined
    of_answer, of_question = (_persons(t) for t in (exchange.answer, exchange.question))
    names = [*of_answer, *of_question] if asks_person(exchange.question) else [*of_question, *of_answer]
    return next((n.text for n in names), "") or person_phrase(exchange.question)


def _persons(text: str) -> list[Name]:
    """Returns the names in a text that may be a person's: subjects first, in order."""
    names = [n for n in find_names(text) if n.may_be_person and not n.is_place]
    return sorted(names, key=lambda n: (n.is_governed, not n.is_sure))


def _group(exchange: _Exchange) -> str:
    of_answer, of_question = find_names(exchange.answer), find_names(exchange.question)
    names = of_answer if len(of_answer) > 1 or not of_question else of_question
    if len(names) > 1:
        return " and ".join(dict.fromkeys(n.text for n in names[:_MAX_NAMES]))
    return _thing(exchange) or (names[0].text if names else "")


def _thing(exchange: _Exchange) -> str:
    """Returns the thing of an exchange: what the answer names where the question wants a thing, else the subject."""
    subject = subject_phrase(exchange.question)
    if _first_question_word(exchange.question) not in ("what", "which", "where") or not exchange.answer:
        return subject
    answer = split_sentences(exchange.answer)[0]
    known = set(content_words(exchange.question))
    words = [w for w in content_words(answer) if w not in known]
    first = TOKEN.search(answer)
    defines = is_definition(exchange.question)
    if defines or len(words) > _MAX_ANSWER_WORDS or (first and first.group().lower() in _CLAUSE_SUBJECTS):
        words = [n.text for n in find_names(answer) if n.text not in exchange.question][:_MAX_NAMES]
    refers_back = bool({m.group().lower() for m in TOKEN.finditer(answer)} & IT) or defines
    return " ".join([*words, *([subject] if refers_back or not words else [])])


def _place(exchange: _Exchange) -> str:
    names = [n for t in (exchange.answer, exchange.question) for n in find_names(t)]
    place = next((n for n in names if n.is_place), None)
    return (place or names[0]).text if names else ""
