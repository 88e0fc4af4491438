"""The rules of the offline labeler: which UPDATEs the words of two memories prove. No corpus statistics."""

import re
from dataclasses import replace
from functools import lru_cache

from palimpsest.relations.labelers.label_types import LabelPair
from palimpsest.relations.labelers.reading import (
    MAX_SENTENCES,
    PRESENT_VERBS,
    SUBJECT_PRONOUNS,
    Reading,
    RuleUpdate,
    Sentence,
    Span,
    make_evidence,
    read_memory,
    words_before_value,
)
from palimpsest.relations.labelers.rule_facts import Fact, read_value, refines, replaces, same_value
from palimpsest.text.words import STOPWORDS, content_words, fold, is_content_word, stem_words

# What an update would lose: what an older memory states besides the replaced value.

_MIN_CONTENT_WORDS = 3  # `Lovely.` and `It rained.` are no loss
_REQUEST = re.compile(r"\b(?:can|could|will|would) you\b|\bplease\b", re.IGNORECASE)  # a question that states a wish
_MIN_REPEATED_SHARE = 0.5  # of a sentence's content words in the newer text: it is part of what changed


def loses_statements(newer: Reading, older: Reading, replaced: Span) -> bool:
    """Returns whether the older memory states something besides what the newer one replaces.

    Args:
        newer: the newer memory.
        older: the older memory.
        replaced: the char span of the older text that is replaced.
    """
    if len(older.sentences) < 2:
        return False
    start, end = replaced
    rest = [s for s in older.sentences[:MAX_SENTENCES] if s.end <= start or s.start >= end]
    return len(older.sentences) > MAX_SENTENCES or any(_is_lost(s, newer) for s in rest)


def _repeated_share(s: Sentence, newer: Reading) -> float:
    stems = stem_words(s.content)
    return len(stems & newer.stems) / len(stems) if stems else 0.0


def _is_lost(s: Sentence, newer: Reading) -> bool:
    is_statement = not s.question or bool(_REQUEST.search(s.text))
    return is_statement and len(s.content) >= _MIN_CONTENT_WORDS and _repeated_share(s, newer) < _MIN_REPEATED_SHARE


# What a statement ends by its words: `no longer on Mondays`, `30 instead of 14`, `scratch that: 16:00`.

