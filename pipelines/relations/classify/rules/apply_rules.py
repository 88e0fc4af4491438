"""The rules of the offline labeler: what two read memories say of each other. Pure; no corpus statistics."""

import re

from palimpsest.relations.classify.label_types import LABELS
from palimpsest.relations.classify.rules.facts import Fact, Sentence
from palimpsest.relations.classify.rules.number_templates import before_value
from palimpsest.relations.classify.rules.partial_updates import takes_more_along
from palimpsest.relations.classify.rules.reading import MAX_SENTENCES, PRESENT, PRONOUNS, Reading, Verdict, evidence
from palimpsest.relations.classify.rules.replacements import replacements
from palimpsest.relations.classify.rules.values import read_value, refines, replaces, same_value
from palimpsest.text.words import content_words, is_content_word, stem_words

CONFIDENT = 0.5
_WHOLE_ENOUGH = 0.3  # of the older memory's characters must be the replaced sentence: the rest is retired with it
_FEW_SENTENCES = 12
_ENOUGH_SHARED = 0.4  # of the older sentence's content words, for an addition to it

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
_ONE_OF_MANY = {"a", "an", "another", "some", "each", "every", "other"}
_SAYS_MORE = 2  # content words beside a value said again: `29 euros a month, and towels are included`
_RATES = {"hour", "day", "week", "month", "year", "minute", "second", "person", "seat", "user"}


def judge(newer: Reading, older: Reading, order: int | None, needs_cue: bool = False) -> Verdict:
    """Returns (label, confidence, evidence) for two memories.

    Args:
        newer: the newer memory.
        older: the older memory.
        order: 1 where the newer is known to be later, 0 for the same time, -1 for earlier, None where a date lacks.
        needs_cue: only the place in a document orders them, so UPDATE needs words that announce a change.
    """
    if newer.folded == older.folded:
        return "NONE", 1.0, {"rule": "same text"}
    verdicts = [
        *_slots(newer, older, needs_cue or order == 0),
        *_counts(newer, older, needs_cue or order == 0),
        *replacements(newer, older),
    ]
    if order == -1:
        verdicts = [v for v in verdicts if v[0] != "UPDATE"]
    verdicts += _derivation(newer, older)
    if all(v[0] == "NONE" for v in verdicts) and not (verdicts and len(newer.sentences) == 1):
        verdicts += _addition(newer, older)
    if not verdicts:
        return "NONE", 0.6, {"rule": "nothing shared"}
    best = min(verdicts, key=lambda v: (LABELS.index(v[0]), -v[1], str(v[2])))
    if best[0] == "UPDATE":
        best = _not_too_much(best, newer, older)
    if best[0] != "NONE" and best[1] < CONFIDENT:
        return "NONE", round(1 - best[1], 3), {"rule": "abstain", "instead_of": best[0], **_spans(best[2])}
    return best


def _not_too_much(verdict: Verdict, newer: Reading, older: Reading) -> Verdict:
    """A memory that says more than what was replaced stays, with the newer one beside it."""
    span = verdict[2]["older"]
    assert isinstance(span, list)
    whole = span[1] - span[0] >= _WHOLE_ENOUGH * len(older.text)
    if whole and not takes_more_along(newer, older, (span[0], span[1])):
        return verdict
    return "EXTEND", verdict[1], {**verdict[2], "partial_update": True}


def _spans(found: dict[str, object]) -> dict[str, object]:
    return {k: found[k] for k in ("newer", "older") if k in found}


def _slots(newer: Reading, older: Reading, needs_cue: bool) -> list[Verdict]:
    """One slot of one subject, filled in two ways."""
    olds = [(o, o.fact) for o in older.sentences if o.fact is not None and not (o.past or o.scoped or o.fact.negated)]
    out: list[Verdict] = []
    for n in newer.sentences if olds else ():
        f = n.fact
        if f is None or f.negated or f.past or n.scoped:
            continue
        for o, g in olds:
            if f.slot != g.slot or not _same_subject(f, g, n, o, newer, older):
                continue
            found = evidence(f"slot:{f.slot}", n, o, **{"from": g.value.text, "to": f.value.text})
            if same_value(f.value, g.value):
                if len(n.content - older.content) < _SAYS_MORE:
                    out.append(("NONE", 0.8, found | {"rule": "same value"}))
                continue
            if f.old is not None and _held(f.old.words, g.value.words):
                out.append(("UPDATE", 0.95, found | {"rule": f"from-to:{f.slot}"}))
                continue
            announced = n.now or f.old is not None or _moved(n)
            if f.slot.startswith("its ") and not announced:
                continue
            if f.slot == "changed" or (n.past and not announced) or not _specific(f, n, newer, older):
                continue
            if f.slot.startswith("state:") and f.value.kind == g.value.kind == "phrase":
                if announced or not needs_cue:
                    out.append(("UPDATE", 0.85 if announced else 0.7, found))
            elif refines(f.value, g.value) and not announced:
                out.append(("EXTEND", 0.65, found | {"rule": f"refines:{f.slot}"}))
            elif replaces(f.value, g.value, announced) and (announced or not needs_cue):
                out.append(("UPDATE", 0.9 if announced else 0.75, found))
            else:
                out.append(("UPDATE", 0.4, found))
    return out


