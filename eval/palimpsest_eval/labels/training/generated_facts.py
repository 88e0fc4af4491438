"""Labeled pairs generated from structured facts with a time: for training next to those of people.

data/golden/fact_properties.jsonl lists the properties: those with one value at a time, and those with many. A property,
with all its subjects, values and statements, is one group: it is held out as a whole.
"""

import datetime as dt
import json
from collections.abc import Sequence, Set
from dataclasses import dataclass
from random import Random

from palimpsest.relations.classify.pairs_file import PairRow
from palimpsest.store.home import SHIPPED
from palimpsest_eval.labels.training.fact_kinds import KINDS, Kind, club, national_team, person

_PER_PROPERTY = 10
_PAST = ("Years ago, ", "Back in 2009 this was different: ", "For a while before that, ", "Formerly, ")
_PLANS = (
    "There is a rumour that from next year it might be {v} for {s}.",
    "{s} is said to be thinking about {v}, nothing is decided.",
    "If the plan passes, it could be {v} for {s}.",
)
_SECOND = (" too.", " as well.", ", besides the rest.")
_FIRST_DAY, _DAYS = dt.date(2012, 1, 1), 4700
_Dates = tuple[str | None, str | None]


@dataclass(frozen=True)
class Property:
    """A property of invented subjects.

    Attributes:
        name: of the property.
        has_many: a subject may have several values at a time.
        subject, value: of which kind they are.
        templates: sentences that state it, with `{s}` for the subject and `{v}` for the value.
    """

    name: str
    has_many: bool
    subject: Kind
    value: Kind
    templates: Sequence[str]


def _properties() -> list[Property]:
    lines = (SHIPPED / "golden" / "fact_properties.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        Property(r["property"], r["values"] == "many", KINDS[r["subject"]], KINDS[r["value"]], r["statements"])
        for r in map(json.loads, lines)
    ]


def generated_pairs(seed: int = 0) -> list[PairRow]:
    """Returns the pairs, the same ones for a seed: about 400 UPDATE, 560 NONE, 110 EXTEND, half of them dated."""
    made = _Pairs(Random(seed))  # noqa: S311 (a fixed sequence, no secret)
    properties = _properties()
    for a_property in properties:
        for i in range(_PER_PROPERTY):
            if a_property.has_many:
                made.add_second_value(a_property, i)
            else:
                made.add_change(a_property, i)
    for i in range(4 * _PER_PROPERTY):
        made.add_two_slots(properties[0], i)
    return made.rows


class _Pairs:
    """The pairs made so far, drawn from one sequence of random numbers."""

    def __init__(self, draw: Random):
        self.rows: list[PairRow] = []
        self._draw = draw

    def add_change(self, a_property: Property, i: int) -> None:
        """Adds a change of a single-valued property and a pair that looks like one and is none."""
        draw, templates = self._draw, a_property.templates
        subject, old = a_property.subject(draw), a_property.value(draw)
        new = self._other(a_property.value, {old, subject})
        repeats = draw.random() < 0.5
        first = draw.choice(templates)
        second = first if repeats else draw.choice(templates)
        older, newer = _state(first, subject, old), _state(second, subject, new)
        self._add(a_property.name, older, newer, "UPDATE", self._dates(i % 2 == 0))
        self._add_lookalike(a_property, i % 5, (subject, old, new), (first, second))

    def _add_lookalike(
        self, a_property: Property, kind: int, fact: tuple[str, str, str], templates: tuple[str, str]
    ) -> None:
        draw, (subject, old, new), (first, second) = self._draw, fact, templates
        other = self._other(a_property.subject, {subject} if a_property.name == "status" else {subject, old, new})
        dates = self._dates(draw.random() < 0.5)
        if kind == 0:
            newer = _state(second, other, new)
        elif kind == 1:
            newer = _state(draw.choice(a_property.templates), other, old)
        elif kind == 2:
            rest = [t for t in a_property.templates if t != first] or a_property.templates
            newer = _state(draw.choice(rest), subject, old)
        elif kind == 3:
            past = draw.choice(_PAST)
            newer = f"{past}it was {new}{' for ' if draw.random() < 0.5 else ' in the case of '}{subject}."
        else:
            newer = draw.choice(_PLANS).format(s=_capitalized(subject), v=new)
        self._add(a_property.name, _state(first, subject, old), newer, "NONE", dates)

    def add_second_value(self, a_property: Property, i: int) -> None:
        """Adds two values of a multi-valued property: EXTEND where the newer text marks it as an addition."""
        draw = self._draw
        subject = a_property.subject(draw)
        one = self._other(a_property.value, {subject})
        two = self._other(a_property.value, {one, subject})
        first = draw.choice(a_property.templates)
        second = first if draw.random() < 0.5 else draw.choice(a_property.templates)
        older, newer = _state(first, subject, one), _state(second, subject, two)
        if i % 3 == 2:
            newer = newer.rstrip(".") + draw.choice(_SECOND)
            self._add(a_property.name, older, newer, "EXTEND", self._dates(i % 2 == 0))
        else:
            self._add(a_property.name, older, newer, "NONE", self._dates(i % 2 == 0, same_day=i % 4 == 3))

    def add_two_slots(self, a_property: Property, i: int) -> None:
        """Adds a club next to a national team: one verb, two slots."""
        draw = self._draw
        subject, values = person(draw), [club(draw), national_team(draw)]
        one, two = values if i % 2 else values[::-1]
        templates = a_property.templates[:2]
        older, newer = _state(draw.choice(templates), subject, one), _state(draw.choice(templates), subject, two)
        self._add("team_and_nation", older, newer, "EXTEND", self._dates(i % 2 == 0, same_day=i % 4 == 0))

    def _add(self, name: str, older: str, newer: str, label: str, dates: _Dates) -> None:
        row: PairRow = {
            "id": f"facts-{len(self.rows) + 1}",
            "older": older,
            "newer": newer,
            "label": label,
            "group": f"facts:{name}",
            "split": "train",
            "source": "facts",
        }
        if dates[0] is not None and dates[1] is not None:
            row["older_date"], row["newer_date"] = dates[0], dates[1]
        self.rows.append(row)

    def _other(self, kind: Kind, used: Set[str]) -> str:
        while (text := kind(self._draw)) in used:
            pass
        return text

    def _dates(self, dated: bool, same_day: bool = False) -> _Dates:
        if not dated:
            return None, None
        older = _FIRST_DAY + dt.timedelta(self._draw.randrange(_DAYS))
        newer = older if same_day else older + dt.timedelta(self._draw.randint(20, 1500))
        return older.isoformat(), newer.isoformat()


def _state(template: str, subject: str, value: str) -> str:
    text = _capitalized(template.format(s=subject, v=value))
    return text.replace("..", ".").replace("The the", "The").replace("the the", "the")


def _capitalized(text: str) -> str:
    return text[0].upper() + text[1:]
