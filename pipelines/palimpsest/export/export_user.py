"""Writes all that a home holds on one user to a folder: whole or not at all, private to its owner."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import polars as pl

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.json_types import JsonObject
from palimpsest.export import layout
from palimpsest.export.export_schema import export_schema
from palimpsest.export.markdown.write_pages import current_rows, write_pages
from palimpsest.export.originals import copy_originals
from palimpsest.export.user_profile import profile_of
from palimpsest.export.user_rows import answers_about, count_rows, decisions_of, proposals_of, tables_of_user, usage_of
from palimpsest.export.user_sources import settings_of_user, sources_of_user, without_other_speakers
from palimpsest.sources.discovery import scan_sources
from palimpsest.store.builds import Build, published
from palimpsest.store.collection_config import CollectionConfig, load_collection
from palimpsest.store.decisions import read_decisions
from palimpsest.store.embedder_setting import DEFAULT_EMBEDDER, embedder_of
from palimpsest.store.home import Home
from palimpsest.store.inbox import SIDECAR_SUFFIX, InboxFile, inbox_files, is_of_user
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.web_pages import web_pages

_README = """\
# All that is stored about {user}

| file or folder | contains |
|---|---|
| `markdown/` | documents and conversations as pages; `palimpsest import` applies an edit, or the removal of a page |
| `originals/` | the files that they were read from, where these hold nothing else |
| `collections/*/sources.json` | every version of every text, with its times |
| `collections/*/tables/` | what was derived: memories, versions, relations, entities, facts, notes |
| `profile.json`, `standing.json` | the profile, and what was found for standing questions |
| `decisions.json`, `proposals.json` | decisions of people, proposals of consolidation |
| `usage.json`, `answers.json` | reads, answers of language models |
| `inbox/` | what was sent and is not built yet |
| `export.json`, `schema.json` | the contents, and the JSON Schema of the JSON files |

It has everything, also what is marked hidden or personal: keep it private.
"""


@dataclass(frozen=True)
class ExportResult:
    """What was exported: rows by table, files by kind, and the originals that were left out, with the reason."""

    out: Path
    counts: Mapping[str, int]
    left_out: tuple[JsonObject, ...]

    def to_json(self) -> JsonObject:
        """Returns what `export --json` prints."""
        counts = {"memories": self.counts["memories"], "documents": self.counts["documents"]}
        return {**counts, "counts": dict(self.counts), "left_out": list(self.left_out), "out": str(self.out)}


def export_user(home: Home, user: str, out: Path, collection: str | None = None) -> ExportResult:
    """Exports what a home holds on a user.

    Args:
        home: the home; no build may be writing it.
        user: the user.
        out: a folder that is made; it must not exist, or be empty.
        collection: only of this collection.

    Raises:
        ArgumentError: the home has nothing of the user or no such collection, or `out` has something already.
        PalimpsestError: nothing is published, or another process is writing the home.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ArgumentError("out", "exists and is not empty; name a new folder", str(out))
    if out.resolve().is_relative_to(home.path.resolve()):
        raise ArgumentError("out", "lies inside the home; name a folder elsewhere", str(out))
    aside = out.absolute().with_name(f".{out.name}.{os.getpid()}.tmp")
    with home.lock():
        build = published(home)
        if build is None:
            raise PalimpsestError(f"home {home.path}: nothing was published yet; run palimpsest build")
        try:
            aside.mkdir(parents=True, mode=0o700)
            result = _Exporter(home, build, user, aside).write(collection)
            if out.exists():
                out.rmdir()
            aside.rename(out)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return ExportResult(out, result.counts, result.left_out)


