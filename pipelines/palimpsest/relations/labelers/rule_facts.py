"""The fact that a clause states, as far as a careful rule can read it: one slot of one subject, and its value."""

import re
from dataclasses import dataclass

from palimpsest.text.date_mentions import MONTH_NAMES
from palimpsest.text.words import STOPWORDS, fold

# Values in texts: numbers with a unit, dates, times, names; and whether one value replaces or refines another.

_NUMBER_WORDS = {
    w: str(n)
    for n, w in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    )
}
_MONTH = {m[:3]: m for m in MONTH_NAMES}
_MONTH_WORD = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]*"
_DAY = re.compile(
    rf"\b(?:\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH_WORD}|{_MONTH_WORD}\s+\d{{1,2}}(?:st|nd|rd|th)?\b|"
    rf"\d{{4}}-\d\d-\d\d)"
)
_WEEKDAY = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b")
_IN_MONTH = re.compile(rf"^(?:in |early |late |mid-?|end of )?{_MONTH_WORD}(?:\s+\d{{4}})?$")
_COARSE = re.compile(
    r"\b(?:q[1-4]|(?:first|second|third|fourth) quarter|spring|summer|autumn|fall|winter|next (?:week|month|year))\b"
)
_CLOCK = re.compile(r"\b(\d{1,2})(?::(\d\d))?\s*(am|pm|a\.m|p\.m)\b|\b(\d{1,2}):(\d\d)\b|\b(noon|midnight)\b")
_NUMBER = re.compile(r"[-+]?\d[\d,.]*\d|\d")
APPROXIMATE = re.compile(
    r"\b(?:about|around|roughly|approximately|approx|circa|under|over|below|above|at least|at most|up to|"
    r"more than|less than|"
    r"several|few|some|between|nearly|almost|dozens?|hundreds|soon|tbd|tba|unknown|undecided)\b|~",
    re.IGNORECASE,
)
_COUNTRY_WORDS = """
africa america argentina asia australia austria belgium brazil britain bulgaria canada chile china colombia croatia
cuba denmark egypt england estonia europe finland france germany greece hungary iceland india indonesia iran iraq
ireland israel italy japan kenya latvia lithuania malaysia mexico morocco netherlands nigeria norway pakistan peru
philippines poland portugal romania russia scotland serbia singapore slovakia slovenia spain sweden switzerland taiwan
thailand tunisia turkey uk ukraine usa vietnam wales california texas florida ohio bavaria
"""
_COUNTRIES = frozenset(_COUNTRY_WORDS.split())


@dataclass(frozen=True)
class Value:
    """A value: its text as written, its kind (number, day, weekday, month, coarse, clock, name, phrase) and words."""

    text: str
    kind: str
    words: tuple[str, ...]
    key: str
    unit: str = ""
    approximate: bool = False


def read_value(text: str, approximate: bool = False) -> Value:
    """Returns the value that `text` states; equal values have equal `key`s (`nine` and `9`, `3 pm` and `15:00`)."""
    folded = fold(text).removeprefix("the ").removeprefix("a ").removeprefix("an ").strip(" .,!'\"")
    folded = re.sub(r"(?<=\d),(?=\d{3}\b)", "", folded)
    words = tuple(_NUMBER_WORDS.get(w, w) for w in re.findall(r"[^\W_](?:[\w\-.:/]*[^\W_])?%?", folded))
    plain = " ".join(words)
    kind, key, unit = "phrase", plain, ""
    if m := _CLOCK.search(plain):
        kind, key = "clock", _clock(m) + " " + " ".join(w for w in words if _WEEKDAY.fullmatch(w))
    elif _DAY.search(plain):
        kind, key = "day", _day_key(plain)
    elif _COARSE.search(plain):
        kind = "coarse"
    elif _WEEKDAY.search(plain):
        kind = "weekday"
    elif _IN_MONTH.search(plain):
        kind = "month"
    elif m := _NUMBER.search(plain):
        number = m.group().replace(",", "")
        unit = " ".join(
            _unit(w)
            for w in re.findall(r"[^\W\d_]+|%|[€$£]", fold(text))
            if w not in STOPWORDS and w not in _NUMBER_WORDS
        )
        kind, key = "number", f"{number.rstrip('.')} {unit}"
    elif text and _named(text):
        kind = "name"
    return Value(text, kind, words, key.strip(), unit, approximate)


def _unit(word: str) -> str:
    short = {
        "%": "percent",
        "€": "euro",
        "$": "dollar",
        "£": "pound",
        "mins": "minute",
        "min": "minute",
        "hrs": "hour",
        "hr": "hour",
        "secs": "second",
        "sec": "second",
    }
    return short.get(word, word.removesuffix("s") if len(word) > 3 else word)


