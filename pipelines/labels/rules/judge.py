"""The rules of the offline labeler: what two read memories say of each other. Pure; no corpus statistics."""

import re
from dataclasses import dataclass
from functools import cached_property

from pipelines.labels.rules.facts import Fact, Sentence
from pipelines.labels.rules.template import before_value, template
from pipelines.labels.rules.values import read_value, refines, replaces, same_value
from pipelines.labels.types import LABELS
from pipelines.memory.words import content_words, fold, is_content, stems_of

Verdict = tuple[str, float, dict[str, object]]

CONFIDENT = 0.5
_WHOLE_ENOUGH = 0.3  # of the older memory's characters must be the replaced sentence: the rest is retired with it
_MOST_SENTENCES = 40
_FEW_SENTENCES = 12
_SUBJECT_WORDS = 7
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
_NO_LONGER = re.compile(
    r"\b(?:no longer|(?:not|n['\u2019]t)\b.{1,60}\b(?:any ?more|any longer)|(?:has|have|had)? ?stopped|quit|"
    r"(?:has|have) left|gave up)\b",
    re.IGNORECASE,
)
_REPLACED = re.compile(
    r"\b(?:instead of|rather than|in place of|no longer(?:\s+(?:on|in|at|by|with|from|to|for))?|"
    r"replac(?:es|ed|ing)|takes over from|took over from|succeed(?:s|ed)|"
    r"up from|down from|"
    r"(?:switched|migrated|moved|changed|upgraded|converted|transitioned|raised|lowered|increased|reduced|extended|cut|"
    r"shortened|lengthened|postponed|brought forward)(?:\s+\w+){0,3}\s+from)\s+(?P<old>.+)",
    re.IGNORECASE,
)
_MOVED = re.compile(
    r"\b(?:moved|changed|raised|lowered|postponed|pushed|extended|rescheduled|increased|reduced|cut|took over)\b"
)
_SWITCHED = re.compile(
    r"\b(?:switched|migrated|moved|changed|upgraded|converted|transitioned|replaced)\b", re.IGNORECASE
)
_IN_USE = re.compile(r"\b(?:use|using|run|rely|host|store|deploy|write|keep)\b", re.IGNORECASE)
_OBJECT_END = re.compile(
    r"[.,;:()](?!\d)|\s(?:with|by|to|as|for|in|on|from|since|because|and|when|after|at)\s", re.IGNORECASE
)
_CHANGE_WORDS = {"longer", "anymore", "stopped", "quit", "left", "gave", "instead", "replaced", "replaces"}
_PRESENT_WORDS = """
is are must can may has have takes take costs cost lasts last requires require needs need allows allow holds hold
gets get
receives receive runs run expires expire starts start ends end opens open closes close keeps keep weighs seats
employs pays
pay charges earns rotates refreshes listens waits retries measures serves
"""
_PRESENT = frozenset(_PRESENT_WORDS.split())
_PRONOUNS = {"he", "she", "it", "they", "this", "that", "there", "i", "we", "you"}
_ONE_OF_MANY = {"a", "an", "another", "some", "each", "every", "other"}
_RATES = {"hour", "day", "week", "month", "year", "minute", "second", "person", "seat", "user"}