def _moved(n: Sentence) -> bool:
    return bool(
        re.search(
            r"\b(?:moved|changed|raised|lowered|postponed|pushed|extended|rescheduled|increased|reduced|cut)\b", n.text
        )
    )


def _held(words: tuple[str, ...], by: tuple[str, ...]) -> bool:
    return bool(words) and (set(words) <= set(by) or set(by) <= set(words)) and bool(by)


def _specific(f: Fact, n: Sentence, newer: Reading, older: Reading) -> bool:
    """Says whether the subject is one thing outside its document too: `the station` of two pages is not one station."""
    return newer.context == older.context or len(f.subject) > 1 or bool(f.subject & n.names) or bool(_who(f.subject))


def _same_subject(f: Fact, g: Fact, n: Sentence, o: Sentence, newer: Reading, older: Reading) -> bool:
    """Says whether two facts are about one thing, by name; what one leaves out its title or heading may say."""
    a, b = f.subject, g.subject
    if a == b:
        return bool(a - {"we"}) or newer.context == older.context
    if _who(a) != _who(b):
        return False
    if a < b:
        more, context, names = b - a, newer.context_words, o.names
    elif b < a:
        more, context, names = a - b, older.context_words, n.names
    else:
        return False
    shared = a & b
    return more <= context or (bool(shared) and shared <= n.names & o.names and more <= names)


def _who(subject: frozenset[str]) -> frozenset[str]:
    return frozenset(w for w in subject if w.startswith("speaker ") or w in ("i", "we"))


def _counts(newer: Reading, older: Reading, needs_cue: bool) -> list[Verdict]:
    """One sentence said twice with another number: `Invoices are paid within 30 days`, `within 45 days`."""
    out: list[Verdict] = []
    for key, (n, new, count) in newer.templates.items():
        if key not in older.templates:
            continue
        o, old, _ = older.templates[key]
        differs = [i for i in range(count) if new[i] != old[i]]
        if len(differs) != 1:
            continue
        before = before_value(key.split(), differs[0])
        a, b = read_value(new[differs[0]]), read_value(old[differs[0]])
        subject = [w for w in before if is_content_word(w) and w not in PRESENT]
        named = bool(subject) and before[0] not in PRONOUNS
        named = named and (newer.context == older.context or len(subject) > 1 or subject[0] in n.names)
        listed = any(w in _ONE_OF_MANY and not _rate(before, i) for i, w in enumerate(before))
        found = evidence("count", n, o, **{"from": old[differs[0]], "to": new[differs[0]]})
        if same_value(a, b):
            out.append(("NONE", 0.8, found | {"rule": "same value"}))
        elif named and PRESENT & set(before) and not listed and a.kind == b.kind and (n.now or not n.many):
            out.append(("UPDATE", 0.45 if needs_cue and not n.now else 0.85 if n.now else 0.7, found))
    return out


def _rate(words: list[str], i: int) -> bool:
    return i + 1 < len(words) and words[i + 1] in _RATES


def _derivation(newer: Reading, older: Reading) -> list[Verdict]:
    """A conclusion drawn in words (`so`, `which means`), or a stated reason, with most of the older memory in it."""
    for n in newer.sentences[:MAX_SENTENCES]:
        because = _BECAUSE.search(n.text)
        if n.uncertain or not (because or _CONCLUDES.search(n.text)):
            continue
        premise = stem_words(content_words(because.group("premise"))) if because else newer.stems
        held = older.stems
        shared = premise & held
        if len(shared) >= 2 and len(shared) >= 0.5 * len(held) and newer.stems - held:
            o = max(older.sentences, key=lambda s: (len(s.content & newer.content), -s.start))
            return [("DERIVE", 0.6, evidence("derived", n, o))]
    return []


def _addition(newer: Reading, older: Reading) -> list[Verdict]:
    """Two sentences that begin with one named thing, of which the newer says something more."""
    best: Verdict | None = None
    for n in newer.sentences[:_FEW_SENTENCES]:
        if n.uncertain or len(n.content) < 3:
            continue
        for o in older.sentences[:_FEW_SENTENCES]:
            names = n.lead & o.lead
            subject = n.fact is not None and o.fact is not None and n.fact.subject == o.fact.subject and n.fact.subject
            if o.uncertain or not (names or subject):
                continue
            both = n.content & o.content
            overlap = len(both) / max(1, len(o.content))
            if (
                len(n.content - older.content) >= (1 if n.many and o.many else 2)
                and both - names
                and overlap >= _ENOUGH_SHARED
            ):
                verdict: Verdict = ("EXTEND", round(0.45 + 0.2 * min(1.0, overlap), 2), evidence("adds", n, o))
                if best is None or verdict[1] > best[1]:
                    best = verdict
    return [best] if best else []
