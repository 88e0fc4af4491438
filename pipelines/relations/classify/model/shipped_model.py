"""The trained labeler that comes with Palimpsest, or the one of a project's own data folder."""

from functools import lru_cache
from pathlib import Path

from palimpsest.core.files import file_hash
from palimpsest.core.ids import content_id
from palimpsest.relations.classify.encoder.pair_encoder import GRAPH_FILES
from palimpsest.relations.classify.model.relation_model import RelationModel
from palimpsest.store.home import SHIPPED, data_file

LABELER_FILE = "models/relation_labeler.npz"


def default_key() -> str:
    """Returns the key of the model that a build uses, without opening it."""
    return content_id(hash_of_file(data_file(LABELER_FILE)), *(hash_of_file(SHIPPED / name) for name in GRAPH_FILES))


def hash_of_file(path: Path) -> str:
    """Returns `file_hash` of a file, computed once as long as the file stays as it is."""
    state = path.stat()
    return _hash_of_state(path.resolve(), (state.st_mtime_ns, state.st_size, state.st_ino))


@lru_cache(maxsize=4)
def _hash_of_state(path: Path, state: tuple[int, int, int]) -> str:
    return file_hash(path)  # a build needs it four times


def default_model() -> RelationModel:
    """Returns the trained labeler.

    Raises:
        PalimpsestError: the file is not a trained labeler.
    """
    return _load(data_file(LABELER_FILE).resolve(), default_key())


@lru_cache(maxsize=2)
def _load(path: Path, key: str) -> RelationModel:
    return RelationModel.load(path)
