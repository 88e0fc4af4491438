"""The inbox of a home: one file for each operation, in a folder for each collection, read beside the collection's own.

The name of a file begins with hashes of the operation id and of the user: an operation id is an idempotency key of its
user, and a file that states another user's texts is known by its name. A source of the inbox has a uri that starts
with `.inbox/`, which no file of a corpus has: names that start with a dot are no sources there.
"""

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from palimpsest.core.errors import DamagedFile
from palimpsest.core.files import folder_lock, lines_of, read_json_object, undamaged, write_json
from palimpsest.core.ids import JsonObject, content_id
from palimpsest.core.times import parse_time

PREFIX = ".inbox/"
OWN_COLLECTION = "inbox"
"""Name of the collection that a home makes for its inbox where it has no other."""
SIDECAR_SUFFIX = ".meta.yaml"
TEXT_SUFFIXES = (".md", ".txt")
"""Files that are searched by words before they are built."""
_TURNS_SUFFIX = ".turns.jsonl"
_REPLACED = ".replaced.json"
_NAME = re.compile(r"(?P<operation>[0-9a-f]{16})-(?P<user>[0-9a-f]{16})(?P<rest>[-.].*)")
_UNSAFE = re.compile(r"[^\w.-]+")
_MAX_NAME_CHARS = 60
_FIX = "remove it; it is made again"
_LOCK_WAIT_S = 30.0


@dataclass(frozen=True)
class InboxText:
    """One text of the inbox with its scope: a turn, or a whole text file."""

    text: str
    user_id: str
    project_id: str = ""
    session_id: str | None = None
    speaker: str | None = None
    type: str | None = None
    tags: tuple[str, ...] = ()
    observed_at: dt.datetime | None = None


@dataclass(frozen=True)
class InboxFile:
    """The file of one operation."""

    collection: str
    path: Path

    @property
    def uri(self) -> str:
        """The uri of the source in its collection."""
        return PREFIX + self.path.name

    @property
    def is_turns(self) -> bool:
        """Whether the file is of texts or of a session, not a copied file."""
        match = _NAME.fullmatch(self.path.name)
        return match is not None and match["rest"] == _TURNS_SUFFIX

    @property
    def sidecar(self) -> Path:
        """The file with the scope of a copied file."""
        return self.path.with_name(self.path.name + SIDECAR_SUFFIX)

    def rows(self) -> list[JsonObject]:
        """Returns the turns of a file of turns.

        Raises:
            DamagedFile: the file is not as it was written.
            PermissionError: this user may not read it.
        """
        with undamaged(self.path, "remove it and send its text again", ValueError):
            rows = [json.loads(line) for line in lines_of(self.path.read_text(encoding="utf-8"))]
        if not rows or not all(isinstance(row, dict) for row in rows):
            raise DamagedFile(self.path, "remove it and send its text again")
        return rows

    def fields(self) -> JsonObject:
        """Returns the scope and the other stated fields: of the first turn, or of the sidecar of a copied file."""
        if self.is_turns:
            return self.rows()[0]
        return read_json_object(self.sidecar, "remove it and send its file again") or {}

    def described(self) -> InboxText:
        """Returns the scope and the stated fields of the file, without its text."""
        return _to_text("", self.fields())

    @classmethod
    def of_uri(cls, inbox: Path, collection: str, uri: str) -> "InboxFile":
        """Returns the file of a source of the inbox, which need not be there."""
        return cls(collection, inbox / collection / uri.removeprefix(PREFIX).partition("#")[0])

    def texts(self) -> list[InboxText]:
        """Returns the texts that can be searched by words: turns, and text files whole; none of other files."""
        if self.is_turns:
            return [_to_text(str(row.get("text", "")), row) for row in self.rows()]
        if self.path.suffix.lower() not in TEXT_SUFFIXES:
            return []
        return [_to_text(self.path.read_text(encoding="utf-8", errors="replace"), self.fields())]


def inbox_name(operation_id: str, user_id: str, file_name: str | None = None) -> str:
    """Returns the name of the file of an operation; a copied file keeps its suffix and the start of its name."""
    start = f"{_operation_hash(operation_id)}-{user_part_of(user_id)}"
    if file_name is None:
        return start + _TURNS_SUFFIX
    name = Path(file_name)
    stem = _UNSAFE.sub("_", name.stem).strip("._")[:_MAX_NAME_CHARS] or "file"
    return f"{start}-{stem}{_UNSAFE.sub('_', name.suffix)}"


