"""Imports an export: into collections that the home does not have, or as edits of those it was exported from."""

import datetime as dt
import json
import shutil
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.files import say, write_bytes
from palimpsest.core.ids import JsonObject, content_id
from palimpsest.core.times import parse_time
from palimpsest.export.edit_document import LoggedDocuments, PageChanges, find_changes, write_changes
from palimpsest.export.imported_decisions import read_decided
from palimpsest.export.layout import settings_file
from palimpsest.export.read_export import ExportFolder, open_export
from palimpsest.memories.documents import version_id
from palimpsest.memories.vector_space import BGE_SMALL, MINILM, MULTILINGUAL_E5
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.sources.extracted import DocumentRow
from palimpsest.sources.ingest import Removals
from palimpsest.store.builds import published
from palimpsest.store.collection_config import CollectionConfig, load_collection
from palimpsest.store.decisions import append_rows, read_decisions
from palimpsest.store.home import Home
from palimpsest.store.inbox import InboxFile, inbox_lock
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.proposals import read_proposals, write_proposals
from palimpsest.store.standing_questions import QUESTIONS_FILE, load_standing_questions

# What an import did.


@dataclass
class ImportResult:
    """What an import did; it is filled while it goes on.

    Attributes:
        collections: that were made.
        documents: in them, over all versions.
        decisions: that apply from now on.
        operations: of the inbox.
        edited: pages of which the text or a field was changed.
        removed: pages that are gone, whose documents are retired or deleted.
        unchanged: number of pages.
        problems: (file, reason) of what was left as it is.
    """

    collections: list[str] = field(default_factory=list)
    documents: int = 0
    decisions: int = 0
    operations: int = 0
    edited: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unchanged: int = 0
    problems: list[tuple[str, str]] = field(default_factory=list)

    def to_json(self) -> JsonObject:
        """Returns what `import --json` prints."""
        problems: list[JsonObject] = [{"file": file, "reason": reason} for file, reason in self.problems]
        return {**vars(self), "problems": problems}


# Makes a collection of an export: its folder with settings, and its ingest log with every version.

_RELATIONS_FILE = "document-relations.jsonl"
_PLAIN_EMBEDDERS = (MINILM, BGE_SMALL, MULTILINGUAL_E5)
_OF_ANOTHER_HOME = ("users", "include", "document_relations")
DocumentKey = tuple[str, str | None, str]
"""(uri, session, project): the versions of one document have the same."""


@dataclass(frozen=True)
class NewCollection:
    """A collection of an export that was checked and is not written yet.

    Attributes:
        config: its settings.
        settings: what of them is written.
        relations: lines of its file of relations.
        questions: its standing questions.
        sources: by uri, the versions with their documents.
    """

    config: CollectionConfig
    settings: JsonObject
    relations: list[JsonObject]
    questions: list[JsonObject]
    sources: dict[str, list[tuple[JsonObject, list[DocumentRow]]]]

    @property
    def documents(self) -> int:
        """Number of document versions."""
        return sum(len(rows) for versions in self.sources.values() for _, rows in versions)

    def without(self, keys: Set[DocumentKey]) -> "NewCollection":
        """Returns it without every version of these documents."""
        sources = {
            uri: [(v, [r for r in rows if document_key(r) not in keys]) for v, rows in versions]
            for uri, versions in self.sources.items()
        }
        left = {uri: versions for uri, versions in sources.items() if any(rows for _, rows in versions)}
        return NewCollection(self.config, self.settings, self.relations, self.questions, left)


def document_key(row: Mapping[str, Any]) -> DocumentKey:
    """Returns what the versions of one document share, inside a collection and user."""
    return row["uri"], row["session_id"], row["project_id"] or ""


def read_collection(export: ExportFolder, collection: str, name: str) -> NewCollection:
    """Reads and checks a collection of an export.

    Args:
        export: the export.
        collection: its name there.
        name: its name in this home.

    Raises:
        PalimpsestError: something of it cannot be used; the message names file and field.
    """
    file = settings_file(collection)
    found = cast(dict[str, Any], export.read(file))
    settings = {k: v for k, v in found["settings"].items() if k not in _OF_ANOTHER_HOME}
    settings |= {"name": name, "user_id": export.user}
    if settings.get("embedder") not in (None, *_PLAIN_EMBEDDERS):
        raise PalimpsestError(
            f"{file}: embedder {str(settings['embedder'])[:60]!r} names a model or server of another machine; "
            f"set it to {' or '.join(_PLAIN_EMBEDDERS)}, or remove it"
        )
    if found["relations"]:
        settings["document_relations"] = _RELATIONS_FILE
    try:
        config = CollectionConfig.model_validate(settings)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise PalimpsestError(f"{file}: {where}: {first['msg']}; correct it, or export again") from None
    return NewCollection(config, settings, found["relations"], found["questions"], dict(export.sources(collection)))


