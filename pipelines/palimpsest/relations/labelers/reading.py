"""A memory as the rules read it, and what a rule finds."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.relations.labelers.rule_facts import CHANGE, FUNCTION_WORDS, LATELY, PRONOUNS, Fact, read_fact
from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.words import CALENDAR_WORDS, STOPWORDS, content_words, fold, stem_words

# Templates: what remains of a sentence when its numbers, dates and times are taken out.

PLACEHOLDER = "#"
_WORD = re.compile(r"[€$£]|[^\W_](?:[\w\-.:/%]*[\w%])?")
_MONTH = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    "nov(?:ember)?|dec(?:ember)?"
)
_VALUE_WORD = re.compile(
    rf"\d[\w.:%/-]*|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:{_MONTH})|am|pm"
)
_IGNORED = {"now", "currently", "today", "officially", "already", "again", "just", "still", "also"}


def number_template(text: str) -> tuple[str, tuple[str, ...]]:
    """Returns the sentence with `#` for each value (number, date, time, range of them), and the values."""
    words: list[str] = []
    values: list[list[str]] = []
    for word in _WORD.findall(fold(text)):
        if word in _IGNORED:
            continue
        after_value = bool(words) and words[-1] == PLACEHOLDER
        if not _VALUE_WORD.fullmatch(word) or (word == "may" and not after_value):
            words.append(word)
        elif after_value:
            values[-1].append(word)
        elif words[-2:] == [PLACEHOLDER, "to"]:
            words.pop()
            values[-1] += ["to", word]
        else:
            words.append(PLACEHOLDER)
            values.append([word])
    return " ".join(words), tuple(" ".join(v) for v in values)


def words_before_value(words: list[str], nth: int) -> list[str]:
    """Returns the words of a template before its n-th value, counted from 0."""
    places = [i for i, word in enumerate(words) if word == PLACEHOLDER]
    return words[: places[nth]]


# The sentences of a memory as the rules read them: what each states, when it was valid, whether it is certain.

_MULTIVALUED_VERB = re.compile(
    r"\b(?:likes?|loves?|enjoys?|prefers?|hates?|speaks?|knows?|uses?|visits?|visited|reads?|eats?|drinks?|handles?|"
    r"handled by|supports?|includes?|contains?|covers?|offers?|sells|buys|writes?|teaches|studies|follows|"
    r"owns|has|have|"
    r"attends?|collects?|plays(?! for)|watch(?:es)?|mentions?|said|says|met|meets? with)\b",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"^(?:(?:update|note|fyi|correction|reminder|ok(?:ay)?|so|and|but|also|well|yes|yeah|actually|hi all|hello)\b"
    r"[\s,:!\-]*)+",
    re.IGNORECASE,
)
_FROM_THEN = re.compile(
    r"^(?:as of|from|since|starting|effective|beginning|with effect from)\b[^,]{2,40},\s*", re.IGNORECASE
)
_LEAD_IN = re.compile(
    r"^(?:in|on|at|by|for|after|before|during|this|last|next|yesterday|today)\b[^,]{0,40},\s*", re.IGNORECASE
)
_UNCERTAIN = re.compile(
    r"\b(?:if|might|(?-i:may)(?=\s+[a-z])|could|would|should|maybe|perhaps|probably|possibly|hopes?|wish(?:es)?|wants?|"
    r"plans? to|planning to|consider(?:s|ing)?|propos(?:e|es|ed|al|ing)|suggest(?:s|ed)?|rumou?r(?:s|ed)?|"
    r"imagine|suppose|"
    r"unless|whether|ignore|pretend|example|e\.g|for instance|too|almost|nearly|joke|joking|dream(?:ed|t|s)?)\b",
    re.IGNORECASE,
)
_PAST_SCOPE = re.compile(
    r"\b(?:was|were|had|used to|formerly|previously|back then|at the time|last (?:year|month|week|summer|"
    r"winter)|yesterday|"
    r"ago|until|during|between \d{4}|in (?:19|20)\d\d|once(?! (?:an?|per|every|each)\b))\b",
    re.IGNORECASE,
)
_SCOPED = re.compile(
    r"\b(?:during|until|ago|once(?! (?:an?|per|every|each)\b)|between \d{4}|in (?:1\d|20)\d\d|"
    r"last (?:year|month|week|summer|winter)|"
    r"back then|at the time)\b",
    re.IGNORECASE,
)
# Every word, with the past tense that follows it: no word is read twice.
_PAST_VERB = re.compile(
    r"\b(?P<before>[\w'.]++)(?P<verb>\s++(?:went|bought|met|saw|flew|sold|won|lost|gave|took|made|said|told|wrote|came|began|left|"
    r"spent|ate|drove|(?!need|united|speed|hundred|embed|limited|based)\w{2,}ed)\b)?",
    re.IGNORECASE,
)
_NOT_A_SUBJECT_WORDS = """
is are be been being was were has have had gets get got now currently the a an of in on at to for by with and or
as not also
newly more most very this that its their our my your
"""
_NOT_A_SUBJECT = frozenset(_NOT_A_SUBJECT_WORDS.split())
_CHANGE_CUE = re.compile(
    r"\b(?:now|as of|no longer|from now on|instead|effective|has changed|have changed|correction|henceforth)\b",
    re.IGNORECASE,
)
_NO_NAMES = FUNCTION_WORDS | PRONOUNS | CALENDAR_WORDS | STOPWORDS | {"i"}
_MAX_FACT_CHARACTERS = 400


@dataclass(frozen=True)
class Sentence:
    """One sentence of a memory.

    Attributes:
        start, end: its char span in the memory's text.
        text: the sentence, without line breaks.
        content: its content words.
        uncertain: a question, a condition or a plan: it states nothing.
        question: it ends with a question mark.
        past: what it states need not be valid any more.
        scoped: it names the time in which it was valid.
        announces_change: it has a word such as `now` or `no longer`.
        multivalued: its verb takes several objects at a time, such as `likes`.
        fact: the fact that it states, None where no rule reads one.
        names: its capitalised words.
    """

    start: int
    end: int
    text: str
    content: frozenset[str]
    uncertain: bool
    question: bool
    past: bool
    scoped: bool
    announces_change: bool
    multivalued: bool
    fact: Fact | None
    names: frozenset[str]


def read_sentences(text: str, speaker: str | None) -> tuple[Sentence, ...]:
    """Returns the sentences of a memory; `I` is the speaker where one is known."""
    return tuple(_read_sentence(text, start, end, speaker) for start, end in memory_sentence_spans(text))


def _read_sentence(text: str, start: int, end: int, speaker: str | None) -> Sentence:
    body = text[start:end].replace("\n", " ")
    question = body.rstrip("\"')” ").endswith("?")
    uncertain = question or bool(_UNCERTAIN.search(body))
    clause = _LEAD_IN.sub("", _FROM_THEN.sub("", _OPENING.sub("", body.strip().rstrip(".! "))))
    fact = None if uncertain or end - start > _MAX_FACT_CHARACTERS else read_fact(clause, speaker)
    stated = LATELY.sub("", body) if fact is not None and CHANGE.search(clause) else body
    outside_value = stated.replace(fact.value.text, " ") if fact is not None and fact.value.text else stated
    first_word_end = len(body.split(maxsplit=1)[0])
    return Sentence(
        start,
        end,
        body,
        content_words(body),
        uncertain,
        question,
        past=_is_past(body, outside_value, fact),
        scoped=bool(_SCOPED.search(outside_value)),
        announces_change=bool(_CHANGE_CUE.search(body)),
        multivalued=bool(_MULTIVALUED_VERB.search(body, first_word_end)),
        fact=fact,
        names=_names(body),
    )


def _is_past(body: str, outside_value: str, fact: Fact | None) -> bool:
    if fact is not None and fact.old is not None:
        return False
    if _PAST_SCOPE.search(outside_value):
        return True
    if fact is not None:
        return fact.past
    verbs = (m for m in _PAST_VERB.finditer(body) if m["verb"])
    return any(m["before"].lower() not in _NOT_A_SUBJECT for m in verbs)


def _names(text: str) -> frozenset[str]:
    found = re.findall(r"[^\W_][\w\-]*(?:\s+\d[\w.]*)?", text)
    return frozenset(fold(n) for n in found if n[0].isupper() and fold(n) not in _NO_NAMES)


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
