"""The labeled pairs that chooser and judge are trained on, besides the worlds."""

from palimpsest.relations.classify.encoder.change_encoder import PAIR_CLASSES
from palimpsest.relations.classify.golden_pairs import golden_pairs, written_pairs
from palimpsest.relations.classify.pairs_file import PairRow
from palimpsest_eval.labels.training.generated_facts import generated_pairs

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
