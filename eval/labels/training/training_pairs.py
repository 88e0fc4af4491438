"""The labeled pairs that the shipped labeler is trained on, and the folds, each with whole domains held out."""

import hashlib
from collections.abc import Sequence

from palimpsest.eval.labels.training.generated_facts import generated_pairs
from palimpsest.eval.labels.training.mined_pairs import mined_pairs
from palimpsest.relations.classify.encoder.pair_encoder import ENCODER_CLASSES
from palimpsest.relations.classify.model.golden_pairs import golden_pairs, written_pairs
from palimpsest.relations.classify.pairs_file import PairRow, group_of

FOLDS = 3
_CLASSES_OF_LABEL = {
    "UPDATE": ("update",),
    "EXTEND": ("extend", "conditional"),
    "DERIVE": ("derive",),
    "NONE": ("none", "static"),
}


LATER_DOMAINS = frozenset(
    (
        *("assistant_users", "construction_crafts", "customers_sales", "fitness_wellbeing", "games_hobbies"),
        *("hotels_hospitality", "public_figures", "team_channels"),
        *("chat_assistant", "diaries_notes", "friends_chat", "local_news", "meeting_minutes", "work_channels"),
    )
)
"""Training domains of the second and third table of forms."""


def encoder_pairs() -> list[PairRow]:
    """Returns the training pairs of every domain, the older golden training pairs, and the generated ones."""
    return [*written_pairs("train"), *golden_pairs("train"), *generated_pairs()]


def first_table_pairs() -> list[PairRow]:
    """Returns the pairs of the encoder without those of `LATER_DOMAINS`."""
    return [row for row in encoder_pairs() if row.get("domain") not in LATER_DOMAINS]


def training_pairs() -> list[PairRow]:
    """Returns what the trees are trained on: the pairs of the encoder, and mined ones that it has not seen."""
    return [*encoder_pairs(), *mined_pairs(written_pairs("train"))]


def folds(rows: Sequence[PairRow]) -> list[int]:
    """Returns the fold of each pair: a domain, a generated property or a golden group is in one fold."""
    written = sorted({row["domain"] for row in rows if "domain" in row})
    generated = sorted({str(row["group"]) for row in rows if row.get("source") == "facts"})
    return [_fold(row, written, generated) for row in rows]


def _fold(row: PairRow, written: Sequence[str], generated: Sequence[str]) -> int:
    if "domain" in row:
        return written.index(row["domain"]) % FOLDS
    group = group_of(row)
    if row.get("source") == "facts":
        return generated.index(group) % FOLDS
    return int(hashlib.sha1(group.encode(), usedforsecurity=False).hexdigest(), 16) % FOLDS


def class_numbers(row: PairRow) -> list[int]:
    """Returns the numbers of the encoder's classes that a pair may have: several where no conflict is stated."""
    stated = {"conditional": "conditional", "static": "static"}.get(row.get("conflict", ""))
    if stated is None and "conflict" not in row and row.get("source") != "facts":
        return [ENCODER_CLASSES.index(name) for name in _CLASSES_OF_LABEL[row["label"]]]
    return [ENCODER_CLASSES.index(stated or _CLASSES_OF_LABEL[row["label"]][0])]
