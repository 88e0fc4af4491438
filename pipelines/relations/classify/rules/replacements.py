"""Words that name what ended: `no longer on Mondays`, `30 instead of 14`, `replacing X`, `switched from X`."""

import re

from palimpsest.relations.classify.rules.facts import Sentence
from palimpsest.relations.classify.rules.reading import MAX_SENTENCES, PRESENT, PRONOUNS, Reading, Verdict, evidence
from palimpsest.relations.classify.rules.values import read_value
from palimpsest.text.normalize import fold
from palimpsest.text.stopwords import STOPWORDS
from palimpsest.text.words import content_words, stem_words

_SUBJECT_WORDS = 7
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
_SWITCHED = re.compile(
    r"\b(?:switched|migrated|moved|changed|upgraded|converted|transitioned|replaced)\b", re.IGNORECASE
)
_IN_USE = re.compile(r"\b(?:use|using|run|rely|host|store|deploy|write|keep)\b", re.IGNORECASE)
_OBJECT_END = re.compile(
    r"[.,;:()](?!\d)|\s(?:with|by|to|as|for|in|on|from|since|because|and|when|after|at)\s", re.IGNORECASE
)
_NOT_THE_OLD = re.compile(
    r"(?:\b(?:instead of|rather than|in place of|no longer|and not|up from|down from|replacing|replaces|replaced|"
    r"succeeding|succeeds|succeeded|take[sn]? over from|took over from)|,\s+not)\s+"
    r"(?:the\s+ones?\s+)?(?:(?:on|in|at|by|with|from|to|for|until|till|only|just|of|the|a|an|our|my|their)\s+)*"
    r"(?P<old>.+)",
    re.IGNORECASE,
)
_CHANGE_WORDS = {"longer", "anymore", "stopped", "quit", "left", "gave", "instead", "replaced", "replaces"}
_MOST_OLD_WORDS = 5
_MOST_ADDED = 2  # words before the cue that the older sentence has not, names and numbers aside
_REST_SHARED = 0.6  # of what the older sentence says beside the value that ended


def replacements(newer: Reading, older: Reading) -> list[Verdict]:
    """Words that name what ended: `no longer …`, `instead of X`, `replaced X`, `switched from X`."""
    out: list[Verdict] = []
    for n in newer.sentences[:MAX_SENTENCES]:
        if n.uncertain or n.scoped:
            continue
        ended, replaced, value = (rule.search(n.text) for rule in (_NO_LONGER, _REPLACED, _NOT_THE_OLD))
        if not ended and not replaced and not value:
            continue
        for o in older.sentences[:MAX_SENTENCES]:
            if o.uncertain or o.past or o.scoped:
                continue
            announces = _NO_LONGER.search(o.text) or _REPLACED.search(o.text)
            if ended and not announces and _says_it_ended(n, o):
                out.append(("UPDATE", 0.85, evidence("no longer", n, o)))
            if replaced and (x := _replaced_object(replaced, n, o)):
                out.append(("UPDATE", 0.85, evidence("replaced", n, o, **{"from": x})))
            elif value and (x := _held_value(value, n, o)):
                out.append(("UPDATE", 0.85, evidence("named", n, o, **{"from": x})))
    return out


def _held_value(m: re.Match[str], n: Sentence, o: Sentence) -> str | None:
    """Returns the value that the newer sentence says ended, where the older one holds it of the same thing.

    Beside the value the older sentence must be said again in large part, and no name of it be left out: `keeps 200
    housings in stock, up from 120` ends `keeps at least 120 housings in stock`, but of no other thing's stock.
    """
    x = _object(m)
    words = frozenset(read_value(x).words)
    said = frozenset(read_value(n.text[: m.start()]).words)
    tells = frozenset(w for w in words if w not in STOPWORDS or any(c.isdigit() for c in w))
    # What the older sentence itself says ended it does not hold: `from twelve months to nine` holds nine.
    held = frozenset(read_value(o.text).words) - _ended_words(o)
    if not tells or len(words) > _MOST_OLD_WORDS or not words <= held or tells <= said:
        return None
    if _first_person(n.text) != _first_person(o.text):
        return None
    rest, ours = stem_words(o.content - words), stem_words(n.content)
    left_out = stem_words(o.names - n.names - words) - ours
    added = stem_words(frozenset(w for w in content_words(n.text[: m.start()]) if not w[0].isdigit()) - o.content)
    if len(added - stem_words(n.names)) > _MOST_ADDED:
        return None
    if len(rest & ours) < 2 or len(rest & ours) < _REST_SHARED * len(rest) or left_out:
        return None
    return x if _opens_alike(n, o, words) else None


def _ended_words(o: Sentence) -> frozenset[str]:
    found = [m for rule in (_REPLACED, _NOT_THE_OLD) if (m := rule.search(o.text))]
    return frozenset(w for m in found for w in read_value(_object(m)).words)


def _object(m: re.Match[str]) -> str:
    cut = _OBJECT_END.search(m.group("old"))
    return (m.group("old")[: cut.start()] if cut else m.group("old")).strip(" .!\"'")


def _opens_alike(n: Sentence, o: Sentence, value: frozenset[str]) -> bool:
    """Tells whether the first word that says something, beside the value, is in both: `Judo is` is no `ballet is`."""
    first = next((w for w in read_value(o.text).words if w in o.content and w not in value), None)
    return first is None or not stem_words(frozenset([first])).isdisjoint(stem_words(n.content))


def _says_it_ended(n: Sentence, o: Sentence) -> bool:
    said = stem_words(n.content - _CHANGE_WORDS)
    held = stem_words(o.content)
    opening = fold(n.text).split(maxsplit=1)[0].split("'")[0]
    if opening in PRONOUNS - {"i", "we"} or not said or len(said & held) < 2 or len(said & held) < 0.6 * len(said):
        return False
    if n.names - o.names and len(said & held) < len(said):
        return False
    return len(said & held) >= 0.5 * len(held) and _first_person(n.text) == _first_person(o.text)


def _replaced_object(m: re.Match[str], n: Sentence, o: Sentence) -> str | None:
    """Returns what was replaced where the older sentence says it of a subject that the newer one names too."""
    x = _object(m)
    words = [w for w in read_value(x).words if w not in ("the", "a", "an", "our", "old")]
    # An older memory that itself announced a change holds what stands before that: `on Thursdays` of `on Thursdays
    # instead of Tuesdays`.
    announced = [e.search(o.text) for e in (_NO_LONGER, _REPLACED)]
    standing = min((a.start() for a in announced if a), default=len(o.text))
    held = list(read_value(o.text[:standing]).words)
    if not words or len(words) > 5 or not set(words) <= set(held):
        return None
    first = min(held.index(w) for w in words)
    verb = next((i for i, w in enumerate(held[:first]) if i and w in PRESENT), 4)
    if not _opens_alike(n, o, frozenset(words)):
        return None
    about = frozenset(w for w in held[: min(first, verb, _SUBJECT_WORDS)] if w in o.content)
    ours = _first_person(n.text)
    said = n.content if ours else content_words(n.text[: m.start()])
    shared = stem_words(about) & stem_words(said - set(words))
    if (shared and set(words) & o.names) or len(shared) > 1 or shared & stem_words(n.names & o.names):
        return x
    if ours and ours == _first_person(o.text) and _SWITCHED.search(n.text) and _IN_USE.search(o.text):
        return x
    return None


def _first_person(text: str) -> str:
    words = set(re.findall(r"[a-z]+", text.lower()))
    return "i" if words & {"i", "my", "me"} else "we" if words & {"we", "our", "us"} else ""
