"""The labeled pairs that chooser and judge are trained on, besides the worlds."""

import datetime as dt
import json
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from palimpsest.core.files import SHIPPED
from palimpsest.relations.labelers.change_encoder import PAIR_CLASSES
from palimpsest.relations.labelers.pairs_file import PairRow, golden_pairs, written_pairs

# Invented names, and the kinds of subjects and values that generated statements are about.

Kind: TypeAlias = Callable[[Random], str]
"""Draws the text of one subject or value."""


def words_of(text: str) -> list[str]:
    """Returns the words of a text."""
    return text.split()


_FIRST_NAMES = words_of(
    """
Anna Bruno Carla Dario Elif Farid Greta Hugo Ines Jonas Katja Leon Mara Nils Olga Pavel Rosa Samir Tess Ugo Vera Wim
Yara Zeno Amira Boris Celia Dmitri Edda Felipe Gudrun Hana Ivo Jana Kofi Lena Milos Nadia Oskar Petra Quentin Renske
Stefan Thea Umberto Vida Walter Xenia Yusuf Zora
"""
)
_SURNAMES = words_of(
    """
Albrandt Bekermann Corvalho Dravik Eskelund Farnese Galdwin Hostrup Ilvesk Jarnow Kestrel Lomvald Marchetti Nordahl
Ostrava Pellgrin Quarnby Rosvik Selmark Tarnow Ulbricht Vasarel Wendling Yarrick Zielonka Ardmore Brennick Calloway
Dunmere Ellsworthy Fennimore Grantleigh Hollister Kirkbride Lanchester Merrivale Norwick Okonjo Prendergast
Ravenhall Adeyemi Nakagawa Castellan Rahimi Lindqvist
"""
)
_TOWNS = words_of(
    """
Alderbrook Brinkmoor Castelmar Dunhaven Eastvale Ferrowick Glenmoor Harrowby Iverness Karlsund Lakeford Marrowfield
Northam Oldersund Penbrook Quillan Ravensport Stonebridge Tolvik Ulverton Valmora Westerlund Yarrowdale Zellbach
Porto-Vero Hallstad Brackwater Kingsmere Lowestone Mirabel
"""
)
_COMPANIES = words_of(
    """
Aldine Brightwater Corvus Deltaform Everline Fjordic Granite Helix Inkwell Juniper Keystone Lumen Meridian Northgate
Orchid Paragon Quantic Redwood Solstice Tessera Umbra Vantage Willow Xylo Yonder Zenith Amberly Bluefin Cascade
Driftwood
"""
)
_COUNTRIES = words_of(
    """
Norway Kenya Portugal Chile Japan Poland Ghana Canada Vietnam Croatia Peru Ireland Morocco Austria Jamaica Finland
"""
)
_FIELDS = words_of(
    "Transport Health Education Finance Justice Fisheries Culture Housing Energy Labour Tourism Agriculture "
    "Defence Trade"
)
_MONTHS = words_of("January February March April May June July August September October November December")


def of(*values: str) -> Kind:
    """Returns the kind whose values are listed."""
    return lambda draw: draw.choice(list(values))


def any_of(*kinds: Kind) -> Kind:
    """Returns the kind that draws from one of several."""
    return lambda draw: draw.choice(list(kinds))(draw)


def first_name(draw: Random) -> str:
    """Returns a first name."""
    return draw.choice(_FIRST_NAMES)


def surname(draw: Random) -> str:
    """Returns a surname."""
    return draw.choice(_SURNAMES)


def person(draw: Random) -> str:
    """Returns a full name."""
    return f"{draw.choice(_FIRST_NAMES)} {draw.choice(_SURNAMES)}"


def town(draw: Random) -> str:
    """Returns a town."""
    return draw.choice(_TOWNS)


def country(draw: Random) -> str:
    """Returns a country that exists."""
    return draw.choice(_COUNTRIES)


def invented_country(draw: Random) -> str:
    """Returns a country that does not exist."""
    return draw.choice(_COUNTRIES) + "ia"


def field(draw: Random) -> str:
    """Returns a field of government."""
    return draw.choice(_FIELDS)


