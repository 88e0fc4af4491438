"""Cues in the words next to a name: an article, a number, a place word, what only people or only firms do."""

import re

from palimpsest.entities.names.lexicon import COUNTED, DEFINITE, HONORIFICS, OCCUPATION, ONE, RELATIVE, WHERE

LAST_WORD = re.compile(r"(?<![\w’'])([\w’']++)\s++[\"“‘'(]?$")  # noqa: RUF001
_ADDRESSED = re.compile(r"(?:^|[.!?,;]\s+|\b)(?:hey|hi|hello|dear|thanks|thank you|bye),?\s+$", re.IGNORECASE)
_ENDS_ADDRESS = re.compile(r"[!?]")
_SPEAKS = re.compile(
    r"(?:,?\s+who(?:se)?\b|\s+(?:said|says|asked|asks|told|tells|wrote|writes|replied|thinks|thought|wants|wanted|knows|"
    r"believes|believed|explained|laughed|smiled|hopes|apologised|apologized|reminded|retired|resigned|was born|"
    r"is married|(?:has |got )?married)\b|\s+\((?:born|b\.|née)\b|(?:,|\s+(?:is|was|became|has been|as))\s+"
    r"(?:(?:an?|the|our|my|their|her|his)\s+)?(?:[a-z-]+\s+){0,2}"
    rf"(?:{'|'.join(sorted(RELATIVE | OCCUPATION))})\b)"
)
_ACTS = re.compile(
    r"\s+(?:(?:has|had|have|will|would|can|also|now|again|only)\s+)*(?:suppl(?:y|ies|ied)|sells?|sold|offer(?:s|ed)?|"
    r"deliver(?:s|ed)?|announce[sd]?|acquire[sd]?|launche[sd]|sign(?:s|ed)|hire[sd]?|promise[sd]?|provide[sd]?|ship(?:s|ped)|"
    r"buys?|bought|own(?:s|ed)?|charge[sd]?|raise[sd]|manufacture[sd]?|produce[sd]?|publishe[sd]|release[sd]?|develop(?:s|ed)|"
    r"quote[sd]?|employ(?:s|ed)?|collects|invoice[sd]|pays?|paid|missed)\b"
)
_PRONOUN = re.compile(r"[^.!?;\n]{0,100}\b(?:he|she|him|her|his|hers|himself|herself)\b")


def context_cue(text: str, start: int, end: int) -> str:
    """Returns `the`, `one`, `many`, `in`, `person`, `acts` or nothing for the name at a span of a text."""
    before = text[max(0, start - 24) : start]
    m = LAST_WORD.search(before)
    word = m.group(1).lower() if m else ""
    if word in DEFINITE or word in ONE or word in WHERE:
        return "the" if word in DEFINITE else "one" if word in ONE else "in"
    if word in COUNTED or word.isdigit():
        return "many"
    if _leading_honorific(text[start:end]) or word in RELATIVE or _SPEAKS.match(text, end) or _PRONOUN.match(text, end):
        return "person"
    if _ADDRESSED.search(before) or (before.endswith(", ") and _ENDS_ADDRESS.match(text, end)):
        return "person"
    return "acts" if _ACTS.match(text, end) else ""


def _leading_honorific(surface: str) -> str | None:
    """Returns the honorific that a name starts with, folded: `dr` of `Dr. Vale`; None without one."""
    first, _, rest = surface.partition(" ")
    plain = first.rstrip(".").lower()
    return plain if rest and plain in HONORIFICS else None
