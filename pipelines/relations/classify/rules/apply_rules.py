"""The rules of the offline labeler: how two memories relate, by what their sentences state. No corpus statistics."""

import re

from palimpsest.core.json_types import JsonObject
from palimpsest.relations.classify.label_types import LABELS
from palimpsest.relations.classify.rules.facts import Fact
from palimpsest.relations.classify.rules.number_templates import words_before_value
from palimpsest.relations.classify.rules.partial_updates import loses_statements
from palimpsest.relations.classify.rules.reading import (
    MAX_SENTENCES,
    PRESENT_VERBS,
    SUBJECT_PRONOUNS,
    Reading,
    Verdict,
    make_evidence,
)
from palimpsest.relations.classify.rules.replacements import replacement_verdicts
from palimpsest.relations.classify.rules.sentences import Sentence
from palimpsest.relations.classify.rules.values import read_value, refines, replaces, same_value
from palimpsest.text.words import content_words, is_content_word, stem_words

MIN_CONFIDENCE = 0.5
_MIN_REPLACED_SHARE = 0.3  # of the older memory's characters: the rest is retired with the replaced sentence
_MAX_ADDITION_SENTENCES = 12
_MIN_ADDITION_OVERLAP = 0.4  # of the older sentence's content words, for an addition to it
_MIN_ADDED_WORDS = 2  # content words besides a repeated value: `29 euros a month, and towels are included`

_CONCLUDES = re.compile(
    r"^\s*(?:therefore|thus|hence|consequently|accordingly|as a result(?! of)|which means|this means|"
    r"that means|it follows|"
    r"so,)\b|[,;]\s*(?:so|therefore|hence|thus|which means|meaning)\b|\b(?:therefore|it follows that|implies|"
    r"this is why)\b",
    re.IGNORECASE,
)
_BECAUSE = re.compile(
    r"\b(?:because(?: of)?|due to|given that|as a result of|based on)\b(?P<premise>.+)", re.IGNORECASE
)
_CHANGE_VERB = re.compile(
    r"\b(?:moved|changed|raised|lowered|postponed|pushed|extended|rescheduled|increased|reduced|cut)\b"
)
_INDEFINITE = {"a", "an", "another", "some", "each", "every", "other"}
_RATE_UNITS = {"hour", "day", "week", "month", "year", "minute", "second", "person", "seat", "user"}


def apply_rules(newer: Reading, older: Reading, order: int | None, needs_cue: bool = False) -> Verdict:
    """Returns the verdict on two memories; NONE with the rule `abstain` where it is not certain enough.

    Args:
        newer: the newer memory.
        older: the older memory.
        order: 1 where the newer is known to be later, 0 for the same time, -1 for earlier, None where a date lacks.
        needs_cue: only the position in a document orders them, so UPDATE needs words that announce a change.
    """
    if newer.folded == older.folded:
        return Verdict("NONE", 1.0, {"rule": "same text"})
    needs_cue = needs_cue or order == 0
    verdicts = [
        *_slot_verdicts(newer, older, needs_cue),
        *_template_verdicts(newer, older, needs_cue),
        *replacement_verdicts(newer, older),
    ]
    if order == -1:
        verdicts = [v for v in verdicts if v.label != "UPDATE"]
    verdicts += _derivation_verdicts(newer, older)
    if all(v.label == "NONE" for v in verdicts) and not (verdicts and len(newer.sentences) == 1):
        verdicts += _addition_verdicts(newer, older)
    if not verdicts:
        return Verdict("NONE", 0.6, {"rule": "nothing shared"})
    best = min(verdicts, key=lambda v: (LABELS.index(v.label), -v.confidence, str(v.evidence)))
    if best.label == "UPDATE":
        best = _extend_where_more_is_lost(best, newer, older)
    if best.label != "NONE" and best.confidence < MIN_CONFIDENCE:
        spans: JsonObject = {k: best.evidence[k] for k in ("newer", "older") if k in best.evidence}
        return Verdict("NONE", round(1 - best.confidence, 3), {"rule": "abstain", "instead_of": best.label, **spans})
    return best


def _extend_where_more_is_lost(verdict: Verdict, newer: Reading, older: Reading) -> Verdict:
    """A memory that states more than what was replaced stays latest, next to the newer one."""
    span = verdict.evidence["older"]
    assert isinstance(span, list)
    start, end = span
    if end - start >= _MIN_REPLACED_SHARE * len(older.text) and not loses_statements(newer, older, (start, end)):
        return verdict
    return Verdict("EXTEND", verdict.confidence, {**verdict.evidence, "partial_update": True})


