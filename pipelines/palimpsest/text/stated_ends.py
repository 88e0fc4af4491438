"""Until when a statement holds, as its own words say: `until 8 July`, `this week`, an event on 28 June.

Rules without a parser, because every memory of a build is read. A wrong end hides what is still true: what no rule is
sure of has none, and neither have conditions, habits, history, what begins on a day, and texts of which a part ends.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from palimpsest.text.date_mentions import (
    MONTH_NAMES,
    MONTHS,
    WEEKDAYS,
    DateMention,
    DaySpan,
    days_before,
    find_date_mentions,
    find_relative_dates,
    join_ranges,
    month_or_day,
    read_number,
    unit_span,
    without_overlaps,
)
from palimpsest.text.dates import parse_stated_time
from palimpsest.text.sentences import memory_sentence_spans

# Dates of a statement as somebody means them who plans: one that lacks a year or a week is the next such day.
#
# The forms of `date_mentions` and `relative_dates`, and those that only what is ahead has: weekdays, weekends, days of
# a month without its name, `the next two weeks`.

NUMBER_WORDS = r"one|two|three|four|five|six|seven|eight|nine|ten|\d{1,3}"
"""Counts of days, weeks and months, as part of a pattern."""

_MONTH = rf"(?P<month>{'|'.join(sorted((*MONTHS, *MONTH_NAMES), key=len, reverse=True))})\b\.?"
_TO = r"\s*(?:-|\u2013|\u2014|\b(?:to|until|and)\b)\s*"
_YEAR = r"(?:,?\s+(?P<year>20\d\d))?\b"
_RANGES = (
    re.compile(rf"\b(?P<first>\d{{1,2}}){_TO}(?P<last>\d{{1,2}})\s+{_MONTH}{_YEAR}", re.I),
    re.compile(rf"\b{_MONTH}\s+(?P<first>\d{{1,2}}){_TO}(?P<last>\d{{1,2}})(?![\d:]){_YEAR}", re.I),
)
_CALENDAR_WORD = re.compile(r"last|past|previous|yesterday|this|current|next|today|tonight|tomorrow|the day", re.I)
_FIRST_OF = re.compile(r"\b(?:beginning|start)\s+of\s+(?:the\s+)?$", re.I)


def find_dates_ahead(text: str, reference: dt.date) -> list[DateMention]:
    """Returns the dates of a text in order of place, counted forward from the day on which it was stated.

    Args:
        text: the text.
        reference: the day of the statement.
    """
    found: list[DateMention] = []
    for dates in (
        _ranges(text, reference),
        find_date_mentions(text),
        _own(text, reference),
        _relative(text, reference),
    ):
        found = sorted([*found, *without_overlaps(dates, found)], key=lambda d: d.start)
    return [_first_alone(text, date) for date in join_ranges(text, found)]


def _ranges(text: str, ref: dt.date) -> Iterator[DateMention]:
    """Yields `from 3 to 9 May` and `May 3-9`."""
    for m in (m for pattern in _RANGES for m in pattern.finditer(text) if int(m["first"]) < int(m["last"])):
        month = MONTHS.index(m["month"][:3].lower()) + 1
        for year in [int(m["year"])] if m["year"] else [ref.year, ref.year + 1]:
            (first, _), (_, last) = (month_or_day(year, month, m[day]) for day in ("first", "last"))
            if last >= ref:
                yield DateMention(*m.span(), first, last, is_range=True)
                break


def _relative(text: str, ref: dt.date) -> Iterator[DateMention]:
    for date in find_relative_dates(text, ref):
        if date.last is None or date.last >= ref or _CALENDAR_WORD.match(text, date.start):
            yield date
        else:  # a month or a day of one, of which the parser takes the nearest
            first, last = (d and month_or_day(d.year + 1, d.month, str(d.day))[1] for d in (date.first, date.last))
            yield date._replace(first=first, last=last)


def _own(text: str, ref: dt.date) -> list[DateMention]:
    found: list[DateMention] = []
    for pattern, read in _FORMS:
        named = [DateMention(*m.span(), *span) for m in pattern.finditer(text) if (span := read(m, ref))]
        found = sorted([*found, *without_overlaps(named, found)], key=lambda d: d.start)
    return found


def _weekday(m: re.Match[str], ref: dt.date) -> DaySpan:
    """Returns the next such day; after `next` that of the next calendar week, so that none is too early."""
    number, which = WEEKDAYS.index(m["day"].lower()), (m["which"] or "").lower()
    ahead = (number - ref.weekday()) % 7 or (0 if which == "this" else 7)
    day = ref + dt.timedelta(days=7 - ref.weekday() + number if which == "next" else ahead)
    return day, day


def _weekend(m: re.Match[str], ref: dt.date) -> DaySpan:
    sunday = unit_span(ref, "week", int(m["which"].lower() == "next"))[1]
    return sunday - dt.timedelta(days=1), sunday


def _rest(m: re.Match[str], ref: dt.date) -> DaySpan:
    return ref, unit_span(ref, m["unit"].lower(), 0)[1]


def _following(m: re.Match[str], ref: dt.date) -> DaySpan:
    return ref, days_before(ref, -read_number(m["n"] or "one"), (m["unit"] or m["units"]).lower())


def _day_of_month(m: re.Match[str], ref: dt.date) -> DaySpan | None:
    number = int(m["n"])
    month = days_before(ref.replace(day=1), 0 if number >= ref.day else -1, "month")
    day = month.replace(day=number) if 1 <= number <= 28 else None  # a later day is not in every month
    return (day, day) if day else None


def _numeric(m: re.Match[str], _: dt.date) -> DaySpan | None:
    time = parse_stated_time(m[0])
    return (time.date(), time.date()) if time else None


def _first_alone(text: str, date: DateMention) -> DateMention:
    """Returns the first day alone of a month or year after `the beginning of`."""
    if date.last is None or not _FIRST_OF.search(text[max(0, date.start - 24) : date.start]):
        return date
    first = date.first or date.last.replace(day=1)
    return date._replace(first=first, last=first)


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], dt.date], DaySpan | None]], ...] = (
    (re.compile(r"\b\d{1,2}([/.])\d{1,2}\1\d{4}\b"), _numeric),
    (re.compile(rf"\b(?:(?P<which>this coming|this|next|coming)\s+)?(?P<day>{'|'.join(WEEKDAYS)})\b", re.I), _weekday),
    (re.compile(r"\b(?P<which>this|next|the)\s+weekend\b", re.I), _weekend),
    (re.compile(r"\bthe (?:rest|remainder|end) of (?:the |this )?(?P<unit>week|month|quarter|year)\b", re.I), _rest),
    (
        re.compile(
            rf"\bthe (?:next|coming)\s+(?:(?P<n>{NUMBER_WORDS})\s+(?P<units>day|week|month|year)s?"
            r"|(?P<unit>day|week|month|year))\b",
            re.I,
        ),
        _following,
    ),
    (re.compile(r"\bthe\s+(?P<n>\d{1,2})(?:st|nd|rd|th)\b(?=\s*(?:[.,;:!)]|$|and\b))", re.I), _day_of_month),
)


_MAX_CHARS = 600  # of a text: a longer one says more than one thing
_MAX_DAYS_AHEAD = 300  # of an event without a year: one that is later was rather a little before the statement
_MAX_NOTE_WORDS = 12  # of an event without a verb
_MAX_ADDED_WORDS = 4  # of a part without a verb that belongs to the clause before it


def _any_of(words: str, before: str = r"\b(?:", after: str = r")\b") -> re.Pattern[str]:
    """Returns a pattern that matches any of some words, which are patterns; an underscore is a space."""
    return re.compile(before + "|".join(words.split()).replace("_", " ") + after, re.I)


_DAYS, _MONTHS = "|".join(WEEKDAYS), "|".join(MONTH_NAMES)
ENDS_PATTERN = (
    rf"(?i)\b(?:until|till?|through|days?|weeks?|months?|years?|quarter|weekend|today|tonight|tomorrow|this (?:morning"
    rf"|afternoon|evening)|{_DAYS}|{_MONTHS}|{'|'.join(MONTHS)}|\d+(?:st|nd|rd|th)|\d{{4}})\b"
)
"""What a text has that states an end, as a pattern that Python and polars read."""
_TRIGGER = re.compile(ENDS_PATTERN)
_SAME_AS_UNTIL = _any_of(r"up_(?:to|until) until till through thru", after=r")\b(?:\s+and including\b)?|\B'til\b")
_WEEKDAY_BEFORE_DATE = re.compile(
    rf"\b(?:{_DAYS}|mon|tue|wed|thu|fri|sat|sun)\b\.?,?\s+(?:the\s+)?"
    rf"(?=\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?(?:{_MONTHS}|[A-Z][a-z]{{2}}\b)|(?:{_MONTHS})\s+\d)",
    re.I,
)

# What a date is of a statement, by the words before it.
_OF = r"\s+(?:on\s+|in\s+|at\s+|by\s+)?(?:the\s+)?(?:(?:very\s+)?(?:end|middle|beginning|start)\s+of\s+)?(?:the\s+)?$"
_LAST_DAY = _any_of(
    r"""
    until (?:valid|good|runs?|lasts?)_(?:from_.{1,30}_)?to expir(?:es?|ing) (?:end|finish|conclude)s? ending
    runs?_out (?:is|are)_(?:due|up|over) deadline(?:_\w+){0,4}_is
    (?:exhibition|exhibit|show|fair|festival|registration|sale|applications?|voting|poll|enrolment)_closes?
    """,
    after=")" + _OF,
)
_UNTIL = re.compile(r"\buntil\s+(?:the\s+)?$", re.I)
_REASON = re.compile(r"\s+(?:while|because|since|as(?! long))\b(?:(?!\b(?:and|but|so)\b)[^,;:])*$", re.I)
_LATEST = _any_of("by no_later_than", after=")" + _OF)
_ONLY = re.compile(r"\b(?:only|just)\s+(?:(?:valid|open|closed|here|there|away)\s+)?(?:(?:for|on|in)\s+)?$", re.I)
_RANGE = re.compile(r"\b(?:from|between)\s+(?:the\s+)?$", re.I)
_THROUGHOUT = _any_of("for over during throughout", after=r")\s+$")
_COMING = re.compile(r"the (?:next|coming|rest|remainder|end)\b", re.I)
_ON = re.compile(r"(?:\b(?:on|for|in|to|of|from|at|about|until)\s+(?:the\s+)?|^\W*)$", re.I)
_IS_NOW = re.compile(r"\b(?:it|today)(?: is|'s)(?: (?:now|already|only|just|an?))*\s+$", re.I)
_WEEK_OF = re.compile(r"\bweek\s+(?:of|from|beginning|commencing)\s+(?:the\s+)?$", re.I)
_OTHER_BOUNDS = (_LATEST, _IS_NOW, _WEEK_OF)
_OF_SOMEBODY = re.compile(r"\s+(?:is|comes|gets|has|returns)\b")  # named May
_NOT_AHEAD = re.compile(r"the rest|the remainder|current|this year|\d{4}(?!-\d\d-)")
_A_MONTH = re.compile(rf"(?:{_MONTHS}|[a-z]{{3,4}})\.?", re.I)
_DURATION = re.compile(
    rf"\bfor (?P<n>an?|{NUMBER_WORDS}) (?P<unit>day|week|month)s?\b"
    r"(?! (?:now|already|straight|in|from|after|before|of|each|at)\b)",
    re.I,
)
_PLACE_OR_STATE = re.compile(
    r"(?:\b(?:am|is|are)|'m|'re|'s)(?: now| currently| still)? (?:in|at|on|out|off|away|with|here|home|abroad|closed"
    r"|shut|grounded|staying|living|working|covering|visiting|looking after|\w*-?sitting)\b[^,;:]*$",
    re.I,
)

# What is planned, and so over after its date.
_BE = r"(?:\b(?:am|is|are|isn't|aren't|be)|'m|'re|(?<!week)(?<!month)(?<!year)(?<!day)(?<!ow)(?<!night)'s)\b"
_IS = re.compile(_BE, re.I)
_OWN_BE = r"(?:\b(?:I am|(?:we|you|they) are|(?:he|she) is)|\b(?:I'm|(?:we|you|they)'re|(?:he|she)'s))"
_INTENDED = (
    r"will won't \w+'ll shall must can't cannot needs?_to (?:have|has|got|plans?|hopes?|wants?|intends?|supposed)_to"
    r" (?:going|gonna)(?:_to)?"
)
_PLANNED = _any_of(rf"""
    {_INTENDED} can needs? (?:have|has|\w+'ve|got)(?:_got)?_(?:an?|my|our|the|no|two|three|another|his|her|their)
    (?:arriv|depart|land|leav|visit|perform|play|meet|travel|com)e?s? flies fly takes?_place
    """)
_INTENDED_NOW = re.compile(rf"{_any_of(_INTENDED).pattern}|{_OWN_BE} (?:\w+ ){{0,2}}?\w+ing\b", re.I)
_STATE_TODAY = re.compile(
    rf"{_OWN_BE} (?:\w+ ){{0,2}}?(?:off|out|away|busy|sick|ill|home|free|unavailable|tired|late|absent|at|in|on)\b"
    rf"|{_BE} (?:\w+ )?(?:closed|shut|off|cancelled)\b",
    re.I,
)
_ONCE = (
    "match exam concert interview wedding funeral flight appointment party surgery operation recital premiere picnic"
    " final inspection viewing"
)
_EVENT = _any_of(
    _ONCE + " meeting dinner lunch breakfast game race marathon trip conference workshop call deadline visit rehearsal"
    " delivery barbecue session webinar dentist"
)
_ONCE_IS = re.compile(
    rf"\b(?:{_ONCE.replace(' ', '|')}) (?:is|takes place)\b|\b(?:arriv|depart|land|com)es? on\b", re.I
)
_DUE = _any_of(r"""
    needs? must (?:have|has|got)_to should due deadline submit\w* hand_in finish complete
    return pay supposed please send deliver
    """)

# What sets no end.
_OPEN = _any_of(rf"""
    if unless whether whenever when while in_case provided as_long_as suppos(?:e|ing) otherwise would could wouldn't
    couldn't wish depending (?:I|you|he|she|we|they|it)'d at_least at_the_earliest or_(?:so|longer|later|more)
    hopefully always usually often sometimes never normally generally typically mostly annual(?:ly)? yearly
    (?:every|each)_year every_(?:summer|winter|spring|autumn|fall)
    (?:{_DAYS})(?:_to|_until|\s*[-\u2013])\s*(?:{_DAYS}) who whose whom which where because since although though
    whereas as(?!_(?:of|from|an?|well)\b) nowadays anymore
    today's(?!_(?:meeting|session|game|class|lesson|match|exam|appointment|visit|call|lunch|dinner))
    before until_(?:today|this_(?:week|month|year))
    [a-z]+(?:th|first|second|third)_of_(?:{_MONTHS}) [a-z]+_'\d\d
    (?<!remember_)(?<!note_)(?<!know_)(?<!so_)(?<!hope_)(?<!think_)that_(?!week|month|day)
    \d{{1,2}}/\d{{1,2}}(?!/?\d)
    """)
_REPEATED = _any_of(rf"""
    every each any daily weekly monthly once twice times_an? per most_(?:days|weeks) (?:{_DAYS})s
    week(?:day|night|end)s (?:{_DAYS})_(?:\w+_)?(?:mornings|afternoons|evenings|nights|lunch)
    """)
_BEGINS = _any_of(r"""
    start(?:s|ing)? begin(?:s|ning)? open(?:s|ing) launch(?:es|ing)? mov(?:e|es|ing) join(?:s|ing)? becom(?:e|es|ing)
    tak(?:e|es|ing)_(?:effect|over|up) com(?:e|es|ing)_into
    go(?:es|ing)?_(?:live|up|down|vegan|vegetarian|freelance|part-time|full-time|solo|back) switch(?:es|ing)?
    chang(?:e|es|ing) marr(?:y|ies|ying|ied) adopt(?:s|ing)? retir(?:e|es|ing) quit(?:s|ting)? buy(?:s|ing)?
    sell(?:s|ing)? releas(?:e|es|ing) introduc(?:e|es|ing) replac(?:e|es|ing) ris(?:e|es|ing) increas(?:e|es|ing)
    graduat(?:e|es|ing) turn(?:s|ing)? hir(?:e|es|ing) baby born birthday(?!_(?:party|dinner|lunch|drinks)\b)
    anniversary jubilee effective as_(?:of|from) from since new
    get(?:s|ting)?_(?:an?|my|our|the|married|engaged|divorced)
    leav(?:e|es|ing)(?!_(?:for|at|on|home|early|tomorrow|tonight|next|this|the_(?:house|country))\b) christmas easter
    publish(?:es|ing)? found(?:s|ing) elect(?:s|ing)? resign\w* an?_(?:parent|father|mother) name[ds]? proud back
    home_again ready give_up stop(?:s|ping)? clos(?:es|ing)_(?:down|for_good) be_\d+
    (?<!there_)will_be_(?:an?|the|my|our|his|her|their) (?:years?|months?)_old \w+_day_is \w+'s?_day
    (?:is|are)_\w+_day
    """)
_PAST = _any_of(r"""
    was were did didn't wasn't weren't had hadn't used_to been ago yesterday last went bought met saw flew sold
    won(?!') lost gave took made said told wrote came began left(?!_(?:until|to))
    got(?!_(?:to|an?|my|our|the|two|no|three|another)\b) kept slept stayed became found knew thought felt heard held
    brought ran sat spoke spent stood taught understood ate drank drove chose broke built fell grew paid rode sang
    sent swam threw wore gone done seen taken given known written
    (?:have|has|haven't|hasn't|\w+'ve)_(?:\w+ly_|just_|not_){0,2}\w+ed(?!_to)
    """)
_PARTICIPLE = re.compile(r"\b(?!(?:hundred|sacred|naked|wicked|shed|sled)\b)[a-z]{2,}(?<!e)ed\b", re.I)
_STATE_BEFORE = re.compile(
    rf"(?:(?:{_BE}|\b(?:get|gets|getting|being))(?:\s+(?:\w+ly|not|also|all|both|still|only|so|being|be|fully|out))*"
    r"|\b(?:not|the|an?|my|our|your|his|her|their|no))\s+$",
    re.I,
)
_OPENING_STATE = _any_of(
    "closed booked reserved rented hired postponed suspended cancelled paused blocked delayed tired bored",
    before=r"^\W*(?:",
)

# Clauses.
_BREAK = re.compile(r"\s*[;:,()]\s*|\s+[-\u2013\u2014]+\s+|\s*\b(?:and|but|so|or|then|yet|plus)\b\s*", re.I)
_VERB = _any_of(r"""
    am is are was were have has had do does did will can may might must shall should needs? isn't aren't won't don't
    can't doesn't i you we they he she \w+'(?:m|re|ve|ll|s)
    """)
_GREETING = r"""
    hi hello hey dear good_(?:morning|afternoon|evening|day) thanks? thank_you cheers sorry ok okay yes yeah yep no
    nope well oh ah wow great cool sure right please fyi btw by_the_way just_so_you_know note(?:_to_self)? reminder
    unfortunately sadly finally anyway actually honestly haha lol ugh bye see_you take_care no_worries
    (?:(?:kind|best)_)?regards
    """
_SAYS_NOTHING = re.compile(
    rf"#{{1,6}} .*|[\W_]*(?:(?:{_any_of(_GREETING).pattern})(?:[,\s]+(?:so much|a lot|all|everyone|everybody|team|folks"
    r"|guys|there|again|in advance|(?-i:[A-Z])[a-z]+))*[,\s]*)*[\W_]*",
    re.I,
)
_NAME_ALONE = re.compile(r"[A-Z]\w+[.!]?")
_ADDS = _any_of(
    r"an? the my our his her their no not two three four out away offline unavailable unreachable busy in at on off"
    r" with without possibly probably \w+ing (?-i:[A-Z])\w+ \d+",
    before="(?:",
)
_INTRODUCES = re.compile(r"(?:(?:in|at|on|for|from|my|our|the|his|her)\s+(?:\w+\s*){1,3}|\w+)", re.I)
_FINITE = _any_of("am is are was were have has had will can must needs? may might", before="(?:")


def stated_end(text: str, stated_on: dt.date) -> dt.date | None:
    """Returns the last day on which all that a text states holds; None where any of it has no stated end.

    Args:
        text: a memory's text.
        stated_on: the day on which it was stated, from which days without a year are counted.
    """
    if len(text) > _MAX_CHARS or not _TRIGGER.search(text):
        return None
    sentences = [text[a:b] for a, b in memory_sentence_spans(text) if not _SAYS_NOTHING.fullmatch(text, a, b)]
    return _last([_sentence_end(sentence, stated_on) for sentence in sentences])


def _last(ends: Sequence[dt.date | None]) -> dt.date | None:
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None


def _sentence_end(sentence: str, ref: dt.date) -> dt.date | None:
    text = _SAME_AS_UNTIL.sub("until", " ".join(sentence.replace("\u2019", "'").split()))
    text = _WEEKDAY_BEFORE_DATE.sub("", text)
    if text.rstrip("\"')").endswith("?"):
        return None
    dates = [*find_dates_ahead(text, ref), *_durations(text, ref)]
    if last_day := next((d for d in dates if _UNTIL.search(text[: d.start]) and _REASON.match(text, d.end)), None):
        text = text[: last_day.end]
        dates = [d for d in dates if d.end <= last_day.end]
    if _OPEN.search(text):
        return None
    clauses = _clauses(text, dates) if dates else []
    return _last([_clause_end(text, start, stop, dates, ref) for start, stop in clauses])


def _durations(text: str, ref: dt.date) -> list[DateMention]:
    """Returns `for two weeks` of where somebody or something is: other durations may begin on another day."""
    return [
        DateMention(*m.span(), ref, days_before(ref, -read_number(m["n"]), m["unit"].lower()))
        for m in _DURATION.finditer(text)
        if _PLACE_OR_STATE.search(text[: m.start()])
    ]


def _clauses(text: str, dates: Sequence[DateMention]) -> list[tuple[int, int]]:
    """Returns the spans of clauses with the parts that belong to each; none where that is not certain."""
    breaks = [m for m in _BREAK.finditer(text) if not any(d.start < m.end() and m.start() < d.end for d in dates)]
    out: list[tuple[int, int]] = []
    introduction: int | None = None
    for start, stop in zip([0, *(m.end() for m in breaks)], [*(m.start() for m in breaks), len(text)], strict=True):
        part = text[start:stop].strip()
        if _SAYS_NOTHING.fullmatch(part) or (breaks and not out and _NAME_ALONE.fullmatch(part)):
            continue
        is_dated = any(start <= d.start < stop for d in dates)
        if _VERB.search(part) or (not out and introduction is None and (is_dated or not breaks)):
            if introduction is not None and _FINITE.match(part):
                return []
            out.append((start if introduction is None else introduction, stop))
            introduction = None
        elif out and _adds(part, is_dated):
            out[-1] = (out[-1][0], stop)
        elif not out and introduction is None and _INTRODUCES.fullmatch(part):
            introduction = start
        else:
            return []
    return out if introduction is None else []


def _adds(part: str, is_dated: bool) -> bool:
    """Returns whether a part without a verb belongs to the clause before it, and its date to all of that."""
    if part.lower().startswith("until "):
        return True
    is_short = len(part.split()) <= _MAX_ADDED_WORDS
    return is_short and (_ADDS.match(part) is not None if not is_dated else " until " in part and part[0].isupper())


@dataclass(frozen=True)
class _Dated:
    """A date in its clause: the clause, what of it is before and after the date, and the words of the date."""

    date: DateMention
    clause: str
    before: str
    words: str
    after: str


def _clause_end(text: str, start: int, stop: int, dates: Sequence[DateMention], ref: dt.date) -> dt.date | None:
    clause = text[start:stop]
    own = [
        _Dated(d, clause, text[start : d.start], text[d.start : d.end].lower(), text[d.end : stop])
        for d in dates
        if start <= d.start < stop
    ]
    last = _last([d.date.last for d in own])
    if last is None or any(d.date.last is None or d.date.last < ref for d in own) or _is_past(clause):
        return None
    if bounds := [d for d in own if _is_last_day(d)]:
        return last if any(d.date.last == last for d in bounds) else None
    return last if all(_is_over_after(d, (last - ref).days) for d in own) else None


def _is_last_day(d: _Dated) -> bool:
    """Returns whether a clause says that a date is its last day."""
    if d.after.startswith("'s") or (_A_MONTH.fullmatch(d.words) and _OF_SOMEBODY.match(d.after)):
        return False
    return bool(
        _LAST_DAY.search(d.before)
        or _DURATION.fullmatch(d.words)
        or (d.date.is_range and _RANGE.search(d.before) and re.search(r"\d", d.words))
        or (d.words not in WEEKDAYS and (_ONLY.search(d.before) or re.match(r"\s+only\b", d.after)))
        or (_COMING.match(d.words) and _THROUGHOUT.search(d.before))
        or (_LATEST.search(d.before) and _DUE.search(d.clause))
    )


def _is_over_after(d: _Dated, days_ahead: int) -> bool:
    """Returns whether a clause is of what is over after a date of it: an event, a plan, what is so this week."""
    has_digits, has_year = (re.search(p, d.words) is not None for p in (r"\d", r"[a-z].*\d{4}|\d-\d"))
    if any(p.search(d.clause) for p in (_BEGINS, _REPEATED)) or any(p.search(d.before) for p in _OTHER_BOUNDS):
        return False
    if _NOT_AHEAD.match(d.words) or (days_ahead > _MAX_DAYS_AHEAD and not has_year):
        return False
    if (d.words in WEEKDAYS or (has_digits and not d.date.is_range)) and not _ON.search(d.before):
        return False
    if _INTENDED_NOW.search(d.clause):
        return True
    is_event, is_plan = _EVENT.search(d.clause) is not None, _PLANNED.search(d.clause) is not None
    if _A_MONTH.fullmatch(d.words) or _COMING.match(d.words) or (d.date.is_range and not has_digits):
        return False  # what is so in June, or from June to August, is so each year
    if "today" in d.words:
        return _STATE_TODAY.search(d.clause) is not None or d.after.startswith("'s")
    if d.words in WEEKDAYS:
        return _ONCE_IS.search(d.clause) is not None or (is_event and is_plan)
    is_note = is_event and len(d.clause.split()) <= _MAX_NOTE_WORDS and _ON.search(d.before) is not None
    return is_event if d.after.startswith("'s") else is_note or is_plan or _IS.search(d.clause) is not None


def _is_past(clause: str) -> bool:
    if _PAST.search(clause):
        return True
    participles = [m.start() for m in _PARTICIPLE.finditer(clause)]
    return any(not _STATE_BEFORE.search(clause[:at]) and not _OPENING_STATE.match(clause) for at in participles)
