"""Planted contradictions for `studies.consolidation`: hand-written pairs by half, and templates nobody tuned on."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from palimpsest.relations.classify.pairs_file import written_pairs

Half = Literal["tuned", "blind", "templates"]
PER_KIND = {"dynamic": 40, "static": 30, "conditional": 30}
"""Pairs of each kind at most; there are fewer static ones in a half."""
UNRELATED = 100
"""Pairs that are no contradiction, planted beside them."""
_TEMPLATES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "dynamic": (
        ("{name} parks in bay {a}.", "{name} parks in bay {b}."),
        ("The {thing} weighs {a} kilos.", "The {thing} weighs {b} kilos."),
        ("{name} lives in Larvik.", "{name} lives in Ostend."),
        ("The rent of the {thing} is {a} euros.", "The rent of the {thing} is {b} euros."),
        ("{name}'s manager is Sabine Holt.", "{name}'s manager is Ravi Menon."),
    ),
    "static": (
        ("The {thing} dates from 19{a}.", "A neighbour claims the {thing} dates from 19{b}, she mixes it up."),
        ("{name} is a vet.", "Somebody at the party said {name} is a dentist, which is wrong."),
        ("The {thing} has {a} seats.", "The flyer says the {thing} has {b} seats, a misprint."),
        ("{name} was born in Malmo.", "The obituary has {name} born in Bergen by mistake."),
        ("The {thing} is on Elm Street.", "A rumour has it that the {thing} is on Mill Lane."),
    ),
    "conditional": (
        ("The {thing} closes at six.", "On market days the {thing} closes at eight."),
        ("{name} takes the tram to work.", "When it snows, {name} walks to work."),
        ("Entry to the {thing} costs {a} euros.", "For pupils, entry to the {thing} costs {b} euros."),
        ("{name} answers the phone of the {thing}.", "During the holidays Odd answers the phone of the {thing}."),
        ("The {thing} is heated to {a} degrees.", "At night the {thing} is heated to {b} degrees."),
    ),
}
_NAMES = ("Tove Brandal", "Imre Koss", "Leda Marsh", "Anton Weiss")
_THINGS = ("greenhouse", "boathouse", "assembly hall", "print shop")


@dataclass(frozen=True)
class Planted:
    """Two texts and their kind of conflict, `none` where there is none."""

    conflict: str
    older: str
    newer: str


def planted_pairs(half: Half) -> list[Planted]:
    """Returns the pairs of a half: always the same. The labeler was trained on none of them."""
    if half == "templates":
        return list(_from_templates())
    wanted, found = PER_KIND | {"none": UNRELATED}, list[Planted]()
    rows = sorted(written_pairs("test"), key=lambda r: hashlib.sha256(r["id"].encode()).hexdigest())
    for row in rows:
        is_blind = int(hashlib.sha256(row.get("group", row["id"]).encode()).hexdigest(), 16) % 2 == 1
        kind = str(row.get("conflict", "none"))
        if is_blind == (half == "blind") and wanted.get(kind, 0) and row["older"] != row["newer"]:
            wanted[kind] -= 1
            found.append(Planted(kind, row["older"], row["newer"]))
    return found


def _from_templates() -> Iterator[Planted]:
    for kind, templates in _TEMPLATES.items():
        for t, (older, newer) in enumerate(templates):
            for n, (name, thing) in enumerate(zip(_NAMES, _THINGS, strict=True)):
                values = {"name": name, "thing": thing, "a": 20 + 7 * n + t, "b": 51 + 7 * n + t}
                yield Planted(kind, older.format(**values), newer.format(**values))
