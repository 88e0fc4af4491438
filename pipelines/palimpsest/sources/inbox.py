"""What applications send to a home: texts, sessions and files, written at once and formed by the next build."""

import datetime as dt
import json
import os
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict, Unpack

import yaml

from palimpsest.core.errors import ArgumentError
from palimpsest.core.files import file_hash, lines_of, write_bytes, write_private
from palimpsest.core.ids import JsonObject, JsonRecord, JsonValue, content_id
from palimpsest.core.message import Message, read_messages
from palimpsest.core.times import with_offset
from palimpsest.sources.discovery import hash_source
from palimpsest.sources.extracted import TYPES
from palimpsest.sources.find_secrets import find_secrets
from palimpsest.sources.readers.encodings import clean_text
from palimpsest.sources.readers.front_matter import parse_scope_name
from palimpsest.sources.storage_policy import redact_text
from palimpsest.store.builds import published
from palimpsest.store.collection_config import CollectionConfig, Unit, load_collection
from palimpsest.store.decisions import read_decisions
from palimpsest.store.event_log import write_event
from palimpsest.store.home import Home, copy_lock
from palimpsest.store.inbox import (
    OWN_COLLECTION,
    PREFIX,
    SIDECAR_SUFFIX,
    TEXT_SUFFIXES,
    InboxFile,
    inbox_lock,
    inbox_name,
    is_inbox_uri,
    record_replaced,
)
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.web_pages import is_web_uri

# Where a text of the inbox belongs: its collection, its scope and what is stated of it, all checked.

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


# Writes what is sent to a home into its inbox: whole or not at all, once for each operation id, private to its owner.
#
# A text or session is a file of turns; a file is copied, with a sidecar that states its scope. What a collection's
# `secrets` keeps out of memories is already replaced or refused here, where the text is known: in copies of other than
# text files the build finds it.

MAX_TEXT_BYTES = 1_000_000
"""Of a text or a session; a longer one is a file."""
MAX_TURNS = 10_000


@dataclass(frozen=True)
class Receipt(JsonRecord):
    """What the inbox received.

    Attributes:
        operation_id: names the operation; `palimpsest operation` takes it.
        collection: where its memories will be.
        user_id: whose they are.
        uri: of its source in the collection.
        is_new: False where this operation had been received before, so that nothing was written.
    """

    operation_id: str
    collection: str
    user_id: str
    uri: str
    is_new: bool


def ingest_text(
    home: Home | Path | str, text: str, *, speaker: str | None = None, **options: Unpack[InboxOptions]
) -> Receipt:
    """Sends one text to the inbox of a home; the next build makes memories of it.

    Args:
        home: the home or its path; it is made where it does not exist.
        text: at most `MAX_TEXT_BYTES`.
        speaker: who says it.
        **options: scope, type, tags, time and operation id; see `InboxOptions`.

    Raises:
        ArgumentError: the text or an option cannot be used, or the operation id was used for another text.
    """
    if not isinstance(text, str):
        raise ArgumentError("text", "has no words; write a sentence, or name a file")
    return _ingest(home, [Message.of_text(text, speaker)], options)


def ingest_session(
    home: Home | Path | str, turns: Sequence[Message | Mapping[str, JsonValue] | str], **options: Unpack[InboxOptions]
) -> Receipt:
    """Sends the turns of a conversation to the inbox of a home, as one operation.

    Args:
        home: the home or its path.
        turns: messages with `role` and `content`, and `name` and `created_at` where these are known; in order.
        **options: see `InboxOptions`; `session` names the conversation.

    Raises:
        ArgumentError: as `ingest_text` does.
    """
    return _ingest(home, read_messages(turns), options)