def _clock(m: re.Match[str]) -> str:
    if m.group(6):
        return "12:00" if m.group(6) == "noon" else "00:00"
    if m.group(4):
        return f"{int(m.group(4)):02d}:{m.group(5)}"
    hour = int(m.group(1)) % 12 + (12 if m.group(3).startswith("p") else 0)
    return f"{hour:02d}:{m.group(2) or '00'}"


def _day_key(plain: str) -> str:
    if m := re.search(r"\b(\d{4})-(\d\d)-(\d\d)\b", plain):
        month = MONTH_NAMES[int(m.group(2)) - 1] if 1 <= int(m.group(2)) <= 12 else m.group(2)
        return f"{int(m.group(3))} {month} {m.group(1)}"
    month = next((_MONTH[w[:3]] for w in plain.split() if re.fullmatch(_MONTH_WORD, w) and w[:3] in _MONTH), "")
    numbers = re.findall(r"\d+", plain)
    year = next((n for n in numbers if len(n) == 4), "")
    day = next((str(int(n)) for n in numbers if len(n) < 3), "")
    return f"{day} {month} {year}".strip()


def _named(text: str) -> bool:
    """Says whether the text is a name: it has a capital, and every other word has one or links."""
    words = re.findall(r"[^\W_][\w\-.']*", text)
    big = [w for w in words if w[0].isupper() or w.isupper()]
    small = [
        w
        for w in words
        if not (w[0].isupper() or fold(w) in ("of", "the", "and", "de", "von", "van", "for", "la", "at", "in", "on"))
    ]
    return bool(big) and len(small) == 0


def same_value(a: Value, b: Value) -> bool:
    """Says whether two values are one, as far as they are stated."""
    if a.key == b.key:
        return True
    if a.kind == b.kind == "day":  # a day without a year is that day of any year
        return a.key.split()[:2] == b.key.split()[:2] and (len(a.key.split()) < 3 or len(b.key.split()) < 3)
    return False


def replaces(new: Value, old: Value, cue: bool) -> bool:
    """Says whether `new` can only hold in place of `old`: another value of the same kind, neither one made more exact.

    With `cue`, the text itself announces a change, and kinds may differ.
    """
    if not new.words or not old.words or same_value(new, old) or (new.kind == "phrase" and new.approximate):
        return False
    a, b = set(new.words), set(old.words)
    if a <= b or b <= a:
        return False
    if cue:
        return len(new.words) <= 8 and len(old.words) <= 8
    if new.approximate or old.approximate or new.kind != old.kind:
        return False
    if new.kind == "number":
        return new.unit == old.unit
    if new.kind == "name":
        return ((new.key in _COUNTRIES) == (old.key in _COUNTRIES)) and len(new.words) <= 6 and len(old.words) <= 6
    return new.kind in ("day", "weekday", "month", "clock", "coarse")


def refines(new: Value, old: Value) -> bool:
    """Says whether `new` is `old` made more exact: all its words and more, or definite where that was vague."""
    if not new.words or not old.words or same_value(new, old):
        return False
    return (
        set(old.words) < set(new.words) or (old.approximate and not new.approximate) or old.kind in ("coarse", "phrase")
    )


# Slots: attributes with one value at a time, by the nouns, verbs and states that English uses for them.
#
# Written from the language and frozen in the program (decision 15). A noun or verb that is not listed may take several
# values at a time (hobby, friend, likes, uses), so nothing is retired for it unless the text states what ended.

