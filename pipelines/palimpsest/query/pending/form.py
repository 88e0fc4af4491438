"""Forms memories of what a build has not read, by the build's own steps, and relates them to those it has.

Reading, the ids of memories, what is embedded, candidate pairs, labels and versions are those of a build. Nothing is
kept: the index of the pending memories is a file only until it is open, in memory where the system has a place there.
"""

import datetime as dt
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from palimpsest.core.files import quietly
from palimpsest.core.ids import SCOPE
from palimpsest.index.graph_tables import linking_relations
from palimpsest.index.write_index import write_index
from palimpsest.memories.chunks import chunk_table
from palimpsest.memories.documents import document_tables
from palimpsest.memories.embedders import (
    collection_spaces,
    configured_space,
    load_batch_embedder,
    memory_vectors,
    minilm_space,
)
from palimpsest.memories.form import form_memories
from palimpsest.memories.formed import stated_memories
from palimpsest.memories.languages import memory_languages
from palimpsest.memories.vector_space import IndexedSpace, Space
from palimpsest.memories.version_reasons import version_reasons
from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.embed_query import query_embedder
from palimpsest.query.pending.unbuilt import UnbuiltFiles
from palimpsest.query.request.types import Scope
from palimpsest.query.scope.joined_view import PendingChanges
from palimpsest.relations.candidates import CandidateInputs, candidate_pairs, change_vectors, load_maps
from palimpsest.relations.labelers.choose_labeler import PROBE_PAIRS
from palimpsest.relations.labelers.label_pairs import label_pairs
from palimpsest.relations.labelers.label_types import DISPUTED
from palimpsest.relations.labelers.offline_labeler import offline_labeler
from palimpsest.relations.versions import versions
from palimpsest.sources.discovery import hash_source
from palimpsest.sources.ingest import IngestRules, read_inbox_file
from palimpsest.sources.readers.registry import formats_by_suffix
from palimpsest.store.builds import Build
from palimpsest.store.collection_config import CollectionConfig, settings_or_none
from palimpsest.store.decisions import Decisions, read_decisions
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog, UnloggedSources
from palimpsest.store.tables import empty
from palimpsest.text.languages import detect_language

_CACHE_BYTES = 64 * 2**20
_FEW = 4
_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 (a file there is in memory, and this one is named by no one else)


@dataclass(frozen=True)
class PendingMemories:
    """The pending memories of a user in a collection.

    Attributes:
        store: of them alone, as a build's index has them.
        changes: what they change of the built memories, by scope.
        ids: of them, by scope.
        read: what was extracted of each file, by its key; it is not read again.
        relations: their labels; they are not labelled again.
        labelled: ids of the memories whose pairs are labelled.
        sources: uris of what they were formed of; a file whose memories are all hidden is none of these.
    """

    store: DuckDBBackend
    changes: Mapping[Scope, PendingChanges]
    ids: Mapping[Scope, frozenset[str]]
    read: Mapping[tuple[str, int], Sequence[Mapping[str, object]]]
    relations: pl.DataFrame
    labelled: frozenset[str]
    sources: frozenset[str]

    @property
    def is_labelled(self) -> bool:
        """Whether all are labelled: of many that came at once some are found before it is known what they change."""
        return all(ids <= self.labelled for ids in self.ids.values())


@dataclass
class TextVectors:
    """Vectors of texts, by the name of the space and the hash of the text."""

    known: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)

    def add(self, space: Space, inputs: pl.DataFrame) -> None:
        """Embeds the texts of `embed_inputs` that have no vector yet."""
        texts = dict(inputs.select("text_hash", "text").iter_rows())
        missing = sorted(h for h in texts if (space.name, h) not in self.known)
        if not missing:
            return
        vectors = load_batch_embedder(space).encode([texts[h] for h in missing])
        self.known |= {(space.name, h): v for h, v in zip(missing, vectors, strict=True)}

    def of(self, space: Space, hashes: Sequence[str]) -> np.ndarray:
        """Returns vectors of a space, shape (n, dimensions) float32; see `VectorLookup`."""
        found = [self.known[space.name, h] for h in hashes]
        return np.stack(found) if found else np.zeros((0, space.dimensions), np.float32)


