"""What a question asks for, by its form: its names, its other words, and the type of its answer. Rules, English."""

import re
from dataclasses import dataclass
from functools import cached_property

from palimpsest.query.answerability.lexicon import AnswerKind, answer_kind, is_known
from palimpsest.text.stopwords import CALENDAR_WORDS, SEARCH_STOPWORDS, STOPWORDS
from palimpsest.text.terms import terms

MAX_WORDS = 32  # of a question
TOKEN = re.compile(r"[^\W_]+(?:[-.'’][^\W_]+)*")  # noqa: RUF001 (apostrophes)
_POSSESSIVE = re.compile(r"['’]s$")  # noqa: RUF001
YEAR = re.compile(r"\b(?:1[0-9]|20)\d\d\b")
_ASKING_WORDS = """
what which who whom whose when where why how long many much far often old high tall big may can will would
should name names called kind type day date time since until
stand mean happen happened become became thing things matter tell know say said exactly still actually get got do done
did make made use used give given take taken go went come came back have had be wrong want put
"""
_DETERMINERS = "the a an my our your his her their its which what"
_KEPT = frozenset(["won", "work", "works", "first", "last"])
_ASKING, _DETERMINER = frozenset(_ASKING_WORDS.split()), frozenset(_DETERMINERS.split())
_PRONOUN = re.compile(r"\b(?:it|he|she|they|them|that|there|him|her|one of them)\b", re.I)
_POINTS_BACK = re.compile(
    r"\b(?:does|did|do|is|was|are|were|has|have|had|can|will) (?:he|she|it|they|him|them)\b(?!.*\bto\b)"
    r"|\b(?:of|for|with|about) (?:it|him|her|them)\W*$",
    re.I,
)
_OPENING = re.compile(r"^\s*(?:\w+\s+)?(?:who|whom|whose|which|what|when|where|how|why)\b", re.I)
_STEP = re.compile(
    r"\b(?:who|whom|whose|which|that|where|whether|same)\b| or |, (?:and|but) "
    r"| and (?:where|what|when|why|how|who|which)\b",
    re.I,
)
_LINK = re.compile(r"(?<!\bname )(?<!\bnames )(?<!\bnumber )(?<!\btitle )\bof\b|['’]s\b")  # noqa: RUF001
_NOW = re.compile(r"\b(?:now|today|nowadays|currently|present|presently|at the moment|these days|this year)\b", re.I)
_MAX_STEPS = 4
_KIND = re.compile(
    r"^\s*(?:\w+\s+)?(?:which|what)\s+(?:\w+\s+){0,2}?(\w+)\s+(?:is|are|was|were|do|does|did|has|have|had"
    r"|can|may|will|must|should|of|in|at|on|for|to|from|\w+s|\w+ed)\b",
    re.I,
)
_FIRST_KIND = re.compile(r"^\s*(?:\w+\s+)?(which|what)\s+(\w+)", re.I)
_WHO = re.compile(r"^\s*who(?:m|se)?\b", re.I)
_WHOEVER = (AnswerKind.PERSON, AnswerKind.NAME)
_IS = frozenset(
    ["is", "are", "was", "were", "do", "does", "did", "has", "have", "had", "can", "may", "will", "must", "should"]
)
_PAST_STATE = re.compile(
    r"\b(?:who|what|which|where)\b.*\bbefore (?:the|my|our|[A-Z])(?![^?]*\b(?:was|were|is|did|has|had)\b)"
)
_NUMBER = (
    r"(?:\d[\d.,:]{0,30}|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen"
    r"|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|half"
    r"|dozen|once|twice|both|none|one)"
)
_UNITS = {
    "money": r"euros?|cents?|pounds?|dollars?|€|\$|£|free",
    "length": r"(?:kilo|milli|centi)?met(?:re|er)s?|miles?|feet|inch(?:es)?|km|cm",
    "weight": r"grams?|kilos?|kilograms?|kg|tonnes?|tons?|pounds?",
    "span": r"seconds?|minutes?|hours?|days?|weeks?|months?|years?|met(?:re|er)s?|kilomet(?:re|er)s?|terms?|nights?",
}
_DAYS = "|".join(sorted(CALENDAR_WORDS, key=lambda word: (-len(word), word)))
_CALENDAR = re.compile(rf"(?:{_DAYS})\b", re.I)
EVIDENCE = {
    "reason": re.compile(
        r"\b(?:because|since|so that|so|as|for|due|caused?|causes|reason|therefore|means?|to|after|wants?)\b", re.I
    ),
    "age": re.compile(rf"\b(?:is|are|aged|was|then) {_NUMBER}\b|\byears? old\b|\bborn\b|\baged?\b", re.I),
    "phone": re.compile(r"\d[\d /-]{4,}\d"),
    "money": re.compile(
        rf"(?:{_NUMBER})\W{{1,20}}(?:{_UNITS['money']})|(?:rent|price|costs?|lists?|rate)\b.{{0,1000}}\d|\|\s*\d", re.I
    ),
    "length": re.compile(rf"(?:{_NUMBER})[\s-]+(?:\w+\s+)?(?:{_UNITS['length']})\b", re.I),
    "weight": re.compile(rf"(?:{_NUMBER})[\s-]+(?:a )?(?:{_UNITS['weight']})\b", re.I),
    "span": re.compile(rf"(?:{_NUMBER}|an?)[\s-]+(?:\w+\s+)?(?:{_UNITS['span']})\b", re.I),
    "number": re.compile(rf"\b{_NUMBER}\b", re.I),
    "time": re.compile(
        rf"\b(?:(?:{_DAYS})s?|(?:1[0-9]|20)\d\d|\d{{1,2}}:\d\d|\d{{1,2}}(?:st|nd|rd|th)|yesterday|today|tomorrow|noon"
        rf"|midnight|mornings?|evenings?|afternoons?|nights?|spring|summer|autumn|winter|weeks?|months?|years?|christmas"
        rf"|days?|hours?|now|(?:at|past|to|by) {_NUMBER})\b",
        re.I,
    ),
    "name": re.compile(
        r"^[A-Z][\w’'-]+ [A-Z][\w’'-]+"  # noqa: RUF001
        r"|(?<!^)(?<![.!?:|] )\b(?!I\b|I')[A-Z][\w’'-]+"  # noqa: RUF001
        r"|(?:Mr|Mrs|Ms|Dr|Prof)\.? [A-Z]\w+"
    ),
}
"""What a text must contain to hold an answer of a type."""
SPECIFIC = frozenset({"age", "phone", "money", "length", "weight"})
"""Types that few texts have by chance."""
_ASKED = (
    ("reason", re.compile(r"\bwhy\b|\bfor what reason\b", re.I)),
    ("age", re.compile(r"\bhow old\b", re.I)),
    ("phone", re.compile(r"\b(?:tele)?phone number\b", re.I)),
    (
        "money",
        re.compile(
            r"^(?!.*\bwh(?:o|om|ose|y|en|ere)\b).*"
            r"\b(?:costs?|price|rent|salary|charges?|fee|deposit|stipend|compensation|admission|allowance|worth|paid|pay)\b"
            r"|\bhow much (?:is|was|are|does|did|do|will)\b(?!.{0,1000}\bweigh)",
            re.I,
        ),
    ),
    ("weight", re.compile(r"\bweigh|\bhow heavy\b", re.I)),
    ("length", re.compile(r"\bhow (?:high|tall|wide|deep|far)\b", re.I)),
    ("span", re.compile(r"\bhow long\b", re.I)),
    (
        "time",
        re.compile(
            r"\bwhen\b|\b(?:which|what) (?:\w+ )?(?:day|date|year|month|time|hours?|evening)s?\b|\bbirthday\b"
            r"|\bhow often\b",
            re.I,
        ),
    ),
    ("number", re.compile(r"\bhow (?:many|much|big|fast|quickly|strong)\b|\bpopulation\b|\bcirculation\b", re.I)),
    ("name", re.compile(r"\bwho(?:m|se)?\b|\bcalled\b|\bnames?\b|\bauthor\b|\bwhere\b|\btitle\b", re.I)),
)