@dataclass(frozen=True)
class Reading:
    """A memory as read: its sentences, its content words, and those of the title and heading it stands under."""

    text: str
    sentences: tuple[Sentence, ...]
    content: frozenset[str]
    context_words: frozenset[str]
    context: str

    @cached_property
    def folded(self) -> str:
        """The folded text."""
        return fold(self.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of the content words."""
        return stems_of(self.content)

    @cached_property
    def templates(self) -> dict[str, tuple[Sentence, tuple[str, ...], int]]:
        """Sentences that state a number or date, by what stays when it is taken out."""
        found = {}
        for s in self.sentences[:_MOST_SENTENCES]:
            if not s.uncertain and not s.past and any(c.isdigit() for c in s.text):
                key, values = template(s.text)
                found[key] = (s, values, len(values))
        return found


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
        *_replacements(newer, older),
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
        best = _not_too_much(best, older)
    if best[0] != "NONE" and best[1] < CONFIDENT:
        return "NONE", round(1 - best[1], 3), {"rule": "abstain", "instead_of": best[0], **_spans(best[2])}
    return best


def _not_too_much(verdict: Verdict, older: Reading) -> Verdict:
    """A long memory of which one sentence was replaced stays, with the newer one beside it."""
    span = verdict[2]["older"]
    assert isinstance(span, list)
    if span[1] - span[0] >= _WHOLE_ENOUGH * len(older.text):
        return verdict
    return "EXTEND", verdict[1], {**verdict[2], "partial_update": True}


def _spans(evidence: dict[str, object]) -> dict[str, object]:
    return {k: evidence[k] for k in ("newer", "older") if k in evidence}


def _evidence(rule: str, n: Sentence, o: Sentence, **more: object) -> dict[str, object]:
    return {"rule": rule, "newer": [n.start, n.end], "older": [o.start, o.end], **more}


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
            evidence = _evidence(f"slot:{f.slot}", n, o, **{"from": g.value.text, "to": f.value.text})
            if same_value(f.value, g.value):
                out.append(("NONE", 0.8, evidence | {"rule": "same value"}))
                continue
            if f.old is not None and _held(f.old.words, g.value.words):
                out.append(("UPDATE", 0.95, evidence | {"rule": f"from-to:{f.slot}"}))
                continue
            announced = n.now or f.old is not None or _moved(n)
            if f.slot.startswith("its ") and not announced:
                continue
            if f.slot == "changed" or (n.past and not announced) or not _specific(f, n, newer, older):
                continue
            if f.slot.startswith("state:") and f.value.kind == g.value.kind == "phrase":
                if announced or not needs_cue:
                    out.append(("UPDATE", 0.85 if announced else 0.7, evidence))
            elif refines(f.value, g.value) and not announced:
                out.append(("EXTEND", 0.65, evidence | {"rule": f"refines:{f.slot}"}))
            elif replaces(f.value, g.value, announced) and (announced or not needs_cue):
                out.append(("UPDATE", 0.9 if announced else 0.75, evidence))
            else:
                out.append(("UPDATE", 0.4, evidence))
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
        subject = [w for w in before if is_content(w) and w not in _PRESENT]
        named = bool(subject) and before[0] not in _PRONOUNS
        named = named and (newer.context == older.context or len(subject) > 1 or subject[0] in n.names)
        listed = any(w in _ONE_OF_MANY and not _rate(before, i) for i, w in enumerate(before))
        evidence = _evidence("count", n, o, **{"from": old[differs[0]], "to": new[differs[0]]})
        if same_value(a, b):
            out.append(("NONE", 0.8, evidence | {"rule": "same value"}))
        elif named and _PRESENT & set(before) and not listed and a.kind == b.kind and (n.now or not n.many):
            out.append(("UPDATE", 0.45 if needs_cue and not n.now else 0.85 if n.now else 0.7, evidence))
    return out


def _rate(words: list[str], i: int) -> bool:
    return i + 1 < len(words) and words[i + 1] in _RATES


def _replacements(newer: Reading, older: Reading) -> list[Verdict]:
    """Words that name what ended: `no longer …`, `instead of X`, `replaced X`, `switched from X`."""
    out: list[Verdict] = []
    for n in newer.sentences[:_MOST_SENTENCES]:
        if n.uncertain or n.scoped:
            continue
        ended, replaced = _NO_LONGER.search(n.text), _REPLACED.search(n.text)
        if not ended and not replaced:
            continue
        for o in older.sentences[:_MOST_SENTENCES]:
            if o.uncertain or o.past or o.scoped:
                continue
            announces = _NO_LONGER.search(o.text) or _REPLACED.search(o.text)
            if ended and not announces and _says_it_ended(n, o):
                out.append(("UPDATE", 0.85, _evidence("no longer", n, o)))
            if replaced and (x := _replaced_object(replaced, n, o)):
                out.append(("UPDATE", 0.85, _evidence("replaced", n, o, **{"from": x})))
    return out


def _says_it_ended(n: Sentence, o: Sentence) -> bool:
    said = stems_of(n.content - _CHANGE_WORDS)
    held = stems_of(o.content)
    opening = fold(n.text).split(maxsplit=1)[0].split("'")[0]
    if opening in _PRONOUNS - {"i", "we"} or not said or len(said & held) < 2 or len(said & held) < 0.6 * len(said):
        return False
    if n.names - o.names and len(said & held) < len(said):
        return False
    return len(said & held) >= 0.5 * len(held) and _first_person(n.text) == _first_person(o.text)


def _replaced_object(m: re.Match[str], n: Sentence, o: Sentence) -> str | None:
    """Returns what was replaced where the older sentence says it of a subject that the newer one names too."""
    cut = _OBJECT_END.search(m.group("old"))
    x = (m.group("old")[: cut.start()] if cut else m.group("old")).strip(" .\"'")
    words = [w for w in read_value(x).words if w not in ("the", "a", "an", "our", "old")]
    # An older memory that itself announced a change holds what stands before that: `on Thursdays` of `on Thursdays
    # instead of Tuesdays`.
    announced = [e.search(o.text) for e in (_NO_LONGER, _REPLACED)]
    standing = min((a.start() for a in announced if a), default=len(o.text))
    held = list(read_value(o.text[:standing]).words)
    if not words or len(words) > 5 or not set(words) <= set(held):
        return None
    first = min(held.index(w) for w in words)
    verb = next((i for i, w in enumerate(held[:first]) if i and w in _PRESENT), 4)
    about = frozenset(w for w in held[: min(first, verb, _SUBJECT_WORDS)] if w in o.content)
    ours = _first_person(n.text)
    said = n.content if ours else content_words(n.text[: m.start()])
    shared = stems_of(about) & stems_of(said - set(words))
    if (shared and set(words) & o.names) or len(shared) > 1 or shared & stems_of(n.names & o.names):
        return x
    if ours and ours == _first_person(o.text) and _SWITCHED.search(n.text) and _IN_USE.search(o.text):
        return x
    return None


def _first_person(text: str) -> str:
    words = set(re.findall(r"[a-z]+", text.lower()))
    return "i" if words & {"i", "my", "me"} else "we" if words & {"we", "our", "us"} else ""


def _derivation(newer: Reading, older: Reading) -> list[Verdict]:
    """A conclusion drawn in words (`so`, `which means`), or a stated reason, with most of the older memory in it."""
    for n in newer.sentences[:_MOST_SENTENCES]:
        because = _BECAUSE.search(n.text)
        if n.uncertain or not (because or _CONCLUDES.search(n.text)):
            continue
        premise = stems_of(content_words(because.group("premise"))) if because else newer.stems
        held = older.stems
        shared = premise & held
        if len(shared) >= 2 and len(shared) >= 0.5 * len(held) and newer.stems - held:
            o = max(older.sentences, key=lambda s: (len(s.content & newer.content), -s.start))
            return [("DERIVE", 0.6, _evidence("derived", n, o))]
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
                verdict: Verdict = ("EXTEND", round(0.45 + 0.2 * min(1.0, overlap), 2), _evidence("adds", n, o))
                if best is None or verdict[1] > best[1]:
                    best = verdict
    return [best] if best else []