@dataclass(frozen=True)
class BuiltMemories:
    """The stated memories that a build has of a user in a collection, with what candidates are found by.

    Before the first build, `build` is None and there are none.
    """

    home: Home
    build: Build | None
    collection: str
    user: str

    @cached_property
    def inputs(self) -> CandidateInputs:
        """The tables that candidate pairs depend on."""
        mine = stated_memories(self._table("memories").filter(pl.col("user_id") == self.user))
        inputs, mentions = (self._table(t).join(mine, on="memory_id", how="semi") for t in ("embed_inputs", "mentions"))
        documents = self._table("documents").filter(pl.col("user_id") == self.user)
        return CandidateInputs(mine, inputs, mentions, documents)

    @cached_property
    def vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """Vectors of the memories as newer and as older ones, in the order of the rows."""
        memories, inputs = self.inputs.memories, self.inputs.embed_inputs
        try:
            found = memory_vectors(self.home, memories, inputs)
        except KeyError:  # a home that is only served may have no stores of vectors
            vectors, space = TextVectors(), minilm_space()
            vectors.add(space, inputs)
            found = _means(memories, inputs, space, vectors)
        return change_vectors(found)

    @cached_property
    def versions(self) -> pl.DataFrame:
        """The versions of the memories."""
        return self._table("versions").join(self.inputs.memories, on="memory_id", how="semi")

    def _table(self, name: str) -> pl.DataFrame:
        return self.build.table(self.collection, name) if self.build is not None else empty(name)


def load_models() -> None:
    """Loads what forms and labels, for as long as the process runs."""
    query_embedder().embed("warm")
    offline_labeler().label(PROBE_PAIRS[:1])
    load_maps()
    detect_language("What is sent is read in its language.")
    formats_by_suffix()
    import_module("bm25s")


def form_pending(
    built: BuiltMemories,
    unbuilt: UnbuiltFiles,
    vectors: TextVectors,
    before: PendingMemories | None,
    now: dt.datetime,
    most: int,
    hidden: Collection[str] = (),
) -> PendingMemories | None:
    """Returns the memories of files that a build has not read; None where they give none.

    Args:
        built: what the build has of their user.
        unbuilt: the files.
        vectors: is added to.
        before: what was formed of the same build before.
        now: the real time, for retention.
        most: memories that are labelled now, besides those that are labelled already.
        hidden: ids of memories that are left out: they are being deleted.

    Raises:
        PalimpsestError: a setting or a decision cannot be read.
    """
    decisions = read_decisions(built.home.decisions)
    with quietly():
        found = stated_in(built.home, built.collection, unbuilt, decisions, now, before.read if before else {})
        if found is None:
            return None
        folder, config, read, tables = found
        mine = tables["memories"].filter(pl.col("user_id") == built.user)
        replaced = _replaced(built, unbuilt, mine)
        memories = mine.join(built.inputs.memories, on="memory_id", how="anti")
        memories = memories.filter(~pl.col("memory_id").is_in(list(hidden)))
        if memories.is_empty():
            return None
        inputs = tables["embed_inputs"].join(memories, on="memory_id", how="semi")
        documents = tables["documents"].join(memories, on="document_id", how="semi")  # others of a source are built
        tables = {**tables, "documents": documents, "memories": memories, "embed_inputs": inputs}
        known = collection_spaces(built.build) if built.build is not None else {}
        space = known.get(built.collection) or configured_space(built.home, config, folder)
        vectors.add(space, inputs)
        labelled = _to_label(memories, before, most)
        new = labelled - (before.labelled if before is not None else frozenset())
        relations = _relate(built, tables, vectors, before, decisions, new)
        own = relations.join(memories.select(older_id="memory_id"), on="older_id", how="semi")
        tables["relations"] = own
        tables["versions"] = versions(memories, own, tables["documents"], tables["document_relations"], decisions)
        lookup = IndexedSpace(space.name, space.dimensions, lambda hashes: vectors.of(space, hashes))
        store = _open_index(tables, {built.collection: lookup}, {built.collection: space})
        changes = _changes(built, tables, relations.join(own, on="relation_id", how="anti"), replaced)
    of_scope = memories.group_by(SCOPE).agg("memory_id").iter_rows()
    ids = {Scope(*scope): frozenset(ids) for *scope, ids in of_scope}
    own_documents = documents.join(memories, on="document_id", how="semi")["uri"].to_list()
    sources = frozenset({*own_documents, *(uri.partition("#")[0] for uri in own_documents), *unbuilt.edited})
    return PendingMemories(store, changes, ids, read, relations, labelled, sources)


