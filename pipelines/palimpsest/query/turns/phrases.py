"""Names and phrases of turns that a follow-up may refer to."""

import re
from dataclasses import dataclass

from palimpsest.query.turns.dependence import (
    AUXILIARIES,
    DETERMINERS,
    HE_OR_SHE,
    IT,
    OPENERS,
    PLACE_PREPOSITIONS,
    PREPOSITIONS,
    QUESTION_WORDS,
    THEY,
    TOKEN,
    is_content,
    is_function_word,
    is_person_noun,
    is_time,
    word_set,
)

_ID = re.compile(r"(?=\S*\d)(?=\S*[A-Z])\w+(?:[-.]\w+)+|[A-Z]{2,}+[^\W\d]*+\d\w*+")
_NO_PERSON_BEFORE = word_set("the a an our this each every")
_TITLES = word_set("dr mr mrs ms prof st")
_LINKS = word_set("of the de van von der and")  # inside a name: The Isle of Skye
_LABEL = re.compile(r"\s*(user|human|assistant|ai|bot|system)\s*:\s*", re.IGNORECASE)
_BE = word_set("is are was were")
_DEFINES = ("what's", "where's", *(f"{asks} {be}" for asks in ("what", "where") for be in sorted(_BE)))
_ASSISTANT = word_set("assistant ai bot system")
_QUESTION_BEGINS = 4  # words
_OPENING = 6  # words in which a question says what it wants
_NO_SUBJECT = AUXILIARIES | HE_OR_SHE | THEY | IT | word_set("i me you we us")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\bDr\.)(?<!\bM[rs]\.)(?<!\bMrs\.)(?<!\bProf\.)(?<!\bSt\.)\s+")


@dataclass(frozen=True)
class Name:
    """A name in a turn.

    Attributes:
        text: the name.
        may_be_person: no article precedes it, no digit is in it, and it is at most three words.
        is_place: `in`, `at` or such a word precedes it.
        is_governed: another preposition precedes it: it is no subject.
        is_sure: it is capitalized inside a sentence, or has several words: the first word is always capitalized.
    """

    text: str
    may_be_person: bool
    is_place: bool
    is_governed: bool
    is_sure: bool


@dataclass(frozen=True)
class Turn:
    """What one side wrote.

    Attributes:
        text: the words, without a label such as `user:`.
        by_assistant: whether its label states that; None where it has none.
    """

    text: str
    by_assistant: bool | None = None

    @staticmethod
    def parse(text: str) -> "Turn":
        """Makes it of a turn as it was given, whose label may name the side."""
        label = _LABEL.match(text)
        if label is None:
            return Turn(text.strip())
        return Turn(text[label.end() :].strip(), label.group(1).lower() in _ASSISTANT)

    @property
    def is_question(self) -> bool:
        """Whether the turn asks: it has a question mark, or begins as a question with a verb does."""
        if self.by_assistant:
            return False
        words = [m.group().lower() for m in TOKEN.finditer(self.text)][:_QUESTION_BEGINS]
        if not words or "?" in self.text:
            return bool(words)
        return words[0] in AUXILIARIES or (words[0] in QUESTION_WORDS and any(w in AUXILIARIES for w in words[1:]))


def split_sentences(text: str) -> list[str]:
    """Returns the sentences of a turn."""
    return [s for s in _SENTENCE_END.split(text.strip()) if s]


def find_names(text: str) -> list[Name]:
    """Returns the names and ids in a text, in order, repeats included."""
    found: list[Name] = []
    for sentence in split_sentences(text):
        words = list(TOKEN.finditer(sentence))
        i = 0
        while i < len(words):
            if not _is_name_word(words[i].group()):
                i += 1
                continue
            end = i + 1
            while end < len(words) and _continues_name(sentence, words, end):
                end += 1
            while words[end - 1].group().lower() in _LINKS:
                end -= 1
            found.append(_make_name(sentence, words, i, end))
            i = end
    return found


def _is_name_word(word: str) -> bool:
    return bool(_ID.fullmatch(word)) or (word[0].isupper() and not is_function_word(word.removesuffix("'s")))