def write_collection(home: Home, new: NewCollection) -> Path:
    """Writes the log and the folder of a collection that the home does not have; returns the folder.

    What a stopped import left of it is removed first: the list of the home's collections names it last.
    """
    name = new.config.name
    log, folder = IngestLog(home.log / name), home.path / "collections" / name
    for left in (log.folder, folder):
        shutil.rmtree(left, ignore_errors=True)
    versions: list[dict[str, object]] = []
    for uri, found in sorted(new.sources.items()):
        for version, rows in found:
            digest = content_id("imported", *(json.dumps(row, sort_keys=True, default=str) for row in rows))
            key = content_id("imported", name, uri, str(version["ordinal"]), digest)
            log.write_text(key, rows)
            times = {t: parse_time(version[t]) for t in ("seen_at", "gone_at")}
            row = {"uri": uri, "content_hash": digest, "ordinal": version["ordinal"], "text_key": key, **times}
            versions.append({**row, "problems": [], "left_out": 0, "instead_of": ""})
    if versions:
        log.add_imported(versions)
    if new.relations:
        lines = "".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in new.relations)
        write_bytes(folder / _RELATIONS_FILE, lines.encode())
    if new.questions:
        write_bytes(folder / QUESTIONS_FILE, yaml.safe_dump(new.questions, allow_unicode=True).encode())
        load_standing_questions(folder)
    text = yaml.safe_dump(new.settings, allow_unicode=True, sort_keys=False)
    write_bytes(folder / "collection.yaml", text.encode())
    return folder


def import_export(
    home: Home, folder: Path, *, rename: Mapping[str, str] | None = None, allow_removals: bool = False
) -> ImportResult:
    """Imports an export. A collection that the home has not is made of it; the next build forms its memories.

    In a collection that the home has already, and that has the exported documents, only what was edited or removed in
    the Markdown pages is applied. Everything is checked before anything is written.

    Args:
        home: the home, which is made where it does not exist.
        folder: of the export; its content is not trusted.
        rename: names in this home, by the names in the export.
        allow_removals: apply the removal of more pages than `max_removed` of the collection allows.

    Raises:
        ArgumentError: the folder is no export, a name cannot be used, or the home has another collection of a name.
        PalimpsestError: the export is damaged, or another process is writing the home.
    """
    export = open_export(folder)
    names = _names(export, rename or {})
    export.check_pages()
    home.create()
    with home.lock():
        importer = _Importer(home, export, allow_removals)
        for collection, name in names.items():
            importer.check(collection, name)
        importer.write()
    return importer.result


