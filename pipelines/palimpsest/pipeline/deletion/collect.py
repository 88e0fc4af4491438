"""Collects what a delete must remove everywhere, from the log and every kept build, and what is retained."""

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_bytes
from palimpsest.core.ids import GENERAL
from palimpsest.core.needles import Needles
from palimpsest.pipeline.deletion.proof import Probes, probes_of
from palimpsest.pipeline.deletion.target import MatchedRows, Target, match_rows, pending_path
from palimpsest.pipeline.stages import tables
from palimpsest.query.pending.change import PendingText, find_pending, rewrite_pending
from palimpsest.sources.deletions import ErasedTexts
from palimpsest.sources.discovery import source_files
from palimpsest.sources.extracted import TextRow
from palimpsest.store.builds import Build, kept_builds
from palimpsest.store.collection_config import CollectionConfig, settings_or_none
from palimpsest.store.decisions import ErasedText, read_decisions, tombstone
from palimpsest.store.home import Home
from palimpsest.store.inbox import (
    InboxFile,
    InboxText,
    inbox_files,
    inbox_lock,
    is_inbox_uri,
    read_failures,
    record_failure,
)
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.tables import SCHEMAS
from palimpsest.store.web_pages import (
    WebPage,
    erase_bytes,
    find_page,
    is_web_uri,
    remove_collection,
    remove_page,
    web_lock,
    web_pages,
)

# What of the inbox a delete names, and its removal: files of operations, and why builds failed with them.
#
# The file of an operation goes as soon as anything of it is deleted. What is retained of it is in the log, which a
# build reads where the inbox has no file.

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


def erase_inbox(home: Home, target: Target, sources: Set[tuple[str, str]], pending: Sequence[PendingText] = ()) -> int:
    """Removes the files of sources of which something is deleted; returns how many, and those that it wrote again.

    Args:
        home: the home.
        target: of the delete.
        sources: (collection, uri).
        pending: memories that no build has: what else their files have stays.
    """
    if not home.inbox.is_dir():
        return 0
    removed = rewrite_pending(home, pending)
    with inbox_lock(home.inbox):
        failures = read_failures(home.inbox)
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


# What of the pages of the web a delete names, and the removal of their files.
#
# The files of a page go as soon as anything of it is deleted: raw bytes cannot be deleted in part. What is retained of
# it is in the log, and its record says that a part was deleted, so that no crawl stores it again.


def matched_page(collection: str, page: WebPage, target: Target) -> list[DocumentKey]:
    """Returns the document of a page that a target names as a whole, whether or not a build has read it."""
    if not target.covers(collection) or target.by_memory:
        return []
    record = page.record
    project_id = record.project_id or GENERAL
    row = {"uri": record.uri, "user_id": record.user_id, "session_id": None, "project_id": project_id}
    schema = dict.fromkeys(row, pl.String())
    if target.documents(pl.DataFrame([row], schema=schema)).is_empty():
        return []
    return [(collection, record.user_id, record.uri, None, project_id)]


def erase_pages(home: Home, target: Target, whole: Set[tuple[str, str]], in_part: Set[tuple[str, str]]) -> int:
    """Removes the files of pages of which something is deleted; returns how many.

    Args:
        home: the home.
        target: of the delete.
        whole: (collection, uri) of pages that are deleted.
        in_part: (collection, uri) of pages of which a part is retained.
    """
    if not home.web.is_dir():
        return 0
    removed = 0
    with web_lock(home.web):
        for collection, uri in sorted(whole):
            removed += remove_page(home.web, collection, uri)
        for collection, uri in sorted(in_part - whole):
            removed += erase_bytes(home.web, collection, uri, "expired" if target.expired_at else "memory")
        if target.whole_collection:
            removed += remove_collection(home.web, str(target.collection))
    return removed


_NAME_COLUMNS = ("uri", "title", "session_id", "user_id", "project_id")