def _continues_name(sentence: str, words: list[re.Match[str]], i: int) -> bool:
    between = sentence[words[i - 1].end() : words[i].start()].strip()
    if between and not (between == "." and words[i - 1].group().lower() in _TITLES):
        return False
    word = words[i].group()
    if word.lower() in _LINKS - {"and"}:
        return any(_is_name_word(w.group()) for w in words[i + 1 : i + 3])
    return _is_name_word(word) or (word[0].isdigit() and len(word) > 1)


def _make_name(sentence: str, words: list[re.Match[str]], start: int, end: int) -> Name:
    text = sentence[words[start].start() : words[end - 1].end()].removesuffix("'s").removesuffix("\u2019s")
    before = words[start - 1].group().lower() if start else ""
    plain = all(w.group().replace("'s", "").replace("\u2019s", "").isalpha() for w in words[start:end])
    person = plain and before not in _NO_PERSON_BEFORE and end - start <= len(("first", "middle", "last"))
    place = before in PLACE_PREPOSITIONS
    governed = before in PREPOSITIONS and not place and before not in ("by", "with", "from")
    sure = start > 0 or end - start > 1 or not plain or len(words) == 1
    return Name(text, person, place, governed, sure)


def subject_phrase(question: str) -> str:
    """Returns what a question is about: its words without question words, auxiliaries and pronouns.

    Of one that asks who did something only the object: the verb says nothing of it.
    """
    words = [m.group() for m in TOKEN.finditer(question)]
    folded = [w.lower() for w in words]
    begin = 0
    while begin < len(words) and _leads(words[begin]):
        begin += 1
    opening = folded[:begin]
    if opening[-1:] == ["how"] and folded[begin + 1 : begin + 2] and folded[begin + 1] in AUXILIARIES:  # how wide is
        begin += 1
    elif opening and opening[-1] in ("who", "whom"):
        begin = next((i for i in range(begin, len(words)) if folded[i] in DETERMINERS or i > begin), begin)
    kept = [w for w in words[begin:] if w.lower() not in _NO_SUBJECT]
    while kept and not is_content(kept[-1]):
        kept.pop()
    return " ".join(kept)


def is_definition(question: str) -> bool:
    """Returns whether a question asks what or where its subject is: the subject stays what is spoken of."""
    words = [m.group().lower() for m in TOKEN.finditer(question)][:2]
    return " ".join(words).startswith(_DEFINES)


def person_defined(question: str) -> str:
    """Returns the name of whom a question asks who that is; "" where it asks another thing."""
    words = list(TOKEN.finditer(question))
    folded = [w.group().lower() for w in words[:2]]
    at = 1 if folded[:1] == ["who's"] else 2 if folded[:1] == ["who"] and folded[1:] and folded[1] in _BE else 0
    names = [n.text for n in find_names(question) if n.may_be_person] if at else []
    return names[0] if names and question[words[at - 1].end() :].lstrip().startswith(names[0]) else ""


def _leads(word: str) -> bool:
    folded = word.lower()
    return folded in QUESTION_WORDS or folded in AUXILIARIES or folded in OPENERS or folded in PREPOSITIONS


def content_words(text: str) -> list[str]:
    """Returns the words that say what a text is about, in order, times left out."""
    return [w for w in (m.group() for m in TOKEN.finditer(text)) if is_content(w) and not is_time(w)]


def asks_person(question: str) -> bool:
    """Returns whether a question wants a person: who, which singer, what is the name of your boss."""
    words = [m.group().lower() for m in TOKEN.finditer(question)][:_OPENING]
    asks = next((i for i, w in enumerate(words) if w.removesuffix("'s") in QUESTION_WORDS), None)
    if asks is None or words[asks] not in ("which", "what"):
        return asks is not None and words[asks].startswith("who")
    heads = [w for w, following in zip(words[asks + 1 :], words[asks + 2 :], strict=False) if _ends_phrase(following)]
    named = words[-1:] if words[asks + 1 : asks + 2] in (["is"], ["are"], ["was"], ["were"]) else []
    return any(is_person_noun(w) for w in [*words[asks + 1 : asks + 2], *heads, *named])


def _ends_phrase(following: str) -> bool:
    return following in AUXILIARIES or not is_content(following)


def person_phrase(text: str) -> str:
    """Returns the common noun of the first person that a text mentions; "" where it mentions none."""
    words = (m.group().removesuffix("'s") for m in TOKEN.finditer(text))
    return next((w for w in words if is_person_noun(w.lower())), "")
