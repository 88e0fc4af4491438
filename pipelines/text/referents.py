"""What the pronoun that opens a statement stands for: simple co-reference by rules, inside one section of a document.

After the oldest result on the matter (Hobbs, Resolving Pronoun References, 1978): the subject of the sentence before is
the likeliest antecedent. Only the opening word is resolved, because it is the statement's own subject; no guess is made
where the sentence before has none.
"""

import re
from collections.abc import Sequence

from palimpsest.text.normalize import fold
from palimpsest.text.stopwords import CALENDAR_WORDS, STOPWORDS

_PERSON = re.compile(r"(?:He|She|His|Her)\b")
_THING = re.compile(
    r"(?:It|Its|They|Their)\b"
    r"|(?:This|That|These|Those)\s+(?:is|are|was|were|has|have|had|will|would|can|means|makes|leaves|goes|comes)\b"
)
_EMPTY_IT = re.compile(r"It\s+(?:\w+\s+){1,3}(?:that|to)\b|It\s+(?:rains|snows|depends)\b")  # it follows that ...
_WORD = r"[A-Z][\w’'&.-]*\w"  # noqa: RUF001
_NAME = re.compile(rf"(?<!\w)(?<!\d\s){_WORD}(?:\s+(?:(?:of|the|de|van|von|der|&)\s+){{0,2}}(?:{_WORD}|\d[\w.-]*))*")
_ARTICLED = re.compile(rf"\b(?:[Tt]he|[Aa]n?|[Oo]ur|[Ee]ach|[Ee]very|\d+)\s+({_WORD}(?:\s+{_WORD})*)")
_NOUN_PHRASE = re.compile(
    r"(?P<phrase>(?:The|An?|Our|Your|My|Each|Every)\s+(?:[\w’'-]+\s+){0,4}?[\w’'-]+)"  # noqa: RUF001
    r"\s+(?:is|are|was|were|has|have|had|will|would|can|could|must|may|should|does|did|no longer|now)\b"
)
_POSSESSIVE = re.compile(r"[’']s$")  # noqa: RUF001
_NO_NAMES = CALENDAR_WORDS | STOPWORDS
_REACH = 3  # statements that may open with a pronoun in a row


def opening_referents(statements: Sequence[str], sections: Sequence[object]) -> list[str | None]:
    """Returns for each statement what its opening pronoun stands for, or null.

    He and she stand for the first person named in the statement before; other pronouns for its subject: its leading
    noun phrase, else the first name in it that is no person's. Nothing reaches over a change of section, or further
    than three statements that all open so. A person's name is one to three words that no article precedes anywhere.

    Args:
        statements: the texts in order.
        sections: what statements must share to refer to each other: heading, speaker, kind.
    """
    inside = _names_inside(statements)
    articled = {m.group(1).rstrip("s") for s in statements for m in _ARTICLED.finditer(s)}
    out: list[str | None] = []
    thing: str | None = None
    person: str | None = None
    row = 0
    for i, statement in enumerate(statements):
        if i and sections[i] != sections[i - 1]:
            thing = person = None
        of_person, of_thing = _PERSON.match(statement), _THING.match(statement)
        found = person if of_person else thing if of_thing and not _EMPTY_IT.match(statement) else None
        row = row + 1 if found else 0
        out.append(found if row <= _REACH else None)
        names = _names(statement, inside)
        people = [n for n in names if _is_person(n, articled)]
        if not of_person and not of_thing:
            phrase = _NOUN_PHRASE.match(statement)
            thing = phrase["phrase"] if phrase else next((n for n in names if n not in people), None)
            person = next(iter(people), None)
        elif of_thing:
            person = next(iter(people), None)
    return out


def _names_inside(statements: Sequence[str]) -> set[str]:
    """Words that are capitalised where no sentence begins: any word may be at its beginning."""
    return {w for s in statements for m in _NAME.finditer(s) if m.start() > 0 for w in m.group().split()}


def _names(statement: str, inside: set[str]) -> list[str]:
    names = []
    for m in _NAME.finditer(statement):
        words = m.group().split()
        while words and (fold(words[0]) in _NO_NAMES or not words[0][0].isupper()):
            words = words[1:]
        if words and (m.start() > 0 or len(words) > 1 or words[0] in inside):
            names.append(_POSSESSIVE.sub("", " ".join(words)))
    return names


def _is_person(name: str, articled: set[str]) -> bool:
    words = name.split()
    plain = all(w.isalpha() and w[0].isupper() and w[1:].islower() for w in words)
    return plain and len(words) <= 3 and name.rstrip("s") not in articled
