"""What a name's own words show of its type: `Grit Lane`, `Flood of 1874`, `Dr. Hallam`, `Calder (river)`, `Mondays`."""

import re
from typing import NamedTuple

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.entities.names.lexicon import COUNTED, DEMONYMS, FEMALE, HONORIFICS, MALE, is_full_name
from palimpsest.nodes.type_nouns import ending_type, noun_type, singular
from palimpsest.text.normalize import fold
from palimpsest.text.stopwords import CALENDAR_WORDS

_HOLIDAYS = frozenset({"christmas", "easter", "pentecost", "ramadan", "hanukkah", "new year"})
_PARENTHESIS = re.compile(r"\(([^()]+)\)\s*$")
_CUT = re.compile(
    r"(?<!\s)\s++(?:of|for|in|at|on|from|with|without|and|by|to|under|round|about|that|which|who)\s+|[:,;(–—]|\s-\s"  # noqa: RUF001
)
_NUMBERS = re.compile(r"(?<!\s)(?:\s++#?[\dIVX][\d.\-/]*+)++(?P<is_last>$)?")
_SINGLE_WEIGHT, _HEAD_WEIGHT = 0.5, 2.0  # of a name that is one common noun; of the last noun of several words
_FIRST_WEIGHT = 1.0
_NAME_WORDS = r"^\p{Lu}[\p{L}'’-]+ \p{Lu}[\p{L}'’-]+$"  # noqa: RUF001


class NameType(NamedTuple):
    """A type, the word that shows it, and how much that weighs."""

    type: str
    noun: str
    weight: float


def name_type(name: str) -> NameType | None:
    """Returns what a name's own words show, or None.

    The last noun before a preposition or a mark counts, a noun in parentheses at the end more. Nouns for people show
    nothing: `The Salt Clerk` is a novel.
    """
    folded = [w.strip(".,") for w in fold(name).split()]
    if not folded:
        return None
    if all(w in CALENDAR_WORDS or singular(w) in CALENDAR_WORDS for w in folded):
        return NameType("date", "", 5.0)
    if fold(name) in _HOLIDAYS:
        return NameType("date", "", 3.0)
    if folded[0] in HONORIFICS | MALE | FEMALE and len(folded) > 1:
        return NameType("person", folded[0], 3.0)
    if len(folded) == 1 and folded[0] in DEMONYMS:
        return NameType("concept", "", 3.0)
    if (aside := _PARENTHESIS.search(name)) and (kind := noun_type(noun := fold(aside.group(1).split()[-1]))):
        return NameType(kind, noun, 4.0)
    before = _CUT.split(name.strip(), maxsplit=1)[0]
    numbers = next((m for m in _NUMBERS.finditer(before) if m["is_last"] is not None), None)
    words = before[: numbers.start() if numbers else None].split()
    kind = ending_type(words[-1]) if words else ""
    if kind in ("", "person"):
        return None if kind else _first_noun_type(words)
    has_more = len(words) > 1 or len(folded) > 1
    return NameType(kind, singular(words[-1].lower()), _HEAD_WEIGHT if has_more else _SINGLE_WEIGHT)


def _first_noun_type(words: list[str]) -> NameType | None:
    """Returns the type of `Hotel Patience`, `Lake Vann`: the first of two words is a noun for a place or a body."""
    kind = noun_type(words[0].lower()) if len(words) == 2 else ""
    return NameType(kind, words[0].lower(), _FIRST_WEIGHT) if kind in ("place", "organisation") else None


def full_name_shapes(entities: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (entity_id) of names with the shape of a person's full name whose words no text of the scope uses small.

    Args:
        entities: the entities table.
        memories: the memories table.
    """
    two_words = entities.filter(pl.col("name").str.contains(_NAME_WORDS)).select("entity_id", *SCOPE, "name")
    shaped = [is_full_name(fold(n).split()) and name_type(n) is None and not _is_counted(n) for n in two_words["name"]]
    names = two_words.filter(pl.Series(shaped, dtype=pl.Boolean))
    words = names.with_columns(word=pl.col("name").str.to_lowercase().str.split(" ")).explode("word")
    if words.is_empty():
        return names.select("entity_id")
    texts = memories.select(*SCOPE, word=pl.col("text").str.extract_all(r"\b\p{Ll}[\p{L}'’-]+")).explode("word")  # noqa: RUF001
    used = words.join(texts.unique(), on=[*SCOPE, "word"], how="semi")
    return names.join(used, on="entity_id", how="anti").select("entity_id")


def _is_counted(name: str) -> bool:
    return name.split()[0].split("-")[0].lower() in COUNTED
