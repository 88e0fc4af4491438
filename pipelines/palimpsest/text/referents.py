"""What the pronoun that opens a statement refers to: simple co-reference by rules, inside one section of a document.

After the oldest result on the matter (Hobbs, Resolving Pronoun References, 1978): the subject of the sentence before is
the likeliest antecedent. Only the opening word is resolved, because it is the statement's own subject; no guess is made
where the sentence before has none.
"""

import re
from collections.abc import Sequence

from palimpsest.text.words import CALENDAR_WORDS, STOPWORDS, fold

_PERSON = re.compile(r"(?:He|She|His|Her)\b")
_THING = re.compile(
    r"(?:It|Its|They|Their)\b"
    r"|(?:This|That|These|Those)\s+(?:is|are|was|were|has|have|had|will|would|can|means|makes|leaves|goes|comes)\b"
)
_EMPTY_IT = re.compile(r"It\s+(?:\w+\s+){1,3}(?:that|to)\b|It\s+(?:rains|snows|depends)\b")  # as in: it follows that
_WORD = r"[A-Z][\w’'&.-]*\w"  # noqa: RUF001
_NAME = re.compile(rf"(?<!\w)(?<!\d\s){_WORD}(?:\s+(?:(?:of|the|de|van|von|der|&)\s+){{0,2}}(?:{_WORD}|\d[\w.-]*))*")
_ARTICLED = re.compile(rf"\b(?:[Tt]he|[Aa]n?|[Oo]ur|[Ee]ach|[Ee]very|\d+)\s+({_WORD}(?:\s+{_WORD})*)")
_NOUN_PHRASE = re.compile(
    r"(?P<phrase>(?:The|An?|Our|Your|My|Each|Every)\s+(?:[\w’'-]+\s+){0,4}?[\w’'-]+)"  # noqa: RUF001
    r"\s+(?:is|are|was|were|has|have|had|will|would|can|could|must|may|should|does|did|no longer|now)\b"
)
_POSSESSIVE = re.compile(r"[’']s$")  # noqa: RUF001
_NOT_NAMES = CALENDAR_WORDS | STOPWORDS
_MAX_PRONOUNS_IN_A_ROW = 3  # of statements that open with a pronoun


def opening_referents(statements: Sequence[str], sections: Sequence[object]) -> list[str | None]:
    """Returns for each statement what its opening pronoun refers to, or None.

    He and she refer to the first person named in the statement before; other pronouns to its subject: its leading noun
    phrase, else the first name in it that is no person's. No reference crosses a change of section, or more than three
    statements in a row that open so. A person's name is one to three words that no article precedes anywhere.

    Args:
        statements: the texts in order.
        sections: what statements must share to refer to each other: heading, speaker, kind.
    """
    known_names = _capitalized_inside(statements)
    articled = {m.group(1).rstrip("s") for s in statements for m in _ARTICLED.finditer(s)}
    out: list[str | None] = []
    thing: str | None = None
    person: str | None = None
    in_a_row = 0
    for i, statement in enumerate(statements):
        if i and sections[i] != sections[i - 1]:
            thing = person = None
        person_pronoun, thing_pronoun = _PERSON.match(statement), _THING.match(statement)
        found = person if person_pronoun else thing if thing_pronoun and not _EMPTY_IT.match(statement) else None
        in_a_row = in_a_row + 1 if found else 0
        out.append(found if in_a_row <= _MAX_PRONOUNS_IN_A_ROW else None)
        names = _names(statement, known_names)
        people = [n for n in names if _is_person(n, articled)]
        if not person_pronoun and not thing_pronoun:
            phrase = _NOUN_PHRASE.match(statement)
            thing = phrase["phrase"] if phrase else next((n for n in names if n not in people), None)
            person = next(iter(people), None)
        elif thing_pronoun:
            person = next(iter(people), None)
    return out


def _capitalized_inside(statements: Sequence[str]) -> set[str]:
    """Returns words that are capitalised inside a statement: at its beginning any word is."""
    return {w for s in statements for m in _NAME.finditer(s) if m.start() > 0 for w in m.group().split()}


def _names(statement: str, known_names: set[str]) -> list[str]:
    names = []
    for m in _NAME.finditer(statement):
        words = m.group().split()
        while words and (fold(words[0]) in _NOT_NAMES or not words[0][0].isupper()):
            words = words[1:]
        if words and (m.start() > 0 or len(words) > 1 or words[0] in known_names):
            names.append(_POSSESSIVE.sub("", " ".join(words)))
    return names


def _is_person(name: str, articled: set[str]) -> bool:
    words = name.split()
    plain = all(w.isalpha() and w[0].isupper() and w[1:].islower() for w in words)
    return plain and len(words) <= 3 and name.rstrip("s") not in articled
