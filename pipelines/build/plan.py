"""A build from plan to publication, free of Dagster: what changed, the tail after the stages, and the summary."""

import datetime as dt
import hashlib
import shutil
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from palimpsest.build.changes import changes_record
from palimpsest.build.partition import Partition
from palimpsest.build.stages import STAGES, has_unpaid, linked_marker, run_stage
from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import file_hash
from palimpsest.core.ids import content_id
from palimpsest.core.progress import say
from palimpsest.core.scopes import GENERAL
from palimpsest.entities.collection_shape import strategy_for
from palimpsest.memories.embed import vector_space
from palimpsest.memories.memory_times import is_undated
from palimpsest.memories.vector_store import embedding_store
from palimpsest.relations.classify.choose_labeler import configured_labeler, labeler_key
from palimpsest.sources.discovery import scan_sources
from palimpsest.sources.readers.installed_readers import installed_readers_hash
from palimpsest.store.builds import Build, publish, published, staged, sweep
from palimpsest.store.collection_config import CollectionConfig, find_collections, load_collection
from palimpsest.store.decisions import Decisions, read_decisions
from palimpsest.store.home import DEFAULT_CORPUS, Home, data_folder
from palimpsest.store.ingest_log import IngestLog
from palimpsest.text.tokenizer import save_tokenizer

INDEXED = (
    "documents",
    "document_texts",
    "document_relations",
    "chunks",
    "memories",
    "embed_inputs",
    "context_inputs",
    "entities",
    "mentions",
    "topics",
    "topic_edges",
    "topic_memories",
    "candidate_pairs",
    "relations",
    "versions",
    "rejects",
    "redactions",
)
_COMPARED = ("documents", "memories", "versions")
_DIGESTED = ("documents", "chunks", "memories", "entities", "mentions", "topics", "relations", "versions")
_NOT_DIGESTED = {"seq", "evidence", "provenance", "kind", "stated", "importance_source", "confidence_source"}
_DIGESTED_UNLESS = {"pii": False, "user_visible": True}  # only where a row differs: builds made before keep theirs
_QUERY_CODE = ("palimpsest.query.reader",)
_WITH_PROJECT = ("documents", "memories")  # what other tables say of it follows from these
_TAIL_CODE = (
    "palimpsest.index.write_index",
    "palimpsest.entities.collection_shape",
    "palimpsest.eval.runs.judge_build",
)


@dataclass(frozen=True)
class Plan:
    """What a build will do: every collection of the home, and those whose inputs changed since the published build."""

    home: Home
    collections: dict[str, Path]
    changed: tuple[str, ...]
    tail_only: bool

    @property
    def nothing_to_do(self) -> bool:
        """True where the published build is what a build would make again."""
        return not self.changed and not self.tail_only


def tail_logic(collections: dict[str, Path]) -> str:
    """Returns the hash of the code and judgements that the tail (index, report, gate) depends on."""
    judged = [
        file_hash(path) if path.exists() else ""
        for name in sorted(collections)
        for path in (data_folder() / "golden" / f"{name}.jsonl", data_folder() / "baselines" / f"{name}.json")
    ]
    return content_id(code_hash(_TAIL_CODE), *judged)


def make_plan(home: Home, corpora: list[Path] | None, only: list[str] | None = None) -> Plan:
    """Finds the collections and which of them changed; reads every source's bytes, and nothing else.

    Args:
        home: the home.
        corpora: folders of collections; None means the folders this home knows, or data/corpora for a new home.
        only: names of the collections to build; None means all of the corpora.

    Raises:
        PalimpsestError: a collection is missing, its settings are wrong, or the home lies inside it.
    """
    if corpora is None:
        found = {n: f for n, f in home.sources.items() if f.is_dir()} or find_collections([DEFAULT_CORPUS])
    else:
        found = find_collections(corpora)
    for name in only or ():
        if name not in found:
            raise PalimpsestError(f"--collection {name}: not in the corpus; it has {', '.join(found)}")
    wanted = {n: f for n, f in found.items() if not only or n in only}
    for name, folder in wanted.items():
        if home.path.resolve().is_relative_to(folder.resolve()):
            raise PalimpsestError(f"home {home.path}: lies inside collection {name} ({folder}); choose another --home")
    current = published(home)
    manifest = current.manifest if current else {}
    decisions = read_decisions(home.decisions)
    done = manifest.get("fingerprints", {})
    changed = tuple(n for n, f in wanted.items() if not _is_done(home, n, f, done.get(n), decisions))
    others = [n for n in done if n not in wanted]
    logic = tail_logic(dict.fromkeys([*wanted, *others], Path()))
    whole = current is not None and current.index.is_file()
    tail_only = not changed and (manifest.get("tail_logic") != logic or not whole)
    return Plan(home, wanted, changed, tail_only)


