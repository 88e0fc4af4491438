"""What the working copy of a home on object storage knows of its last meeting with the bucket."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palimpsest.core.errors import DamagedFile
from palimpsest.core.files import read_json_object, write_json
from palimpsest.store.remote.tree import Entry, Tree

STATE = ".remote.json"
_WRITING = ".remote-writing"


@dataclass(frozen=True)
class CopyState:
    """What the copy was at its last meeting with the bucket.

    Attributes:
        url: of the home.
        tree: key of the tree that it was equal to; None before the first.
        files: entries of that tree.
        pulled: None, or while a tree is being read the paths that are not of the bucket.
        sending: key of the tree that a push was about to publish; None where none was stopped.
        sent: paths of the inbox that this tree has and the one before had not.
    """

    url: str
    tree: str | None = None
    files: Tree = field(default_factory=dict)
    pulled: tuple[str, ...] | None = None
    sending: str | None = None
    sent: tuple[str, ...] = ()


def read_state(folder: Path) -> CopyState | None:
    """Returns the state of a copy; None where the folder is a home of its own.

    Raises:
        DamagedFile: it cannot be read.
    """
    fix = f"remove the folder {folder}, which is read again from object storage"
    raw: Mapping[str, Any] | None = read_json_object(folder / STATE, fix)
    if raw is None:
        return None
    try:
        files = {path: Entry(*entry) for path, entry in raw.get("files", {}).items()}
        pulled, sent = raw.get("pulled"), tuple(raw.get("sent", ()))
        own = None if pulled is None else tuple(pulled)
        return CopyState(str(raw["url"]), raw.get("tree"), files, own, raw.get("sending"), sent)
    except (LookupError, TypeError, AttributeError):
        raise DamagedFile(folder / STATE, fix) from None


def write_state(folder: Path, state: CopyState) -> None:
    """Writes the state of a copy."""
    write_json(folder / STATE, {**state.__dict__, "files": {p: list(e) for p, e in state.files.items()}})


def begin_copy(folder: Path, url: str) -> None:
    """Makes the folder of a copy, private to its owner."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    if not (folder / STATE).exists():
        write_state(folder, CopyState(url))


def is_written(folder: Path) -> bool:
    """Returns whether a writer works in a copy, or was stopped in it: what differs from the bucket is its work."""
    return (folder / _WRITING).exists()


def set_written(folder: Path, written: bool) -> None:
    """Records that a writer begins to work in a copy, or that the bucket has all of its work."""
    if written:
        (folder / _WRITING).touch()
    else:
        (folder / _WRITING).unlink(missing_ok=True)
