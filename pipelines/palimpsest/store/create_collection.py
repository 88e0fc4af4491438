"""Makes the folder of a new collection: settings, and room for its sources."""

from pathlib import Path

import yaml

from palimpsest.core.errors import ArgumentError
from palimpsest.core.files import write_bytes
from palimpsest.store.collection_config import Unit, load_collection
from palimpsest.store.home import Home


def create_collection(
    home: Home,
    name: str,
    description: str,
    unit: Unit = "chunk",
    user_id: str | None = None,
    corpus: Path | None = None,
) -> Path:
    """Makes a collection and lists it in the home; returns its folder, which may have files already.

    Args:
        home: the home, which is made where it does not exist.
        name: of the collection; unique in the home.
        description: what it contains, in one sentence.
        unit: what one memory is.
        user_id: owner of memories whose source names no user; the default of collection.yaml where it is None.
        corpus: the folder that its own is made in; default: `<home>/collections`.

    Raises:
        ArgumentError: the home has one of that name, the folder has a collection.yaml, or `corpus` is a file.
        PalimpsestError: a value cannot be used, or another process is writing the home.
    """
    if corpus is not None and corpus.exists() and not corpus.is_dir():
        raise ArgumentError("corpus", "not a folder; name another", corpus)
    home.create()
    with home.lock():
        if name in home.sources:
            raise ArgumentError("name", f"this home has one in {home.sources[name]}; choose another", name)
        folder = (home.path / "collections" if corpus is None else corpus) / name
        path, is_new = folder / "collection.yaml", not folder.exists()
        if "/" in name or name.startswith(".") or folder.is_file():
            raise ArgumentError("name", f"{folder} cannot be made; choose another", name)
        if path.exists():
            raise ArgumentError("name", f"{folder} has a collection.yaml; build it, or choose another", name)
        settings = {"name": name, "description": description, "unit": unit} | ({"user_id": user_id} if user_id else {})
        try:
            write_bytes(path, yaml.safe_dump(settings, allow_unicode=True, sort_keys=False).encode())
            load_collection(folder)
        except BaseException:
            path.unlink(missing_ok=True)
            if is_new and folder.is_dir():
                folder.rmdir()
            raise
        home.remember_sources({name: folder})
    return folder