def _is_done(home: Home, name: str, folder: Path, done: str | None, decisions: Decisions) -> bool:
    """Tells whether the published build and the log hold what is on disk: an edit taken back leaves the log ahead."""
    config = load_collection(folder)
    state = scan_sources(folder, config, decisions)
    on_disk = _fingerprint(config, folder, decisions, ((uri, digest) for uri, (_, digest) in state.items()))
    if done != on_disk:
        return False
    logged = IngestLog(home.log / name).on_disk().iter_rows()
    return _fingerprint(config, folder, decisions, logged) == on_disk


def _fingerprint_in_log(home: Home, name: str, decisions: Decisions) -> str | None:
    folder = home.sources.get(name)
    if folder is None or not folder.is_dir():
        return None
    sources = IngestLog(home.log / name).on_disk()
    return _fingerprint(load_collection(folder), folder, decisions, sources.iter_rows())


def _fingerprint(
    config: CollectionConfig, folder: Path, decisions: Decisions, sources: Iterable[tuple[str, str]]
) -> str:
    """Hashes all that the stages of a collection depend on; `sources` gives (uri, content hash)."""
    relations = folder / config.document_relations if config.document_relations else None
    return content_id(
        config.model_dump_json(),
        decisions.key,
        installed_readers_hash(),
        code_hash(("palimpsest.sources", *sorted({m for s in STAGES.values() for m in s.modules}))),
        vector_space(),
        labeler_key(),
        file_hash(relations) if relations and relations.is_file() else "",
        *(f"{uri}\0{content_hash}" for uri, content_hash in sorted(sources)),
    )


def partition(
    home: Home, name: str, folder: Path, max_cost: float | None = None, allow_removals: bool = False
) -> Partition:
    """Returns what the stages of one collection run on: the staged build, based on the published one.

    Args:
        home: the home.
        name: the collection.
        folder: where its sources lie.
        max_cost: money that labels by an LM may cost.
        allow_removals: build although too many sources or memories vanished.

    Raises:
        PalimpsestError: the folder's settings do not load, or bear another name.
    """
    config = load_collection(folder)
    if config.name != name:
        raise PalimpsestError(f"collection.yaml: name is {config.name!r} now, was {name!r}; rename it back ({folder})")
    decisions = read_decisions(home.decisions)
    return Partition(home, staged(home), published(home), config, folder, decisions, max_cost, allow_removals)


def index_build(home: Home) -> dict[str, Any]:
    """Completes the staged build: takes unchanged collections over, writes the index and the manifest; returns it."""
    say("stage index")
    build, base = staged(home), published(home)
    sweep(home)
    for name in build.collections:
        if any(build.marker(name, stage) is None for stage in STAGES):
            shutil.rmtree(build.path / name)  # begun by a run that was stopped, and not wanted since
    for name in base.collections if base else ():
        if name not in build.collections:
            assert base is not None
            build.adopt(base, name)
            for stage in STAGES:
                build.write_marker(name, stage, linked_marker(base.marker(name, stage) or {}))
    if base is None:
        _check_something_was_read(build)
    return finish_build(home, build, (base.manifest if base else {}).get("fingerprints", {}), base)


def _check_something_was_read(build: Build) -> None:
    """Raises PalimpsestError where a first build has rejects and nothing else."""
    tables = build.tables(["documents", "rejects"])
    if tables["documents"].is_empty() and tables["rejects"].height:
        first = tables["rejects"].row(0, named=True)
        raise PalimpsestError(
            f"none of the sources could be read, so nothing is published; first {first['uri']}: {first['reason'][:120]}"
        )


