"""Invented names, and the kinds of subjects and values that generated statements are about."""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

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
