"""Where everything is in the folder of an export, and how its JSON files are written."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from palimpsest.core.ids import JsonObject, JsonValue, content_id

FORMAT = 1
"""Of the export. A change of what a file means needs another number."""
MANIFEST = "export.json"
SCHEMA = "schema.json"
DECISIONS = "decisions.json"
PROPOSALS = "proposals.json"
USAGE = "usage.json"
ANSWERS = "answers.json"
PROFILE = "profile.json"
STANDING = "standing.json"
MARKDOWN = "markdown"
PROFILE_PAGE = "markdown/profile.md"
ORIGINALS = "originals"
INBOX = "inbox"

_UNSAFE = re.compile(r"[^\w.,@+=()-]+")
_MAX_PART_CHARS = 80


def settings_file(collection: str) -> str:
    """Returns the file with the settings of a collection, relative to the export."""
    return f"collections/{collection}/settings.json"


def sources_file(collection: str) -> str:
    """Returns the file with every version of every source of a collection."""
    return f"collections/{collection}/sources.json"


def table_file(collection: str, table: str) -> str:
    """Returns the file with the rows of a table."""
    return f"collections/{collection}/tables/{table}.json"


def write_object(folder: Path, name: str, value: Mapping[str, JsonValue]) -> None:
    """Writes a JSON object, indented: it is short, and read by people."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def write_rows(folder: Path, name: str, rows: Iterable[Mapping[str, object]]) -> None:
    """Writes a JSON list, an object on each line: long files can be read and compared line by line."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(row, ensure_ascii=False, default=_to_json) for row in rows)
    with path.open("w", encoding="utf-8") as file:
        file.write("[\n")
        for n, line in enumerate(lines):
            file.write((",\n" if n else "") + line)
        file.write("\n]\n")


def safe_path(parts: Iterable[str], taken: set[str]) -> str:
    """Returns a path of plain names for a uri, another than those that are taken, to which it is added.

    Names that differ in case alone count as one: some file systems ignore case.
    """
    names = [p for part in parts for p in part.split("/") if p not in ("", ".", "..")]
    cleaned = [_UNSAFE.sub("_", name).strip("._ ")[-_MAX_PART_CHARS:] or "_" for name in names]
    path = "/".join(cleaned) or "_"
    if path.casefold() in taken:
        stem, dot, suffix = path.rpartition(".")
        mark = content_id(*names, len(taken))[:8]
        path = f"{stem}-{mark}{dot}{suffix}" if dot and "/" not in suffix else f"{path}-{mark}"
    taken.add(path.casefold())
    return path


def collections_of(manifest: JsonObject) -> list[str]:
    """Returns the names of the collections that a manifest lists."""
    listed = manifest["collections"]
    assert isinstance(listed, list)
    return [str(name) for name in listed]


def _to_json(value: object) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
