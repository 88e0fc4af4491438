"""A memory as the rules read it."""

from dataclasses import dataclass
from functools import cached_property

from palimpsest.relations.classify.rules.facts import Sentence
from palimpsest.relations.classify.rules.number_templates import template
from palimpsest.text.normalize import fold
from palimpsest.text.words import stem_words

Verdict = tuple[str, float, dict[str, object]]
"""A label, its confidence, its evidence."""
MAX_SENTENCES = 40
PRESENT_WORDS = """
is are must can may has have takes take costs cost lasts last requires require needs need allows allow holds hold
gets get
receives receive runs run expires expire starts start ends end opens open closes close keeps keep weighs seats
employs pays
pay charges earns rotates refreshes listens waits retries measures serves
"""
PRESENT = frozenset(PRESENT_WORDS.split())
PRONOUNS = {"he", "she", "it", "they", "this", "that", "there", "i", "we", "you"}


@dataclass(frozen=True)
class Reading:
    """A memory as read: its sentences, its content words, and those of the title and heading it stands under."""

    text: str
    sentences: tuple[Sentence, ...]
    content: frozenset[str]
    context_words: frozenset[str]
    context: str

    @cached_property
    def folded(self) -> str:
        """The folded text."""
        return fold(self.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of the content words."""
        return stem_words(self.content)

    @cached_property
    def templates(self) -> dict[str, tuple[Sentence, tuple[str, ...], int]]:
        """Sentences that state a number or date, by what stays when it is taken out."""
        found = {}
        for s in self.sentences[:MAX_SENTENCES]:
            if not s.uncertain and not s.past and any(c.isdigit() for c in s.text):
                key, values = template(s.text)
                found[key] = (s, values, len(values))
        return found


def evidence(rule: str, n: Sentence, o: Sentence, **more: object) -> dict[str, object]:
    """Returns evidence: the rule, the spans of both sentences, and what else is worth telling."""
    return {"rule": rule, "newer": [n.start, n.end], "older": [o.start, o.end], **more}