def finish_build(
    home: Home, build: Build, old_fingerprints: dict[str, str], base: Build | None = None
) -> dict[str, Any]:
    """Writes the index and the manifest of a build whose tables are complete; returns the manifest.

    Args:
        home: the home.
        build: the build.
        old_fingerprints: of collections whose folder is gone.
        base: the build that this one follows, which the manifest tells the changes from.
    """
    from palimpsest.index.write_index import write_index

    started = time.perf_counter()
    tables = build.tables(INDEXED)
    settings = index_settings(home, build)
    stats = write_index(tables, embedding_store(home).vectors, build.index, {"build_id": build.build_id, **settings})
    decisions = read_decisions(home.decisions)
    prints = {c: _fingerprint_in_log(home, c, decisions) or old_fingerprints.get(c) for c in build.collections}
    prints |= {c: None for c in build.collections if has_unpaid(build.marker(c, "relations"))}  # to be gone on with
    manifest = {
        "build_id": build.build_id,
        "created_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "fingerprints": prints,
        "tail_logic": tail_logic(dict.fromkeys(build.collections, Path())),
        "digest": digest(tables),
        "documents": tables["documents"].filter("is_current").height,
        "chunks": tables["chunks"].height,
        "memories": tables["memories"].height,
        "relations": _counts(tables["relations"]),
        "retired": tables["versions"].filter(~pl.col("is_latest")).height,
        "undone": sorted(decisions.undone.intersection(tables["relations"]["relation_id"])),
        "rejects": tables["rejects"].height,
        "undated": tables["memories"].filter(is_undated()).height,
        "redactions": tables["redactions"].height,
        "not_stored": _not_stored(build),
        "markers": {c: {s: build.marker(c, s) or {} for s in STAGES} for c in build.collections},
        "settings": settings,
        "configs": _configs(home, build),
        "labeler": f"{configured_labeler()} {labeler_key()}",
        "code": _code_of_parts(),
        "index": {"seconds": time.perf_counter() - started, **stats.__dict__},
        "gate": {"status": "unjudged"},
        "tail_seconds": {},
        "changes": changes_record(base.tables(_COMPARED), tables) if base else None,
    }
    build.write_manifest(manifest)
    return manifest


def index_settings(home: Home, build: Build) -> dict[str, Any]:
    """Returns what the index must know of each collection: unit, default user, strategy, weights, which is default."""
    current = published(home)
    settings = current.manifest.get("settings", {}) if current else {}
    known, known_weights = settings.get("collections", {}), settings.get("weights", {})
    collections, weights = {}, {}
    for name in build.collections:
        folder = home.sources.get(name)
        if folder and (folder / "collection.yaml").is_file():
            config = load_collection(folder)
            collections[name] = config.model_dump(include={"user_id", "default", "unit"})
            weights[name] = config.weights.model_dump(exclude_none=True)
        else:
            collections[name], weights[name] = known.get(name, {}), known_weights.get(name, {})
    strategies = {name: strategy_for(build.table(name, "memories")) for name in collections}
    return {"model_id": vector_space(), "collections": collections, "strategies": strategies, "weights": weights}


def _configs(home: Home, build: Build) -> dict[str, Any]:
    """Returns the settings that each collection was built with, so that a build outlives their folders."""
    current = published(home)
    known = {**(current.manifest.get("configs", {}) if current else {}), **build.manifest.get("configs", {})}
    for name in build.collections:
        folder = home.sources.get(name)
        if folder and (folder / "collection.yaml").is_file():
            known[name] = load_collection(folder).model_dump()
    return {name: known[name] for name in build.collections}


def _code_of_parts() -> dict[str, str]:
    """Returns the hash of the code of each stage and of the query path, so that the gate can name what changed."""
    parts = {s.name: s.modules for s in STAGES.values()} | {
        "index": ("palimpsest.index.write_index",),
        "query": _QUERY_CODE,
    }
    return {name: code_hash(modules) for name, modules in parts.items()}


def _counts(relations: pl.DataFrame) -> dict[str, int]:
    counts = Counter(relations["label"])
    return {label: counts.get(label, 0) for label in ("UPDATE", "EXTEND", "DERIVE", "NONE")}


def _not_stored(build: Build) -> dict[str, int]:
    """Returns how many turns the sources hold that are not stored, by reason."""
    counts: Counter[str] = Counter()
    for name in build.collections:
        numbers = (build.marker(name, "documents") or {}).get("numbers", {})
        counts.update(
            {k.removeprefix("not_stored_"): int(n) for k, n in numbers.items() if k.startswith("not_stored_")}
        )
    return dict(sorted(counts.items()))