def _ingest(home: Home | Path | str, turns: Sequence[Message], options: InboxOptions) -> Receipt:
    home = home if isinstance(home, Home) else Home(Path(home))
    destination = resolve_destination(home, options)
    if not 0 < len(turns) <= MAX_TURNS:
        raise ArgumentError("turns", f"must be 1 to {MAX_TURNS:,}", len(turns))
    rows = [destination.fields() | check_turn(turn, destination.config) for turn in turns]
    stated = options.get("observed_at")
    stamp = _iso(stated or dt.datetime.now(dt.UTC))
    stamped = [{"timestamp": stamp, **row} for row in rows]
    data = "".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in stamped).encode()
    if len(data) > (limit := min(MAX_TEXT_BYTES, destination.config.limits.max_bytes)):
        raise ArgumentError("text", f"has {len(data):,} bytes with its fields, the limit is {limit:,}; send a file")
    operation_id = check_operation_id(options.get("operation_id") or uuid.uuid4().hex)
    name = inbox_name(operation_id, destination.user_id)
    return _receive(home, destination, operation_id, name, data, ignored=None if stated else "timestamp")


def ingest_file(home: Home | Path | str, path: Path | str, **options: Unpack[InboxOptions]) -> Receipt:
    """Copies a file to the inbox of a home; the next build reads it as it reads the sources of a collection.

    Args:
        home: the home or its path.
        path: a regular file, within `limits.max_bytes` of the collection.
        **options: see `InboxOptions`. What they state wins over what the file states of itself.

    Raises:
        ArgumentError: the file cannot be read or is too large, or as `ingest_text` does.
    """
    home, path = home if isinstance(home, Home) else Home(Path(home)), Path(path)
    destination = resolve_destination(home, options)
    data = read_file(path, destination.config.limits.max_bytes)
    if path.suffix.lower() in TEXT_SUFFIXES:
        data = without_secrets(data.decode("utf-8", "surrogateescape"), destination.config, str(path)).encode(
            "utf-8", "surrogateescape"
        )
    fields = destination.fields()
    if when := options.get("observed_at"):
        fields["date"] = _iso(when)
    operation_id = check_operation_id(options.get("operation_id") or uuid.uuid4().hex)
    name = inbox_name(operation_id, destination.user_id, path.name)
    return _receive(home, destination, operation_id, name, data, sidecar=json.dumps(fields, ensure_ascii=False))


def check_turn(turn: Message, config: CollectionConfig) -> JsonObject:
    """Returns the fields of a turn as a source states them.

    Raises:
        ArgumentError: its text has no words, or secrets that the collection refuses.
    """
    if not any(c.isalnum() for c in turn.text):
        raise ArgumentError("text", "has no words; write a sentence, or name a file")
    row: JsonObject = {"text": without_secrets(clean_text(turn.text).strip(), config, "text")}
    row |= {name: value for name, value in (("speaker", turn.name), ("role", turn.role)) if value}
    return row | ({"timestamp": _iso(turn.created_at)} if turn.created_at else {})


def without_secrets(text: str, config: CollectionConfig, what: str) -> str:
    """Returns the text as the collection's `secrets` lets it be stored.

    Raises:
        ArgumentError: it has secrets and the collection refuses them.
    """
    if config.secrets == "redact":
        return redact_text(text)
    if config.secrets == "reject" and (found := find_secrets(text)):
        kinds = ", ".join(sorted({secret.kind for secret in found}))
        raise ArgumentError("text", f"{what} holds secrets ({kinds}) and collection {config.name} refuses them")
    return text


