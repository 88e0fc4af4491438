"""What kind of answer a question asks for, by its words: what an assistant wrote, a kind of memory, a list, why."""

import datetime as dt
import re
from dataclasses import dataclass, replace

from palimpsest.text.date_mentions import (
    MONTHS,
    DateMention,
    Period,
    find_date_mentions,
    find_parts_of_year,
    find_relative_dates,
    is_reference_day,
    is_units_ago,
    without_overlaps,
)
from palimpsest.text.terms import name_words

_VERB = (
    "suggest|recommend|advise|propose|tell|say|mention|explain|give|list|show|write|answer|describe|point out|"
    "lay out|set out|outline|provide|offer|warn|summari[sz]e|draft|promise"
)
_PAST = (
    "suggested|recommended|advised|proposed|told|said|mentioned|explained|gave|given|listed|showed|shown|wrote|written|"
    "answered|described|pointed out|laid out|set out|outlined|provided|offered|warned|summari[sz]ed|drafted|promised"
)
_NOUN = "answer|advice|suggestion|recommendation|reply|replies|response|explanation|summary|tip|list|draft|plan|example"
_ASSISTANT = r"(?:you|(?:the |my )?(?:ai )?(?:assistant|chatbot|bot|chatgpt|claude|gemini|copilot)|the ai)"
_BETWEEN = r"(?:\w+ly |just |also |once |already |first |last )?"
_CUE = re.compile(
    rf"\b(?:did|didn't) {_ASSISTANT} {_BETWEEN}(?:{_VERB})\b"
    rf"|\b(?:have|has|had) {_ASSISTANT} {_BETWEEN}(?:{_PAST})\b"
    rf"|\b{_ASSISTANT}(?:'ve|'d| have| has| had)? {_BETWEEN}(?:{_PAST})\b"
    rf"|\b(?:your|assistant's|bot's|chatgpt's|claude's) (?:earlier|previous|last|first|original|old) (?:{_NOUN})s?\b"
    rf"|\b(?:was|were|remember|recall|remind me of|repeat|quote) (?:your|(?:the )?assistant's) (?:{_NOUN})s?\b"
)


def asks_for_answers(question: str) -> bool:
    """Returns whether a question is about what the assistant wrote before.

    One that asks for new advice (`what would you suggest`) is not: it is answered by what the user stated.
    """
    return _CUE.search(question.lower().replace("\u2019", "'")) is not None


# What kind of formed memory a question is about: `What have we decided ...?`, `What do I dislike ...?`.

_CUES = {
    "preference": re.compile(
        r"\b(?:prefer\w*|(?<!look )(?<!looks )(?<!sound )likes?|dislikes?"
        r"|loves?|hates?|enjoys?|favou?rites?|mind|rather|avoids?|loathes?|tastes?)\b"
        r"|\b(?:can'?t|cannot|can not) (?:\w+ )?(?:stand|bear)\b|\b(?:want|wants)\b.{0,40}\bto be\b"
    ),
    "decision": re.compile(
        r"\b(?:decid\w+|decisions?|agreed?|settled?|chosen|chose|choose|choice|opted?)\b"
        r"|\b(?:pick|picked|go|went|going) (?:for|with)\b"
    ),
    "solution": re.compile(
        r"\b(?:fix\w*|solve[ds]?|solutions?|cure[ds]?|remed\w+|repair\w*|helped|(?:get|got) rid of|sorted|trick)\b"
        r"|\b(?:get|got|made|stopped?) .{1,60}\b(?:work|working|run|running|going|start|starting|again)\b"
    ),
    "gap": re.compile(
        r"\bstill (?:open|unanswered|unclear|unknown|to be answered)\b"
        r"|\b(?:open|unanswered) (?:question|point|issue)s?\b"
        r"|\b(?:never|not|nobody|no one) (?:got an |get an |been )?answer(?:ed)?\b|\bwonder(?:ed|ing)\b"
        r"|\bfind out\b|\bdidn'?t (?:i|we) know\b|\bunresolved\b"
    ),
}