def digest(tables: dict[str, pl.DataFrame]) -> str:
    """Returns 32 hex digits over the sorted rows of a build: no floats, times, build numbers, usage or vectors."""
    h = hashlib.blake2b(digest_size=16)
    for name in _DIGESTED:
        frame = tables[name]
        columns = [
            c
            for c, t in frame.schema.items()
            if not (t.is_float() or t.is_temporal() or c in _NOT_DIGESTED or _is_default(frame[c]))
        ]
        if name == "relations":
            columns = ["relation_id", "label"]
        if name not in _WITH_PROJECT:
            columns = [c for c in columns if c != "project_id"]
        elif "project_id" in columns:  # the general memory was null before projects were scopes
            frame = frame.with_columns(pl.col("project_id").replace({GENERAL: None}))
        frame = frame.select(columns).with_columns(
            pl.col(c).list.join("\x1f") for c in columns if frame.schema[c] == pl.List(pl.String)
        )
        h.update(name.encode() + b"\0")
        h.update(frame.sort(pl.all(), nulls_last=True).write_csv(null_value="\x00").encode())
    return h.hexdigest()


def _is_default(column: pl.Series) -> bool:
    default = _DIGESTED_UNLESS.get(column.name)
    return default is not None and bool((column.fill_null(default) == default).all())


def record(build: Build, stage: str, seconds: float, **fields: Any) -> None:
    """Adds a tail stage's time, and fields, to the manifest of the build."""
    manifest = build.manifest
    manifest["tail_seconds"][stage] = seconds
    build.write_manifest(manifest | fields)


def run_without_dagster(home: Home, plan: Plan) -> Build:
    """Builds and publishes in plain calls, ungated: for throw-away homes of suites, benches and tests."""
    stage_build(home, plan)
    publish_build(home)
    current = published(home)
    assert current is not None
    return current


def stage_build(home: Home, plan: Plan) -> None:
    """Runs every stage of a plan in plain calls and indexes what they made; nothing is judged or published."""
    home.create()
    home.remember_sources(plan.collections)
    drop_unwanted(home, plan)
    for name in plan.changed:
        for stage in STAGES:
            run_stage(partition(home, name, plan.collections[name]), stage)
    index_build(home)


def publish_build(home: Home) -> str:
    """Makes the staged build the published one; returns its id.

    Raises:
        PalimpsestError: nothing is staged or the staged build is unfinished.
    """
    say("stage published")
    build = staged(home)
    if not build.manifest:
        current = published(home)
        raise PalimpsestError(
            f"home {home.path}: no finished build is staged, so there is nothing to publish "
            f"({f'readers see build {current.build_id}' if current else 'nothing was published yet'}); "
            "run palimpsest build, or the jobs build_collection and publish_build"
        )
    save_tokenizer(home.path)
    publish(home, build)
    return build.build_id


def refusal(manifest: dict[str, Any]) -> list[str]:
    """Returns why a staged build may not be published: the invariants it breaks, else the gate's reasons."""
    if broken := manifest.get("violations"):
        return [str(v) for v in broken]
    gate = manifest.get("gate", {})
    return [str(r) for r in gate.get("reasons", [])] if gate.get("status") == "failed" else []


def drop_unwanted(home: Home, plan: Plan) -> None:
    """Removes from the staged build what the plan does not make again: it was begun from other sources."""
    sweep(home)
    for name in staged(home).collections:
        if name not in plan.changed:
            shutil.rmtree(staged(home).path / name)


def _past_retention(manifest: dict[str, Any]) -> int:
    """Counts turns and documents of current sources that were left out because their retention had ended."""
    stages = [s.get("documents", {}) for s in manifest["markers"].values()]
    return int(sum(s.get("numbers", {}).get("past_retention", 0) for s in stages))


def summary(home: Home, build: Build, extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """Returns the JSON that `build --json` prints, from the build's manifest and stage markers."""
    m = build.manifest
    current = published(home)
    seconds: Counter[str] = Counter()
    work: Counter[str] = Counter({"embeddings": 0, "lm_calls": 0, "graph_writes": 0})
    for stages in m["markers"].values():
        for stage, marker in stages.items():
            load = marker.get("numbers", {}).get("load_model_s", 0.0)
            seconds[stage] += marker.get("seconds", 0.0) - load
            seconds["load_model"] += load
            work.update(marker.get("work", {}))
    seconds["index"] = m["index"]["seconds"]
    seconds.update(m.get("tail_seconds", {}))
    fields = (
        "digest",
        "changes",
        "documents",
        "chunks",
        "memories",
        "undated",
        "relations",
        "retired",
        "rejects",
        "gate",
        "redactions",
        "not_stored",
    )
    return {
        "build_id": build.build_id,
        "published": bool(current and current.build_id == build.build_id),
        **{k: m.get(k) for k in fields},
        "past_retention": _past_retention(m),
        "work": dict(work),
        "seconds": {k: round(v, 3) for k, v in seconds.items()},
    } | (extra or {})
