"""Notes: what the notebooks found, kept in the home as JSON; the next report shows them, the gate reads the limits."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import read_json, write_json
from palimpsest.store.home import Home
from palimpsest_eval.gate.health import LIMITS

_NAME = re.compile(r"[a-z0-9_]{1,40}")
_Short = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]


class Note(BaseModel):
    """What a notebook hands to the pipeline: a title, of which build, a few lines, a table, and limits of health."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    title: _Short
    build_id: _Short
    lines: tuple[_Short, ...] = Field(default=(), max_length=50)
    columns: tuple[_Short, ...] = Field(default=(), max_length=12)
    rows: tuple[tuple[str | float | int | None, ...], ...] = Field(default=(), max_length=200)
    limits: Mapping[str, float] = {}


def notes_folder(home: Home) -> Path:
    """Returns where the notes of a home lie."""
    return home.path / "notes"


def write_note(home: Home, name: str, note: Note) -> Path:
    """Writes a notebook's note, over its last one, and returns the file.

    Raises:
        PalimpsestError: the name is not lower case letters, digits and underscores, a row is not as wide as the
            columns, or a limit is unknown.
    """
    if not _NAME.fullmatch(name):
        raise PalimpsestError(f"note {name[:40]!r}: use lower case letters, digits and underscores")
    if any(len(row) != len(note.columns) for row in note.rows):
        raise PalimpsestError(f"note {name}: every row must have a cell for each of {len(note.columns)} columns")
    if unknown := sorted(set(note.limits) - set(LIMITS)):
        raise PalimpsestError(f"note {name}: limit {unknown[0]!r} is none of {', '.join(LIMITS)}")
    path = notes_folder(home) / f"{name}.json"
    write_json(path, note.model_dump(mode="json"))
    return path


def read_notes(home: Home) -> list[Note]:
    """Returns the notes of a home, by name of the notebook.

    Raises:
        PalimpsestError: a file is not a note; the message names file and field.
    """
    notes = []
    for path in sorted(notes_folder(home).glob("*.json")):
        fix = f"write it again with its notebook, or remove it ({path})"
        raw: Any = read_json(path, fix)
        try:
            notes.append(Note.model_validate(raw))
        except ValidationError as e:
            first = e.errors()[0]
            where = ".".join(map(str, first["loc"])) or "file"
            raise PalimpsestError(f"note {path.name}: {where}: {first['msg'].lower()}; {fix}") from None
    return notes


def health_limits(home: Home) -> dict[str, float]:
    """Returns the limits of memory health that the notes set; of two, the tighter."""
    limits: dict[str, float] = {}
    for note in read_notes(home):
        for name, value in note.limits.items():
            limits[name] = min(value, limits.get(name, value))
    return limits