def is_inbox_uri(uri: str) -> bool:
    """Returns whether a source is of the inbox."""
    return uri.startswith(PREFIX)


def is_of_user(uri: str, user_id: str) -> bool:
    """Returns whether a source of the inbox was sent for this user."""
    return user_part(uri) == user_part_of(user_id)


def user_part(uri: str) -> str:
    """Returns the hash of the user for whom a source of the inbox was sent; empty where its name has none."""
    match = _NAME.match(uri.removeprefix(PREFIX))
    return match["user"] if match else ""


def user_part_of(user_id: str) -> str:
    """Returns the hash by which names of files of the inbox name a user."""
    return content_id("inbox user", user_id)


def is_of_operation(uri: str, operation_id: str) -> bool:
    """Returns whether a source of the inbox was sent with this operation id."""
    match = _NAME.match(uri.removeprefix(PREFIX))
    return match is not None and match["operation"] == _operation_hash(operation_id)


def operation_hash(uri: str) -> str:
    """Returns the hash of the operation id that a uri begins with, which is short enough for a citation."""
    return uri.removeprefix(PREFIX).partition("-")[0]


def inbox_files(inbox: Path, collection: str | None = None) -> Iterator[InboxFile]:
    """Yields the files of the inbox of a home, of one collection or of all, sorted by collection and name."""
    folders = [inbox / collection] if collection else sorted(inbox.glob("*"))
    for folder in folders:
        names = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
        for name in names:
            if _NAME.fullmatch(name) and not name.endswith(SIDECAR_SUFFIX):
                yield InboxFile(folder.name, folder / name)


@contextmanager
def inbox_lock(inbox: Path) -> Iterator[None]:
    """Keeps other writers of the inbox out; a build, which only reads it, needs no lock.

    Raises:
        ComponentFailed: another process does not let go of it.
    """
    with folder_lock(inbox, _LOCK_WAIT_S, f"inbox {inbox}: another process is writing it; run again"):
        yield


def record_failure(inbox: Path, uris: Mapping[str, str]) -> None:
    """Records why a build with these sources failed, by uri, in place of what was recorded before."""
    if uris or (inbox / "failed.json").exists():
        write_json(inbox / "failed.json", dict(uris))
        (inbox / "failed.json").chmod(0o600)


def read_failures(inbox: Path) -> JsonObject:
    """Returns why the last build that failed did so, by the uri of each source that it was to read."""
    return read_json_object(inbox / "failed.json", _FIX) or {}


def _operation_hash(operation_id: str) -> str:
    return content_id("operation", operation_id)


def _to_text(text: str, fields: JsonObject) -> InboxText:
    tags, stamp = fields.get("tags"), fields.get("timestamp") or fields.get("date")
    return InboxText(
        text=text,
        user_id=str(fields.get("user_id") or ""),
        project_id=str(fields.get("project_id") or ""),
        session_id=_word(fields, "session_id"),
        speaker=_word(fields, "speaker") or _word(fields, "role"),
        type=_word(fields, "type"),
        tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
        observed_at=parse_time(stamp or None),
    )


def _word(fields: JsonObject, name: str) -> str | None:
    return str(fields[name]) if fields.get(name) else None


def replaced_key(collection: str, uri: str) -> str:
    """Returns the hash by which a replaced source is listed: a delete finds no name in the list."""
    return content_id("replaced", collection, uri)


def replaced_sources(inbox: Path) -> dict[str, str]:
    """Returns the content hashes of sources that were replaced on purpose, by `replaced_key`: these are no damage."""
    found = read_json_object(inbox / _REPLACED, "remove it") or {}
    return {key: str(value) for key, value in found.items()}


def record_replaced(inbox: Path, collection: str, uri: str, content_hash: str) -> None:
    """Records that a source was replaced, by the lock of the inbox."""
    write_json(inbox / _REPLACED, replaced_sources(inbox) | {replaced_key(collection, uri): content_hash})
