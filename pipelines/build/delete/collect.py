"""Collects what a delete must leave nowhere, from the log and every kept build, and what legitimately stays."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

import polars as pl

from palimpsest.build.delete.probes import Probes, probes_of
from palimpsest.build.delete.target import Going, Target, going
from palimpsest.core.needles import Needles
from palimpsest.core.scopes import GENERAL
from palimpsest.sources.filters.erased_texts import ErasedTexts
from palimpsest.sources.records.document_row import TextRow
from palimpsest.store.builds import Build
from palimpsest.store.erased_text import ErasedText
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog

_NAMES = ("uri", "title", "session_id", "user_id", "project_id")


@dataclass
class Collected:
    """What goes and what stays, over all builds and the log.

    Attributes:
        ids: of documents, chunks, memories, relations, entities, and hashes of embedded texts.
        lines: lines of the texts that go.
        names: uris, titles, sessions, speakers, and the user.
        documents: (collection, user, uri, session, project) of documents that go whole.
        memories: ids of memories that go.
        first_texts: a few of their texts, by id.
        erased: hashes of memories that go from documents that stay.
    """

    ids: set[str] = field(default_factory=set)
    lines: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    documents: set[tuple[str, str, str, str | None, str | None]] = field(default_factory=set)
    memories: set[str] = field(default_factory=set)
    first_texts: dict[str, str] = field(default_factory=dict)
    erased: set[ErasedText] = field(default_factory=set)
    staying: list[str] = field(default_factory=list)
    staying_ids: set[str] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        """True where the target names nothing."""
        return not self.documents and not self.memories

    def probes(self, earlier: Needles) -> Probes:
        """Returns what must be found nowhere: what goes, less what also stays."""
        return probes_of(self.ids - self.staying_ids, self.lines, self.names, earlier).without(self.staying)


def collect(home: Home, builds: Iterable[Build], target: Target) -> Collected:
    """Returns what a target names in the builds and the log of a home."""
    found = Collected()
    if target.user is not None and not target.by_memory:
        found.names.add(target.user)
    if target.denied:
        found.staying.append(str(target.user))  # the setting that denies the user names the user
    for build in builds:
        settings = build.manifest.configs
        for name in build.collections:
            if not (target.whole_collection and target.covers(name)):
                # What collection.yaml names is a setting, and stays: the default user, for one.
                found.staying.append(json.dumps(settings.get(name, {}), ensure_ascii=False))
            parts = going(build, name, target)
            found.erased |= parts.erased
            _add_build(found, build, name, parts)
    for name in home.sources:
        _add_log(found, IngestLog(home.log / name), name, target)
    return found


def _add_build(found: Collected, build: Build, name: str, parts: Going) -> None:
    documents, memories = build.table(name, "documents"), build.table(name, "memories")
    texts = build.table(name, "document_texts")
    whole, gone = parts.documents, parts.memories
    found.documents |= set(_places(whole.with_columns(collection=pl.lit(name))))
    found.memories |= set(gone["memory_id"])
    for memory_id, text in gone.head(5).select("memory_id", "text").iter_rows():
        found.first_texts.setdefault(memory_id, text)
    found.ids |= set(whole["document_id"]) | set(gone["memory_id"]) | set(gone["chunk_ids"].explode().drop_nulls())
    kept = memories.join(gone, on="memory_id", how="anti")
    found.staying_ids |= set(kept["memory_id"])
    for table in ("embed_inputs", "context_inputs"):
        inputs = build.table(name, table)
        going_inputs = inputs.join(gone, on="memory_id", how="semi")
        found.ids |= set(going_inputs["text_hash"].drop_nulls())
        found.staying_ids |= set(inputs.join(gone, on="memory_id", how="anti")["text_hash"].drop_nulls())
    relations = build.table(name, "relations")
    ends = gone["memory_id"].to_list()
    found.ids |= set(relations.filter(pl.col("newer_id").is_in(ends) | pl.col("older_id").is_in(ends))["relation_id"])
    mentions = build.table(name, "mentions")
    mentioned = set(mentions.join(kept, on="memory_id", how="semi")["entity_id"])
    found.ids |= set(mentions["entity_id"]) - mentioned
    found.staying_ids |= mentioned
    found.lines |= set(_lines(gone["text"])) | set(_lines(texts.join(whole, on="document_id", how="semi")["text"]))
    found.names |= set(_values(whole, _NAMES[:3])) | {n for n in gone["speaker"] if n and whole.height}
    rest = documents.join(whole, on="document_id", how="anti")
    found.staying += [*_values(rest, (*_NAMES, "metadata")), *_values(kept, ("text", "heading", "speaker"))]
    found.staying += _rest_of_texts(name, rest, texts, parts.erased)


def _rest_of_texts(name: str, rest: pl.DataFrame, texts: pl.DataFrame, erased: frozenset[ErasedText]) -> Iterator[str]:
    """Yields the texts of documents that stay, without what goes of them."""
    rows = rest.join(texts, on="document_id", how="inner")
    erased_texts = ErasedTexts(erased)
    for row in rows.select("user_id", "uri", "session_id", "text", "segments").iter_rows(named=True):
        if not erased:
            yield row["text"]
        elif (removal := erased_texts.remove_from(name, cast(TextRow, row))) is not None:
            yield removal.text


def _add_log(found: Collected, log: IngestLog, name: str, target: Target) -> None:
    """Adds what only the log holds: documents of sources that no kept build shows."""
    if not target.covers(name) or target.by_memory:
        return
    for key in log.versions()["text_key"].drop_nulls().unique().sort():
        rows = log.text(key)
        named = target.documents(rows)
        if named.is_empty():
            continue
        found.documents |= set(_places(named.with_columns(collection=pl.lit(name))))
        found.lines |= set(_lines(named["text"]))
        found.names |= set(_values(named, _NAMES[:3]))


def _places(rows: pl.DataFrame) -> Iterator[tuple[str, str, str, str | None, str | None]]:
    yield from rows.select(
        "collection", "user_id", "uri", "session_id", pl.col("project_id").fill_null(GENERAL)
    ).iter_rows()


def _lines(texts: pl.Series) -> Iterator[str]:
    return (line for text in texts.drop_nulls() for line in text.splitlines())


def _values(rows: pl.DataFrame, columns: Iterable[str]) -> Iterator[str]:
    return (value for column in columns for value in rows[column].drop_nulls().unique())