class StatedTables(NamedTuple):
    """What is formed of sources that no build has read: the collection's folder and settings, what was read, tables."""

    folder: Path
    config: CollectionConfig
    read: dict[tuple[str, int], Sequence[Mapping[str, object]]]
    tables: dict[str, pl.DataFrame]


def stated_in(
    home: Home,
    collection: str,
    unbuilt: UnbuiltFiles,
    decisions: Decisions,
    now: dt.datetime,
    known: Mapping[tuple[str, int], Sequence[Mapping[str, object]]],
) -> StatedTables | None:
    """Forms the memories of what no build has read, without vectors; None where the collection has no settings.

    Args:
        home: the home.
        collection: of the sources.
        unbuilt: the sources.
        decisions: what was deleted is not formed.
        now: the real time, for retention.
        known: what was read of some files before, by their key.
    """
    folder = home.folder_of(collection)
    config = settings_or_none(folder)
    if folder is None or config is None:
        return None
    rules = IngestRules(config, decisions, now)
    read = dict[tuple[str, int], Sequence[Mapping[str, object]]]()
    for file, key in zip(unbuilt.files, unbuilt.key, strict=False):
        if rules.decisions.hides_source(collection, file.uri, hash_source(file.path, home.inbox)):
            read[key] = []
        else:
            read[key] = known[key] if key in known else read_inbox_file(file, rules)
    documents = {uri: rows for (uri, _), rows in read.items()} | _edited_sources(home, collection, unbuilt.edited)
    tables, _ = document_tables(UnloggedSources(documents, now), config, folder)
    chunks = chunk_table(tables["documents"], tables["document_texts"], config)
    memories, inputs = form_memories(tables["documents"], chunks, config)
    tables |= {"memories": memory_languages(memories, chunks), "embed_inputs": inputs}
    return StatedTables(folder, config, read, tables)


def _edited_sources(home: Home, collection: str, uris: Sequence[str]) -> dict[str, Sequence[Mapping[str, object]]]:
    """Returns what the log has now of sources with a document of these uris."""
    if not uris:
        return {}
    log, found = IngestLog(home.log / collection), dict[str, Sequence[Mapping[str, object]]]()
    for source, key in log.current().select("uri", "text_key").iter_rows():
        if key and any(uri == source or uri.startswith(f"{source}#") for uri in uris):
            found[source] = log.rows(key)
    return found


def _replaced(built: BuiltMemories, unbuilt: UnbuiltFiles, formed: pl.DataFrame) -> pl.DataFrame:
    """Returns the latest built memories of edited documents that are not formed of them any more."""
    of = built.inputs.documents.filter(pl.col("uri").is_in(list(unbuilt.edited))).select("document_id")
    latest = built.versions.filter("is_latest").select("memory_id")
    there = built.inputs.memories.join(of, on="document_id", how="semi").join(latest, on="memory_id", how="semi")
    return there.join(formed, on="memory_id", how="anti")


def _to_label(memories: pl.DataFrame, before: PendingMemories | None, most: int) -> frozenset[str]:
    """Returns the memories that are labelled now: those that were, and the newest of the others.

    A few are labelled even where `most` is 0: that takes less time than forming all once more for it.
    """
    known = before.labelled if before is not None else frozenset[str]()
    ids = memories.sort("observed_at", "memory_id", descending=True, nulls_last=True)["memory_id"].to_list()
    new = [i for i in ids if i not in known]
    return frozenset({*known.intersection(ids), *(new if len(new) <= _FEW else new[:most])})


