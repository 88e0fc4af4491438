"""The rules of the offline labeler: which UPDATEs the words of two memories prove. No corpus statistics."""

import re
from dataclasses import replace
from functools import lru_cache

from palimpsest.relations.classify.label_types import LabelPair
from palimpsest.relations.classify.rules.facts import Fact
from palimpsest.relations.classify.rules.number_templates import words_before_value
from palimpsest.relations.classify.rules.partial_updates import loses_statements
from palimpsest.relations.classify.rules.reading import (
    PRESENT_VERBS,
    SUBJECT_PRONOUNS,
    Reading,
    RuleUpdate,
    make_evidence,
    read_memory,
)
from palimpsest.relations.classify.rules.replacements import (
    corrected_updates,
    opposite_updates,
    replacement_updates,
    taken_back_updates,
)
from palimpsest.relations.classify.rules.sentences import Sentence
from palimpsest.relations.classify.rules.values import read_value, refines, replaces, same_value
from palimpsest.text.words import is_content_word

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
