"""Sentences of conversations with the kinds of items that they form, from golden notes: what the model learns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from palimpsest.formation.rules import read_by_rules
from palimpsest.formation.sentence_model import NONE, SentenceFeatures, read_sentence
from palimpsest_eval.studies.formation import GoldenSession, read_half, read_user

DIARY = "diary"
"""The development half of the diary's golden notes, among the users."""
MESSAGES = "messages"
"""Single messages without context, among the users."""
TRAINING_USERS = (
    DIARY,
    "dario",
    "hilde",
    "kwame",
    "messages",
    "noor",
    "priyanka",
    "ruth",
    "silvie",
    "teo",
    "tomasz",
    "yolanda",
)
"""Whose conversations train the model. Those of the diary's test half, and of Emeka, Petra and Yusuf do not."""

_OPTIONAL_WEIGHT = 0.5


@dataclass(frozen=True)
class Example:
    """A sentence with the class that is right, and how much it counts."""

    features: SentenceFeatures
    label: str
    weight: float = 1.0


def golden_notes(user: str) -> list[GoldenSession]:
    """Returns the sessions of a user with what should be formed of them."""
    if user == DIARY:
        return read_half("development")
    return read_user(user)


def sentence_examples(golden: Sequence[GoldenSession]) -> Iterator[Example]:
    """Yields each sentence of a person with its label; what a label calls optional shares its weight with none."""
    for expected, rules in zip(golden, read_by_rules([g.session for g in golden]), strict=True):
        for n, i in rules.places():
            start, end = rules.sentences[n][i].span
            found = rules.by_rules(n, i)
            features = read_sentence(expected.session, n, i, found.kind if found is not None else None)
            met = [g for g in expected.items if g.span[0] < end and start < g.span[1]]
            required = [g.kinds[0] for g in met if not g.is_optional]
            if required or not met:
                yield Example(features, required[0] if required else NONE)
                continue
            allowed = sorted({kind for g in met for kind in g.kinds} | {NONE})
            for label in allowed:
                yield Example(features, label, _OPTIONAL_WEIGHT / len(allowed))
