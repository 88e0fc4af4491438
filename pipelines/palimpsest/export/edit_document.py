"""A document as a person edited it in its Markdown page."""

import datetime as dt
import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.ids import REFLECTION, SCOPE, JsonObject, JsonRecord, JsonValue, ScopeKey, content_id
from palimpsest.export.write_pages import Page, fields_of, parse_page, turns_of
from palimpsest.memories.documents import version_id
from palimpsest.query.pending.change import PendingText, find_pending, rewrite_pending, stated_first
from palimpsest.sources.deletions import Deletions, TurnIndex, place_key
from palimpsest.sources.extracted import DocumentRow, ExtractedDocument, Segment, document_to_row, row_to_document
from palimpsest.sources.inbox import without_secrets
from palimpsest.sources.readers.document_head import check_dates, find_stated_time, update_document_head
from palimpsest.sources.readers.encodings import clean_text, parse_name
from palimpsest.sources.readers.front_matter import SCOPE_FIELDS, check_fields, parse_relations
from palimpsest.sources.readers.markdown import markdown_segments
from palimpsest.sources.storage_policy import (
    Redaction,
    reapply_storage_policy,
    redactions_from_json,
    redactions_to_json,
)
from palimpsest.sources.text_edits import Edit, apply_edits, remove_spans
from palimpsest.store.builds import Build, published
from palimpsest.store.collection_config import CollectionConfig, load_collection
from palimpsest.store.decisions import Decisions, ErasedText, append_edited, read_decisions
from palimpsest.store.home import Home
from palimpsest.store.inbox import InboxFile
from palimpsest.store.ingest_log import IngestLog
from palimpsest.text.dates import DateOrder

_MAX_COMPARED = 4_000_000  # lines times lines; longer changes are one


def edit_document(document: ExtractedDocument, page: Page, dates: DateOrder | None) -> ExtractedDocument | None:
    """Returns the document as its page has it, the same object where nothing was edited; None where nothing is left.

    Args:
        document: that the page was written from.
        page: what the page says.
        dates: which part comes first in dates of three numbers.

    Raises:
        ValueError: a field or a turn cannot be as the page has it; the message says why.
    """
    edited = _with_fields(document, page.fields, dates)
    changed = _with_turns(edited, page.turns) if page.turns is not None else _with_body(edited, page.body)
    if changed is None or changed is document:
        return changed
    changed = update_document_head(document, changed, dates)
    return replace(changed, redactions=relocated_redactions(document.redactions, changed.text))


def _with_fields(
    document: ExtractedDocument, fields: Mapping[str, JsonValue], dates: DateOrder | None
) -> ExtractedDocument:
    before = fields_of(document)
    changed = {name for name in (*fields, *before) if fields.get(name) != before.get(name)}
    if not changed:
        return document
    if scope := sorted(changed.intersection(SCOPE_FIELDS)):
        raise ValueError(f"{scope[0]} cannot be changed: it says whose the text is; put it back")
    metadata: JsonObject = {k: v for k, v in document.metadata.items() if k not in changed}
    metadata |= {name: fields[name] for name in changed if name in fields}
    relations, problems = parse_relations(metadata, document.uri)
    problems += [*check_fields(metadata), *check_dates(metadata, "front matter", dates)]
    if problems:
        raise ValueError(problems[0])
    when, was = find_stated_time(metadata, dates), find_stated_time(document.metadata, dates)
    title = parse_name(metadata.get("title")) if "title" in changed else None
    return replace(
        document,
        metadata=metadata,
        title=title or document.title,
        source_time=when if when != was else document.source_time,
        relations=relations if relations != parse_relations(document.metadata, document.uri)[0] else document.relations,
    )


def _with_turns(document: ExtractedDocument, said: Mapping[int, str]) -> ExtractedDocument | None:
    turns = turns_of(document.segments)
    if unknown := sorted(set(said) - set(range(1, len(turns) + 1))):
        raise ValueError(f"has no turn {unknown[0]}; send a new statement with palimpsest remember")
    edits, removed = [], []
    for number, turn in enumerate(turns, 1):
        text = said.get(number, "")
        if not text:
            removed.append(number - 1)
        elif text != document.text[turn.char_start : turn.char_end].strip():
            edits.append(Edit(turn.char_start, turn.char_end, text))
    if not edits and not removed:
        return document
    edited = apply_edits(document.text, document.segments, edits)
    if not removed:
        return replace(document, text=edited.text, segments=edited.segments)
    spans = [(edited.segments[i].char_start, edited.segments[i].char_end) for i in removed]
    left = remove_spans(edited.text, json.dumps([s.to_row() for s in edited.segments], ensure_ascii=False), spans)
    if left is None or not left.text.strip():
        return None
    return replace(document, text=left.text, segments=tuple(map(Segment.from_row, json.loads(left.segments or "[]"))))


