"""Replaces the words of one memory in the document that states it: a new version of that document in the log."""

import datetime as dt
from dataclasses import dataclass, replace
from typing import Any

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.ids import SCOPE, ScopeKey
from palimpsest.core.json_types import JsonObject
from palimpsest.core.memory_types import REFLECTION
from palimpsest.export.markdown.edit_document import relocated_redactions
from palimpsest.export.markdown.read_edits import LoggedDocuments, storable_row, write_changes
from palimpsest.sources.deletions import TurnIndex, place_key
from palimpsest.sources.extracted import document_to_row, row_to_document
from palimpsest.sources.readers.common.clean_text import clean_text
from palimpsest.sources.text_edits import Edit, apply_edits
from palimpsest.store.builds import Build, published
from palimpsest.store.decisions import ErasedText, append_edited, read_decisions
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog

MAX_CHARS = 20_000


@dataclass(frozen=True)
class EditedMemory:
    """What was edited: the memory as it was, and the uri of its document."""

    memory_id: str
    collection: str
    uri: str
    before: str

    def to_json(self) -> JsonObject:
        """Returns the fields as a JSON object."""
        return {**self.__dict__}


def edit_memory(home: Home, scope: ScopeKey, memory_id: str, text: str) -> EditedMemory:
    """Replaces the words that a memory was formed from; the next build retires it and forms the new one.

    What it was stays readable as history. The file that the document was read from is not changed: the edit applies
    until that file itself changes.

    Args:
        home: the home.
        scope: of the memory.
        memory_id: the memory.
        text: the new words, at most `MAX_CHARS` characters.

    Raises:
        ArgumentError: the text cannot be used.
        PalimpsestError: the scope has no such memory, it was formed from others, or its document changed since.
    """
    text = clean_text(text).strip()
    if not any(c.isalnum() for c in text) or len(text) > MAX_CHARS:
        raise ArgumentError("text", f"write 1 to {MAX_CHARS:,} characters; palimpsest delete --memory removes one")
    with home.lock():
        build = published(home)
        row = _find(build, scope, memory_id) if build else None
        if build is None or row is None:
            raise PalimpsestError(f"{memory_id[:40]}: no such memory in this scope; nothing is changed")
        config = build.config_of(scope[0])
        if row["unit"] == REFLECTION or row["char_start"] is None or config is None:
            raise PalimpsestError(f"{memory_id}: formed from other memories; edit those; nothing is changed")
        log = IngestLog(home.log / scope[0])
        logged = LoggedDocuments(log, scope[0], scope[1])
        document_id = str(row["document_id"])
        base = logged.by_id.get(document_id)
        if base is None or logged.current.get(base.key, ("",))[0] != document_id:
            raise PalimpsestError(f"{memory_id}: its document changed since; run palimpsest build; nothing is changed")
        document = row_to_document(base.row)
        start, end = int(row["char_start"]), int(row["char_end"])
        before = document.text[start:end]
        if before.strip() != text:
            edited = apply_edits(document.text, document.segments, [Edit(start, end, text)])
            redactions = relocated_redactions(document.redactions, edited.text)
            changed = replace(document, text=edited.text, segments=edited.segments, redactions=redactions)
            try:
                stored = storable_row(document_to_row(changed, "", None), config, read_decisions(home.decisions))
            except ValueError as e:
                raise ArgumentError("text", f"the document {e}; nothing is changed") from None
            if len(edited.text) > config.limits.max_chars:
                raise ArgumentError("text", f"makes the document longer than {config.limits.max_chars:,} characters")
            place = place_key(scope[0], scope[1], base.row["uri"], base.row["session_id"])
            said = TurnIndex(base.row["segments"]).utterance_at(start)
            append_edited(
                home.decisions, memory_id, ErasedText.of(place, said, stored["text"][start : start + len(text)])
            )
            write_changes(log, logged, {base.key: stored}, dt.datetime.now(dt.UTC))
    return EditedMemory(memory_id, scope[0], base.row["uri"], before)


def _find(build: Build, scope: ScopeKey, memory_id: str) -> dict[str, Any] | None:
    if scope[0] not in build.collections:
        return None
    memories = build.table(scope[0], "memories").filter(memory_id=memory_id, **dict(zip(SCOPE, scope, strict=True)))
    rows = memories.select("document_id", "unit", "char_start", "char_end").to_dicts()
    return rows[0] if rows else None
