"""Writes all that a home holds on one user to a folder: whole or not at all, private to its owner."""

import datetime as dt
import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Set
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import polars as pl

from palimpsest.core.errors import ArgumentError, PalimpsestError, Rejected
from palimpsest.core.ids import GENERAL, JsonObject, JsonValue, entity_id
from palimpsest.export import layout
from palimpsest.export.export_schema import export_schema, exported_tables
from palimpsest.export.layout import ORIGINALS, safe_path
from palimpsest.export.write_pages import current_rows, write_pages
from palimpsest.memories.document_relations import relations_of_file
from palimpsest.query.profile import ProfileLine
from palimpsest.query.reader import open_index
from palimpsest.query.standing import read_stored
from palimpsest.sources.discovery import SourceFile, scan_sources
from palimpsest.sources.extracted import DocumentRow, Scope, row_to_document
from palimpsest.sources.worker_pool import read_sources
from palimpsest.store.builds import Build, published
from palimpsest.store.collection_config import CollectionConfig, load_collection
from palimpsest.store.decisions import (
    MEMORY_KINDS,
    NAME_KINDS,
    RELATION_KINDS,
    Decisions,
    decision_lines,
    names_target,
    parse_line,
    read_decisions,
)
from palimpsest.store.embeddings import DEFAULT_EMBEDDER, embedder_of
from palimpsest.store.graph_decisions import GRAPH_KINDS
from palimpsest.store.home import Home
from palimpsest.store.inbox import SIDECAR_SUFFIX, InboxFile, inbox_files, is_inbox_uri, is_of_user
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.proposals import read_proposals
from palimpsest.store.standing_questions import load_standing_questions
from palimpsest.store.usage_log import reads_of
from palimpsest.store.web_pages import is_web_uri, web_pages
from palimpsest.text.words import fold

# What a home holds of one user in tables and files: rows of a build, usage, answers of a language model, decisions.

_ANSWERS = "SELECT newer_id, older_id, program, model, answer FROM answers ORDER BY key"


def tables_of_user(build: Build, collection: str, user: str) -> dict[str, pl.DataFrame]:
    """Returns the rows of a user in every table of a collection that has scopes, and the texts of their documents."""
    found = {}
    for name in exported_tables():
        rows = build.table(collection, name)
        if "user_id" in rows.columns:
            found[name] = rows.filter(pl.col("user_id") == user)
    texts = build.table(collection, "document_texts")
    return found | {"document_texts": texts.join(found["documents"], on="document_id", how="semi")}


def usage_of(home: Home, collection: str, memory_ids: Set[str]) -> Iterator[JsonObject]:
    """Yields how often each memory was a result of a search, and the minute of the last one; sorted by id."""
    for memory_id, (reads, last) in sorted(reads_of(home.path, memory_ids).items()):
        when = dt.datetime.fromtimestamp(last, dt.UTC).isoformat()
        yield {"memory_id": memory_id, "collection": collection, "reads": reads, "last_read": when}


def answers_about(home: Home, ids: Set[str]) -> list[JsonObject]:
    """Returns the stored answers of a language model that are about these memories or documents.

    The ledger names an answer about a pair by both memories, and one about a session by the part of its document that
    was read (`<document id>:<turn>`) and by the ids that it rests on, joined by spaces.
    """
    if not home.lm_ledger.exists():
        return []
    with closing(sqlite3.connect(f"{home.lm_ledger.resolve().as_uri()}?mode=ro", uri=True)) as ledger:
        rows = ledger.execute(_ANSWERS)
        names = [column[0] for column in rows.description]
        return [dict(zip(names, row, strict=True)) for row in rows if not ids.isdisjoint(_named_ids(row[0], row[1]))]


def _named_ids(newer: str, older: str) -> set[str]:
    return {newer.partition(":")[0], *older.split()}


def decisions_of(path: Path, tables: Mapping[str, Mapping[str, pl.DataFrame]], user: str) -> list[JsonObject]:
    """Returns the lines of the decisions file about a user's memories, relations, names and graph, in their order.

    A line about two names has the names' keys, in place of the hashes that the file has: whoever imports it computes
    the hashes again, so that a line is never about another scope. Tombstones are hashes of what is not stored any more.

    Args:
        path: the decisions file.
        tables: by collection, the user's rows.
        user: the user.
    """
    relations = {i for frames in tables.values() for i in frames["relations"]["relation_id"]}
    memories = {i for frames in tables.values() for i in frames["memories"]["memory_id"]}
    names = {target: keys for c, frames in tables.items() for target, keys in _name_keys(c, frames["surfaces"])}
    found: list[JsonObject] = []
    for line in decision_lines(path):
        row: JsonObject = parse_line(line)
        kind, target = row["kind"], str(row["target"])
        if kind in RELATION_KINDS:
            is_theirs = target in relations or {row.get("newer_id"), row.get("older_id")} <= memories
            found += [row] if is_theirs else []
        elif kind in MEMORY_KINDS:
            found += [row] if row.get("memory_id") in memories else []
        elif kind in NAME_KINDS and set(target.split("+")) <= names.keys():
            a, b = (names[i] for i in target.split("+"))
            found.append({"kind": kind, "at": row["at"], "scope": list(a[:3]), "names": [a[3], b[3]]})
        elif kind in GRAPH_KINDS and row.get("user_id") == user and row.get("collection") in tables:
            found.append(row)
    return found