def _with_body(document: ExtractedDocument, body: str) -> ExtractedDocument | None:
    if body.rstrip("\n") == document.text.rstrip("\n"):
        return document
    if not any(c.isalnum() for c in body):
        return None
    if document.media_type == "text/markdown":
        return replace(document, text=body, segments=tuple(markdown_segments(body)))
    edits = list(_line_edits(document.text, body))
    edited = apply_edits(document.text, document.segments, edits)
    return replace(
        document, text=edited.text, segments=tuple(_covering(edited.text, edited.segments, edits, edited.starts))
    )


def _line_edits(before: str, after: str) -> Iterator[Edit]:
    """Yields the lines that differ, as edits of the text before."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    first = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    rest = min(len(old), len(new)) - first
    last = next((i for i in range(rest) if old[-1 - i] != new[-1 - i]), rest)
    a, b = old[first : len(old) - last], new[first : len(new) - last]
    offsets = [sum(map(len, old[:first]))]
    for line in a:
        offsets.append(offsets[-1] + len(line))
    if len(a) * len(b) > _MAX_COMPARED:
        yield Edit(offsets[0], offsets[-1], "".join(b))
        return
    for tag, i, j, k, n in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag != "equal":
            yield Edit(offsets[i], offsets[j], "".join(b[k:n]))


def _covering(
    text: str, segments: tuple[Segment, ...], edits: list[Edit], starts: tuple[int, ...]
) -> Iterator[Segment]:
    """Yields the segments, and one more for each text that was added outside of them, with the headings above it."""
    added = []
    for edit, start in zip(edits, starts, strict=True):
        words = edit.replacement.strip()
        at = start + edit.replacement.find(words) if words else start
        if words and not any(s.char_start <= at < s.char_end for s in segments):
            end = min([at + len(words), *(s.char_start for s in segments if s.char_start > at)])
            above = max((s for s in segments if s.char_end <= at), key=lambda s: s.char_end, default=None)
            added.append(Segment(at, end, "prose", above.heading if above else None, above.page if above else None))
    yield from sorted([*segments, *added], key=lambda s: s.char_start)


def relocated_redactions(redactions: str | None, text: str) -> str | None:
    """Returns the redactions whose marker the text still has, at its place now."""
    if redactions is None:
        return None
    found, at = [], 0
    for redaction in redactions_from_json(redactions):
        if redaction.field != "text":
            found.append(redaction)
            continue
        start = text.find(f"[redacted: {redaction.kind}]", at)
        if start >= 0:
            at = start + 1
            found.append(Redaction(redaction.kind, "text", start, text.count("\n", 0, start) + 1))
    return redactions_to_json(found)


# Finds what was edited or removed in the Markdown pages of an export, and writes it as new versions to the log.

_CHANGED = "was changed in this home since it was exported; export again and edit that"
DocumentKey = tuple[str, str | None, str]


@dataclass(frozen=True)
class LoggedDocument:
    """A version of a document in the log: of which source and version of it, and whether that was imported."""

    source: str
    ordinal: int
    is_imported: bool
    row: DocumentRow

    @property
    def key(self) -> DocumentKey:
        """What all versions of the document share."""
        return self.row["uri"], self.row["session_id"], self.row["project_id"] or ""


@dataclass
class PageChanges:
    """What pages change: the new row of a document by its key, or None where it is removed."""

    rows: dict[DocumentKey, DocumentRow | None] = field(default_factory=dict)
    edited: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unchanged: int = 0
    problems: list[tuple[str, str]] = field(default_factory=list)


class LoggedDocuments:
    """The documents of a user in a log: every version by id, and the current ones by key.

    Ids are those of the collection's name in the export, which a renamed import has not.
    """

    def __init__(self, log: IngestLog, exported_name: str, user: str) -> None:
        """Reads the log."""
        self.by_id: dict[str, LoggedDocument] = {}
        self.current: dict[DocumentKey, tuple[str, LoggedDocument]] = {}
        self._imported: dict[str, dict[int, bool]] = {}
        current = dict(log.current().select("uri", "ordinal").iter_rows())
        self._there = current.keys()
        for version in log.versions().sort("uri", "ordinal").to_dicts():
            uri, ordinal, is_imported = version["uri"], version["ordinal"], version["instead_of"] is not None
            self._imported.setdefault(uri, {})[ordinal] = is_imported
            for row in log.rows(version["text_key"]) if version["text_key"] else ():
                if row["user_id"] == user:
                    found = LoggedDocument(uri, ordinal, is_imported, cast(DocumentRow, row))
                    document_id = version_id(exported_name, cast(Mapping[str, str | None], row))
                    self.by_id[document_id] = found
                    if current.get(uri) == ordinal:
                        self.current[found.key] = (document_id, found)

    def last_ordinal(self, source: str) -> int:
        """Returns the number of the last version of a source."""
        return max(self._imported[source])

    def follows(self, base: LoggedDocument, document_id: str) -> bool:
        """Returns whether what is current of a document is `base`, or was made of it by imports alone."""
        if base.key in self.current and self.current[base.key][0] == document_id:
            return True
        return base.source in self._there and all(
            imported for n, imported in self._imported[base.source].items() if n > base.ordinal
        )


def find_changes(
    pages: Iterable[tuple[str, str, str | None]],
    logged: LoggedDocuments,
    config: CollectionConfig,
    exported_name: str,
    decisions: Decisions,
) -> PageChanges:
    """Compares pages with the documents that they were written from.

    Args:
        pages: (file, document id, text), the text None where the file was removed.
        logged: the documents of the log.
        config: of the collection in this home.
        exported_name: its name in the export.
        decisions: what was deleted stays out.
    """
    changes = PageChanges()
    for file, document_id, text in pages:
        base = logged.by_id.get(document_id)
        if base is None:  # deleted since
            changes.unchanged += 1
        elif text is None:
            if base.key not in logged.current:
                changes.unchanged += 1
            elif logged.follows(base, document_id):
                changes.rows[base.key] = None
                changes.removed.append(file)
            else:
                changes.problems.append((file, _CHANGED))
        else:
            _compare(changes, file, text, document_id, base, logged, config, exported_name, decisions)
    return changes


def _compare(
    changes: PageChanges,
    file: str,
    text: str,
    document_id: str,
    base: LoggedDocument,
    logged: LoggedDocuments,
    config: CollectionConfig,
    exported_name: str,
    decisions: Decisions,
) -> None:
    document = row_to_document(base.row)
    try:
        page = parse_page(text, file, bool(turns_of(document.segments)))
        if page.block.get("document_id") != document_id:
            raise PalimpsestError(f"{file}: is the page of another document; put it back under its own name")
        if len(text) > config.limits.max_chars:
            raise ValueError(f"is longer than {config.limits.max_chars:,} characters; split it")
        edited = edit_document(document, page, config.dates)
        if edited is document:
            changes.unchanged += 1
            return
        row = None if edited is None else storable_row(document_to_row(edited, "", None), config, decisions)
    except PalimpsestError as e:
        changes.problems.append((file, str(e).removeprefix(f"{file}: ")))
        return
    except ValueError as e:
        changes.problems.append((file, str(e)))
        return
    now = logged.current.get(base.key)
    new_id = None if row is None else version_id(exported_name, cast(Mapping[str, Any], row))
    if (now[0] if now else None) == new_id:
        changes.unchanged += 1
    elif not logged.follows(base, document_id):
        changes.problems.append((file, _CHANGED))
    else:
        changes.rows[base.key] = row
        (changes.removed if row is None else changes.edited).append(file)


def storable_row(row: DocumentRow, config: CollectionConfig, decisions: Decisions) -> DocumentRow:
    """Returns what of an edited document may be stored.

    Raises:
        ValueError: the collection refuses it, or it was deleted.
    """
    found = reapply_storage_policy(row, config)
    if found is None:
        raise ValueError(f"holds secrets, which collection {config.name} refuses; take them out")
    kept = Deletions(config.name, decisions).apply(found)
    if kept is None:
        raise ValueError("its document was deleted from this home; remove the page")
    return kept


def write_changes(
    log: IngestLog, logged: LoggedDocuments, changes: Mapping[DocumentKey, DocumentRow | None], now: dt.datetime
) -> None:
    """Writes a new version of each source with an edited or removed document; other documents in it stay."""
    sources: dict[str, dict[DocumentKey, DocumentRow | None]] = {}
    for key, row in changes.items():
        source = logged.current[key][1].source if key in logged.current else None
        source = source or next(d.source for d in logged.by_id.values() if d.key == key)
        sources.setdefault(source, {})[key] = row
    users = {d.row["user_id"] for d in logged.by_id.values()}
    versions = []
    for version in log.versions().to_dicts():
        uri = version["uri"]
        if uri in sources and version["ordinal"] == logged.last_ordinal(uri):
            versions.append(_new_version(log, version, sources[uri], users, now))
    log.add_imported(versions)


def _new_version(
    log: IngestLog,
    version: Mapping[str, Any],
    changed: Mapping[DocumentKey, DocumentRow | None],
    users: set[str],
    now: dt.datetime,
) -> dict[str, object]:
    """Returns the row of the next version of a source, after its texts were written."""
    before = cast(list[DocumentRow], log.rows(version["text_key"]) if version["text_key"] else [])
    rows: list[DocumentRow] = []
    left = dict(changed)
    for row in before:
        place = (row["uri"], row["session_id"], row["project_id"] or "")
        after = left.pop(place) if row["user_id"] in users and place in left else row
        rows += [] if after is None else [after]
    rows += [row for row in left.values() if row is not None]  # removed by an earlier import, and back
    uri, ordinal = version["uri"], version["ordinal"] + 1
    digest = content_id("edited", *(json.dumps(row, sort_keys=True, default=str) for row in rows))
    key = content_id("edited", log.folder.name, uri, ordinal, digest)
    log.write_text(key, rows)
    file = version["unread_hash"] or version["content_hash"]
    instead_of = file if version["instead_of"] is None else version["instead_of"]
    kept = {name: version[name] for name in ("uri", "problems", "not_stored", "left_out", "size_bytes")}
    new = {"content_hash": digest, "ordinal": ordinal, "text_key": key, "seen_at": now, "instead_of": instead_of}
    return kept | new


# Replaces the words of one memory in the document that states it: a new version of that document in the log.

MAX_CHARS = 20_000


@dataclass(frozen=True)
class EditedMemory(JsonRecord):
    """What was edited: the memory as it was, and the uri of its document."""

    memory_id: str
    collection: str
    uri: str
    before: str


def edit_memory(home: Home, scope: ScopeKey, memory_id: str, text: str) -> EditedMemory:
    """Replaces the words that a memory was formed from; the next build retires it and forms the new one.

    What it was stays readable as history; of a memory that is not built yet nothing stays. The file that the
    document was read from is not changed: the edit applies until that file itself changes.

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
    if not any(c.isalnum() for c in text):
        raise ArgumentError("text", "has no words; write a sentence, or delete the memory")
    if len(text) > MAX_CHARS:
        raise ArgumentError("text", f"must have at most {MAX_CHARS:,} characters")
    with home.lock():
        build = published(home)
        row = _find(build, scope, memory_id) if build else None
        for pending in find_pending(home, [memory_id], scope[0], scope[1]) if row is None else ():
            if pending.file is not None:
                return _edit_pending(home, pending, pending.file, text)
            end = pending.start + len(pending.text)
            row = {"document_id": pending.document_id, "unit": "", "char_start": pending.start, "char_end": end}
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
            words = ErasedText.of(place, said, stored["text"][start : start + len(text)])
            for built_id in sorted(stated_first(home, [memory_id], scope[1])):
                append_edited(home.decisions, built_id, words)
            write_changes(log, logged, {base.key: stored}, dt.datetime.now(dt.UTC))
    return EditedMemory(memory_id, scope[0], base.row["uri"], before)


def _edit_pending(home: Home, pending: PendingText, file: InboxFile, text: str) -> EditedMemory:
    config = load_collection(home.sources[file.collection])
    stored = without_secrets(text, config, "text")
    if stored != pending.text:
        rewrite_pending(home, [pending], stored)
    return EditedMemory(pending.memory_id, file.collection, file.uri, pending.text)


def _find(build: Build, scope: ScopeKey, memory_id: str) -> dict[str, Any] | None:
    if scope[0] not in build.collections:
        return None
    memories = build.table(scope[0], "memories").filter(memory_id=memory_id, **dict(zip(SCOPE, scope, strict=True)))
    rows = memories.select("document_id", "unit", "char_start", "char_end").to_dicts()
    return rows[0] if rows else None
