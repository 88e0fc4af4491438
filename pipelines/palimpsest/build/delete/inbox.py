"""What of the inbox a delete names, and its removal: files of operations, and why builds failed with them.

The file of an operation goes as soon as anything of it is deleted. What is retained of it is in the log, which a build
reads where the inbox has no file.
"""

from collections.abc import Set
from pathlib import Path

import polars as pl

from palimpsest.build.delete.target import Target
from palimpsest.store.home import Home
from palimpsest.store.inbox import InboxFile, InboxText, inbox_lock, read_failures, record_failure

DocumentKey = tuple[str, str, str, str | None, str | None]
"""Collection, user, uri, session and project of a document, as `DeletionSet.documents` has it."""


def matched_texts(file: InboxFile, target: Target) -> list[tuple[DocumentKey, str]]:
    """Returns the document and text of each text of a file that a target names, whether or not a build has read it.

    A copied file is one document. Single memories are matched by the builds that have them.
    """
    if not target.covers(file.collection) or target.memories or target.expired_at:
        return []
    found = file.texts() or [file.described()]
    rows = [(t, {"user_id": t.user_id, "session_id": t.session_id, "project_id": t.project_id}) for t in found]
    schema = dict.fromkeys(("uri", "user_id", "session_id", "project_id"), pl.String())
    frame = pl.DataFrame([{"uri": file.uri, **row} for _, row in rows], schema=schema).with_row_index()
    named = set(target.documents(frame)["index"])
    return [
        ((file.collection, t.user_id, file.uri, t.session_id, t.project_id), t.text)
        for i, (t, _) in enumerate(rows)
        if i in named and _is_named(t, target)
    ]


def erase_inbox(home: Home, target: Target, sources: Set[tuple[str, str]]) -> int:
    """Removes the files of sources of which something is deleted; returns how many.

    Args:
        home: the home.
        target: of the delete.
        sources: (collection, uri).
    """
    if not home.inbox.is_dir():
        return 0
    with inbox_lock(home.inbox):
        failures = read_failures(home.inbox)
        removed = 0
        for collection, uri in sorted(sources):
            failures.pop(uri, None)
            removed += _remove(InboxFile.of_uri(home.inbox, collection, uri))
        if target.whole_collection:
            removed += _remove_folder(home.inbox / str(target.collection))
        record_failure(home.inbox, {uri: str(why) for uri, why in failures.items()})
    return removed


def _is_named(text: InboxText, target: Target) -> bool:
    is_early = target.before is None or (text.observed_at is not None and text.observed_at < target.before)
    return is_early and (target.tag is None or target.tag in text.tags)


def _remove(file: InboxFile) -> int:
    is_there = file.path.is_file()
    for path in (file.path, file.sidecar):
        path.unlink(missing_ok=True)
    return int(is_there)


def _remove_folder(folder: Path) -> int:
    paths = sorted(folder.glob("*"))
    for path in paths:
        path.unlink()
    if folder.is_dir():
        folder.rmdir()
    return len(paths)
