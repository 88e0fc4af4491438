"""Changes and removes memories that were sent and are not built yet, in their files of the inbox."""

import datetime as dt
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from palimpsest.core.errors import ArgumentError
from palimpsest.core.files import lines_of, published_build_id, write_private
from palimpsest.query.pending.form import stated_in
from palimpsest.query.pending.unbuilt import UnbuiltInbox
from palimpsest.sources.deletions import TurnIndex, place_key
from palimpsest.sources.discovery import hash_source
from palimpsest.store.decisions import ErasedText, read_decisions
from palimpsest.store.home import Home
from palimpsest.store.inbox import InboxFile, inbox_lock, record_replaced, user_part_of


@dataclass(frozen=True)
class PendingText:
    """The words of a pending memory, and where they are.

    Attributes:
        memory_id: the memory.
        document_id: its document.
        start: where the words begin in the text of the document.
        text: the words.
        nth: of the turns with these words, which one it is.
        erased: hashes of the words and of their place.
        file: of the inbox; None of a built memory that was edited: the log has its words.
    """

    memory_id: str
    document_id: str
    start: int
    text: str
    nth: int
    erased: ErasedText
    file: InboxFile | None

    def replaced(self, content: str, text: str) -> str:
        """Returns what the file has with other words in place of these, empty where nothing is left of it."""
        if self.file is not None and not self.file.is_turns:
            changed = content.replace(self.text, text, 1)
            return changed if any(c.isalnum() for c in changed) else ""
        rows = [json.loads(line) for line in lines_of(content)]
        there = [row for row in rows if self.text in row["text"]]
        if there:
            row = there[min(self.nth, len(there) - 1)]
            row["text"] = row["text"].replace(self.text, text, 1).strip()
        left = [row for row in rows if any(c.isalnum() for c in row["text"])]
        return "".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in left)


def find_pending(
    home: Home, memory_ids: Collection[str], collection: str | None = None, user: str | None = None
) -> list[PendingText]:
    """Returns the words of those memories that no build has read, or that lie beside an edited one, last ones first.

    Args:
        home: the home.
        memory_ids: which memories.
        collection: only of this one.
        user: only of this one.
    """
    inbox, build_id = UnbuiltInbox(home.path), published_build_id(home.path) or ""
    decisions, now, found = read_decisions(home.decisions), dt.datetime.now(dt.UTC), list[PendingText]()
    for name in sorted(home.sources):
        by_user = inbox.by_user(build_id, name) if collection in (None, name) else {}
        for part, unbuilt in by_user.items():
            if not unbuilt.key or (user is not None and part != user_part_of(user)):
                continue
            stated = stated_in(home, name, unbuilt, decisions, now, {})
            if stated is None:
                continue
            tables, files = stated.tables, {file.uri: file for file in unbuilt.files}
            rows = (
                tables["memories"]
                .filter(tables["memories"]["memory_id"].is_in(list(memory_ids)))
                .select("memory_id", "document_id", "char_start", "char_end")
                .join(tables["document_texts"], on="document_id")
                .join(tables["documents"].select("document_id", "user_id", "uri", "session_id"), on="document_id")
            )
            for row in rows.iter_rows(named=True):
                text, start = row["text"][row["char_start"] : row["char_end"]], row["char_start"]
                place = place_key(name, row["user_id"], row["uri"], row["session_id"])
                erased = ErasedText.of(place, TurnIndex(row["segments"]).utterance_at(start), text)
                before = [row["text"][a:b] for a, b, *_ in json.loads(row["segments"] or "[]") if b <= start]
                nth = sum(text in turn for turn in before)
                ids = row["memory_id"], row["document_id"]
                found.append(PendingText(*ids, start, text, nth, erased, files.get(row["uri"])))
    return sorted(found, key=lambda p: (p.document_id, -p.nth, p.memory_id))


def stated_first(home: Home, memory_ids: Iterable[str], user: str | None = None) -> frozenset[str]:
    """Returns memories with, in place of what built ones were edited to, these: they are deleted together."""
    ids = frozenset(memory_ids)
    edits = read_decisions(home.decisions).edited if ids else {}
    for pending in find_pending(home, ids, user=user) if edits else ():
        if pending.file is None and (stated := {old for old, texts in edits.items() if pending.erased in texts}):
            ids = ids - {pending.memory_id} | stated
    return ids


def rewrite_pending(home: Home, pending: Iterable[PendingText], text: str = "") -> int:
    """Writes other words in place of those of pending memories, or removes them; returns how many files it changed.

    A file of which nothing is left is removed.

    Raises:
        ArgumentError: the file has other words by now.
    """
    changed = set[str]()
    with inbox_lock(home.inbox):
        for memory in pending:
            file = memory.file
            assert file is not None
            before = file.path.read_text(encoding="utf-8") if file.path.is_file() else ""
            after = memory.replaced(before, text)
            if after == before:
                raise ArgumentError("memory_id", "its source has other words by now; search again", memory.memory_id)
            changed.add(file.uri)
            if after:
                write_private(file.path, after.encode())
                record_replaced(home.inbox, file.collection, file.uri, hash_source(file.path, home.inbox))
            else:
                file.path.unlink()
                file.sidecar.unlink(missing_ok=True)
    return len(changed)