def requested_kinds(question: str) -> frozenset[str]:
    """Returns the kinds of formed memories that a question is about, by its words; mostly none."""
    text = question.lower().replace("\u2019", "'")
    return frozenset(kind for kind, cue in _CUES.items() if cue.search(text))


_LISTING = re.compile(
    r"^\W*(?:(?:which|what)(?: (?:other|of|all|the|our|my|are|kinds?))*|who are|list|name|show)"
    r"(?: (?:me|us|all|the|our|my|of|are))* (?P<rest>.+)",
    re.IGNORECASE,
)

# What a question asks to list: `Which customers do we have?`, `List all football clubs`.

_MAX_BEFORE = 2  # words before the noun: `notable`, `football`
_FUNCTION_WORDS = """
is are was were be been do does did has have had can could will would shall should may might must a an in on at to for
from by with and or when where why how that this these those
"""
_NO_ADJECTIVES = frozenset(_FUNCTION_WORDS.split())


def listed_nouns(question: str) -> list[str]:
    """Returns what a question may ask to list, as `name_words` writes it, the longest phrase first; often nothing.

    Only plurals: `Which book ...` asks for one.
    """
    found = _LISTING.match(" ".join(question.split()))
    if found is None:
        return []
    words = name_words(found["rest"]).split()
    phrases = []
    for end in range(1, min(len(words), _MAX_BEFORE + 1) + 1):
        if words[end - 1] in _NO_ADJECTIVES:
            break
        if words[end - 1].endswith("s"):
            phrases += [" ".join(words[start:end]) for start in range(end)]
    return sorted(dict.fromkeys(phrases), key=lambda phrase: (-len(phrase.split()), phrase))


_WHY = re.compile(
    r"\bwhy\b|\bhow come\b|\bwhat (?:is|was|were|are) the (?:reason|cause|ground)s?\b|\bfor what reason\b"
    r"|\bwhat (?:caused|causes|led to)\b"
)


# Whether a question asks for reasons: what a conclusion follows from.


def asks_for_reasons(question: str) -> bool:
    """Returns whether a question asks why something is so."""
    return _WHY.search(question.lower()) is not None


# What a question says about time, from the forms that the modules below find: its period, and its `as of` day.
#
# Each form is in one module: `date_mentions` (with a year), `relative_dates` (from the day of the question, and dates
# without a year), `parts_of_year` (quarters, halves, seasons).
#
# `In 2004`, `last week` and `since March` are periods: of what the texts are about, or when they were stated. `As of 3
# March` and `what did we believe in May` ask for what was known then: they choose among versions. Relative dates count
# from the day of the question, and are unresolved where that is not known; dates without a year may count from any day
# near it.

_MAX_CHARS = 1000  # of a question that are searched for dates
_ANY_DAY = dt.date(2000, 7, 1)
_YEARLESS = re.compile(rf"\d|{'|'.join(m.capitalize() for m in MONTHS)}")

_KNEW = r"(?:believed|thought|knew|assumed|understood|supposed)"
_KNOW = r"(?:believe|think|know|assume|understand|suppose)"
_BELIEF = re.compile(
    rf"\b(?:what|who|whom|which|where)\b[^.?!]{{0,60}}?\b(?:(?:did|had)\s+(?:we|i)\s+(?:\w+\s+)?(?:{_KNOW}|{_KNEW}|known)"
    rf"|(?:we|i)\s+{_KNEW}|was\s+(?:believed|thought|known|assumed))\b",
    re.I,
)
_AS_OF = re.compile(r"\bas\s+(?:of|at)\s+(?:the\s+)?(?:(?:end|beginning|start)\s+of\s+(?:the\s+)?)?$", re.I)
_BEGINNING = re.compile(r"\b(?:beginning|start)\s+of\s+(?:the\s+)?$", re.I)
_ABOUT = re.compile(r"\babout\s+(?:the\s+)?$", re.I)
_CONTEXT_CHARS = 40  # before a date that may qualify it
_CLAUSE = re.compile(r"\b(?:that|if|whether|because|when|after|before|since)\b", re.I)


