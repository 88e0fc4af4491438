"""Which embedder a collection is searched with: its own setting, else the home's, else the environment's.

The home's is recorded in the published build and changes with it, in one step: a change that is killed or refused
leaves the home as it was.
"""

import os
from dataclasses import replace
from pathlib import Path

from palimpsest.core.files import read_json
from palimpsest.store.builds import published
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
    return recorded_embedder(home) or absolute_path(os.environ.get(VARIABLE) or DEFAULT_EMBEDDER, None)


def recorded_embedder(home: Home) -> str:
    """Returns the embedder of this run, else the one that the home's published build records; empty for neither."""
    if home.embedder:
        return home.embedder
    current = published(home)
    if current is not None and (recorded := current.manifest.embedder):
        return recorded
    return str((read_json(home.embedder_file) or {}).get("embedder") or "")


def record_embedder(home: Home) -> None:
    """Records the embedder of this run in the published build, which is searched with it already."""
    current = published(home)
    if home.embedder and current is not None and current.manifest.embedder != home.embedder:
        current.write_manifest(replace(current.manifest, embedder=home.embedder))


def absolute_path(embedder: str, folder: Path | None) -> str:
    """Returns the setting; a path, which begins with `.`, `/` or `~`, absolute."""
    if not embedder.startswith(_PATH_STARTS):
        return embedder
    return str(((folder or Path()) / Path(embedder).expanduser()).resolve())
