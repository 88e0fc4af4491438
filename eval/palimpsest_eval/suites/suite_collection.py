"""A suite as a collection that `palimpsest build` reads: its rows, their users, and the memories made of them."""

import hashlib
from pathlib import Path

import yaml

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import file_hash, write_bytes
from palimpsest_eval.suites.suite import CORPUS_FILE, Suite, corpus_files

SHARED_USER = "shared"
"""The user of the rows and queries without a scope."""


def suite_digest(folder: Path, extra: Path | None = None) -> str:
    """Returns 32 hex digits over what a suite's home is built from: the corpus and the extra rows, not the queries.

    Raises:
        PalimpsestError: one of the files is missing.
    """
    h = hashlib.blake2b(digest_size=16)
    for path in corpus_files(folder, extra):
        if not path.is_file():
            raise PalimpsestError(f"suite {path}: no such file; give the path of a suite folder or of extra rows")
        h.update(file_hash(path).encode())
    return h.hexdigest()


def write_collection(suite: Suite, folder: Path) -> Path:
    """Writes `<folder>/<name>/collection.yaml` and the rows in `<folder>/<name>/corpus.jsonl`, the extra ones last.

    A row's scope becomes its user; rows without one belong to the user `shared`.

    Returns:
        The corpus folder, for `--corpus`; the collection's name is `collection_name(suite)`.
    """
    name = collection_name(suite)
    config = {
        "name": name,
        "description": f"Suite {suite.name}: {len(suite.scopes)} rows",
        "unit": "turn" if suite.ordered_turns else "chunk",
        "user_id": SHARED_USER,
        "store_tool_outputs": True,  # a judgement may name any row
    }
    write_bytes(folder / name / CORPUS_FILE, b"".join(map(_read_lines, suite.corpus_files)))
    write_bytes(folder / name / "collection.yaml", yaml.safe_dump(config, sort_keys=False).encode())
    return folder


def collection_name(suite: Suite) -> str:
    """Returns the suite's name as a valid name of a collection."""
    valid = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in suite.name).lstrip("_.-")
    return valid[:64] or "suite"


def corpus_id(uri: str) -> str:
    """Returns the row's `_id` of a memory's uri, `<file>#<_id>`; an id may contain `#` itself."""
    return uri.partition("#")[2]


def _read_lines(path: Path) -> bytes:
    """Returns a file's bytes, the last line ended."""
    data = path.read_bytes()
    return data if data.endswith(b"\n") else data + b"\n"
