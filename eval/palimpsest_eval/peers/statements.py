"""What the scripted language model finds in a text: things, and one statement for each pair of a sentence. No model.

Things are capitalised names and, where a sentence has few of these, its longest runs of content words. It is a modest
extraction: a real model finds more, resolves pronouns and names relations better.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from palimpsest.text.stopwords import NON_TOPIC_WORDS

OF_SENTENCE, OF_TEXT = 4, 6
"""The most statements of a sentence, and of a text."""

_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?=\S)[^.!?\n]*)*[.!?]*")
_HEAD = re.compile(r"(?:\[[^\]]*\]\s*)?(?P<speaker>[A-Z][\w'. -]{0,38}): ")
_NAME = re.compile(r"\b[A-Z][\w'&-]*(?: (?:of |the |de )?[A-Z][\w'&-]*)*")
_RUN = re.compile(r"[A-Za-z][\w-]*(?: [A-Za-z][\w-]*)*")
_WORDS_BETWEEN, _WORDS_OF_RUN = 6, 3


@dataclass(frozen=True)
class Statement:
    """Two things of one sentence.

    Attributes:
        subject: one thing; the speaker or the title where the sentence has one of its own only.
        relation: the words between both, where these are few.
        other: the other thing.
        sentence: the sentence, the speaker's name before it.
    """

    subject: str
    relation: str
    other: str
    sentence: str


def statements(text: str) -> list[Statement]:
    """Returns the statements of a text, in order; each pair of things once."""
    head = _HEAD.match(text)
    topic = head["speaker"] if head else _title(text)
    found: dict[tuple[str, str], Statement] = {}
    for match in _SENTENCE.finditer(text, head.end() if head else len(topic)):
        sentence = match[0].strip()
        for statement in _of_sentence(sentence, topic, f"{topic}: {sentence}" if head else sentence):
            found.setdefault((statement.subject, statement.other), statement)
    return list(found.values())[:OF_TEXT]


def things(text: str) -> list[str]:
    """Returns the things of a sentence or a question: its names, then its longest runs of content words."""
    names = [name for match in _NAME.finditer(text) if (name := _without_stop_words(match[0]))]
    runs = sorted(_runs(text), key=len, reverse=True) if len(names) < 2 else []
    unique = {thing.lower(): thing for thing in reversed([*names, *runs[: 3 - len(names)]])}
    return list(reversed(unique.values()))


def names_of(found: Sequence[Statement]) -> list[str]:
    """Returns each thing of the statements once."""
    return list(dict.fromkeys(name for s in found for name in (s.subject, s.other)))


def _of_sentence(sentence: str, topic: str, shown: str) -> Iterator[Statement]:
    found = [thing for thing in things(sentence) if thing.lower() != topic.lower()]
    chain = [topic, *found] if topic else found
    for other in chain[1 : OF_SENTENCE + 1]:
        yield Statement(chain[0], _relation(sentence, chain[0], other), other, shown)


def _relation(sentence: str, subject: str, other: str) -> str:
    start, end = sentence.find(subject), sentence.find(other)
    between = sentence[start + len(subject) : end].split() if 0 <= start < end else sentence[: max(end, 0)].split()
    plain = [word for raw in between[-_WORDS_BETWEEN:] if (word := re.sub(r"\W", "", raw))]
    return " ".join(plain) or "mentions"


def _title(text: str) -> str:
    first = text.split("\n", 1)[0].strip()
    return first if "\n" in text and len(first) <= 80 else ""


def _runs(text: str) -> Iterator[str]:
    """Yields runs of content words, and of the last words of a long one."""
    for match in _RUN.finditer(text):
        run: list[str] = []
        for word in [*match[0].split(), ""]:
            if len(word) > 2 and word.lower() not in NON_TOPIC_WORDS:
                run.append(word)
            elif run:
                yield " ".join(run[-_WORDS_OF_RUN:])
                run = []


def _without_stop_words(name: str) -> str:
    words = name.split()
    while words and words[0].lower().split("'")[0] in NON_TOPIC_WORDS:
        words.pop(0)
    return re.sub(r"'s$", "", " ".join(words)) if words and len(words[0]) > 1 else ""