def club(draw: Random) -> str:
    """Returns a sports club."""
    names = "{} F.C.|{} United|Sporting {}|{} Athletic|{} Wanderers|{} Rovers|Racing {}|{} Lions|{} Falcons|BK {}"
    return draw.choice(names.split("|")).format(town(draw))


def national_team(draw: Random) -> str:
    """Returns a national team."""
    patterns = ["{} national football team", "{} women's national team", "{} national under-21 team"]
    return draw.choice(patterns).format(country(draw))


def firm(draw: Random) -> str:
    """Returns a company."""
    patterns = "{} Systems|{} Group|{} & Co.|{} Bank|{} Pharma|{} Media|{} Logistics|{} Labs|{}"
    return draw.choice(patterns.split("|")).format(draw.choice(_COMPANIES))


def university(draw: Random) -> str:
    """Returns a university."""
    patterns = ["University of {}", "{} College", "{} Institute of Technology", "{} State University"]
    return draw.choice(patterns).format(town(draw))


employer = any_of(
    firm, university, lambda draw: f"{town(draw)} City Council", lambda draw: f"{town(draw)} General Hospital"
)
office = any_of(
    lambda draw: f"Minister for {field(draw)}",
    lambda draw: f"Shadow Minister for {field(draw)}",
    lambda draw: f"Secretary of State for {field(draw)}",
    lambda draw: f"mayor of {town(draw)}",
    lambda draw: f"Member of the {town(draw)} Assembly",
    lambda draw: f"ambassador to {country(draw)}",
    lambda draw: f"Governor of {town(draw)}",
    lambda draw: f"Speaker of the {town(draw)} Parliament",
    lambda draw: f"Deputy Leader of the {draw.choice(['Green', 'Liberal', 'Labour', 'Centre', 'National'])} Party",
)
honorary_office = any_of(
    lambda draw: f"honorary president of {club(draw)}",
    lambda draw: f"patron of {town(draw)} Museum",
    lambda draw: f"trustee of the {surname(draw)} Foundation",
    lambda draw: f"godparent of {first_name(draw)}",
    lambda draw: f"sovereign of {country(draw)}ia",
)


def party(draw: Random) -> str:
    """Returns a political party."""
    names = ["Green", "Liberal", "Labour", "Centre", "Reform", "Social_Democratic", "Pirate", "Farmers", "Independence"]
    return f"the {draw.choice(names).replace('_', ' ')} {draw.choice(['Party', 'Alliance', 'Union'])}"


def product(draw: Random) -> str:
    """Returns a product."""
    kinds = ["Watch", "Phone", "Drive", "Mail", "Router", "Cloud", "Player", "Desk", "Studio", "Sync"]
    return f"{draw.choice(_COMPANIES)} {draw.choice(kinds)}"


def show(draw: Random) -> str:
    """Returns a programme or book."""
    return draw.choice(["The {} Hour", "Night in {}", "{} Tonight", "Letters from {}"]).format(town(draw))


def money(draw: Random) -> str:
    """Returns an amount of money."""
    amount = draw.choice([9, 12, 15, 19, 25, 29, 35, 49, 59, 79, 99, 120, 150, 240])
    return f"{amount} {draw.choice(['euros', 'dollars'])}"


def number(draw: Random) -> str:
    """Returns a count."""
    return str(draw.choice([12, 18, 24, 40, 55, 64, 80, 96, 120, 150, 210, 300, 420, 600]))


def day(draw: Random) -> str:
    """Returns a day of the year."""
    return f"{draw.randint(1, 28)} {draw.choice(_MONTHS)}"


def clock(draw: Random) -> str:
    """Returns a time of day."""
    return f"{draw.randint(7, 20)}:{draw.choice(['00', '15', '30', '45'])}"


def version(draw: Random) -> str:
    """Returns a version number."""
    return f"{draw.randint(1, 9)}.{draw.randint(0, 15)}"


def public_place(draw: Random) -> str:
    """Returns a place with opening hours."""
    return f"the {draw.choice(['museum', 'bakery', 'library', 'pool', 'clinic'])} in {town(draw)}"


