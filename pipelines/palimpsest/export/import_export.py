"""Imports an export: into collections that the home does not have, or as edits of those it was exported from."""

import datetime as dt
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palimpsest.build.delete import delete
from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.progress import say
from palimpsest.export.import_result import ImportResult
from palimpsest.export.imported_decisions import read_decided
from palimpsest.export.markdown.read_edits import LoggedDocuments, PageChanges, find_changes, write_changes
from palimpsest.export.new_collection import NewCollection, document_key, read_collection, write_collection
from palimpsest.export.read_export import ExportFolder, open_export
from palimpsest.memories.documents import version_id
from palimpsest.sources.removals import Removals
from palimpsest.store.builds import published
from palimpsest.store.collection_config import CollectionConfig, load_collection
from palimpsest.store.decisions import append_rows, read_decisions
from palimpsest.store.home import Home
from palimpsest.store.inbox import InboxFile, inbox_lock
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.proposals import read_proposals, write_proposals


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
