"""Golden facts: what passages state, and when an extracted fact is one of them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from palimpsest.core.errors import PalimpsestError
from palimpsest.facts.fact import normalize_predicate
from palimpsest.text.terms import terms

_MAX_RATIO = 3.0  # of the words of two phrases that match


class GoldenFact(TypedDict):
    """A fact that a passage states."""

    subject: str
    predicate: str
    also: NotRequired[list[str]]
    object: NotRequired[str]
    value: NotRequired[str]
    negated: NotRequired[bool]
    core: NotRequired[bool]
    optional: NotRequired[bool]


class Passage(TypedDict):
    """A line of the golden facts."""

    id: str
    collection: str
    uri: str
    user: NotRequired[str]
    text: str
    facts: list[GoldenFact]


@dataclass(frozen=True)
class StatedFact:
    """A fact of a build; its subject and its object by all their names.

    Attributes:
        subject: names of the subject.
        predicate: of the fact.
        filler: names of the other entity, or the value alone.
        is_negated: the clause denies it.
        confidence: of the fact.
    """

    subject: tuple[str, ...]
    predicate: str
    filler: tuple[str, ...]
    is_negated: bool
    confidence: float

    def __str__(self) -> str:
        denied = "not " if self.is_negated else ""
        return f"{self.subject[0]} | {denied}{self.predicate} | {self.filler[0]}"


def read_passages(path: Path) -> list[Passage]:
    """Reads golden facts.

    Raises:
        PalimpsestError: no such file, or a line without one of the fields; the message names it.
    """
    if not path.is_file():
        raise PalimpsestError(f"{path}: no such file; name a JSONL file of golden facts")
    passages = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError as e:
            raise PalimpsestError(f"{path}: line {number}: {e}; correct the JSON") from None
        if missing := _find_missing(row):
            raise PalimpsestError(f"{path}: line {number}: {missing} is required in each passage")
        passages.append(cast(Passage, row))
    return passages


def _find_missing(row: object) -> str:
    if not isinstance(row, dict):
        return "a JSON object"
    absent = [k for k in ("id", "collection", "uri", "text", "facts") if k not in row]
    if absent:
        return absent[0]
    if any(not f.get("subject") or not f.get("predicate") or not golden_filler(f) for f in row["facts"]):
        return "subject, predicate and object or value of each fact"
    return ""


def matches(fact: StatedFact, golden: GoldenFact, with_predicate: bool = True) -> bool:
    """Returns whether an extracted fact states a golden one."""
    if fact.is_negated != bool(golden.get("negated")):
        return False
    if with_predicate:
        accepted = {normalize_predicate(p) for p in (golden["predicate"], *golden.get("also", ()))}
        if normalize_predicate(fact.predicate) not in accepted:
            return False
    subject, filler = golden["subject"], golden_filler(golden)
    return (_same(fact.subject, subject) and _same(fact.filler, filler)) or (
        _same(fact.subject, filler) and _same(fact.filler, subject)
    )


def golden_filler(golden: GoldenFact) -> str:
    """Returns the object or the value of a golden fact."""
    return golden.get("object") or golden.get("value") or ""


def _same(names: Iterable[str], phrase: str) -> bool:
    wanted = _content(phrase)
    for name in names:
        found = _content(name)
        few, many = sorted((len(wanted), len(found)))
        if few and many <= _MAX_RATIO * few and (wanted <= found or found <= wanted):
            return True
    return False


def _content(phrase: str) -> frozenset[str]:
    return frozenset(terms(phrase)) or frozenset(phrase.lower().split())