_NOUNS = """
deadline: deadline cutoff due-date
price: price cost fee fare rent tariff
rate: rate
budget: budget
salary: salary wage pay
limit: limit cap quota maximum minimum allowance
threshold: threshold
timeout: timeout ttl
version: version
owner: owner maintainer custodian
manager: manager boss supervisor
head: lead leader head chair chairperson chairman chairwoman president director ceo officer captain coach
head: mayor principal
contact: contact
address: address
venue: venue location place
room: room desk seat office
home: headquarters hq base hometown residence
capital: capital
port: port
url: url link endpoint
host: host hosting
region: region zone
colour: colour color
phone: phone extension
email: email
name: name title codename
status: status state phase stage
size: size
weight: weight
height: height
age: age
capacity: capacity headcount
population: population
duration: duration length period retention lifetime
interval: interval frequency cadence
start: start kickoff
end: end expiry
launch: launch go-live rollout
date: date
time: time slot
target: target
score: score
rank: rank ranking
rating: rating
balance: balance
total: total count
speed: speed
temperature: temperature
default: default
winner: winner champion
spouse: spouse wife husband
employer: employer
job: job
currency: currency
dose: dose dosage
quorum: quorum
"""
_VERBS = """
home: lives in; lives at; resides in; is living in; live in; live at; relocated to; has relocated to; have relocated to
employer: works at; works for; work at; work for; is employed by; is employed at
team: plays for
venue: is based in; are based in; is located in; is located at; is headquartered in; takes place in
head: reports to; is managed by; is led by; are led by; is headed by; is run by; is chaired by; is coached by
owner: is owned by; is maintained by; belongs to
price: costs; is priced at; sells for; lists at; is listed at
duration: takes; lasts; last
deadline: is due on; is due by; is due; are due on; are due by; are due
start: starts on; starts at; starts in; start on; start at; begins on; begins at; begins in; opens on
start: opens at; opens in
end: ends on; ends at; ends in; closes on; closes at; closes in; expires on; expires in; expires
launch: ships on; ships in; launches on; launches in; goes live on; goes live in; is released on; is released in
date: is scheduled for; are scheduled for; is planned for; is set for; takes place on; takes place at
date: is held on; is held at
host: is hosted on; is hosted by; is hosted in; is deployed on; is deployed to; runs on; run on
spouse: is married to
name: is called; is named
limit: is limited to; are limited to; is capped at; are capped at
weight: weighs
"""
_STATES = """
planned, pending, open, in progress, started, blocked, paused, on hold, under review, approved, rejected, done, live
planned, complete, completed, finished, closed, shipped, cancelled, canceled, resolved, merged, postponed
enabled, disabled, on, off
mandatory, required, compulsory, optional
allowed, permitted, forbidden, prohibited, banned
available, unavailable, sold out
supported, unsupported, deprecated, retired, end of life
free, paid
public, private
active, inactive
draft, final
vacant, occupied, filled
in stock, out of stock
healthy, down, degraded
"""

_MULTIVALUED = """
friend colleague hobby interest child son daughter sister brother cousin neighbour neighbor student client customer
supplier partner member sponsor topic part reason problem skill example pet plan idea dream wish concern point
"""
MULTIVALUED_NOUNS = frozenset(_MULTIVALUED.split())
"""Nouns that someone may have several of, even where a text says `now`."""

SLOT_OF_NOUN: dict[str, str] = {
    noun: slot for line in _NOUNS.strip().splitlines() for slot, nouns in [line.split(": ")] for noun in nouns.split()
}
SLOT_OF_VERB: dict[str, str] = {
    verb: slot
    for line in _VERBS.strip().splitlines()
    for slot, verbs in [line.split(": ")]
    for verb in verbs.split("; ")
}
STATE_GROUP: dict[str, int] = {}
"""The group of each state: states of one group exclude each other, states of two groups are independent."""
for _group, _line in enumerate(_STATES.strip().splitlines()):
    _states = _line.split(", ")
    # A line whose first state is in an earlier line belongs to the same group.
    STATE_GROUP.update(dict.fromkeys(_states, STATE_GROUP.get(_states[0], _group)))