@dataclass
class DeletionSet:
    """What is deleted and what is retained, over all builds and the log.

    Attributes:
        ids: of documents, chunks, memories, relations, entities, and hashes of embedded texts.
        lines: lines of the deleted texts.
        names: uris, titles, sessions, speakers, and the user.
        documents: (collection, user, uri, session, project) of documents that are deleted whole.
        memories: ids of deleted memories.
        first_texts: a few of their texts, by id.
        erased: hashes of memories that are deleted from documents that are retained.
        retained: texts and names of what is retained.
        retained_ids: ids of what is retained.
        inbox: (collection, uri) of inbox sources of which something is deleted.
        pending: memories that are deleted from files of the inbox that no build has read.
        pages: (collection, uri) of pages of the web that are deleted whole.
        parted_pages: (collection, uri) of those of which a part is deleted.
    """

    ids: set[str] = field(default_factory=set)
    lines: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    documents: set[tuple[str, str, str, str | None, str | None]] = field(default_factory=set)
    memories: set[str] = field(default_factory=set)
    first_texts: dict[str, str] = field(default_factory=dict)
    erased: set[ErasedText] = field(default_factory=set)
    retained: list[str] = field(default_factory=list)
    retained_ids: set[str] = field(default_factory=set)
    inbox: set[tuple[str, str]] = field(default_factory=set)
    pending: list[PendingText] = field(default_factory=list)
    pages: set[tuple[str, str]] = field(default_factory=set)
    parted_pages: set[tuple[str, str]] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        """Whether the target names nothing."""
        return not self.documents and not self.memories

    def probes(self, earlier: Needles) -> Probes:
        """Returns what must not be found afterwards: what is deleted, without what is also retained."""
        return probes_of(self.ids - self.retained_ids, self.lines, self.names, earlier).without(self.retained)


def collect(home: Home, builds: Sequence[Build], target: Target) -> DeletionSet:
    """Returns what a target names in the builds and the log of a home."""
    found, decisions = DeletionSet(), read_decisions(home.decisions)
    if target.user is not None and not target.by_memory:
        found.names.add(target.user)
    if target.denied:
        found.retained.append(str(target.user))  # the setting that denies the user names the user
    if target.by_memory and target.former:  # a text goes from every build, whatever its document is called there
        matches = (match_rows(build, name, target, decisions) for build in builds for name in build.collections)
        erased = decisions.erased.union(*(rows.erased for rows in matches))
        decisions = replace(decisions, erased=erased)
    for build in builds:
        settings = build.manifest.configs
        for name in build.collections:
            if not (target.whole_collection and target.covers(name)):
                # What collection.yaml names is a setting and is retained: the default user, for one.
                found.retained.append(json.dumps(settings.get(name, {}), ensure_ascii=False))
            matched = match_rows(build, name, target, decisions)
            found.erased |= matched.erased
            _add_matched_rows(found, build, name, matched)
    for name in home.sources:
        _add_log(found, IngestLog(home.log / name), name, target)
    built = {(n, uri) for b in builds for n in b.collections for uri in b.table(n, "documents")["uri"]}
    _add_inbox(found, home, target, built)
    _add_pages(found, home, target)
    return found


def _add_pages(found: DeletionSet, home: Home, target: Target) -> None:
    """Adds pages of the web, those that no build has read included."""
    for collection, _, uri, *_ in [key for key in found.documents if is_web_uri(key[2])]:
        source, _, part = uri.partition("#")
        (found.parted_pages if part else found.pages).add((collection, source))
    for folder in sorted(home.web.glob("*")):
        collection = folder.name
        for page in web_pages(home.web, collection) if folder.is_dir() else ():
            key = (collection, page.record.uri)
            matched = matched_page(collection, page, target)
            found.documents |= set(matched)
            if matched or key in found.pages:
                found.pages.add(key)
                found.names.add(page.record.uri)
            elif key not in found.parted_pages:
                found.retained += [page.record.uri, page.record.user_id, page.record.project_id or ""]
                found.retained += [page.path.read_bytes().decode("utf-8", "ignore")] if page.path.is_file() else []


def _add_inbox(found: DeletionSet, home: Home, target: Target, built: Set[tuple[str, str]]) -> None:
    """Adds what is only in the inbox, and which of its files have something that is deleted.

    Single memories of sources that are `built` were matched there.
    """
    found.inbox |= {(collection, uri) for collection, _, uri, *_ in found.documents if is_inbox_uri(uri)}
    wanted = target.memories - found.memories
    pending = find_pending(home, wanted, target.collection, target.user) if wanted else []
    found.pending = [memory for memory in pending if memory.file is not None]
    parted: dict[tuple[str, str], list[PendingText]] = {}
    for memory in found.pending:
        found.memories.add(memory.memory_id)
        found.first_texts.setdefault(memory.memory_id, memory.text)
        found.lines |= set(memory.text.splitlines())
        found.erased.add(memory.erased)
        assert memory.file is not None
        parted.setdefault((memory.file.collection, memory.file.uri), []).append(memory)
    found.ids |= {memory.memory_id for memory in found.pending}
    for file in inbox_files(home.inbox):
        is_matched_above = target.by_memory and (file.collection, file.uri) in built
        matched = [] if is_matched_above else matched_texts(file, target)
        if matched or (file.collection, file.uri) in found.inbox:
            found.inbox.add((file.collection, file.uri))
            found.documents |= {key for key, _ in matched}
            found.lines |= {line for _, text in matched for line in text.splitlines()}
            found.names |= {name for key, _ in matched for name in (key[2], key[3]) if name}
        else:
            content = file.path.read_bytes().decode("utf-8", "ignore")
            for memory in parted.get((file.collection, file.uri), ()):
                content = memory.replaced(content, "")
            fields = {n: v for n, v in file.fields().items() if n != "text"}
            found.retained += [content, json.dumps(fields, ensure_ascii=False)]


