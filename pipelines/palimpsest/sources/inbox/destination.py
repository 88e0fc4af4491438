"""Where a text of the inbox belongs: its collection, its scope and what is stated of it, all checked."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict

import yaml

from palimpsest.core.errors import ArgumentError
from palimpsest.core.files import write_bytes
from palimpsest.core.json_types import JsonObject
from palimpsest.sources.readers.common.scope_fields import parse_scope_name
from palimpsest.sources.records.stated_fields import TYPES
from palimpsest.store.builds import published
from palimpsest.store.collection_config import CollectionConfig, Unit, load_collection
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home, copy_lock
from palimpsest.store.inbox import OWN_COLLECTION, PREFIX, inbox_lock, inbox_name

_MAX_USER_BYTES = 800
_MAX_OPERATION_CHARS = 200
_OWN_WAIT_S = 60.0
"""How long the first text of a home on object storage waits for a builder."""


class InboxOptions(TypedDict, total=False):
    """The keyword arguments of everything that is sent to the inbox.

    Keys:
        collection: default: the one that has all memories of `user` in the published build; else the home's only one,
            or the one marked default; `inbox` in a home without collections.
        user: default: the collection's user_id. It may be one without memories.
        project: default: the collection's project_id, else the user's general memory.
        session: the conversation that the text is of.
        type: type of its memories, one of `TYPES`.
        tags: of its memories.
        observed_at: when it was stated; the time of the call for a text, unknown for a file that states no date.
        operation_id: idempotency key of the user: a second call with the same one writes nothing. Default: a new id.
    """

    collection: str | None
    user: str | None
    project: str | None
    session: str | None
    type: str | None
    tags: Sequence[str]
    observed_at: dt.datetime | None
    operation_id: str | None


@dataclass(frozen=True)
class OwnCollection:
    """The collection that a home makes where it has no other: its name, what it contains and what a memory of it is."""

    name: str
    description: str
    unit: Unit


INBOX = OwnCollection(OWN_COLLECTION, "What applications sent to this home.", "turn")


@dataclass(frozen=True)
class Destination:
    """A collection with its settings, and the scope and stated fields of what is sent there."""

    config: CollectionConfig
    user_id: str
    project_id: str | None
    session_id: str | None
    type: str | None
    tags: tuple[str, ...]

    def fields(self) -> JsonObject:
        """Returns the fields of a source that state the scope, the type and the tags."""
        stated: JsonObject = {
            "user_id": self.user_id,
            "project_id": self.project_id,
            "session_id": self.session_id,
            "type": self.type,
            "tags": list(self.tags) or None,
        }
        return {name: value for name, value in stated.items() if value is not None}


def resolve_destination(home: Home, options: InboxOptions, own: OwnCollection = INBOX) -> Destination:
    """Returns where something that is sent to a home belongs.

    Args:
        home: the home.
        options: what was given.
        own: the collection that is made in a home without one, or where it is named.

    Raises:
        ArgumentError: the collection, a name or the type cannot be used, or nothing of the user may be stored.
    """
    user = _parse_name("user", options.get("user"))
    name = options.get("collection")
    if name is None and user is not None:
        name = _usual_collection(home, user, options.get("operation_id"))
    config = _find_collection(home, name, own)
    user_id = user or config.user_id
    project_id = _parse_name("project", options.get("project")) or config.project_id
    session_id = _parse_name("session", options.get("session"))
    _check_user(home, config, user_id)
    kind = options.get("type")
    if kind is not None and kind not in TYPES:
        raise ArgumentError("type", f"must be one of {', '.join(TYPES)}", kind)
    tags = tuple(sorted({tag.strip() for tag in options.get("tags", ())} - {""}))
    return Destination(config, user_id, project_id, session_id, kind, tags)


def check_operation_id(operation_id: str) -> str:
    """Returns the id of an operation.

    Raises:
        ArgumentError: it is blank, too long or has characters that cannot be printed.
    """
    if not operation_id.strip() or not operation_id.isprintable() or len(operation_id) > _MAX_OPERATION_CHARS:
        problem = f"must be 1 to {_MAX_OPERATION_CHARS} printable characters"
        raise ArgumentError("operation_id", problem, operation_id[:40])
    return operation_id


def _usual_collection(home: Home, user: str, operation_id: str | None) -> str | None:
    """Returns the collection that an operation was received in before, else the one with all memories of a user."""
    start = inbox_name(operation_id or "", user).partition(".")[0]
    if earlier := sorted(home.inbox.glob(f"*/{start}*")) if operation_id else []:
        return earlier[0].parent.name
    build = published(home)
    found = [name for name in build.collections if build.has_memories_of(name, user)] if build else []
    return found[0] if len(found) == 1 and home.folder_of(found[0]) else None


def _find_collection(home: Home, name: str | None, own: OwnCollection) -> CollectionConfig:
    if _needs_own(home, name, own):
        home.create()
        with copy_lock(home.path, _OWN_WAIT_S):  # on object storage another machine may have made one
            if _needs_own(home, name, own):
                return _make_own_collection(home, own)
    folders = home.sources
    if name is not None and name not in folders:
        raise ArgumentError("collection", f"not in this home; it has: {', '.join(folders)}", name)
    configs = {n: load_collection(f) for n, f in folders.items() if name in (None, n) and f.is_dir()}
    if name is not None:
        if name not in configs:
            raise ArgumentError("collection", f"its folder {folders[name]} is gone; restore it", name)
        return configs[name]
    chosen = list(configs) if len(configs) == 1 else [n for n, c in configs.items() if c.default]
    if len(chosen) != 1:
        raise ArgumentError("collection", f"name one of: {', '.join(folders)}")
    return configs[chosen[0]]


def _needs_own(home: Home, name: str | None, own: OwnCollection) -> bool:
    folders = home.sources
    return (name is None and not folders) or (name == own.name and name not in folders)


def _make_own_collection(home: Home, own: OwnCollection) -> CollectionConfig:
    """Makes the collection of a home that has no other: its folder in the home has settings and no sources."""
    folder: Path = home.path / "collections" / own.name
    if home.sources.get(own.name) == folder and (folder / "collection.yaml").is_file():
        return load_collection(folder)
    home.create()
    with inbox_lock(home.inbox):  # of several first texts at once each would make it
        if not (folder / "collection.yaml").is_file():
            write_bytes(folder / "collection.yaml", yaml.safe_dump(asdict(own), sort_keys=False).encode())
        home.remember_sources({own.name: folder})
    return load_collection(folder)


def _parse_name(name: str, value: str | None) -> str | None:
    if value is None:
        return None
    parsed, problem = parse_scope_name(name, value)
    if problem or parsed is None:
        raise ArgumentError(name, "is no name; write one of at least one character, without control characters")
    if len(parsed.encode()) > _MAX_USER_BYTES:
        raise ArgumentError(name, f"has {len(parsed.encode()):,} bytes, the limit is {_MAX_USER_BYTES}; shorten it")
    return parsed


def _check_user(home: Home, config: CollectionConfig, user_id: str) -> None:
    """Checks that memories of a user may be stored.

    Raises:
        ArgumentError: `users.deny` names the user, or the user was deleted.
    """
    if user_id in config.users.deny:
        raise ArgumentError("user", f"users.deny of collection {config.name} stores nothing of this user", user_id)
    decisions = read_decisions(home.decisions)
    if decisions.hides_document(config.name, user_id, f"{PREFIX}any", None, None):
        raise ArgumentError("user", "was deleted from this home; nothing of this user is stored", user_id)