_NOW = r"(?:now|currently|today|at present|officially|already|just|instead|henceforth|again|still|also)"
_SLOT_VERB = re.compile(
    r"\b(?:"
    + "|".join(v.replace(" ", rf"\s+(?:{_NOW}\s+)?") for v in sorted(SLOT_OF_VERB, key=lambda v: (-len(v), v)))
    + r")\b",
    re.IGNORECASE,
)
_INVERSE = re.compile(
    rf"^(?P<value>[^\W\d_][\w.'\-]*(?:\s+[^\W\d_][\w.'\-]*){{0,3}}?)\s+(?:{_NOW}\s+)?(?:leads|heads|chairs|maintains|"
    rf"is\s+(?:{_NOW}\s+)?in charge of|is\s+(?:{_NOW}\s+)?the\s+(?:new\s+)?(?P<noun>[\w\-]+)\s+(?:of|for)|"
    rf"takes over|took over|"
    r"has taken over|will take over)\s+(?P<subject>.+)",
    re.IGNORECASE,
)
_CHANGES = (
    "moved|moves|changed|changes|raised|lowered|increased|increases|reduced|cut|extended|postponed|pushed|"
    "brought|shifted|"
    "rescheduled|updated|upgraded|downgraded|switched|migrated|went|goes|rose|rises|fell|falls|dropped|drops|"
    "grew|grows|"
    "slipped|slips|delayed|transferred|renamed|relocated|promoted|bumped|revised|corrected|amended|climbed|climbs"
)
CHANGE = re.compile(
    rf"\b(?:(?:has|have|had|was|were|is|are|been|being|got|gets|will be)\s++){{0,9}}(?P<verb>{_CHANGES})\b"
    r"(?:\s++(?:back|forward|up|down|out|over|again|now))*(?:\s++(?:house|office))?"
    r"(?:\s++from\s++(?P<old>.{1,400}?))?\s++(?:to|until|till|into)\s+(?P<new>.+)",
    re.IGNORECASE,
)
_COPULA = re.compile(
    r"\b(?P<verb>is|are|was|were|remains?|will be|has been|have been|becomes?|became|stands at|amounts to)\b",
    re.IGNORECASE,
)
_AFTER_VERB = re.compile(
    rf"^(?:\s*(?:{_NOW}|set to|set at|set for|fixed at|scheduled for|due on|due|held on|held at|held in|at|on|"
    rf"in|by|to|for|"
    r"equal to|called|named)\b)+",
    re.IGNORECASE,
)
_VALUE_END = re.compile(
    r"[;:()\[\]](?!\d)|,(?!\d)|\s[\u2013\u2014-]\s|\s(?:because|since|so|but|which|who|that|and|after|while|"
    r"when|unless|"
    r"instead of|rather than|not|as of|starting|effective|from|until|per the|according)\b",
    re.IGNORECASE,
)
LATELY = re.compile(
    r"\s+(?:yesterday|recently|lately|last\s+(?:night|week|weekend|month|(?:mon|tues|wednes|thurs|fri|satur|sun)day)|"
    r"this\s+(?:morning|week|month)|"
    r"(?:an?|one|two|three|four|five|six|\d+|several|a few|a couple of)\s+(?:day|week)s?\s+ago)[\s.!]*$",
    re.IGNORECASE,
)
"""When a change came, at the end of its clause: `moved to Lyon last week`. Its value holds since then."""
PRONOUNS = frozenset(
    ("he", "she", "it", "they", "this", "that", "these", "those", "you", "your", "his", "her", "its", "their", "there"),
)
_FUNCTION_WORD_LIST = """
the a an of for in on at to and or current new official main latest now currently has have had been is are was
were not no
longer will be also still today that by with as
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORD_LIST.split())
_MAX_ATTRIBUTE_WORDS = 10
_MAX_SUBJECT_WORDS = 9
_SLOTS_OF_ONE_PERSON = frozenset({"head", "manager", "owner", "contact", "winner", "capital"})


@dataclass(frozen=True)
class Fact:
    """One slot of one subject.

    Attributes:
        subject: the folded words that name it.
        slot: as `slots` names it, `state:GROUP`, `its NOUN`, `favourite NOUN`, or `changed`.
        value: what fills the slot.
        old: the former value, where the clause states a change from it.
        past: the clause is in the past tense.
        negated: the clause negates it.
    """

    subject: frozenset[str]
    slot: str
    value: Value
    old: Value | None = None
    past: bool = False
    negated: bool = False


def read_fact(clause: str, speaker: str | None) -> Fact | None:
    """Returns the fact that a clause states, None where no rule reads one; `I` is the speaker where one is known."""
    change, verb = CHANGE.search(clause), _SLOT_VERB.search(clause)
    if verb and not (change and change.start() <= verb.start()):
        return _from_slot_verb(clause, verb, speaker)
    if inverse := _INVERSE.match(clause):
        return _from_inverse(inverse, speaker)
    if change:
        return _from_change(clause, change, speaker)
    copula = _COPULA.search(clause)
    return _from_copula(clause, copula, speaker) if copula else None


def _from_slot_verb(clause: str, m: re.Match[str], speaker: str | None) -> Fact | None:
    """`Ana lives in Oslo`."""
    slot = SLOT_OF_VERB.get(re.sub(rf"\s+(?:{_NOW}\s+)?", " ", m.group().lower()))
    subject = subject_of(clause[: m.start()], speaker)
    if not slot or subject is None:
        return None
    negated = bool(re.search(r"\b(?:not|never|no longer|n't)\b", clause[: m.end()]))
    value = _value(clause[m.end() :])
    if slot == "host" and value.kind not in ("name", "phrase", "number"):
        slot = "days"  # people run on Tuesdays, servers on Linux
    return Fact(subject, slot, value, negated=negated)


def _from_inverse(m: re.Match[str], speaker: str | None) -> Fact | None:
    """`Mia leads Heron`, `Mia took over Heron from Sam`: a slot of Heron."""
    slot = SLOT_OF_NOUN.get(fold(m.group("noun"))) if m.group("noun") else "head"
    value = read_value(m.group("value"))
    end = _VALUE_END.search(m.group("subject"))
    subject = subject_of(m.group("subject")[: end.start()] if end else m.group("subject"), speaker)
    former = re.search(r"(?<!\s)\s++from\s++(?P<old>[^,;.]+)", m.group("subject"))
    if slot not in _SLOTS_OF_ONE_PERSON or value.kind != "name" or not subject:
        return None
    return Fact(subject, slot, value, read_value(former.group("old")) if former else None)


def _from_change(clause: str, m: re.Match[str], speaker: str | None) -> Fact | None:
    """`The deadline was moved from 3 May to 9 May`, `Ana moved to Oslo`."""
    before = clause[: m.start()]
    value = _value(m.group("new"))
    old = _value(m.group("old")) if m.group("old") else None
    if attribute := _attribute(before, speaker):
        return Fact(*attribute, value, old)
    subject = subject_of(before, speaker)
    verb = m.group("verb").lower()
    if not subject or (verb not in ("moved", "relocated", "transferred", "moves") and old is None):
        return None
    # "Ana moved to Oslo" is about her home only where the value is a place name.
    slot = "home" if verb in ("moved", "relocated", "moves") and value.kind == "name" else "changed"
    return Fact(subject, slot, value, old)


def _from_copula(clause: str, m: re.Match[str], speaker: str | None) -> Fact | None:
    """`The deadline is 9 May`, `The migration is blocked`."""
    before, tail = clause[: m.start()], clause[m.end() :]
    if len(before.split()) > _MAX_ATTRIBUTE_WORDS:
        return None
    negated = bool(re.match(r"\s*(?:now\s+)?(?:not|no longer|n't|never)\b", tail))
    past = m.group("verb").lower() in ("was", "were")
    tail = re.sub(rf"^\s*(?:{_NOW}\s+)+", "", tail.strip(), flags=re.IGNORECASE)
    state = STATE_GROUP.get(fold(_VALUE_END.split(tail)[0]))
    if state is not None:
        subject = subject_of(before, speaker)
        return Fact(subject, f"state:{state}", _value(tail), past=past, negated=negated) if subject else None
    attribute = _attribute(before, speaker)
    return Fact(*attribute, _value(tail), past=past, negated=negated) if attribute else None


def _value(text: str) -> Value:
    text = _AFTER_VERB.sub("", text.strip()).strip()
    cut = _VALUE_END.search(text)
    text = LATELY.sub("", (text[: cut.start()] if cut else text).strip(" .!\"'"))
    return read_value(text, bool(APPROXIMATE.search(text)))


def _attribute(noun_phrase: str, speaker: str | None) -> tuple[frozenset[str], str] | None:
    """Reads `X's deadline`, `the deadline of X`, `the X deadline`: returns (subject, slot)."""
    text = noun_phrase.strip().strip(",")
    owner = re.search(r"(?:'s|’s|s')\s+", text)  # noqa: RUF001
    of = re.search(r"\s(?:of|for)\s", text)
    if of and not (owner and owner.start() < of.start()):
        head, rest = text[: of.start()], text[of.end() :]
    else:
        head, rest = text, ""
    words = re.findall(r"[^\W_][\w\-]*", head.replace("’s", "").replace("'s", ""))  # noqa: RUF001
    if not words:
        return None
    slot = SLOT_OF_NOUN.get(fold(words[-1])) or SLOT_OF_NOUN.get(fold(words[-1]).removesuffix("s"))
    if slot is None and len(words) > 1 and fold(words[-2]) in ("favourite", "favorite"):
        slot = f"favourite {fold(words[-1])}"
    if slot is None and owner and len(words) > 1 and fold(words[-1]) not in MULTIVALUED_NOUNS:
        slot = f"its {fold(words[-1])}"  # it may take several values: only a stated change makes it single-valued
    if slot is None:
        return None
    subject = subject_of(" ".join(words[:-1]) + " " + rest, speaker)
    return None if subject is None else (subject, slot)


def subject_of(noun_phrase: str, speaker: str | None) -> frozenset[str] | None:
    """Returns the folded words that name a subject; the speaker for `I`; None where it is a pronoun."""
    words = re.findall(r"[^\W_](?:[\w\-&]*[^\W_])?", re.sub(r"['\u2019]s\b", "", fold(noun_phrase)))
    if len(words) > _MAX_SUBJECT_WORDS or PRONOUNS.intersection(words):
        return None
    out = set()
    for word in words:
        if word in ("i", "my", "me", "mine"):
            out.add("speaker " + fold(speaker) if speaker else "i")
        elif word in ("we", "our", "us"):
            out.add("we")
        elif word not in FUNCTION_WORDS:
            out.add(word)
    return frozenset(out)