@dataclass(frozen=True)
class QuestionForm:
    """What a question wants.

    Attributes:
        text: the question.
        names: its names, ids and numbers, folded.
        words: its other words that say something, folded.
        nouns: which of the words follow an article, a possessive or `which`.
        answer: a key of `EVIDENCE`, or empty where the form asks for no type.
    """

    text: str
    names: tuple[str, ...]
    words: tuple[str, ...]
    nouns: frozenset[str]
    answer: str

    @classmethod
    def of(cls, text: str) -> "QuestionForm":
        """Returns the form of a question."""
        names, words, nouns = list[str](), list[str](), set[str]()
        before = ""
        for at, found in enumerate(TOKEN.finditer(text)):
            token = _POSSESSIVE.sub("", found.group())
            low = token.lower()
            is_name = token[0].isupper() and at and not _is_calendar(low) and low != "i" and low not in STOPWORDS
            if is_name or any(map(str.isdigit, token)):
                names.append(low)
            elif low in _KEPT or (low not in _ASKING and low not in STOPWORDS and low not in SEARCH_STOPWORDS):
                words.append(low)
                if before in _DETERMINER or before.endswith(("'s", "’s")):  # noqa: RUF001
                    nouns.add(low)
            before = found.group().lower()
        answer = next((name for name, form in _ASKED if form.search(text)), "") or _answer_of_kind(text)
        return cls(text, tuple(names[:MAX_WORDS]), tuple(words[:MAX_WORDS]), frozenset(nouns), answer)

    @cached_property
    def terms(self) -> frozenset[str]:
        """Search terms of the whole question."""
        return frozenset(terms(self.text))

    @cached_property
    def years(self) -> tuple[str, ...]:
        """The years that it names."""
        return tuple(n for n in self.names if YEAR.fullmatch(n))

    @cached_property
    def steps(self) -> int:
        """How many statements it takes to answer, at most 4: one for each clause, and for each `of` after the first."""
        body = _OPENING.sub("", self.text)
        return min(_MAX_STEPS, 1 + len(_STEP.findall(body)) + max(0, len(_LINK.findall(body)) - 1))

    @cached_property
    def asks_now(self) -> bool:
        """Whether it asks for what is so today."""
        return bool(_NOW.search(self.text))

    @property
    def points_back(self) -> bool:
        """Whether its subject or object is a pronoun, and no name is in it that this could mean."""
        return not self.names and bool(_POINTS_BACK.search(self.text))

    @property
    def is_bare(self) -> bool:
        """Whether it points at something that it does not name: a pronoun, and at most one word to find it by."""
        return bool(_PRONOUN.search(self.text)) and not self.names and len(self.words) <= 1

    @property
    def asks_before(self) -> bool:
        """Whether it asks for what was before something."""
        found = _PAST_STATE.search(self.text[:1].lower() + self.text[1:])
        return found is not None and not _CALENDAR.match(self.text, found.end() - 1)

    def is_answered_by(self, text: str) -> bool:
        """Returns whether a text has something of the answer's type that the question itself does not say."""
        if not self.answer:
            return True
        if self.answer == "name" and self._has_name_apart(text):
            return True
        return any(not self._repeats(found.group()) for found in EVIDENCE[self.answer].finditer(text))

    def _has_name_apart(self, text: str) -> bool:
        """Returns whether a text begins with a name, or names a role where the question asks who."""
        words = [found.group() for found in TOKEN.finditer(text)]
        first = words[0].lower() if words and words[0][0].isupper() else ""
        if first and first not in STOPWORDS and not is_known(first) and not self._repeats(first):
            return True
        if not _WHO.match(self.text):
            return False
        return any(answer_kind(w) in _WHOEVER and not self._repeats(w) for w in map(str.lower, words))

    def _repeats(self, found: str) -> bool:
        said = terms(found)
        if self.answer == "name" and found.lower() in CALENDAR_WORDS:
            return True
        return bool(said) and self.terms.issuperset(said)


def name_forms(name: str) -> tuple[str, ...]:
    """Returns a name and what it may be the plural of."""
    return tuple(dict.fromkeys(f for f in (name, name.removesuffix("es"), name.removesuffix("s")) if f))


def _is_calendar(word: str) -> bool:
    return word in CALENDAR_WORDS or word.removesuffix("s") in CALENDAR_WORDS


def _answer_of_kind(text: str) -> str:
    first = _FIRST_KIND.match(text)
    if not first or first.group(2).lower() in _IS:
        return ""
    found = _KIND.match(text)
    kinds = (answer_kind(noun.lower()) for noun in (*(found.groups() if found else ()), first.group(2)))
    kind = next((k for k in kinds if k is not AnswerKind.NONE), AnswerKind.NONE)
    if kind in _WHOEVER:
        return "name"
    if kind is AnswerKind.MONEY and first.group(1).lower() == "what":
        return "money"
    return ""