def _add_matched_rows(found: DeletionSet, build: Build, name: str, matched: MatchedRows) -> None:
    documents, memories = matched.documents, matched.memories
    texts = build.table(name, "document_texts")
    other_documents = build.table(name, "documents").join(documents, on="document_id", how="anti")
    other_memories = build.table(name, "memories").join(memories, on="memory_id", how="anti")
    found.documents |= set(_document_keys(documents.with_columns(collection=pl.lit(name))))
    changed = build.table(name, "documents").join(memories, on="document_id", how="semi")
    sources = {(name, uri.partition("#")[0]) for uri in changed["uri"]}
    found.inbox |= {key for key in sources if is_inbox_uri(key[1])}
    found.parted_pages |= {key for key in sources if is_web_uri(key[1])}
    found.memories |= set(memories["memory_id"])
    for memory_id, text in memories.head(5).select("memory_id", "text").iter_rows():
        found.first_texts.setdefault(memory_id, text)
    found.ids |= {*documents["document_id"], *memories["memory_id"], *memories["chunk_ids"].explode().drop_nulls()}
    found.retained_ids |= set(other_memories["memory_id"])
    _add_derived_ids(found, build, name, memories, other_memories)
    found.lines |= {*_lines(memories["text"]), *_lines(texts.join(documents, on="document_id", how="semi")["text"])}
    found.names |= set(_values(documents, _NAME_COLUMNS[:3]))
    if documents.height:
        found.names |= {speaker for speaker in memories["speaker"] if speaker}
    found.retained += _values(other_documents, (*_NAME_COLUMNS, "metadata"))
    found.retained += _values(other_memories, ("text", "heading", "speaker"))
    found.retained += _retained_texts(name, other_documents, texts, matched.erased)


def _add_derived_ids(
    found: DeletionSet, build: Build, name: str, memories: pl.DataFrame, other_memories: pl.DataFrame
) -> None:
    """Adds the ids of what was derived from deleted memories: embedded texts, rows between memories, and entities."""
    deleted_ids = memories["memory_id"].to_list()
    for table in tables():
        if {"memory_id", "text_hash"} <= SCHEMAS[table.name].keys():
            inputs = build.table(name, table.name).filter(pl.col("text_hash").is_not_null())
            found.ids |= set(inputs.join(memories, on="memory_id", how="semi")["text_hash"])
            found.retained_ids |= set(inputs.join(memories, on="memory_id", how="anti")["text_hash"])
        ends = [r.column for r in table.references if r.tables == ("memories",) and not r.may_dangle]
        if len(table.key) == 1 and ends:
            rows = build.table(name, table.name)
            found.ids |= set(rows.filter(pl.any_horizontal(pl.col(ends).is_in(deleted_ids)))[table.key[0]])
    mentions = build.table(name, "mentions")
    mentioned = set(mentions.join(other_memories, on="memory_id", how="semi")["entity_id"])
    found.ids |= set(mentions["entity_id"]) - mentioned
    found.retained_ids |= mentioned


def _retained_texts(name: str, rest: pl.DataFrame, texts: pl.DataFrame, erased: frozenset[ErasedText]) -> Iterator[str]:
    """Yields the texts of retained documents, without the parts that are deleted."""
    rows = rest.join(texts, on="document_id", how="inner")
    erased_texts = ErasedTexts(erased)
    for row in rows.select("user_id", "uri", "session_id", "text", "segments").iter_rows(named=True):
        if not erased:
            yield row["text"]
        elif (removal := erased_texts.remove_from(name, cast(TextRow, row))) is not None:
            yield removal.text


def _add_log(found: DeletionSet, log: IngestLog, name: str, target: Target) -> None:
    """Adds what is only in the log: documents of sources that no kept build has."""
    if not target.covers(name) or target.by_memory:
        return
    for key in log.versions()["text_key"].drop_nulls().unique().sort():
        rows = log.text(key)
        named = target.documents(rows)
        if named.is_empty():
            continue
        found.documents |= set(_document_keys(named.with_columns(collection=pl.lit(name))))
        found.lines |= set(_lines(named["text"]))
        found.names |= set(_values(named, _NAME_COLUMNS[:3]))


def _document_keys(rows: pl.DataFrame) -> Iterator[tuple[str, str, str, str | None, str | None]]:
    yield from rows.select(
        "collection", "user_id", "uri", "session_id", pl.col("project_id").fill_null(GENERAL)
    ).iter_rows()