def read_file(path: Path, max_bytes: int) -> bytes:
    """Returns the bytes of a file.

    Raises:
        ArgumentError: it is no regular file, cannot be opened, is empty or too large.
    """
    try:
        with path.open("rb") as f:
            status = os.fstat(f.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ArgumentError("file", "not a regular file; name one", str(path))
            data = f.read(max_bytes + 1)
    except OSError as e:
        raise ArgumentError("file", f"cannot be read: {e.strerror}; check its path", str(path)) from None
    if not data:
        raise ArgumentError("file", "is empty", str(path))
    if len(data) > max_bytes:
        raise ArgumentError("file", f"is larger than limits.max_bytes, {max_bytes:,}; split it", str(path))
    return data


def _receive(
    home: Home,
    destination: Destination,
    operation_id: str,
    name: str,
    data: bytes,
    sidecar: str | None = None,
    ignored: str | None = None,
) -> Receipt:
    """Writes the file of an operation where it was not received before.

    Args:
        home: the home.
        destination: of the operation.
        operation_id: of the operation.
        name: of the file.
        data: of the file.
        sidecar: text of the sidecar; None for turns.
        ignored: a field of the turns that may differ from what was received before.

    Raises:
        ArgumentError: the operation id was used for something else.
    """
    home.create()
    collection = destination.config.name
    folder = home.inbox / collection
    with inbox_lock(home.inbox):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o700)
        start = name[: len("0" * 33)]
        earlier = sorted(p for p in folder.glob(f"{start}*") if not p.name.endswith(SIDECAR_SUFFIX))
        logged = [u for u in IngestLog(home.log / collection).versions()["uri"] if u.startswith(PREFIX + start)]
        if earlier:
            aside = folder / (earlier[0].name + SIDECAR_SUFFIX)
            same_fields = sidecar is None or (aside.is_file() and aside.read_text(encoding="utf-8") == sidecar)
            if earlier[0].name != name or not same_fields or not _is_same(earlier[0].read_bytes(), data, ignored):
                raise ArgumentError("operation_id", "was used for another text; take a new one", operation_id)
        elif not logged:
            if sidecar is not None:
                write_private(folder / (name + SIDECAR_SUFFIX), sidecar.encode())
            write_private(folder / name, data)
    kind, is_new = "text" if sidecar is None else "file", not (earlier or logged)
    write_event(home.path, "inbox_received", kind=kind, collection=collection, bytes=len(data), new=int(is_new))
    uri = PREFIX + (earlier[0].name if earlier else name)
    return Receipt(operation_id, collection, destination.user_id, uri, is_new)


def _is_same(before: bytes, now: bytes, ignored: str | None) -> bool:
    if ignored is None:
        return before == now
    return _rows_without(before, ignored) == _rows_without(now, ignored)


def _rows_without(data: bytes, name: str) -> list[JsonObject]:
    rows: Iterable[JsonObject] = map(json.loads, lines_of(data.decode()))
    return [{k: v for k, v in row.items() if k != name} for row in rows]


def _iso(when: dt.datetime) -> str:
    return with_offset(when).isoformat()


__all__ = ["Receipt", "ingest_file", "ingest_session", "ingest_text"]


# Sends the files of a folder to the inbox, each once for each content: sent again, a folder changes nothing.


@dataclass(frozen=True)
class FolderReceipt(JsonRecord):
    """What the inbox received of a folder.

    Attributes:
        received: number of files that are new.
        known: number of files that had been received before.
        collections: where the memories will be; several where a file had been received before in another one.
        empty: paths of files without content, which are left out.
        failures: path and reason of each file that cannot be sent.
    """

    received: int
    known: int
    collections: tuple[str, ...]
    empty: tuple[str, ...]
    failures: tuple[tuple[str, str], ...]

    def to_json(self) -> JsonObject:
        """Returns the JSON that `palimpsest ingest directory` prints."""
        return super().to_json() | {"failures": [{"path": path, "reason": why} for path, why in self.failures]}


def ingest_folder(home: Home | Path | str, folder: Path, **options: Unpack[InboxOptions]) -> FolderReceipt:
    """Sends the files below a folder to the inbox of a home, sorted by path; names that begin with a dot are left out.

    Args:
        home: the home or its path.
        folder: links in it are no files of it.
        **options: see `InboxOptions`; operation ids are made from path and content.

    Raises:
        ArgumentError: there is no such folder, it has no file, or an option cannot be used.
    """
    if not folder.is_dir():
        raise ArgumentError("folder", "no such folder; name one with files", str(folder))
    receipts: list[Receipt] = []
    empty: list[str] = []
    failures: list[tuple[str, str]] = []
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        try:
            if path.is_symlink():
                raise ArgumentError("file", "a link; copy the file in", name)
            if not path.stat().st_size:
                empty.append(name)
                continue
            options["operation_id"] = content_id("folder", name, file_hash(path))
            receipts.append(ingest_file(home, path, **options))
        except OSError as e:
            failures.append((name, f"cannot be read: {e.strerror}"))
        except ArgumentError as e:
            if e.argument not in ("file", "text", "operation_id"):
                raise
            failures.append((name, e.problem))
    if not (receipts or empty or failures):
        raise ArgumentError("folder", "has no files", str(folder))
    received, collections = sum(r.is_new for r in receipts), sorted({r.collection for r in receipts})
    return FolderReceipt(received, len(receipts) - received, tuple(collections), tuple(empty), tuple(failures))


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        yield from (Path(root, name) for name in sorted(names) if not name.startswith("."))