_NO_LONGER = re.compile(
    r"\b(?:no longer|(?:not|n['\u2019]t)\b.{1,60}\b(?:any ?more|any longer)|(?:has|have|had)? ?stopped|quit|"
    r"(?:has|have) left|gave up)\b",
    re.IGNORECASE,
)
_REPLACES = re.compile(
    r"\b(?:instead of|rather than|in place of|no longer(?:\s+(?:on|in|at|by|with|from|to|for))?|"
    r"replac(?:es|ed|ing)|takes over from|took over from|succeed(?:s|ed)|"
    r"up from|down from|"
    r"(?:switched|migrated|moved|changed|upgraded|converted|transitioned|raised|lowered|increased|reduced|extended|cut|"
    r"shortened|lengthened|postponed|brought forward)(?:\s+\w+){0,3}\s+from)\s+(?P<old>.+)",
    re.IGNORECASE,
)
_SWITCH_VERB = re.compile(
    r"\b(?:switched|migrated|moved|changed|upgraded|converted|transitioned|replaced)\b", re.IGNORECASE
)
_USE_VERB = re.compile(r"\b(?:use|using|run|rely|host|store|deploy|write|keep)\b", re.IGNORECASE)
_OBJECT_END = re.compile(
    r"[.,;:()](?!\d)|\s(?:with|by|to|as|for|in|on|from|since|because|and|when|after|at)\s", re.IGNORECASE
)
_NAMED_OLD_VALUE = re.compile(
    r"(?:\b(?:instead of|rather than|in place of|no longer|and not|up from|down from|replacing|replaces|replaced|"
    r"succeeding|succeeds|succeeded|take[sn]? over from|took over from)|,\s+not)\s+"
    r"(?:the\s+ones?\s+)?(?:(?:on|in|at|by|with|from|to|for|until|till|only|just|of|the|a|an|our|my|their)\s+)*"
    r"(?P<old>.+)",
    re.IGNORECASE,
)
_TAKES_BACK = re.compile(
    r"\b(?:forget|disregard|ignore|delete|erase)\s+(?:what|everything|anything|all)(?:\s+that)?\s+(?:I|we)(?:'ve|\s+have)?\s+"
    r"(?:told|said|wrote|written|mentioned)(?:\s+to)?(?:\s+you)?\s+about\s+(?P<topic>[^.,!?;]+)",
    re.IGNORECASE,
)
_CORRECTS = re.compile(
    r"(?:^|[.,;:!\u2013\u2014-]\s*|\b(?:sorry|no|oh|oops),?\s+)"
    r"(?:(?:(?:scratch|strike)\s+that|correction|wait|that(?:['\u2019]s|\s+(?:is|was))\s+(?:wrong|incorrect|not\s+right))"
    r"\s*[,:.;!\u2013\u2014-]+\s*(?:make\s+(?:that|it)\s+)?|(?:I\s+meant?|make\s+(?:that|it))\s+)(?P<value>.+)",
    re.IGNORECASE,
)
_STILL = r"(?:(?:really|still|just|now|absolutely|also|actually)\s+)*"
_LIKES = rf"loves?|likes?|adores?|enjoys?|(?:am|is|are|['\u2019]m)\s+{_STILL}(?:fond of|into|a fan of)"
_DISLIKES = (
    "hates?|dislikes?|loathes?|detests?|despises?|(?:ca|do|does)n['\u2019]t\\s+(?:stand|bear|like|love|enjoy)|"
    "(?:cannot|can not|do not|does not)\\s+(?:stand|bear|like|love|enjoy)|no longer\\s+(?:likes?|loves?|enjoys?)"
)
_FEELS = re.compile(
    rf"^(?P<who>[^,;:]{{1,40}}?)(?:\s+|(?=['\u2019])){_STILL}"
    rf"(?:(?P<dislikes>{_DISLIKES})|(?P<likes>{_LIKES}))\s+(?P<what>[^.,;:!?]+)",
    re.IGNORECASE,
)
_MAX_CORRECTION_WORDS = 8
_CORRECTED_KINDS = ("clock", "day", "weekday", "month", "number")
_CHANGE_WORDS = {"longer", "anymore", "stopped", "quit", "left", "gave", "instead", "replaced", "replaces"}
_MAX_SUBJECT_WORDS = 7
_DEFAULT_VERB_POSITION = 4
_MAX_OLD_VALUE_WORDS = 5
_MAX_ADDED_WORDS = 2  # before the cue, that the older sentence does not have, names and numbers aside
_MIN_SHARE_OF_REPLACEMENT = 0.6  # of what the older sentence states besides the value that ended


def replacement_updates(newer: Reading, older: Reading) -> list[RuleUpdate]:
    """`no longer …`, `instead of X`, `replaced X`, `switched from X`."""
    found: list[RuleUpdate] = []
    for n in newer.sentences[:MAX_SENTENCES]:
        if n.uncertain or n.scoped:
            continue
        ended, replaced, value = (rule.search(n.text) for rule in (_NO_LONGER, _REPLACES, _NAMED_OLD_VALUE))
        if not ended and not replaced and not value:
            continue
        for o in older.sentences[:MAX_SENTENCES]:
            if o.uncertain or o.past or o.scoped:
                continue
            announces = _NO_LONGER.search(o.text) or _REPLACES.search(o.text)
            if ended and not announces and _states_end(n, o):
                found.append(RuleUpdate(0.85, make_evidence("no longer", n, o)))
            if replaced and (old := _replaced_object(replaced, n, o)):
                found.append(RuleUpdate(0.85, make_evidence("replaced", n, o, **{"from": old})))
            elif value and (old := _ended_value(value, n, o)):
                found.append(RuleUpdate(0.85, make_evidence("named", n, o, **{"from": old})))
    return found


def taken_back_updates(newer: Reading, older: Reading) -> list[RuleUpdate]:
    """`Forget what I told you about X` ends a memory that has all words of X."""
    found: list[RuleUpdate] = []
    for n in newer.sentences[:MAX_SENTENCES]:
        topic = stem_words(content_words(m.group("topic"))) if (m := _TAKES_BACK.search(n.text)) else frozenset()
        about = [o for o in older.sentences[:MAX_SENTENCES] if topic and topic <= stem_words(o.content)]
        found += [RuleUpdate(0.85, make_evidence("taken back", n, o)) for o in about]
    return found