def _slot_verdicts(newer: Reading, older: Reading, needs_cue: bool) -> list[Verdict]:
    """One slot of one subject, with two values."""
    olds = [(o, o.fact) for o in older.sentences if o.fact is not None and not (o.past or o.scoped or o.fact.negated)]
    verdicts: list[Verdict] = []
    for n in newer.sentences if olds else ():
        new = n.fact
        if new is None or new.negated or new.past or n.scoped:
            continue
        for o, old in olds:
            if new.slot != old.slot or not _same_subject(new, old, n, o, newer, older):
                continue
            is_specific = _is_specific(new, n, newer, older)
            if verdict := _slot_verdict(n, new, o, old, newer, older, is_specific, needs_cue):
                verdicts.append(verdict)
    return verdicts


def _slot_verdict(
    n: Sentence, new: Fact, o: Sentence, old: Fact, newer: Reading, older: Reading, is_specific: bool, needs_cue: bool
) -> Verdict | None:
    evidence = make_evidence(f"slot:{new.slot}", n, o, **{"from": old.value.text, "to": new.value.text})
    if same_value(new.value, old.value):
        repeats = len(n.content - older.content) < _MIN_ADDED_WORDS
        return Verdict("NONE", 0.8, evidence | {"rule": "same value"}) if repeats else None
    if new.old is not None and _overlaps(new.old.words, old.value.words):
        return Verdict("UPDATE", 0.95, evidence | {"rule": f"from-to:{new.slot}"})
    announced = n.announces_change or new.old is not None or bool(_CHANGE_VERB.search(n.text))
    if new.slot.startswith("its ") and not announced:
        return None
    if new.slot == "changed" or (n.past and not announced) or not is_specific:
        return None
    if new.slot.startswith("state:") and new.value.kind == old.value.kind == "phrase":
        if needs_cue and not announced:
            return None
        return Verdict("UPDATE", 0.85 if announced else 0.7, evidence)
    if refines(new.value, old.value) and not announced:
        return Verdict("EXTEND", 0.65, evidence | {"rule": f"refines:{new.slot}"})
    if replaces(new.value, old.value, announced) and (announced or not needs_cue):
        return Verdict("UPDATE", 0.9 if announced else 0.75, evidence)
    return Verdict("UPDATE", 0.4, evidence)


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


def _template_verdicts(newer: Reading, older: Reading, needs_cue: bool) -> list[Verdict]:
    """One sentence in both with another number: `Invoices are paid within 30 days`, `within 45 days`."""
    verdicts: list[Verdict] = []
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
        if same_value(a, b):
            verdicts.append(Verdict("NONE", 0.8, evidence | {"rule": "same value"}))
        elif (
            _names_subject(before, n, newer.context == older.context)
            and PRESENT_VERBS & set(before)
            and not _has_indefinite(before)
            and a.kind == b.kind
            and (n.announces_change or not n.multivalued)
        ):
            confidence = 0.85 if n.announces_change else 0.45 if needs_cue else 0.7
            verdicts.append(Verdict("UPDATE", confidence, evidence))
    return verdicts


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


def _derivation_verdicts(newer: Reading, older: Reading) -> list[Verdict]:
    """A stated conclusion (`so`, `which means`) or reason with most of the older memory in it."""
    for n in newer.sentences[:MAX_SENTENCES]:
        because = _BECAUSE.search(n.text)
        if n.uncertain or not (because or _CONCLUDES.search(n.text)):
            continue
        premise = stem_words(content_words(because.group("premise"))) if because else newer.stems
        shared = premise & older.stems
        if len(shared) >= 2 and len(shared) >= 0.5 * len(older.stems) and newer.stems - older.stems:
            o = max(older.sentences, key=lambda s: (len(s.content & newer.content), -s.start))
            return [Verdict("DERIVE", 0.6, make_evidence("derived", n, o))]
    return []


def _addition_verdicts(newer: Reading, older: Reading) -> list[Verdict]:
    """Two sentences that begin with one named thing, to which the newer adds something."""
    best: Verdict | None = None
    for n in newer.sentences[:_MAX_ADDITION_SENTENCES]:
        if n.uncertain or len(n.content) < 3:
            continue
        for o in older.sentences[:_MAX_ADDITION_SENTENCES]:
            names = n.lead & o.lead
            same_subject = n.fact and o.fact and n.fact.subject == o.fact.subject and n.fact.subject
            if o.uncertain or not (names or same_subject):
                continue
            shared = n.content & o.content
            overlap = len(shared) / max(1, len(o.content))
            min_added = 1 if n.multivalued and o.multivalued else 2
            if len(n.content - older.content) < min_added or not shared - names or overlap < _MIN_ADDITION_OVERLAP:
                continue
            verdict = Verdict("EXTEND", round(0.45 + 0.2 * min(1.0, overlap), 2), make_evidence("adds", n, o))
            if best is None or verdict.confidence > best.confidence:
                best = verdict
    return [best] if best else []
