"""Writes what is sent to a home into its inbox: whole or not at all, once for each operation id, private to its owner.

A text or session is a file of turns; a file is copied, with a sidecar that states its scope. What a collection's
`secrets` keeps out of memories is already replaced or refused here, where the text is known: in copies of other than
text files the build finds it.
"""

import datetime as dt
import json
import os
import stat
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from palimpsest.core.errors import ArgumentError
from palimpsest.core.files import write_bytes
from palimpsest.core.json_types import JsonObject
from palimpsest.core.times import with_offset
from palimpsest.sources.filters.redact_documents import redact_text
from palimpsest.sources.inbox.destination import Destination, InboxOptions, check_operation_id, resolve_destination
from palimpsest.sources.readers.common.clean_text import clean_text
from palimpsest.sources.secrets.find_secrets import find_secrets
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.event_log import write_event
from palimpsest.store.home import Home
from palimpsest.store.inbox import PREFIX, SIDECAR_SUFFIX, TEXT_SUFFIXES, inbox_lock, inbox_name
from palimpsest.store.ingest_log import IngestLog

MAX_TEXT_BYTES = 1_000_000
"""Of a text or a session; a longer one is a file."""
MAX_TURNS = 10_000


@dataclass(frozen=True)
class Receipt:
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

    def to_json(self) -> JsonObject:
        """Returns the fields as a JSON object."""
        return {**self.__dict__}


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
    turn = {"text": text} | ({"speaker": speaker} if speaker else {})
    return ingest_session(home, [turn], **options)


def ingest_session(
    home: Home | Path | str, turns: Sequence[Mapping[str, str]], **options: Unpack[InboxOptions]
) -> Receipt:
    """Sends the turns of a conversation to the inbox of a home, as one operation.

    Args:
        home: the home or its path.
        turns: each with `text` or `content`, `speaker` or `role`, and a `timestamp` where it is known; in order.
        **options: see `InboxOptions`; `session` names the conversation.

    Raises:
        ArgumentError: as `ingest_text` does.
    """
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


def check_turn(turn: Mapping[str, str], config: CollectionConfig) -> JsonObject:
    """Returns the fields of a turn as a source states them.

    Raises:
        ArgumentError: its text or its time cannot be used.
    """
    text = turn.get("text", turn.get("content"))
    if not isinstance(text, str) or not any(c.isalnum() for c in text):
        raise ArgumentError("text", "has no words; write a sentence, or name a file")
    row: JsonObject = {"text": without_secrets(clean_text(text).strip(), config, "text")}
    row |= {name: value for name in ("speaker", "role") if (value := turn.get(name))}
    if stamp := turn.get("timestamp"):
        try:
            row["timestamp"] = _iso(dt.datetime.fromisoformat(str(stamp)))
        except ValueError:
            raise ArgumentError("timestamp", "not a time; write 2024-05-31T12:00:00Z", stamp) from None
    return row


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


def write_private(path: Path, data: bytes) -> None:
    """Writes a file whole, for its owner alone."""
    write_bytes(path, data)
    path.chmod(0o600)


def _is_same(before: bytes, now: bytes, ignored: str | None) -> bool:
    if ignored is None:
        return before == now
    return _rows_without(before, ignored) == _rows_without(now, ignored)


def _rows_without(data: bytes, name: str) -> list[JsonObject]:
    rows: Iterable[JsonObject] = map(json.loads, data.decode().splitlines())
    return [{k: v for k, v in row.items() if k != name} for row in rows]


def _iso(when: dt.datetime) -> str:
    return with_offset(when).isoformat()
