"""A phrase or a time put into the last question: `and the catalogue` after `when is the novel due`."""

import re

from palimpsest.query.turns.phrases import Name, find_names, is_definition, person_phrase
from palimpsest.query.turns.words import (
    AUXILIARIES,
    DETERMINERS,
    HE_OR_SHE,
    PLACE_PREPOSITIONS,
    PREPOSITIONS,
    QUESTION_WORDS,
    TOKEN,
    is_content,
    is_time,
)

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