def corrected_updates(newer: Reading, older: Reading) -> list[RuleUpdate]:
    """`Scratch that: 16:00` ends `The meeting is at 3pm`: a short correction states a value of the same kind."""
    found: list[RuleUpdate] = []
    for n in newer.sentences[:MAX_SENTENCES]:
        m = _CORRECTS.search(newer.text[n.start :])
        if m is None or len(m.group("value").split()) > _MAX_CORRECTION_WORDS:
            continue
        new = read_value(m.group("value"))
        for o in older.sentences[:MAX_SENTENCES]:
            old = read_value(o.text)
            is_of_one_unit = new.kind != "number" or (bool(new.unit) and new.unit in old.unit)
            is_of_one_kind = new.kind == old.kind in _CORRECTED_KINDS and is_of_one_unit
            if is_of_one_kind and not same_value(new, old) and not o.uncertain:
                found.append(RuleUpdate(0.85, make_evidence("corrected", n, o, **{"from": old.key, "to": new.key})))
    return found


def opposite_updates(newer: Reading, older: Reading) -> list[RuleUpdate]:
    """`I hate Thai curries` ends `I love Thai curries`."""
    found: list[RuleUpdate] = []
    for n in newer.sentences[:MAX_SENTENCES]:
        new = None if n.uncertain or n.past else _FEELS.match(n.text)
        for o in older.sentences[:MAX_SENTENCES] if new else ():
            old = None if o.uncertain or o.past else _FEELS.match(o.text)
            if new and old and bool(new.group("likes")) != bool(old.group("likes")) and _same_liking(new, old):
                found.append(RuleUpdate(0.85, make_evidence("opposite", n, o)))
    return found


def _same_liking(new: re.Match[str], old: re.Match[str]) -> bool:
    """Returns whether two sentences say how one subject likes one thing."""
    whats = [stem_words(content_words(m.group("what"))) for m in (new, old)]
    return fold(new.group("who")) == fold(old.group("who")) and bool(whats[0]) and whats[0] == whats[1]


def _ended_value(m: re.Match[str], n: Sentence, o: Sentence) -> str | None:
    """Returns the value that the newer sentence names as ended, where the older one states it of the same thing.

    The newer sentence must repeat most of the older one besides the value, and omit none of its names: `keeps 200
    housings in stock, up from 120` ends `keeps at least 120 housings in stock`, but no other stock.
    """
    value = _object(m)
    words = frozenset(read_value(value).words)
    before_cue = n.text[: m.start()]
    specific = frozenset(w for w in words if w not in STOPWORDS or any(c.isdigit() for c in w))
    # A value that the older sentence names as ended is not its value: `from twelve months to nine` states nine.
    current = frozenset(read_value(o.text).words) - _ended_words(o)
    if not specific or len(words) > _MAX_OLD_VALUE_WORDS or not words <= current:
        return None
    if specific <= frozenset(read_value(before_cue).words) or _first_person(n.text) != _first_person(o.text):
        return None
    rest, repeated = stem_words(o.content - words), stem_words(n.content)
    omitted_names = stem_words(o.names - n.names - words) - repeated
    stated = frozenset(w for w in content_words(before_cue) if not w[0].isdigit())
    added = stem_words(stated - o.content) - stem_words(n.names)
    if len(added) > _MAX_ADDED_WORDS:
        return None
    if len(rest & repeated) < 2 or len(rest & repeated) < _MIN_SHARE_OF_REPLACEMENT * len(rest) or omitted_names:
        return None
    return value if _same_opening(n, o, words) else None


def _ended_words(o: Sentence) -> frozenset[str]:
    found = [m for rule in (_REPLACES, _NAMED_OLD_VALUE) if (m := rule.search(o.text))]
    return frozenset(w for m in found for w in read_value(_object(m)).words)


def _object(m: re.Match[str]) -> str:
    end = _OBJECT_END.search(m.group("old"))
    return (m.group("old")[: end.start()] if end else m.group("old")).strip(" .!\"'")


def _same_opening(n: Sentence, o: Sentence, value: frozenset[str]) -> bool:
    """Returns whether the newer sentence has the first content word of the older one besides the value.

    `Judo is` does not open as `ballet is`.
    """
    first = next((w for w in read_value(o.text).words if w in o.content and w not in value), None)
    return first is None or not stem_words(frozenset([first])).isdisjoint(stem_words(n.content))


def _states_end(n: Sentence, o: Sentence) -> bool:
    """Returns whether the newer sentence states that what the older one states has ended."""
    stated, old = stem_words(n.content - _CHANGE_WORDS), stem_words(o.content)
    shared = len(stated & old)
    opening = fold(n.text).split(maxsplit=1)[0].split("'")[0]
    if opening in SUBJECT_PRONOUNS - {"i", "we"} or not stated or shared < 2 or shared < 0.6 * len(stated):
        return False
    if n.names - o.names and shared < len(stated):
        return False
    return shared >= 0.5 * len(old) and _first_person(n.text) == _first_person(o.text)