def proposals_of(home: Home, collections: Collection[str], user: str) -> list[JsonObject]:
    """Returns the proposals of consolidation about a user's memories, by id."""
    known = read_proposals(home.path).values()
    return [p.to_json() for p in known if p.scope[0] in collections and p.scope[1] == user]


def _name_keys(collection: str, surfaces: pl.DataFrame) -> Iterator[tuple[str, tuple[str, str, str, str]]]:
    rows = surfaces.select("user_id", "project_id", "key").unique().sort(pl.all())
    for user_id, project_id, key in rows.iter_rows():
        yield entity_id(collection, user_id, project_id, key), (collection, user_id, project_id, key)


def name_decision_target(scope: tuple[str, str, str], a: str, b: str) -> str:
    """Returns the target of a decision about two names of a scope, as the decisions file has it."""
    return names_target(entity_id(*scope, a), entity_id(*scope, b))


def count_rows(tables: Mapping[str, Mapping[str, pl.DataFrame]]) -> dict[str, int]:
    """Returns how many rows of each table there are, over all collections."""
    counts: Counter[str] = Counter()
    for frames in tables.values():
        counts.update({name: rows.height for name, rows in frames.items()})
    return dict(sorted(counts.items()))


# The files that a user's documents were read from, where they hold nothing but what is stored of that user.


@dataclass(frozen=True)
class Originals:
    """What is in the folder of originals, and what is not, each with its collection and uri."""

    copied: list[JsonObject]
    left_out: list[JsonObject]


def copy_originals(
    out: Path,
    config: CollectionConfig,
    log: IngestLog,
    files: Mapping[str, SourceFile],
    decisions: Decisions,
    user: str,
) -> Originals:
    """Copies the current file of each source of a user.

    Args:
        out: folder of the export.
        config: of the collection.
        log: its log.
        files: its files by uri, as they are now.
        decisions: where anything was deleted, files are read again: one may still have what the log has not.
        user: the user.
    """
    found = Originals([], [])
    taken: set[str] = set()
    rows: dict[str, Mapping[str, object]] = {}
    reasons: dict[str, str] = {}
    for row in log.current().filter(pl.col("text_key").is_not_null()).iter_rows(named=True):
        texts = log.text(row["text_key"])
        if user in texts["user_id"]:
            rows[row["uri"]] = row
            reasons[row["uri"]] = _why_not(row, texts, files.get(row["uri"]), user)
    if decisions.tombstones or decisions.erased:
        wanted = [uri for uri, reason in reasons.items() if not reason]
        reasons |= dict(_with_more_than_the_log(wanted, config, log, rows, files))
    for uri, reason in sorted(reasons.items()):
        if reason:
            found.left_out.append({"collection": config.name, "uri": uri, "reason": reason})
            continue
        name = f"{ORIGINALS}/{config.name}/{safe_path([uri], taken)}"
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(files[uri].path, out / name)
        found.copied.append({"file": name, "collection": config.name, "uri": uri})
    return found


def _why_not(row: Mapping[str, object], texts: pl.DataFrame, file: SourceFile | None, user: str) -> str:
    """Returns why a file is not copied; empty where it is."""
    if set(texts["user_id"]) != {user}:
        return "the file has texts of other users too"
    if is_inbox_uri(str(row["uri"])):
        return "it was sent to the inbox; its text is in sources.json"
    if is_web_uri(str(row["uri"])):
        return "it was read from the web; its text is in sources.json"
    if row["instead_of"] is not None or file is None or not file.path.is_file():
        return "it was imported, or the file is gone"
    if file.content_hash != row["content_hash"]:
        return "the file changed since it was read"
    if row["not_stored"] or row["left_out"] or any(r not in (None, "[]") for r in texts["redactions"]):
        return "parts of the file are not stored, or are redacted"
    return ""


def _with_more_than_the_log(
    uris: list[str],
    config: CollectionConfig,
    log: IngestLog,
    rows: Mapping[str, Mapping[str, object]],
    files: Mapping[str, SourceFile],
) -> Iterator[tuple[str, str]]:
    """Yields the sources whose file has a text that the log does not have, with the reason to leave them out."""
    defaults = Scope(config.user_id, config.project_id)
    items = ((files[uri].path, uri) for uri in uris)
    for uri, result in read_sources(items, config.limits, dates=config.dates, defaults=defaults):
        logged = set(log.text(str(rows[uri]["text_key"])).select("uri", "session_id", "text").iter_rows())
        if isinstance(result, Rejected) or any((d.uri, d.session_id, d.text) not in logged for d in result.documents):
            yield uri, "something of the file was deleted"


# What a build knows of one user beyond its tables: the profile, and the answers to standing questions.


