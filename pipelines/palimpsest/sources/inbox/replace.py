"""Replaces what a source of the inbox says: the next build makes a new version of it, as of any edited source."""

import datetime as dt
import json
from pathlib import Path

from palimpsest.core.errors import ArgumentError
from palimpsest.core.json_types import JsonObject
from palimpsest.sources.discovery import hash_source
from palimpsest.sources.inbox.receive import check_turn, read_file, without_secrets, write_private
from palimpsest.store.collection_config import CollectionConfig, load_collection
from palimpsest.store.event_log import write_event
from palimpsest.store.home import Home
from palimpsest.store.inbox import TEXT_SUFFIXES, InboxFile, inbox_lock, is_inbox_uri, record_replaced
from palimpsest.store.web_pages import is_web_uri

_CONTENT = ("text", "speaker", "role", "timestamp")


def replace_source(home: Home, collection: str, uri: str, file: Path) -> Path:
    """Replaces the bytes of a source of the inbox by those of a file; its scope and stated fields stay.

    A source that was a text, or turns, takes a text file, or a `.jsonl` file of turns with `text`, `speaker` and
    `timestamp`; any other takes a file of its own suffix.

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
        turns = [check_turn(turn, config) for turn in _read_turns(data, file)]
    else:
        speaker = {name: before[0][name] for name in ("speaker", "role") if before[0].get(name)}
        turns = [{**speaker, **check_turn({"text": data.decode("utf-8", "replace")}, config)}]
    rows: list[JsonObject] = [{"timestamp": now, **scope, **turn} for turn in turns]
    return "".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in rows).encode()


def _read_turns(data: bytes, file: Path) -> list[dict[str, str]]:
    try:
        rows = [json.loads(line) for line in data.decode("utf-8").splitlines() if line.strip()]
    except (ValueError, RecursionError):
        rows = []
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise ArgumentError("file", "must have a JSON object a line, each with text", str(file))
    return rows