def _replaced_object(m: re.Match[str], n: Sentence, o: Sentence) -> str | None:
    """Returns what was replaced, where the older sentence states it of a subject that the newer one names too."""
    replaced = _object(m)
    words = [w for w in read_value(replaced).words if w not in ("the", "a", "an", "our", "old")]
    # An older memory that itself announced a change states what precedes that: `on Thursdays` of `on Thursdays
    # instead of Tuesdays`.
    cues = [rule.search(o.text) for rule in (_NO_LONGER, _REPLACES)]
    current_end = min((cue.start() for cue in cues if cue), default=len(o.text))
    current = list(read_value(o.text[:current_end]).words)
    if not words or len(words) > _MAX_OLD_VALUE_WORDS or not set(words) <= set(current):
        return None
    if not _same_opening(n, o, frozenset(words)):
        return None
    first = min(current.index(w) for w in words)
    verb = next((i for i, w in enumerate(current[:first]) if i and w in PRESENT_VERBS), _DEFAULT_VERB_POSITION)
    subject = frozenset(w for w in current[: min(first, verb, _MAX_SUBJECT_WORDS)] if w in o.content)
    person = _first_person(n.text)
    stated = n.content if person else content_words(n.text[: m.start()])
    shared = stem_words(subject) & stem_words(stated - set(words))
    if (shared and set(words) & o.names) or len(shared) > 1 or shared & stem_words(n.names & o.names):
        return replaced
    same_person = person and person == _first_person(o.text)
    return replaced if same_person and _SWITCH_VERB.search(n.text) and _USE_VERB.search(o.text) else None


def _first_person(text: str) -> str:
    words = set(re.findall(r"[a-z]+", text.lower()))
    return "i" if words & {"i", "my", "me"} else "we" if words & {"we", "our", "us"} else ""


_MIN_REPLACED_SHARE = 0.3  # of the older memory's characters: the rest is retired with the replaced sentence
_CHANGE_VERB = re.compile(
    r"\b(?:moved|changed|raised|lowered|postponed|pushed|extended|rescheduled|increased|reduced|cut)\b"
)
_INDEFINITE = {"a", "an", "another", "some", "each", "every", "other"}
_RATE_UNITS = {"hour", "day", "week", "month", "year", "minute", "second", "person", "seat", "user"}

_read = lru_cache(maxsize=8_192)(read_memory)


def update_by_rules(pair: LabelPair) -> RuleUpdate | None:
    """Returns the UPDATE that rules find in two memories, None where they find none.

    Where only their positions in a document order the two, or both are of one time, words must announce the change.
    """
    newer = _read(pair.newer, pair.newer_speaker, pair.newer_context)
    older = _read(pair.older, pair.older_speaker, pair.older_context)
    if newer.folded == older.folded or pair.order == -1:
        return None
    needs_cue = pair.by_position or pair.order == 0
    found = [
        *_slot_updates(newer, older, needs_cue),
        *_template_updates(newer, older, needs_cue),
        *replacement_updates(newer, older),
        *taken_back_updates(newer, older),
        *corrected_updates(newer, older),
        *opposite_updates(newer, older),
    ]
    best = min(found, key=lambda u: (-u.confidence, str(u.evidence)), default=None)
    return None if best is None else _cut_where_more_is_lost(best, newer, older)


def _cut_where_more_is_lost(update: RuleUpdate, newer: Reading, older: Reading) -> RuleUpdate:
    """Of a memory that states more than what was replaced, only that part ends."""
    span = update.evidence["older"]
    assert isinstance(span, list)
    start, end = span
    if end - start >= _MIN_REPLACED_SHARE * len(older.text) and not loses_statements(newer, older, (start, end)):
        return update
    return replace(update, part=((start, end),))


def _slot_updates(newer: Reading, older: Reading, needs_cue: bool) -> list[RuleUpdate]:
    """One slot of one subject, with two values."""
    olds = [(o, o.fact) for o in older.sentences if o.fact is not None and not (o.past or o.scoped or o.fact.negated)]
    found: list[RuleUpdate] = []
    for n in newer.sentences if olds else ():
        new = n.fact
        if new is None or new.negated or new.past or n.scoped:
            continue
        for o, old in olds:
            if new.slot != old.slot or not _same_subject(new, old, n, o, newer, older):
                continue
            is_specific = _is_specific(new, n, newer, older)
            if update := _slot_update(n, new, o, old, is_specific, needs_cue):
                found.append(update)
    return found


