"""The stages of a build, from sources to versions: what each reads, writes and depends on, and how one is run.

A stage is a pure function of tables (and of the ingest log, for the first). It is cached by the hash of its inputs, its
settings and the source of its modules: where the published build has the same key, its tables are linked, not made
again. Where only the inputs changed, the stage gets its earlier tables and does the difference. Dagster, the command
line and tests all run stages through `run_stage`.
"""

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from palimpsest.build.partition import Partition
from palimpsest.core.code import code_hash
from palimpsest.core.files import link
from palimpsest.core.ids import content_id
from palimpsest.core.progress import progress, say
from palimpsest.memories.embed import vector_space
from palimpsest.memories.vector_store import embedding_store
from palimpsest.store.builds import Build
from palimpsest.store.decisions import append_decisions, tombstone
from palimpsest.store.embeddings import EmbeddingStore
from palimpsest.store.tables import SCHEMAS

_SHOWN = 5
_COMMIT_EVERY = 4096  # texts: what a kill can cost


@dataclass(frozen=True)
class Work:
    """What a stage did that costs: an unchanged build does none of it."""

    embeddings: int = 0
    lm_calls: int = 0
    graph_writes: int = 0


@dataclass(frozen=True)
class Outcome:
    """The tables a stage made, its work, and numbers to show beside it."""

    tables: dict[str, pl.DataFrame]
    work: Work = field(default_factory=Work)
    numbers: dict[str, float] = field(default_factory=dict)


Before = Callable[[str], pl.DataFrame]
"""Reads a table of the published build, made by the same code and settings."""


