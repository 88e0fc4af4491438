"""Which home on the server is this one: an id made once, stored in the home, and its own: a copy is another home."""

import os
import secrets
from pathlib import Path

from palimpsest.core.files import read_json, write_json

_FILE = "neo4j.json"


def served_id(folder: Path) -> str | None:
    """Returns the id under which the server keeps the home in `folder`; None where it was never loaded.

    A copy of a home brings the file with the id along. It is a copy as long as the home that the file names is there
    with the same id; else the home was moved, and is still the same.
    """
    told = read_json(folder / _FILE) or {}
    name, first = told.get("home_id"), told.get("folder")
    if not name or (first and _is_copy(folder, Path(os.fsdecode(bytes.fromhex(first))), name)):
        return None
    return str(name)


def make_served_id(folder: Path) -> str:
    """Returns the id of the home in `folder`; makes one where it has none of its own."""
    name = served_id(folder) or secrets.token_hex(8)
    # In hex: a delete looks for names of what it deleted in every file of the home, and a path may hold such a name.
    told = {"home_id": name, "folder": os.fsencode(folder.resolve()).hex()}
    if read_json(folder / _FILE) != told:
        write_json(folder / _FILE, told)
    return name


def _is_copy(folder: Path, first: Path, name: str) -> bool:
    try:
        if not (first / _FILE).is_file() or first.samefile(folder):
            return False
    except OSError:
        return False
    return bool((read_json(first / _FILE) or {}).get("home_id") == name)