class _Importer:
    """One import: all checks first, then all writes."""

    def __init__(self, home: Home, export: ExportFolder, allow_removals: bool) -> None:
        self.result = ImportResult()
        self._home, self._export, self._allow = home, export, allow_removals
        self._decisions = read_decisions(home.decisions)
        self._new: dict[str, NewCollection] = {}
        self._existing: dict[str, tuple[CollectionConfig, LoggedDocuments, PageChanges]] = {}
        self._inbox: list[tuple[str, InboxFile]] = []

    def check(self, collection: str, name: str) -> None:
        """Reads a collection of the export and finds what it changes under a name in the home.

        Raises:
            ArgumentError: the home has deleted the user.
        """
        build = published(self._home)
        if self._decisions.hides_document(name, self._export.user, ".imported", None, None):
            raise ArgumentError("user", "was deleted from this home; nothing of this user is stored", self._export.user)
        self._inbox += [(name, file) for file in self._export.inbox(collection)]
        if name in self._home.sources or (build is not None and name in build.collections):
            self._existing[collection] = self._check_existing(collection, name)
        else:
            new = read_collection(self._export, collection, name)
            if new.config.on_removed == "delete":
                new = self._without_removed(collection, new)
            self._new[collection] = new

    def write(self) -> None:
        """Writes what was checked."""
        kept = {c for c, new in self._new.items() if new.config.name == c}
        decisions, proposals = read_decided(self._home, self._export, kept)
        made = {c: write_collection(self._home, new) for c, new in self._new.items()}
        self._home.remember_sources({self._new[c].config.name: folder for c, folder in made.items()})
        for collection, new in self._new.items():
            self.result.collections.append(new.config.name)
            self.result.documents += new.documents
            log = IngestLog(self._home.log / new.config.name)
            logged = LoggedDocuments(log, collection, self._export.user)
            self._apply(new.config, logged, self._find_changes(collection, new.config, logged))
        for config, logged, changes in self._existing.values():
            self._apply(config, logged, changes)
        append_rows(self._home.decisions, decisions)
        if proposals:
            write_proposals(self._home.path, ({**proposals, **read_proposals(self._home.path)}).values())
        self.result.decisions = len(decisions)
        self.result.operations = _copy_inbox(self._home, self._inbox)

    def _check_existing(self, collection: str, name: str) -> tuple[CollectionConfig, LoggedDocuments, PageChanges]:
        if (folder := self._home.folder_of(name)) is None:
            raise PalimpsestError(f"collection {name} of this home has no folder any more; use --rename {name}=NEW")
        config = load_collection(folder)
        logged = LoggedDocuments(IngestLog(self._home.log / name), collection, self._export.user)
        pages = self._export.pages(collection)
        unknown = [i for _, i in pages if i not in logged.by_id]
        known = logged.by_id or any(
            (self._home.inbox / name / f.path.name).exists() for n, f in self._inbox if n == name
        )
        if (unknown and len(unknown) == len(pages)) or not (pages or known):
            raise PalimpsestError(
                f"collection {name}: this home has one already, and it has none of the documents of this export; "
                f"import it under another name with --rename {collection}=NAME, or into another --home"
            )
        return config, logged, self._find_changes(collection, config, logged)

    def _find_changes(self, collection: str, config: CollectionConfig, logged: LoggedDocuments) -> PageChanges:
        pages = ((file, i, self._export.page_text(file)) for file, i in self._export.pages(collection))
        changes = find_changes(pages, logged, config, collection, self._decisions)
        removed, total = len(changes.removed), len(self._export.pages(collection))
        if not self._allow and Removals(removed, total, 0, 0).too_many(config.max_removed):
            raise PalimpsestError(
                f"{config.name}: {removed} of {total} pages are gone (limit {config.max_removed:.0%}); nothing was "
                "changed: put them back, or pass --allow-removals"
            )
        return changes

    def _without_removed(self, collection: str, new: NewCollection) -> NewCollection:
        """Returns a collection without the documents whose page is gone: `on_removed: delete` keeps nothing of them."""
        gone = {i for file, i in self._export.pages(collection) if self._export.page_text(file) is None}
        rows = [row for versions in new.sources.values() for _, rows in versions for row in rows]
        return new.without({document_key(row) for row in rows if _id_of(collection, row) in gone})

    def _apply(self, config: CollectionConfig, logged: LoggedDocuments, changes: PageChanges) -> None:
        """Writes changed documents to the log; those that `on_removed: delete` removes are deleted with a proof."""
        log = IngestLog(self._home.log / config.name)
        gone = [key for key, row in changes.rows.items() if row is None]
        deleted = gone if config.on_removed == "delete" else []
        written = {key: row for key, row in changes.rows.items() if key not in deleted}
        if written:
            write_changes(log, logged, written, dt.datetime.now(dt.UTC))
        for uri, session, project in deleted:
            document = uri if session is None else f"{uri}#{session}"
            delete(
                self._home,
                document=document,
                user=self._export.user,
                collection=config.name,
                project=project or None,
            )
        self.result.edited += changes.edited
        self.result.removed += changes.removed
        self.result.unchanged += changes.unchanged
        self.result.problems += changes.problems
        for file, reason in changes.problems:
            say(f"left as it is: {file}: {reason}")


def _id_of(collection: str, row: Mapping[str, Any]) -> str:
    return version_id(collection, row)


def _names(export: ExportFolder, rename: Mapping[str, str]) -> dict[str, str]:
    """Returns the name of each collection in the home.

    Raises:
        ArgumentError: a name cannot be used.
    """
    if unknown := sorted(set(rename) - set(export.collections)):
        raise ArgumentError(
            "rename", f"the export has no such collection; it has {', '.join(export.collections)}", unknown[0]
        )
    names = {c: rename.get(c, c) for c in export.collections}
    if len(set(names.values())) < len(names):
        raise ArgumentError("rename", "gives two collections one name")
    for name in names.values():
        try:
            CollectionConfig(name=name, description=name)
        except ValueError:
            raise ArgumentError("rename", "a name has letters, digits, _ and - alone, 64 at most", name[:80]) from None
    return names


def _copy_inbox(home: Home, files: list[tuple[str, InboxFile]]) -> int:
    """Copies operations that are not there yet; returns how many."""
    if not files:
        return 0
    copied = 0
    with inbox_lock(home.inbox):
        for name, file in files:
            target = home.inbox / name / file.path.name
            if target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            pairs = [(file.sidecar, target.with_name(file.sidecar.name))] if file.sidecar.is_file() else []
            for source, path in [*pairs, (file.path, target)]:  # a file is never there without its sidecar
                shutil.copyfile(source, path, follow_symlinks=False)
                path.chmod(0o600)
            copied += 1
    return copied