@dataclass(frozen=True)
class Stage:
    """A named step. A change of `modules` or of the `settings` it reads makes it run again."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    modules: tuple[str, ...]
    run: Callable[[Partition, Before | None], Outcome]
    settings: Callable[[Partition], object] = lambda p: ""


def _documents(p: Partition, before: Before | None) -> Outcome:
    from palimpsest.memories.documents import document_tables, not_stored

    tables, nowhere = document_tables(p.log, p.config, p.folder)
    for relation in nowhere[:_SHOWN]:
        say(f"ignored: {relation}: no such source in {p.name}")
    numbers = {
        "relations_to_nowhere": float(len(nowhere)),
        "past_retention": float(p.log.current()["left_out"].sum() or 0),
    }
    return Outcome(tables, numbers=numbers | {f"not_stored_{why}": float(n) for why, n in not_stored(p.log).items()})


def _chunks(p: Partition, before: Before | None) -> Outcome:
    from palimpsest.chunks.chunk_table import chunk_table

    earlier = (before("documents"), before("chunks")) if before else None
    return Outcome({"chunks": chunk_table(p.table("documents"), p.table("document_texts"), p.config, earlier)})


def _memories(p: Partition, before: Before | None) -> Outcome:
    from palimpsest.entities.collection_shape import strategy_for
    from palimpsest.memories.context_inputs import context_inputs
    from palimpsest.memories.form import form_memories

    earlier = (before("memories"), before("embed_inputs")) if before else None
    memories, inputs = form_memories(p.table("documents"), p.table("chunks"), p.config, earlier)
    contexts = context_inputs(
        memories, strategy_for(memories), p.config.profile == "full", before("context_inputs") if before else None
    )
    return Outcome({"memories": memories, "embed_inputs": inputs, "context_inputs": contexts})


def _embeddings(p: Partition, before: Before | None) -> Outcome:
    store = embedding_store(p.home)
    inputs = embedded_texts(p.table("embed_inputs"), p.table("context_inputs"))
    todo = inputs.filter(pl.col("text_hash").is_in(list(store.missing(inputs["text_hash"]))))
    numbers: dict[str, float] = {"load_model_s": 0.0, "texts_per_s": 0.0}
    if todo.height:
        from palimpsest.memories.embed import load_embedder

        started = time.perf_counter()
        embedder = load_embedder()
        numbers["load_model_s"] = time.perf_counter() - started
        started = time.perf_counter()
        _embed(embedder, store, todo)
        numbers["texts_per_s"] = todo.height / (time.perf_counter() - started)
    store.compact()
    numbers |= {"texts": inputs.height, "reused": inputs.height - todo.height}
    return Outcome({}, Work(embeddings=todo.height), numbers)


def embedded_texts(inputs: pl.DataFrame, contexts: pl.DataFrame) -> pl.DataFrame:
    """Returns (text, text_hash) of all that has a vector, once each, by hash."""
    both = pl.concat([frame.select("text", "text_hash") for frame in (inputs, contexts)])
    return both.filter(pl.col("text_hash").is_not_null()).unique("text_hash", keep="any").sort("text_hash")


def _embed(embedder: Any, store: EmbeddingStore, todo: pl.DataFrame) -> None:
    hashes, texts = todo["text_hash"].to_list(), todo["text"].to_list()
    waiting: list[tuple[list[int], np.ndarray]] = []

    def commit() -> None:
        if waiting:
            rows = [i for batch, _ in waiting for i in batch]
            store.append([hashes[i] for i in rows], np.concatenate([v for _, v in waiting]))
            waiting.clear()

    with progress("embed", len(texts), "texts") as advance:

        def done(batch: list[int], vectors: np.ndarray) -> None:
            waiting.append((batch, vectors))
            advance(len(batch))
            if sum(len(b) for b, _ in waiting) >= _COMMIT_EVERY:
                commit()

        embedder.encode(texts, done)
    commit()


def _entities(p: Partition, before: Before | None) -> Outcome:
    from palimpsest.entities.entity_tables import entity_tables

    earlier = before("surfaces") if before else None
    return Outcome(entity_tables(p.table("memories"), p.table("documents"), earlier, p.config.ner, p.decisions))


def _entity_settings(p: Partition) -> object:
    from palimpsest.entities.names.spacy_names import pipeline_version

    return (pipeline_version(p.config.ner) if p.config.ner else "", p.decisions.names_key)


def _topics(p: Partition, before: Before | None) -> Outcome:
    from palimpsest.entities.topics import build_topics

    memories = p.table("memories")
    topics, edges, held = build_topics(memories, p.table("documents"), p.memory_vectors(memories), p.table("entities"))
    return Outcome({"topics": topics, "topic_edges": edges, "topic_memories": held})


def _candidate_pairs(p: Partition, before: Before | None) -> Outcome:
    from palimpsest.relations.candidates.find_candidates import CandidateInputs, PreviousCandidates, candidate_pairs

    reads = STAGES["candidate_pairs"].reads
    inputs = CandidateInputs(*(p.table(t) for t in reads))
    earlier = None
    if before:
        earlier = PreviousCandidates(CandidateInputs(*(before(t) for t in reads)), before("candidate_pairs"))
    return Outcome({"candidate_pairs": candidate_pairs(inputs, p.memory_vectors(inputs.memories), earlier)})


def _relations(p: Partition, before: Before | None) -> Outcome:
    from palimpsest.relations.classify.choose_labeler import build_labeler
    from palimpsest.relations.classify.label_pairs import label_pairs

    # A relation names its program, so that answers of an earlier build hold although this stage's code changed.
    earlier = p.base.table(p.name, "relations") if p.base else None
    relations, usage = label_pairs(
        p.table("candidate_pairs"), p.table("memories"), build_labeler(p.home, p.max_cost), earlier, p.decisions
    )
    if usage["lm_failures"]:
        from palimpsest.relations.classify.lm.check_answers import check_readable

        check_readable(relations, p.home)
    return Outcome({"relations": relations}, Work(lm_calls=int(usage.get("lm_calls", 0))), dict(usage))


def _labeler_key(p: Partition) -> object:
    from palimpsest.relations.classify.choose_labeler import labeler_key

    return labeler_key(), p.decisions.relations_key


def _versions(p: Partition, before: Before | None) -> Outcome:
    from palimpsest.relations.versions import versions

    frame = versions(
        p.table("memories"), p.table("relations"), p.table("documents"), p.table("document_relations"), p.decisions
    )
    return Outcome({"versions": frame}, numbers={"retired": float((~frame["is_latest"]).sum())})


STAGES: dict[str, Stage] = {
    s.name: s
    for s in (
        Stage(
            "documents",
            (),
            ("documents", "document_texts", "document_relations", "redactions", "rejects"),
            ("palimpsest.memories.documents",),
            _documents,
            lambda p: _log_key(p),
        ),
        Stage(
            "chunks",
            ("documents", "document_texts"),
            ("chunks",),
            ("palimpsest.chunks.chunk_table",),
            _chunks,
            lambda p: p.config.unit,
        ),
        Stage(
            "memories",
            ("documents", "chunks"),
            ("memories", "embed_inputs", "context_inputs"),
            ("palimpsest.memories.form", "palimpsest.memories.context_inputs", "palimpsest.entities.collection_shape"),
            _memories,
            lambda p: (p.config.unit, p.config.retention_days, p.config.profile),
        ),
        Stage(
            "embeddings",
            ("embed_inputs", "context_inputs"),
            (),
            ("palimpsest.memories.embed",),
            _embeddings,
            lambda p: vector_space(),
        ),
        Stage(
            "entities",
            ("memories", "documents"),
            ("entities", "mentions", "merges", "surfaces"),
            ("palimpsest.entities.entity_tables",),
            _entities,
            _entity_settings,
        ),
        Stage(
            "candidate_pairs",
            ("memories", "embed_inputs", "mentions", "documents"),
            ("candidate_pairs",),
            ("palimpsest.relations.candidates.find_candidates",),
            _candidate_pairs,
            lambda p: vector_space(),
        ),
        Stage(
            "topics",
            ("memories", "documents", "embed_inputs", "entities"),
            ("topics", "topic_edges", "topic_memories"),
            ("palimpsest.entities.topics",),
            _topics,
            lambda p: vector_space(),
        ),
        Stage(
            "relations",
            ("memories", "candidate_pairs"),
            ("relations",),
            ("palimpsest.relations.classify.label_pairs", "palimpsest.relations.classify.offline_labeler"),
            _relations,
            _labeler_key,
        ),
        Stage(
            "versions",
            ("memories", "relations", "documents", "document_relations"),
            ("versions",),
            ("palimpsest.relations.versions",),
            _versions,
            lambda p: p.decisions.key,
        ),
    )
}


def _log_key(p: Partition) -> object:
    rows = p.log.versions().select("uri", "content_hash", "ordinal", "text_key", pl.col("gone_at").is_null())
    relations = p.folder / p.config.document_relations if p.config.document_relations else None
    stated = relations.read_bytes().hex() if relations and relations.is_file() else ""
    unread = p.log.current().filter(pl.col("unread_hash").is_not_null()).select("uri", "unread_hash", "problems")
    return (p.config.model_dump_json(), stated, rows.rows(), unread.rows(), p.decisions.erased_key)


def ingest(p: Partition, now: dt.datetime) -> int:
    """Brings the collection's ingest log up to its folder; returns how many sources were read.

    `on_removed: delete` and tombstones take what they name out of the log for good.

    Raises:
        PalimpsestError: too many sources or memories vanished.
    """
    from palimpsest.sources.discovery import scan_sources
    from palimpsest.sources.ingest import IngestRules
    from palimpsest.sources.ingest import ingest as read_sources

    sources = scan_sources(p.folder, p.config, p.decisions)
    rules = IngestRules(p.config, p.decisions, now, _memories_by_source(p), p.allow_removals)
    done = read_sources(p.log, sources, rules)
    if done.deleted:
        append_decisions(p.home.decisions, "tombstone", (tombstone("source", p.name, *told) for told in done.deleted))
    gone = {uri for uri in p.log.versions()["uri"].unique() if p.decisions.hides_source(p.name, uri, "")}
    if p.config.on_removed == "delete":
        gone |= set(p.log.versions()["uri"]) - set(sources)
    if gone:
        p.log.forget(gone)
    return done.read


def _memories_by_source(p: Partition) -> dict[str, int]:
    """Counts the latest memories of each source in the published build."""
    if p.base is None or p.name not in p.base.collections:
        return {}
    latest = p.base.table(p.name, "versions").filter("is_latest").select("memory_id")
    memories = p.base.table(p.name, "memories").join(latest, on="memory_id", how="semi")
    known = set(p.log.versions()["uri"])
    counts: Counter[str] = Counter()
    for uri, n in memories["provenance"].value_counts().iter_rows():
        counts[uri if uri in known else str(uri).partition("#")[0]] += n
    return dict(counts)


def run_stage(p: Partition, name: str, now: dt.datetime | None = None) -> dict[str, Any]:
    """Runs one stage of one collection, or links what the published build has; returns its marker.

    The marker holds `key`, `logic`, `outputs` (table -> hash), `seconds`, `work`, `numbers` and `how` it was got.
    """
    stage = STAGES[name]
    say(f"stage {name}")
    started = time.perf_counter()
    if name == "documents":
        ingest(p, now or dt.datetime.now(dt.UTC))
    logic = content_id(code_hash(stage.modules), repr(stage.settings(p)), *_schema_of(stage.writes))
    key = content_id(logic, *(_input_hash(p, t) for t in stage.reads))
    found, how = p.build.marker(p.name, name), "kept"
    if name == "embeddings" and not _have_vectors(p):
        return _compute(p, stage, key, logic, started)
    if not _matches(found, key, p.build, p.name):
        found = p.base.marker(p.name, name) if p.base else None
        if p.base is not None and _matches(found, key, p.base, p.name):
            how = "linked"
            p.build.write_marker(p.name, name, None)
            for table in stage.writes:
                link(p.base.table_path(p.name, table), p.build.table_path(p.name, table))
        else:
            return _compute(p, stage, key, logic, started)
    assert found is not None
    marker = linked_marker(found) | {"seconds": time.perf_counter() - started, "how": how}
    p.build.write_marker(p.name, name, marker)
    return marker


def linked_marker(marker: dict[str, Any]) -> dict[str, Any]:
    """Returns the marker of a stage whose tables were taken over as they are: no time, no work."""
    numbers = {k: 0.0 if k.endswith("_s") else v for k, v in marker["numbers"].items()}
    return marker | {"numbers": numbers, "seconds": 0.0, "work": Work().__dict__, "how": "linked"}


def _compute(p: Partition, stage: Stage, key: str, logic: str, started: float) -> dict[str, Any]:
    earlier = p.base.marker(p.name, stage.name) if p.base else None
    base = p.base
    before: Before | None = None
    if base is not None and earlier and earlier["logic"] == logic and _whole(base, p.name):
        before = lambda table: base.table(p.name, table)  # noqa: E731
    p.build.write_marker(p.name, stage.name, None)
    outcome = stage.run(p, before)
    outputs = {t: p.build.write_table(p.name, t, outcome.tables[t]) for t in stage.writes}
    rows = {f"{t}_rows": float(outcome.tables[t].height) for t in stage.writes}
    marker = {
        "key": key,
        "logic": logic,
        "outputs": outputs,
        "work": outcome.work.__dict__,
        "numbers": rows | outcome.numbers,
        "seconds": time.perf_counter() - started,
        "how": "done",
    }
    p.build.write_marker(p.name, stage.name, marker)
    return marker


def _matches(marker: dict[str, Any] | None, key: str, build: Build, collection: str) -> bool:
    return (
        marker is not None
        and marker["key"] == key
        and not has_unpaid(marker)
        and all(build.table_path(collection, t).exists() for t in marker["outputs"])
    )


def has_unpaid(marker: dict[str, Any] | None) -> bool:
    """Tells whether a stage left pairs open because the money was spent: it runs again, whatever its key says."""
    return marker is not None and bool(marker["numbers"].get("unpaid"))


def _whole(build: Build, collection: str) -> bool:
    """Tells whether no table of a collection is missing: a difference to half a build would be wrong."""
    return all(build.table_path(collection, t).exists() for s in STAGES.values() for t in s.writes)


def _have_vectors(p: Partition) -> bool:
    """Tells whether the store still holds every vector: it is shared, and not part of a build."""
    texts = embedded_texts(p.table("embed_inputs"), p.table("context_inputs"))
    return not embedding_store(p.home).missing(texts["text_hash"])


def _input_hash(p: Partition, table: str) -> str:
    producer = next(s for s in STAGES.values() if table in s.writes)
    marker = p.build.marker(p.name, producer.name)
    if marker is None:
        raise KeyError(f"{table}: stage {producer.name} has not run in build {p.build.build_id}")
    return str(marker["outputs"][table])


def _schema_of(tables: Iterable[str]) -> list[str]:
    return [f"{t}:{SCHEMAS[t]}" for t in tables]