def _relate(
    built: BuiltMemories,
    tables: Mapping[str, pl.DataFrame],
    vectors: TextVectors,
    before: PendingMemories | None,
    decisions: Decisions,
    of: frozenset[str],
) -> pl.DataFrame:
    """Returns labels of the pairs of some pending memories with older ones, pending or built, as a build gives them.

    The labeler is the offline one, whatever builds use: a search pays for no model.
    """
    mine, minilm = tables["memories"], minilm_space()
    vectors.add(minilm, tables["embed_inputs"])
    newer, older = change_vectors(_means(mine, tables["embed_inputs"], minilm, vectors))
    known = built.inputs
    inputs = CandidateInputs(
        pl.concat([known.memories, mine]),
        pl.concat([known.embed_inputs, tables["embed_inputs"]]),
        known.mentions,
        pl.concat([known.documents, tables["documents"]]),
    )
    as_newer, as_older = (np.concatenate(pair) for pair in zip(built.vectors, (newer, older), strict=True))
    pairs = candidate_pairs(inputs, as_newer, None, as_older, of=of)
    relations, _ = label_pairs(pairs, inputs.memories, offline_labeler(), None, decisions)
    relations = relations.filter(pl.col("newer_id").is_in(list(of)))
    if before is None:
        return relations
    present = inputs.memories.select(older_id="memory_id")
    earlier = before.relations.join(mine.select(newer_id="memory_id"), on="newer_id", how="semi")
    return (
        pl.concat([earlier.join(present, on="older_id", how="semi"), relations])
        .unique("relation_id")
        .sort("relation_id")
    )


def _means(memories: pl.DataFrame, inputs: pl.DataFrame, space: Space, vectors: TextVectors) -> np.ndarray:
    """Returns a unit vector for each memory, shape (n, 384): of its text, or the mean of its windows."""
    hashes = dict(inputs.sort("ordinal").group_by("memory_id", maintain_order=True).agg("text_hash").iter_rows())
    if memories.is_empty():
        return np.zeros((0, space.dimensions), np.float32)
    means = np.stack([vectors.of(space, hashes[i]).mean(axis=0) for i in memories["memory_id"]])
    return np.asarray(means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9), np.float32)


def _changes(
    built: BuiltMemories, tables: Mapping[str, pl.DataFrame], relations: pl.DataFrame, replaced: pl.DataFrame
) -> dict[Scope, PendingChanges]:
    """Returns what relations of pending memories to built ones change, by scope.

    What a build would end is only disputed until then: both are served, the newer one first.
    """
    latest = pl.concat([built.versions, tables["versions"]], how="diagonal").filter("is_latest")
    ends = pl.col("label") == "UPDATE"
    relations = relations.join(latest, left_on="newer_id", right_on="memory_id", how="semi").with_columns(
        label=pl.when(ends).then(pl.lit("NONE")).otherwise("label"),
        consequence=pl.when(ends).then(pl.lit(DISPUTED)).otherwise("consequence"),
        likelihood=pl.coalesce("likelihood", pl.when(ends).then("confidence")),
    )
    named = pl.concat([relations["newer_id"], relations["older_id"]]).unique()
    memories = pl.concat([built.inputs.memories, tables["memories"]]).filter(pl.col("memory_id").is_in(named.implode()))
    read = {"memories": memories, "relations": relations, "versions": latest, "rejects": empty("rejects")}
    reasons = version_reasons(read | {"documents": tables["documents"]})
    links = linking_relations(relations, memories).select("newer_id", "older_id", "label", "confidence")
    of_links = links.join(memories.select("memory_id", *SCOPE), left_on="newer_id", right_on="memory_id")
    of_reasons = reasons.join(memories.select("memory_id", *SCOPE), on="memory_id")
    found: dict[Scope, PendingChanges] = {}
    for scope in {Scope(*s) for s in tables["memories"].select(SCOPE).unique().iter_rows()}:
        here = pl.all_horizontal(pl.col(c) == v for c, v in zip(SCOPE, scope, strict=True))
        link, reason, hidden = of_links.filter(here), of_reasons.filter(here), replaced.filter(here)["memory_id"]
        links = link.select("newer_id", "older_id", "label", "confidence")
        found[scope] = PendingChanges(links.rows(), reason.select("memory_id", "reason").rows(), hidden.to_list())
    return found


def _open_index(
    tables: Mapping[str, pl.DataFrame], lookups: Mapping[str, IndexedSpace], spaces: Mapping[str, Space]
) -> DuckDBBackend:
    """Returns the index of tables, whose file is gone already: it is read while it is open."""
    with ExitStack() as stack:
        place = _MEMORY_FOLDER if _MEMORY_FOLDER.is_dir() else None
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="palimpsest-pending-", dir=place)))
        meta = {"build_id": "pending", "spaces": {name: space.to_json() for name, space in spaces.items()}}
        write_index(tables, lookups, folder / "index.duckdb", meta)
        return DuckDBBackend(folder / "index.duckdb", _CACHE_BYTES)