def _lines(texts: pl.Series) -> Iterator[str]:
    return (line for text in texts.drop_nulls() for line in text.splitlines())


def _values(rows: pl.DataFrame, columns: Iterable[str]) -> Iterator[str]:
    return (value for column in columns for value in rows[column].drop_nulls().unique())


# Folders of collections that lie in the home: what a delete removes there, and which files are sources of a person.


def sources_in_home(home: Home) -> set[Path]:
    """Returns the files that people put into folders of collections in the home: as elsewhere, a delete leaves them."""
    return {path for folder, config in _folders(home).values() for _, path in source_files(folder, config)}


def erase_settings(home: Home, target: Target, probes: Probes) -> None:
    """Removes stated relations of deleted documents, and the folder of a deleted collection that has no sources.

    Args:
        home: the home; the list of its collections still has what is deleted.
        target: what is deleted.
        probes: what must not be found afterwards.
    """
    for name, (folder, config) in _folders(home).items():
        if not target.covers(name):
            continue
        if target.whole_collection and not any(True for _ in source_files(folder, config)):
            shutil.rmtree(folder)
            continue
        path = folder / config.document_relations if config.document_relations else None
        if path is None or not path.is_file():
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        if gone := set(probes.rows_in(lines)):
            write_bytes(path, "".join(f"{line}\n" for i, line in enumerate(lines) if i not in gone).encode())


def _folders(home: Home) -> dict[str, tuple[Path, CollectionConfig]]:
    found = {}
    for name, folder in home.sources.items():
        is_inside = folder.resolve().is_relative_to(home.path.resolve())
        if is_inside and (config := settings_or_none(folder)):
            found[name] = (folder, config)
    return found


# Whether a home has what a delete names, and in which collection a source is.


def check_found(home: Home, target: Target, found: DeletionSet, builds: list[Build]) -> None:
    """Checks that a delete names something that the home has, or that an earlier run of it deleted.

    Raises:
        PalimpsestError: it names nothing; the message lists what there is.
    """
    again = pending_path(home, target).exists() or _was_deleted(home, target)
    if target.memories and (unknown := sorted(target.memories - found.memories)) and not again:
        raise PalimpsestError(
            f"delete: no memory {unknown[0]!r} in home {home.path}; ids are in palimpsest query --json"
        )
    if not found.is_empty or again or (target.whole_collection and target.collection in home.sources):
        return
    if target.document is not None and any(
        (IngestLog(home.log / c).versions()["uri"] == target.document).any() for c in home.sources if target.covers(c)
    ):
        return  # a source that was only ever rejected
    documents = [b.table(c, "documents") for b in builds for c in b.collections]
    for column, value in (("user_id", target.user), ("session_id", target.session), ("project_id", target.project)):
        known = sorted({v for d in documents for v in d[column].drop_nulls()})
        if value is not None and value not in known:
            what = column.removesuffix("_id")
            raise PalimpsestError(f"delete: no {what} {value!r}; there is {', '.join(known[:8]) or 'none'}")
    if target.collection is not None and target.collection not in home.sources:
        raise PalimpsestError(
            f"delete: no collection {target.collection!r}; there is {', '.join(home.sources) or 'none'}"
        )
    raise PalimpsestError(f"delete: nothing in home {home.path} matches; look at palimpsest query --history")


def _was_deleted(home: Home, target: Target) -> bool:
    by_user = target == Target(collection=target.collection, user=target.user)
    by_document = target == Target(collection=target.collection, document=target.document)
    if not (by_user or by_document) or target.whole_collection:
        return False
    return not target.tombstones(pl.DataFrame()).isdisjoint(read_decisions(home.decisions).tombstones)


def collection_of(home: Home, document: str, collection: str | None) -> str:
    """Returns the collection that has a source, or had it before a delete.

    Raises:
        PalimpsestError: no collection has it, or several do.
    """
    names = [c for c in home.sources if collection in (None, c)]
    target = Target(document=document)
    in_log = {c for c in names if (IngestLog(home.log / c).versions()["uri"] == document).any()}
    fetched = {c for c in names if find_page(home.web, c, document) is not None}
    in_builds = {
        c for b in kept_builds(home) for c in b.collections if target.documents(b.table(c, "documents")).height
    }
    matching = sorted(in_log | fetched | (in_builds & set(names)))
    if len(matching) > 1:
        raise PalimpsestError(f"delete: {document} is in {' and '.join(matching)}; add --collection")
    if not matching:
        deleted = read_decisions(home.decisions).tombstones
        known = [c for c in names if tombstone("document", c, document) in deleted]
        if len(known) == 1:
            return known[0]
        raise PalimpsestError(
            f"delete: no source {document!r} in {', '.join(names) or 'this home'}; give its path inside the collection"
        )
    return matching[0]