def newspaper(draw: Random) -> str:
    """Returns a newspaper."""
    return f"the {town(draw)} {draw.choice(['Herald', 'Courier', 'Post', 'Gazette'])}"


KINDS: dict[str, Kind] = {
    "belonging": of("a canoe", "a piano", "a telescope", "two goats", "a loom", "a tandem"),
    "budget": lambda draw: f"{number(draw)},000 euros",
    "car": of("a blue van", "an old estate car", "an electric hatchback", "a red pickup", "a small diesel"),
    "channel": of("Channel Six", "Radio Nord", "TV Mosaic", "Canal Verde", "Station Eight"),
    "clock": clock,
    "club": club,
    "country": country,
    "database": of("Postgres", "MySQL", "SQLite", "MongoDB", "Redis", "MariaDB"),
    "day": day,
    "diet": of("vegan", "vegetarian", "gluten-free", "dairy-free", "pescatarian"),
    "doctor": lambda draw: f"Dr. {surname(draw)}",
    "employer": employer,
    "firm": firm,
    "first_name": first_name,
    "genre": of("jazz", "opera", "techno", "folk", "gospel", "blues", "tango", "metal", "flamenco", "soul"),
    "honorary_office": honorary_office,
    "invented_country": invented_country,
    "language": of("Rust", "Kotlin", "Go", "Swift", "Elixir", "Haskell", "Ruby", "Scala", "Julia", "Zig"),
    "league": of(
        *("the first division", "the second division", "the third division", "the regional league"),
        "the premier league",
    ),
    "money": money,
    "newspaper": newspaper,
    "number": number,
    "office": office,
    "pages": lambda draw: f"{number(draw)} pages",
    "party": party,
    "person": person,
    "prize": lambda draw: f"the {surname(draw)} Prize",
    "product": product,
    "project": of(
        *("annual report", "spring tour", "library project", "harbour festival", "pension plan", "mobile app"),
        *("bridge repair", "film archive", "night bus", "data platform"),
    ),
    "public_place": public_place,
    "rent": lambda draw: f"{number(draw)}0 euros",
    "school": lambda draw: f"{town(draw)} {draw.choice(['Primary', 'High School', 'Academy'])}",
    "show": show,
    "stadium": lambda draw: f"{town(draw)} {draw.choice(['Arena', 'Park', 'Stadium', 'Road'])}",
    "status": of(
        *("on schedule", "delayed by two weeks", "on hold", "finished", "cancelled", "waiting for approval"),
        "in its test phase",
    ),
    "tongue": of("Danish", "Swahili", "Korean", "Basque", "Tamil", "Greek", "Turkish", "Welsh", "Hebrew", "Finnish"),
    "topic": lambda draw: field(draw).lower(),
    "town": town,
    "university": university,
    "version": version,
    "weekday": of("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
}
"""The kinds that data/golden/fact_properties.jsonl names."""


# Labeled pairs generated from structured facts with a time: for training next to those of people.
#
# data/golden/fact_properties.jsonl lists the properties: those with one value at a time, and those with many. A
# property, with all its subjects, values and statements, is one group: it is kept apart as a whole.

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


_CLASSES_OF_LABEL = {
    "UPDATE": ("update",),
    "EXTEND": ("extend", "conditional"),
    "DERIVE": ("derive",),
    "NONE": ("none", "static"),
}


def training_pairs() -> list[PairRow]:
    """Returns the training pairs of every domain, the older golden training pairs, and the generated ones."""
    return [*written_pairs("train"), *golden_pairs("train"), *generated_pairs()]


def class_numbers(row: PairRow) -> list[int]:
    """Returns the numbers of the encoder's classes that a pair may have: several where no conflict is stated."""
    stated = {"conditional": "conditional", "static": "static"}.get(row.get("conflict", ""))
    if stated is None and "conflict" not in row and row.get("source") != "facts":
        return [PAIR_CLASSES.index(name) for name in _CLASSES_OF_LABEL[row["label"]]]
    return [PAIR_CLASSES.index(stated or _CLASSES_OF_LABEL[row["label"]][0])]
