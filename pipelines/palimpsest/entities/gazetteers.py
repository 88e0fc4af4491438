"""What a name alone says: first names of persons, and cities, by two libraries of data.

A word that is both, or an English word as well (`Will`, `Reading`), says nothing.
"""

from functools import lru_cache
from importlib import import_module

from palimpsest.entities.find_names import ORGANISATION, PLACES, WORKS
from palimpsest.text.words import CALENDAR_WORDS, STOPWORDS

_LOCALES = "en_US en_GB de_DE fr_FR es_ES it_IT pt_BR pt_PT nl_NL pl_PL sv_SE da_DK no_NO fi_FI cs_CZ tr_TR en_IN hr_HR"
_MIN_LOCALES = 2  # a first name in use: one locale lists nearly every word that anybody is called
_ORDINARY_WORDS = """
amber angel april art ash august autumn basil bay bill blossom bond brook candy cash charity chase chip
christian clay cliff constant cruz daisy dale dawn dean destiny diamond dick drew duke earl eden ember eve faith
fern flora forest frank gale gene genesis glen glory grace grant guy hail harmony harry hazel heath heather
holly honor hope hunter iris ivy jack jade jasmine jean jewel journey joy june king lake lance lane lily mark
marina mark mason max may melody mercy mercury miles milan mission moss mike nick nova olive opal page parker
pat patience pearl penny peace petra phoenix pierce poppy precious prince prudence queen rain ray raven reed
rich river rob robin rock rocky rose royal ruby rusty sage sandy saint season serenity shell sky smith star
sterling stone storm summer sunny sydney tanner terry tiger time trinity true van venus victoria victory violet
virginia wade ward west will willow winter wolf young zen alpha beta gamma delta sierra oscar echo charlie romeo
kilo austin carolina dakota georgia houston israel jackson jordan kent lincoln madison milton montana troy
warren bar bath mobile nice page reading split deer of man general most hull sale cork bury deal tours angers
lens central enterprise independence liberty commerce eagle norman orange santa mission
"""
_ORDINARY = frozenset(_ORDINARY_WORDS.split())

_NO_SURNAMES = ORGANISATION | PLACES | WORKS | {"tech", "day", "project", "team", "meeting"}


@lru_cache(maxsize=1)
def _first_names() -> frozenset[str]:
    counts: dict[str, int] = {}
    for locale in _LOCALES.split():
        provider = import_module(f"faker.providers.person.{locale}").Provider
        lists = (getattr(provider, f"first_names{kind}", ()) for kind in ("", "_male", "_female"))
        for name in {n.casefold() for names in lists if not isinstance(names, property) for n in names}:
            counts[name] = counts.get(name, 0) + 1
    return frozenset(n for n, count in counts.items() if count >= _MIN_LOCALES) - _common()


@lru_cache(maxsize=1)
def _cities() -> frozenset[str]:
    from zoneinfo import available_timezones

    import airportsdata

    zones = {z.rsplit("/", 1)[-1].replace("_", " ") for z in available_timezones() if "/" in z and "Etc" not in z}
    airports = {a["city"] for a in airportsdata.load("IATA").values() if len(a["city"]) > 2}
    return frozenset(c.casefold() for c in zones | airports) - _common()


def _common() -> frozenset[str]:
    return _ORDINARY | STOPWORDS | CALENDAR_WORDS


def is_first_name(word: str) -> bool:
    """Returns whether a capitalised word is a first name, and neither a city nor an English word."""
    folded = word.casefold()
    return folded in _first_names() and folded not in _cities()


def is_person_name(name: str) -> bool:
    """Returns whether one to three capitalised words begin with a first name."""
    first, *rest = name.split() or [""]
    is_shaped = all(w[:1].isupper() for w in (first, *rest)) and len(rest) <= 2
    return is_shaped and is_first_name(first) and _NO_SURNAMES.isdisjoint(w.casefold() for w in rest)


def is_city(name: str) -> bool:
    """Returns whether a name is that of a city that has an airport or a time zone, and no first name."""
    folded = name.casefold()
    return name[:1].isupper() and not name.isupper() and folded in _cities() and folded not in _first_names()