def _slot_update(
    n: Sentence, new: Fact, o: Sentence, old: Fact, is_specific: bool, needs_cue: bool
) -> RuleUpdate | None:
    evidence = make_evidence(f"slot:{new.slot}", n, o, **{"from": old.value.text, "to": new.value.text})
    if same_value(new.value, old.value):
        return None
    if new.old is not None and _overlaps(new.old.words, old.value.words):
        return RuleUpdate(0.95, evidence | {"rule": f"from-to:{new.slot}"})
    announced = n.announces_change or new.old is not None or bool(_CHANGE_VERB.search(n.text))
    if new.slot.startswith("its ") and not announced:
        return None
    if new.slot == "changed" or (n.past and not announced) or not is_specific:
        return None
    if new.slot.startswith("state:") and new.value.kind == old.value.kind == "phrase":
        if needs_cue and not announced:
            return None
        return RuleUpdate(0.85 if announced else 0.7, evidence)
    if refines(new.value, old.value) and not announced:
        return None
    if replaces(new.value, old.value, announced) and (announced or not needs_cue):
        return RuleUpdate(0.9 if announced else 0.75, evidence)
    return None


def _overlaps(words: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Returns whether one of two values has all words of the other."""
    a, b = set(words), set(others)
    return bool(a and b) and (a <= b or b <= a)


def _is_specific(fact: Fact, n: Sentence, newer: Reading, older: Reading) -> bool:
    """Returns whether the subject means the same thing in both documents: `the station` of two pages may be two."""
    if newer.context == older.context or len(fact.subject) > 1:
        return True
    return bool(fact.subject & n.names or _speakers(fact.subject))


def _same_subject(new: Fact, old: Fact, n: Sentence, o: Sentence, newer: Reading, older: Reading) -> bool:
    """Returns whether two facts are about one thing, by name; words that one omits may be in its title or heading."""
    a, b = new.subject, old.subject
    if a == b:
        return bool(a - {"we"}) or newer.context == older.context
    if _speakers(a) != _speakers(b):
        return False
    if a < b:
        omitted, context, names = b - a, newer.context_words, o.names
    elif b < a:
        omitted, context, names = a - b, older.context_words, n.names
    else:
        return False
    shared = a & b
    return omitted <= context or (bool(shared) and shared <= n.names & o.names and omitted <= names)


def _speakers(subject: frozenset[str]) -> frozenset[str]:
    return frozenset(w for w in subject if w.startswith("speaker ") or w in ("i", "we"))


def _template_updates(newer: Reading, older: Reading, needs_cue: bool) -> list[RuleUpdate]:
    """One sentence in both with another number: `Invoices are paid within 30 days`, `within 45 days`."""
    found: list[RuleUpdate] = []
    for key, template in newer.templates.items():
        earlier = older.templates.get(key)
        if earlier is None:
            continue
        n, new, o, old = template.sentence, template.values, earlier.sentence, earlier.values
        differs = [i for i in range(len(new)) if new[i] != old[i]]
        if len(differs) != 1:
            continue
        at = differs[0]
        before = words_before_value(key.split(), at)
        a, b = read_value(new[at]), read_value(old[at])
        evidence = make_evidence("count", n, o, **{"from": old[at], "to": new[at]})
        if (
            not same_value(a, b)
            and _names_subject(before, n, newer.context == older.context)
            and PRESENT_VERBS & set(before)
            and not _has_indefinite(before)
            and a.kind == b.kind
            and (n.announces_change or not (n.multivalued or needs_cue))
        ):
            found.append(RuleUpdate(0.85 if n.announces_change else 0.7, evidence))
    return found


def _names_subject(before: list[str], n: Sentence, same_context: bool) -> bool:
    """Returns whether the words before a value name one thing."""
    subject = [w for w in before if is_content_word(w) and w not in PRESENT_VERBS]
    if not subject or before[0] in SUBJECT_PRONOUNS:
        return False
    return same_context or len(subject) > 1 or subject[0] in n.names


def _has_indefinite(words: list[str]) -> bool:
    """Returns whether an article or determiner lets several things have the value; `a month` of a rate does not."""
    follows = [*words[1:], ""]
    return any(w in _INDEFINITE and after not in _RATE_UNITS for w, after in zip(words, follows, strict=True))