@dataclass(frozen=True)
class QuestionTime:
    """What a question says about time.

    Attributes:
        period: what it is about, in years.
        phrase: the words that state the period, where they are relative to the reference day; else empty.
        first: first day of such a period, None where it has no beginning.
        last: its last day, None where it has no end.
        as_of: last day of the knowledge that it asks for.
        as_of_phrase: the words that ask for it.
        as_of_is_period: whether the same words state the period.
        unresolved_phrase: words that are relative to the day of the question, which is not known.
    """

    period: Period | None = None
    phrase: str = ""
    first: dt.date | None = None
    last: dt.date | None = None
    as_of: dt.date | None = None
    as_of_phrase: str = ""
    as_of_is_period: bool = False
    unresolved_phrase: str = ""


def parse_question_time(question: str, reference: dt.date | None = None, exact: bool = True) -> QuestionTime:
    """Returns what a question says about time: its last range, else its last date; and whose knowledge it asks for.

    Args:
        question: the question.
        reference: the day that `last year`, `two weeks ago` and `3 March` count from; unresolved without it.
        exact: whether that is the day of the question; else only dates without a year are resolved by it.
    """
    text = question[:_MAX_CHARS]
    dated = find_date_mentions(text, find_parts_of_year(text), exclude_bound=True)
    usable = reference is not None and is_reference_day(reference)
    base = reference if reference is not None and usable else _ANY_DAY
    relative = without_overlaps(find_relative_dates(text, base, in_question=True), dated)
    resolved = [d for d in relative if usable and (exact or _YEARLESS.match(_words(text, d)))]
    unresolved = next((_words(text, d) for d in relative if d not in resolved), "")
    time = QuestionTime(unresolved_phrase=unresolved)
    about = None
    if dated:
        about = ([d for d in dated if d.is_range] or dated)[-1]
        time = replace(time, period=about.period)
    elif resolved:
        about = resolved[-1]
        time = replace(time, period=about.period, phrase=_words(text, about), first=about.first, last=about.last)
    as_of = _find_as_of(text, [*dated, *resolved])
    if as_of is None or about is None or as_of.last is None:
        return time
    return replace(
        time,
        as_of=_as_of_day(text, as_of),
        as_of_phrase=_words(text, as_of),
        as_of_is_period=as_of.start == about.start,
    )


def needs_reference(question: str) -> bool:
    """Returns whether a question has dates that are relative to a reference day."""
    text = question[:_MAX_CHARS]
    dated = find_date_mentions(text, find_parts_of_year(text))
    return bool(without_overlaps(find_relative_dates(text, _ANY_DAY, in_question=True), dated))


def _words(text: str, date: DateMention) -> str:
    return text[date.start : date.end].strip()


def _find_as_of(text: str, dates: list[DateMention]) -> DateMention | None:
    """Returns the requested date of knowledge: one after `as of`, or of what was believed then."""
    dates = sorted(dates, key=lambda d: d.start)
    for date in dates:
        if _AS_OF.search(text[: date.start]):
            return date
    belief = _BELIEF.search(text)
    if belief is None:
        return None
    before = [d for d in dates if d.end <= belief.start()]
    after = [
        d
        for d in dates
        if d.start >= belief.end()
        and not _CLAUSE.search(text[belief.end() : d.start])
        and not _ABOUT.search(text[max(0, d.start - _CONTEXT_CHARS) : d.start])
    ]
    return next(iter([*after, *before]), None)


def _as_of_day(text: str, date: DateMention) -> dt.date | None:
    """Returns the last day of a date; its first after `beginning of`, its middle where it is so many units ago."""
    if date.first is None or date.last is None:
        return date.last
    if _BEGINNING.search(text[max(0, date.start - _CONTEXT_CHARS) : date.start]):
        return date.first
    if is_units_ago(_words(text, date)):  # it means about that day, and the question asks for that day
        return date.first + (date.last - date.first) // 2
    return date.last
