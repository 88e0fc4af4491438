"""Folders of collections that lie in the home: what a delete removes there, and which files are sources of a person."""

import shutil
from pathlib import Path

from palimpsest.build.delete.probes import Probes
from palimpsest.build.delete.target import Target
from palimpsest.core.files import write_bytes
from palimpsest.sources.discovery import source_files
from palimpsest.store.collection_config import CollectionConfig, settings_or_none
from palimpsest.store.home import Home


def sources_in_home(home: Home) -> set[Path]:
    """Returns the files that people put into folders of collections in the home: as elsewhere, a delete leaves them."""
    return {path for folder, config in _folders(home).values() for _, path in source_files(folder, config)}


def erase_settings(home: Home, target: Target, probes: Probes) -> None:
    """Removes stated relations of deleted documents, and the folder of a deleted collection that has no sources.

    Args:
        home: the home; the list of its collections still has what is deleted.
        target: what is deleted.
        probes: what must not be found afterwards.
    """
    for name, (folder, config) in _folders(home).items():
        if not target.covers(name):
            continue
        if target.whole_collection and not any(True for _ in source_files(folder, config)):
            shutil.rmtree(folder)
            continue
        path = folder / config.document_relations if config.document_relations else None
        if path is None or not path.is_file():
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        if gone := set(probes.rows_in(lines)):
            write_bytes(path, "".join(f"{line}\n" for i, line in enumerate(lines) if i not in gone).encode())


def _folders(home: Home) -> dict[str, tuple[Path, CollectionConfig]]:
    found = {}
    for name, folder in home.sources.items():
        is_inside = folder.resolve().is_relative_to(home.path.resolve())
        if is_inside and (config := settings_or_none(folder)):
            found[name] = (folder, config)
    return found
