"""Which embedder a collection is searched with: its own setting, else the home's, else the environment's."""

import os
from pathlib import Path

from palimpsest.core.files import read_json, write_json
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.home import Home

DEFAULT_EMBEDDER = "minilm"
VARIABLE = "PALIMPSEST_EMBEDDER"
_PATH_STARTS = (".", "/", "~")


def embedder_of(home: Home, config: CollectionConfig, folder: Path | None) -> str:
    """Returns the embedder of a collection; `folder` is where its relative paths start."""
    if config.embedder:
        return absolute_path(config.embedder, folder)
    return home_embedder(home)


def home_embedder(home: Home) -> str:
    """Returns the embedder of the collections that name none."""
    stored = (read_json(home.embedder_file) or {}).get("embedder")
    return str(stored or absolute_path(os.environ.get(VARIABLE) or DEFAULT_EMBEDDER, None))


def set_home_embedder(home: Home, embedder: str | None) -> None:
    """Records the embedder of a home; None removes the record."""
    if embedder is None:
        home.embedder_file.unlink(missing_ok=True)
    else:
        write_json(home.embedder_file, {"embedder": embedder})


def stored_embedder(home: Home) -> str | None:
    """Returns the embedder that `set_home_embedder` recorded; None where it did not."""
    stored = (read_json(home.embedder_file) or {}).get("embedder")
    return str(stored) if stored else None


def absolute_path(embedder: str, folder: Path | None) -> str:
    """Returns the setting; a path, which begins with `.`, `/` or `~`, absolute."""
    if not embedder.startswith(_PATH_STARTS):
        return embedder
    return str(((folder or Path()) / Path(embedder).expanduser()).resolve())
