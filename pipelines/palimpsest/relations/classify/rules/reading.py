"""A memory as the rules read it, and what a rule finds."""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.relations.classify.rules.number_templates import number_template
from palimpsest.relations.classify.rules.sentences import Sentence, read_sentences
from palimpsest.text.normalize import fold
from palimpsest.text.words import content_words, stem_words

MAX_SENTENCES = 40
Span: TypeAlias = tuple[int, int]

_PRESENT_VERB_LIST = """
is are must can may has have takes take costs cost lasts last requires require needs need allows allow holds hold
gets get
receives receive runs run expires expire starts start ends end opens open closes close keeps keep weighs seats
employs pays
pay charges earns rotates refreshes listens waits retries measures serves
"""
PRESENT_VERBS = frozenset(_PRESENT_VERB_LIST.split())
SUBJECT_PRONOUNS = frozenset({"he", "she", "it", "they", "this", "that", "there", "i", "we", "you"})


@dataclass(frozen=True)
class RuleUpdate:
    """An UPDATE that a rule finds.

    Attributes:
        confidence: in [0, 1].
        evidence: the rule, the sentences and the values.
        part: spans of the older text that end; none where that is all of it.
    """

    confidence: float
    evidence: JsonObject
    part: tuple[Span, ...] = ()


@dataclass(frozen=True)
class Template:
    """A sentence with its numbers and dates taken out: that sentence, and the values in order."""

    sentence: Sentence
    values: tuple[str, ...]


@dataclass(frozen=True)
class Reading:
    """A memory as read.

    Attributes:
        text: of the memory.
        sentences: of the memory.
        content: the content words of its text.
        context: `Title > Heading` above it.
        context_words: the content words of that.
    """

    text: str
    sentences: tuple[Sentence, ...]
    content: frozenset[str]
    context: str
    context_words: frozenset[str]

    @cached_property
    def folded(self) -> str:
        """The folded text."""
        return fold(self.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of the content words."""
        return stem_words(self.content)

    @cached_property
    def templates(self) -> dict[str, Template]:
        """The sentences with a number or date, by what remains when it is taken out."""
        found = {}
        for s in self.sentences[:MAX_SENTENCES]:
            if not s.uncertain and not s.past and any(c.isdigit() for c in s.text):
                key, values = number_template(s.text)
                found[key] = Template(s, values)
        return found


def read_memory(text: str, speaker: str | None, context: str) -> Reading:
    """Reads a memory; `I` is the speaker where one is known."""
    return Reading(text, read_sentences(text, speaker), content_words(text), context, content_words(context))


def make_evidence(rule: str, newer: Sentence, older: Sentence, **more: JsonValue) -> JsonObject:
    """Returns evidence: the rule, the spans of both sentences, and further values."""
    return {"rule": rule, "newer": [newer.start, newer.end], "older": [older.start, older.end], **more}