class HeldProfile(NamedTuple):
    """Lines of a profile, newest first, and answers to standing questions, by collection and question."""

    lines: tuple[ProfileLine, ...]
    standing: list[JsonObject]

    def rows(self) -> list[JsonObject]:
        """Returns the lines as JSON values."""
        return [line.to_json() for line in self.lines]

    def page(self, user: str) -> str:
        """Returns the profile as a Markdown page; empty where nothing is known."""
        if not self.lines:
            return ""
        page = [f"# What is known of {user}", "", "It follows from the documents beside; an edit here changes nothing."]
        for title, section in (("Lasting", "static"), ("Recent", "dynamic")):
            lines = [f"- {line.cited}" for line in self.lines if line.section == section]
            page += ["", f"## {title}", "", *lines] if lines else []
        return "\n".join(page) + "\n"


def profile_of(build: Build, user: str, collections: Collection[str]) -> HeldProfile:
    """Returns the profile of a user in some collections, hidden and personal memories included.

    Raises:
        PalimpsestError: the build has no index that can be read.
    """
    with open_index(build.index) as reader:
        scopes = [s for s in reader.scopes() if s.user_id == user and s.collection in collections]
        lines = reader.profile(scopes, include_hidden=True, include_pii=True).lines if scopes else ()
    stored = [a for a in read_stored(build.path).values() if a.user_id == user and a.collection in collections]
    standing: list[JsonObject] = [asdict(a) for a in sorted(stored, key=lambda a: a.key)]
    return HeldProfile(lines, standing)


# Every version of every source that the ingest log holds of one user, and the settings that it was read with.

_OF_THE_HOME = {"users", "include", "document_relations", "embedder"}
"""Settings that name other users, or files and folders of this machine; what applies of them is written apart."""


def sources_of_user(log: IngestLog, user: str) -> list[JsonObject]:
    """Returns the sources of which some version has a document of the user, with their versions, by uri.

    Versions without one stay, empty: they retire what was there before. The hash of a file and the problems of its
    other parts are not the user's, and are left out.
    """
    sources: list[JsonObject] = []
    for (uri,), rows in log.versions().sort("uri", "ordinal").group_by("uri", maintain_order=True):
        versions = [_version(log, row, user) for row in rows.to_dicts()]
        if any(version["documents"] for version in versions):
            sources.append({"uri": str(uri), "versions": cast(list[JsonValue], versions)})
    return sources


def _version(log: IngestLog, row: Mapping[str, Any], user: str) -> JsonObject:
    texts = log.rows(row["text_key"]) if row["text_key"] else []
    documents: list[JsonValue] = [
        document_to_json(cast(DocumentRow, text)) for text in texts if text["user_id"] == user
    ]
    times = {name: None if row[name] is None else row[name].isoformat() for name in ("seen_at", "gone_at")}
    return {"ordinal": row["ordinal"], **times, "documents": documents}


def document_to_json(row: DocumentRow) -> JsonObject:
    """Returns a document of the log as an export has it."""
    redactions: JsonValue = json.loads(row["redactions"]) if row["redactions"] else None
    return {**row_to_document(row).to_json(), "redactions": redactions}


def settings_of_user(
    config: CollectionConfig, folder: Path | None, user: str, uris: Mapping[str, set[str]], embedder: str | None
) -> JsonObject:
    """Returns what an import needs of a collection's settings: nothing that names another user or this machine.

    Args:
        config: of the collection.
        folder: of the collection; None where it is gone.
        user: becomes the default user of the import.
        uris: of the user's documents, by project.
        embedder: what the collection is searched with, where it is not the default.
    """
    settings: JsonObject = config.model_dump(mode="json", exclude_defaults=True, exclude=_OF_THE_HOME)
    settings |= {"name": config.name, "description": config.description, "user_id": user}
    if embedder:
        settings["embedder"] = embedder
    relations: list[JsonValue] = []
    questions: list[JsonValue] = []
    if folder is not None and folder.is_dir():
        relations = list(_relations(config, folder, user, uris.get(config.project_id or GENERAL, set())))
        loaded = load_standing_questions(folder)
        questions = [q.model_dump(mode="json") for q in loaded if q.user in (None, user)]
    return {"settings": settings, "relations": relations, "questions": questions}


def without_other_speakers(config: CollectionConfig, speakers: set[str]) -> CollectionConfig:
    """Returns the settings in which `trust` names nobody but those who speak to the user."""
    known = {fold(name) for name in speakers}
    trust = {name: value for name, value in config.trust.speakers.items() if name in known}
    return config.model_copy(update={"trust": config.trust.model_copy(update={"speakers": trust})})


def _relations(config: CollectionConfig, folder: Path, user: str, uris: set[str]) -> Iterator[JsonObject]:
    """Yields the stated relations of the user's documents: a collection's file is about its own user and project."""
    if user != config.user_id:
        return
    for newer, older, label in relations_of_file(uris, config, folder):
        if {newer, older} <= uris:
            yield {"newer": newer, "older": older, "label": label}


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