class _Exporter:
    """Writes one export."""

    def __init__(self, home: Home, build: Build, user: str, out: Path) -> None:
        self._home, self._build, self._user, self._out = home, build, user, out
        self._decisions = read_decisions(home.decisions)
        self._tables: dict[str, dict[str, pl.DataFrame]] = {}
        self._pages: list[JsonObject] = []
        self._originals: list[JsonObject] = []
        self._left_out: list[JsonObject] = []

    def write(self, only: str | None) -> ExportResult:
        names = sorted({*self._build.collections, *self._home.sources})
        if only is not None and only not in names:
            raise ArgumentError("collection", f"not in this home; it has: {', '.join(names) or 'none'}", only)
        pending = self._pending(only)
        for name in names if only is None else [only]:
            tables = tables_of_user(self._build, name, self._user)
            log = IngestLog(self._home.log / name)
            sources = sources_of_user(log, self._user)
            if sources or not tables["documents"].is_empty() or any(file.collection == name for file in pending):
                self._tables[name] = tables
                self._write_collection(name, log, sources)
        if not self._tables:
            where = f"collection {only}" if only else f"home {self._home.path}"
            raise ArgumentError("user", f"{where} has nothing of this user; palimpsest scopes lists users", self._user)
        self._copy_inbox(pending)
        self._left_out += self._unread_pages(only)
        counts = self._write_rest()
        counts |= {"pages": len(self._pages), "originals": len(self._originals), "pending": len(pending)}
        manifest: dict[str, object] = {
            "format": layout.FORMAT,
            "user_id": self._user,
            "build_id": self._build.build_id,
            "built_at": self._build.manifest.created_at,
            "collections": sorted(self._tables),
            "counts": counts,
            "markdown": self._pages,
            "originals": self._originals,
            "left_out": self._left_out,
        }
        layout.write_object(self._out, layout.MANIFEST, cast(JsonObject, manifest))
        layout.write_object(self._out, layout.SCHEMA, export_schema())
        (self._out / "README.md").write_text(_README.format(user=self._user), encoding="utf-8")
        return ExportResult(self._out, counts, tuple(self._left_out))

    def _write_collection(self, name: str, log: IngestLog, sources: list[JsonObject]) -> None:
        folder = self._home.folder_of(name)
        config = load_collection(folder) if folder else self._config_of_build(name)
        layout.write_rows(self._out, layout.sources_file(name), sources)
        layout.write_object(self._out, layout.settings_file(name), self._settings(name, config, folder))
        for table, frame in self._tables[name].items():
            layout.write_rows(self._out, layout.table_file(name, table), frame.iter_rows(named=True))
        rows = current_rows(log, name, self._user)
        self._pages += write_pages(self._out, name, self._tables[name], rows)
        files = scan_sources(folder, config, self._decisions) if folder else {}
        originals = copy_originals(self._out, config, log, files, self._decisions, self._user)
        self._originals += originals.copied
        self._left_out += originals.left_out

    def _settings(self, name: str, config: CollectionConfig, folder: Path | None) -> JsonObject:
        documents, chunks = self._tables[name]["documents"], self._tables[name]["chunks"]
        uris: dict[str, set[str]] = {}
        for project, uri in documents.select("project_id", "uri").iter_rows():
            uris.setdefault(project, set()).add(uri)
        embedder = embedder_of(self._home, config, folder)
        named = None if embedder == DEFAULT_EMBEDDER else embedder
        config = without_other_speakers(config, set(chunks["speaker"].drop_nulls()))
        return settings_of_user(config, folder, self._user, uris, named)

    def _config_of_build(self, name: str) -> CollectionConfig:
        return self._build.config_of(name) or CollectionConfig(name=name, description=name)

    def _pending(self, only: str | None) -> list[InboxFile]:
        """Returns what was sent for the user and is not read yet."""
        read = {name: set(IngestLog(self._home.log / name).on_disk()["uri"]) for name in self._home.sources}
        files = inbox_files(self._home.inbox, only)
        return [f for f in files if is_of_user(f.uri, self._user) and f.uri not in read.get(f.collection, set())]

    def _unread_pages(self, only: str | None) -> list[JsonObject]:
        """Returns the pages of the web of the user that no build has read, with the reason why they are left out."""
        why = "it was fetched from the web and is not built yet; run palimpsest build, then export again"
        found: list[JsonObject] = []
        for name in self._home.sources:
            if only in (None, name):
                read = set(IngestLog(self._home.log / name).on_disk()["uri"])
                pages = [page.record for page in web_pages(self._home.web, name)]
                unread = [r.uri for r in pages if r.user_id == self._user and r.uri not in read]
                found += [{"collection": name, "uri": uri, "reason": why} for uri in unread]
        return found

    def _copy_inbox(self, files: list[InboxFile]) -> None:
        for file in files:
            target = self._out / layout.INBOX / file.collection / file.path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.path, target)
            if file.sidecar.is_file():
                shutil.copyfile(file.sidecar, target.with_name(target.name + SIDECAR_SUFFIX))

    def _write_rest(self) -> dict[str, int]:
        """Writes what is of the whole home; returns the number of rows by table and file."""
        reads: list[JsonObject] = []
        ids: set[str] = set()
        for name, tables in self._tables.items():
            memories = set(tables["memories"]["memory_id"])
            reads += usage_of(self._home, name, memories)
            ids |= memories | set(tables["documents"]["document_id"])
        answers = answers_about(self._home, ids)
        decisions = decisions_of(self._home.decisions, self._tables, self._user)
        profile = profile_of(self._build, self._user, self._tables.keys())
        if page := profile.page(self._user):
            path = self._out / layout.PROFILE_PAGE
            path.parent.mkdir(exist_ok=True)
            path.write_text(page, encoding="utf-8")
        files = {
            layout.USAGE: reads,
            layout.ANSWERS: answers,
            layout.DECISIONS: decisions,
            layout.PROPOSALS: proposals_of(self._home, self._tables.keys(), self._user),
            layout.PROFILE: profile.rows(),
            layout.STANDING: profile.standing,
        }
        for name, rows in files.items():
            layout.write_rows(self._out, name, rows)
        counts = {"memories": 0, "documents": 0, **count_rows(self._tables)}
        return counts | {name.removesuffix(".json"): len(rows) for name, rows in files.items()}
