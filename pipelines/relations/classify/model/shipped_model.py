"""The trained labeler that comes with Palimpsest, or the one of a project's own data folder."""

from functools import lru_cache
from pathlib import Path

from palimpsest.core.files import hash_of_file
from palimpsest.core.ids import content_id
from palimpsest.relations.classify.encoder.pair_encoder import GRAPH_FILES
from palimpsest.relations.classify.model.relation_model import RelationModel
from palimpsest.store.home import SHIPPED, data_file

LABELER_FILE = "models/relation_labeler.npz"


def default_key() -> str:
    """Returns the key of the model that a build uses, without opening it."""
    return content_id(hash_of_file(data_file(LABELER_FILE)), *(hash_of_file(SHIPPED / name) for name in GRAPH_FILES))


def default_model() -> RelationModel:
    """Returns the trained labeler.

    Raises:
        PalimpsestError: the file is not a trained labeler.
    """
    return _load(data_file(LABELER_FILE).resolve(), default_key())


@lru_cache(maxsize=2)
def _load(path: Path, key: str) -> RelationModel:
    return RelationModel.load(path)
