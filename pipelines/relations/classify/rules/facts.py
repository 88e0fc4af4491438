"""What a sentence states, as far as a careful rule can read it: subject, slot, value, words that announce a change."""

import re
from dataclasses import dataclass

from palimpsest.relations.classify.rules.slots import MANY_AT_A_TIME, SLOT_OF_NOUN, SLOT_OF_VERB, STATE_GROUP
from palimpsest.relations.classify.rules.values import APPROXIMATE, Value, read_value
from palimpsest.text.normalize import fold
from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.stopwords import CALENDAR_WORDS, STOPWORDS
from palimpsest.text.words import content_words

_MANY_AT_A_TIME = re.compile(
    r"\b(?:likes?|loves?|enjoys?|prefers?|hates?|speaks?|knows?|uses?|visits?|visited|reads?|eats?|drinks?|handles?|"
    r"handled by|supports?|includes?|contains?|covers?|offers?|sells|buys|writes?|teaches|studies|follows|"
    r"owns|has|have|"
    r"attends?|collects?|plays(?! for)|watch(?:es)?|mentions?|said|says|met|meets? with)\b",
    re.IGNORECASE,
)
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
_CHANGE = re.compile(
    rf"\b(?:(?:has|have|had|was|were|is|are|been|being|got|gets|will be)\s+)*(?P<verb>{_CHANGES})\b"
    r"(?:\s+(?:back|forward|up|down|out|over|again|now))*(?:\s+(?:house|office))?"
    r"(?:\s+from\s+(?P<old>.+?))?\s+(?:to|until|till|into)\s+(?P<new>.+)",
    re.IGNORECASE,
)
_COPULA = re.compile(
    r"\b(?P<verb>is|are|was|were|remains?|will be|has been|have been|becomes?|became|stands at|amounts to)\b",
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
_PAST_VERB = re.compile(
    r"\b(?P<before>[\w'.]+)\s+(?:went|bought|met|saw|flew|sold|won|lost|gave|took|made|said|told|wrote|came|began|left|"
    r"spent|ate|drove|(?!need|united|speed|hundred|embed|limited|based)\w{2,}ed)\b",
    re.IGNORECASE,
)
_NOT_A_SUBJECT_WORDS = """
is are be been being was were has have had gets get got now currently the a an of in on at to for by with and or
as not also
newly more most very this that its their our my your
"""
_NOT_A_SUBJECT = frozenset(_NOT_A_SUBJECT_WORDS.split())
_NAME = re.compile(r"[A-ZÀ-ÖØ-Þ][\w\-]*(?:\s+(?:[A-ZÀ-ÖØ-Þ][\w\-]*|\d[\w.]*))*")
_BEFORE_VERB = re.compile(r"['\u2019]s\b|\s+(?:is|was|are|has|had|will|can|\w{2,}(?:ed|[^s\W]s))\b")
_NOW_CUE = re.compile(
    r"\b(?:now|as of|no longer|from now on|instead|effective|has changed|have changed|correction|henceforth)\b",
    re.IGNORECASE,
)
_PRONOUNS = frozenset(
    ("he", "she", "it", "they", "this", "that", "these", "those", "you", "your", "his", "her", "its", "their", "there"),
)
_NOT_NAMING_WORDS = """
the a an of for in on at to and or current new official main latest now currently has have had been is are was
were not no
longer will be also still today that by with as
"""
_NOT_NAMING = frozenset(_NOT_NAMING_WORDS.split())
_NO_NAMES = _NOT_NAMING | _PRONOUNS | CALENDAR_WORDS | STOPWORDS | {"i"}
_HELD_BY_ONE = frozenset({"head", "manager", "owner", "contact", "winner", "capital"})


@dataclass(frozen=True)
class Fact:
    """One slot of one subject: `value` is what fills it, `old` what a change of it names as the former value."""

    subject: frozenset[str]
    slot: str
    value: Value
    old: Value | None = None
    past: bool = False
    negated: bool = False


@dataclass(frozen=True)
class Sentence:
    """One sentence of a memory, with char offsets in its text.

    `uncertain`: a question, a condition, a plan; it states nothing. `past`: what it says need not hold any more;
    `scoped`: it says in which time it held. `now`: it announces a change. `many`: its verb takes many objects.
    `names`: its capitalised words; `lead`: the names among its first words, whole.
    """

    start: int
    end: int
    text: str
    content: frozenset[str]
    uncertain: bool
    question: bool
    past: bool
    scoped: bool
    now: bool
    many: bool
    fact: Fact | None
    names: frozenset[str]
    lead: frozenset[str]


def read_sentences(text: str, speaker: str | None) -> tuple[Sentence, ...]:
    """Returns the sentences of a memory and what each states."""
    return tuple(_sentence(text, start, end, speaker) for start, end in memory_sentence_spans(text))


def _sentence(text: str, start: int, end: int, speaker: str | None) -> Sentence:
    body = text[start:end].replace("\n", " ")
    question = body.rstrip("\"')” ").endswith("?")
    uncertain = question or bool(_UNCERTAIN.search(body))
    plain = _LEAD_IN.sub("", _FROM_THEN.sub("", _OPENING.sub("", body.strip().rstrip(".! "))))
    fact = None if uncertain or end - start > 400 else _fact(plain, speaker)
    outside = body.replace(fact.value.text, " ") if fact is not None and fact.value.text else body
    past = bool(_PAST_SCOPE.search(outside)) or (fact is not None and fact.past)
    if fact is None:
        past = past or any(m.group("before").lower() not in _NOT_A_SUBJECT for m in _PAST_VERB.finditer(body))
    elif fact.old is not None:
        past = False
    first = len(body.split(maxsplit=1)[0])
    return Sentence(
        start,
        end,
        body,
        content_words(body),
        uncertain,
        question,
        past,
        bool(_SCOPED.search(outside)),
        bool(_NOW_CUE.search(body)),
        bool(_MANY_AT_A_TIME.search(body, first)),
        fact,
        _names(body),
        _lead(" ".join(plain.split()[:6])),
    )


def _names(text: str) -> frozenset[str]:
    found = re.findall(r"[^\W_][\w\-]*(?:\s+\d[\w.]*)?", text)
    return frozenset(fold(n) for n in found if n[0].isupper() and fold(n) not in _NO_NAMES)


def _lead(text: str) -> frozenset[str]:
    """Names that start in the first three words; the first alone is one only before a verb or a possessive."""
    found = set()
    for m in _NAME.finditer(text):
        name = fold(m.group())
        if len(text[: m.start()].split()) > 2:
            break
        if name in _NO_NAMES or (m.start() == 0 and " " not in name and not _BEFORE_VERB.match(text, m.end())):
            continue
        found.add(name)
    return frozenset(found)


def _fact(rest: str, speaker: str | None) -> Fact | None:
    change, verb = _CHANGE.search(rest), _SLOT_VERB.search(rest)
    if verb and not (change and change.start() <= verb.start()):
        slot = SLOT_OF_VERB.get(re.sub(rf"\s+(?:{_NOW}\s+)?", " ", verb.group().lower()))
        subject = subject_of(rest[: verb.start()], speaker)
        if not slot or subject is None:
            return None
        negated = bool(re.search(r"\b(?:not|never|no longer|n't)\b", rest[: verb.end()]))
        value = _value(rest[verb.end() :])
        if slot == "host" and value.kind not in ("name", "phrase", "number"):
            slot = "days"  # people run on Tuesdays, servers on Linux
        return Fact(subject, slot, value, negated=negated)
    if inverse := _INVERSE.match(rest):
        return _inverse(inverse, speaker)
    if change:
        return _changed(rest, change, speaker)
    m = _COPULA.search(rest)
    if not m or len(rest[: m.start()].split()) > 10:
        return None
    tail = rest[m.end() :]
    negated = bool(re.match(r"\s*(?:now\s+)?(?:not|no longer|n't|never)\b", tail))
    past = m.group("verb").lower() in ("was", "were")
    tail = re.sub(rf"^\s*(?:{_NOW}\s+)+", "", tail.strip(), flags=re.IGNORECASE)
    state = STATE_GROUP.get(fold(_VALUE_END.split(tail)[0]))
    if state is not None:
        subject = subject_of(rest[: m.start()], speaker)
        return Fact(subject, f"state:{state}", _value(tail), past=past, negated=negated) if subject else None
    found = _attribute(rest[: m.start()], speaker)
    return Fact(found[0], found[1], _value(tail), past=past, negated=negated) if found else None


def _inverse(m: re.Match[str], speaker: str | None) -> Fact | None:
    """`Mia leads Heron`, `Mia took over Heron from Sam`: a slot of Heron."""
    slot = SLOT_OF_NOUN.get(fold(m.group("noun"))) if m.group("noun") else "head"
    value = read_value(m.group("value"))
    end = _VALUE_END.search(m.group("subject"))
    subject = subject_of(m.group("subject")[: end.start()] if end else m.group("subject"), speaker)
    former = re.search(r"\s+from\s+(?P<old>[^,;.]+)", m.group("subject"))
    if slot not in _HELD_BY_ONE or value.kind != "name" or not subject:
        return None
    return Fact(subject, slot, value, read_value(former.group("old")) if former else None)


def _changed(rest: str, m: re.Match[str], speaker: str | None) -> Fact | None:
    before = rest[: m.start()]
    value = _value(m.group("new"))
    old = _value(m.group("old")) if m.group("old") else None
    found = _attribute(before, speaker)
    if found is None:
        subject = subject_of(before, speaker)
        verb = m.group("verb").lower()
        if not subject or (verb not in ("moved", "relocated", "transferred", "moves") and old is None):
            return None
        # "Ana moved to Oslo" is about her home only where the value is a place name.
        slot = "home" if verb in ("moved", "relocated", "moves") and value.kind == "name" else "changed"
        return Fact(subject, slot, value, old)
    return Fact(found[0], found[1], value, old)


def _value(text: str) -> Value:
    text = _AFTER_VERB.sub("", text.strip()).strip()
    cut = _VALUE_END.search(text)
    approximate = bool(APPROXIMATE.search(text))
    return read_value((text[: cut.start()] if cut else text).strip(" .!\"'"), approximate)


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
    if slot is None and owner and len(words) > 1 and fold(words[-1]) not in MANY_AT_A_TIME:
        slot = f"its {fold(words[-1])}"  # may hold many: only words that announce a change make it one
    if slot is None:
        return None
    subject = subject_of(" ".join(words[:-1]) + " " + rest, speaker)
    return None if subject is None else (subject, slot)


def subject_of(noun_phrase: str, speaker: str | None) -> frozenset[str] | None:
    """Returns the folded words that name a subject; the speaker for `I`; None where a pronoun stands for it."""
    words = re.findall(r"[^\W_](?:[\w\-&]*[^\W_])?", re.sub(r"['\u2019]s\b", "", fold(noun_phrase)))
    if len(words) > 9 or _PRONOUNS.intersection(words):
        return None
    out = set()
    for word in words:
        if word in ("i", "my", "me", "mine"):
            out.add("speaker " + fold(speaker) if speaker else "i")
        elif word in ("we", "our", "us"):
            out.add("we")
        elif word not in _NOT_NAMING:
            out.add(word)
    return frozenset(out)
