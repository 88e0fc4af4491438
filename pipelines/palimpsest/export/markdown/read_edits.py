"""Finds what was edited or removed in the Markdown pages of an export, and writes it as new versions to the log."""

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import content_id
from palimpsest.export.markdown.edit_document import edit_document
from palimpsest.export.markdown.page import parse_page, turns_of
from palimpsest.memories.documents import version_id
from palimpsest.sources.deletions import Deletions
from palimpsest.sources.extracted import DocumentRow, document_to_row, row_to_document
from palimpsest.sources.storage_policy import reapply_storage_policy
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.decisions import Decisions
from palimpsest.store.ingest_log import IngestLog

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