# Replaces what a source of the inbox says: the next build makes a new version of it, as of any edited source.

_CONTENT = ("text", "speaker", "role", "timestamp")


def replace_source(home: Home, collection: str, uri: str, file: Path) -> Path:
    """Replaces the bytes of a source of the inbox by those of a file; its scope and stated fields stay.

    A source that was a text, or turns, takes a text file, or a `.jsonl` file with a message of `role` and
    `content` a line; any other takes a file of its own suffix.

    Args:
        home: the home.
        collection: of the source.
        uri: of the source.
        file: with the new content.

    Returns:
        The file of the inbox.

    Raises:
        ArgumentError: the source is not of the inbox or has no file there any more, or the file cannot be used.
    """
    folder = home.sources.get(collection)
    if is_web_uri(uri):
        raise ArgumentError("uri", "is a page of the web; palimpsest ingest url reads it again", uri)
    if not is_inbox_uri(uri):
        where = "its folder is not known" if folder is None else f"it is {folder / uri.partition('#')[0]}"
        raise ArgumentError("uri", f"is no source of the inbox: edit the file ({where}), then palimpsest build", uri)
    if folder is None or home.folder_of(collection) is None:
        raise ArgumentError("collection", "its folder is gone; restore it", collection)
    config = load_collection(folder)
    with inbox_lock(home.inbox):
        source = InboxFile.of_uri(home.inbox, collection, uri)
        if not source.path.is_file() or source.path.is_symlink():
            raise ArgumentError("uri", "has no file in the inbox any more; send it again with palimpsest remember", uri)
        data = read_file(file, config.limits.max_bytes)
        is_text = file.suffix.lower() in TEXT_SUFFIXES
        if source.is_turns:
            data = _turns(source, data, file, config)
        elif file.suffix.lower() != source.path.suffix.lower():
            raise ArgumentError("file", f"must end with {source.path.suffix}, as its source does", str(file))
        elif is_text:
            text = without_secrets(data.decode("utf-8", "surrogateescape"), config, str(file))
            data = text.encode("utf-8", "surrogateescape")
        write_private(source.path, data)
        record_replaced(home.inbox, collection, uri, hash_source(source.path, home.inbox))
    write_event(home.path, "inbox_received", kind="file", collection=collection, bytes=len(data), new=0)
    return source.path


def _turns(source: InboxFile, data: bytes, file: Path, config: CollectionConfig) -> bytes:
    """Returns the lines of a file of turns with new turns and the scope of the old ones.

    Raises:
        ArgumentError: the new turns cannot be read.
    """
    before = source.rows()
    scope = {name: value for name, value in before[0].items() if name not in _CONTENT}
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    if file.suffix.lower() == ".jsonl":
        turns = [check_turn(turn, config) for turn in read_messages(_read_turns(data, file), "file")]
    else:
        speaker = {name: before[0][name] for name in ("speaker", "role") if before[0].get(name)}
        turns = [{**speaker, **check_turn(Message.of_text(data.decode("utf-8", "replace")), config)}]
    rows: list[JsonObject] = [{"timestamp": now, **scope, **turn} for turn in turns]
    return "".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in rows).encode()


def _read_turns(data: bytes, file: Path) -> list[JsonObject]:
    try:
        rows = [json.loads(line) for line in lines_of(data.decode("utf-8"))]
    except (ValueError, RecursionError):
        rows = []
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise ArgumentError("file", "must have a JSON object a line, a message with role and content", str(file))
    return rows
