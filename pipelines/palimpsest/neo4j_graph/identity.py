"""Which home on the server is this one: an id made once and stored in the home; a copy of a home is another home."""

import os
import secrets
from pathlib import Path

from palimpsest.core.files import read_json, write_json
from palimpsest.store.home import Home

ID_FILE = "neo4j.json"


def is_served(home: Home) -> bool:
    """Returns whether a home was ever loaded into Neo4j."""
    return served_id(home.path) is not None


def served_id(folder: Path) -> str | None:
    """Returns the id under which the server keeps the home in `folder`; None where it was never loaded.

    A copy of a home has the file with the id as well. It is a copy as long as the home that the file names exists with
    the same id; otherwise the home was moved, and is still the same.
    """
    stored = read_json(folder / ID_FILE) or {}
    name, original = stored.get("home_id"), stored.get("folder")
    if not name or (original and _is_copy(folder, Path(os.fsdecode(bytes.fromhex(original))), name)):
        return None
    return str(name)


def home_id(home: Home) -> str:
    """Returns the id under which the server keeps a home; makes one where the home has none of its own."""
    name = served_id(home.path) or secrets.token_hex(8)
    # In hex: a delete looks for deleted names in every file of the home, and a path may contain such a name.
    stored = {"home_id": name, "folder": os.fsencode(home.path.resolve()).hex()}
    if read_json(home.path / ID_FILE) != stored:
        write_json(home.path / ID_FILE, stored)
    return name


def _is_copy(folder: Path, original: Path, name: str) -> bool:
    try:
        if not (original / ID_FILE).is_file() or original.samefile(folder):
            return False
    except OSError:
        return False
    return bool((read_json(original / ID_FILE) or {}).get("home_id") == name)
