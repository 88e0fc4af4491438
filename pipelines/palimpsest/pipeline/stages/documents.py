"""Stage `documents`: the ingest log brought up to the folder, and every version of every document in it."""

import datetime as dt
from collections import Counter
from collections.abc import Mapping

import polars as pl

from palimpsest.core.files import say
from palimpsest.memories.documents import document_tables, not_stored
from palimpsest.pipeline.stage import (
    Digest,
    PreviousTable,
    Reference,
    Stage,
    StageContext,
    StageResult,
    Table,
)
from palimpsest.sources.discovery import scan_sources
from palimpsest.sources.ingest import IngestRules, ingest
from palimpsest.sources.readers.registry import installed_readers_hash
from palimpsest.store.builds import kept_builds, published
from palimpsest.store.decisions import append_decisions, tombstone
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.web_pages import sweep_pages

_MAX_SHOWN = 5
_SECOND = dt.timedelta(seconds=1)  # a manifest has its time without fractions
_NEVER = dt.datetime.min.replace(tzinfo=dt.UTC)


def read_sources(context: StageContext) -> None:
    """Brings the collection's ingest log up to its folder.

    `on_removed: delete` and tombstones remove what they name from the log for good.

    Raises:
        PalimpsestError: too many sources or memories vanished.
    """
    config, log, decisions = context.config, context.log, context.decisions
    home = context.home
    sources = scan_sources(context.folder, config, decisions, home.inbox, log, home.web)
    memories = _latest_memories_by_source(context)
    rules = IngestRules(config, decisions, context.now, memories, context.allow_removals, _last_build_time(home))
    done = ingest(log, sources, rules)
    if done.deleted:
        stones = (tombstone("source", config.name, *source) for source in done.deleted)
        append_decisions(home.decisions, "tombstone", stones)
    gone = {uri for uri in log.versions()["uri"].unique() if decisions.hides_source(config.name, uri, "")}
    if config.on_removed == "delete":
        gone |= set(log.versions()["uri"]) - set(sources)
    if gone:
        log.forget(gone)
    if home.web_path is None:  # the pages are this home's own
        sweep_pages(home.web, config.name)


def _last_build_time(home: Home) -> dt.datetime | None:
    """Returns when the last build was finished, to the second after it; None where one does not say when."""
    times = [build.manifest.created_at for build in kept_builds(home) if build.is_finished]
    if not all(times):
        return None
    return max((dt.datetime.fromisoformat(time) + _SECOND for time in times), default=_NEVER)


def _latest_memories_by_source(context: StageContext) -> dict[str, int]:
    """Counts the latest memories of each source in the published build."""
    base, name = context.base, context.name
    if base is None or name not in base.collections:
        return {}
    latest = base.table(name, "versions").filter("is_latest").select("memory_id")
    memories = base.table(name, "memories").join(latest, on="memory_id", how="semi")
    known = set(context.log.versions()["uri"])
    counts: Counter[str] = Counter()
    for uri, n in memories["provenance"].value_counts().iter_rows():
        counts[uri if uri in known else str(uri).partition("#")[0]] += n
    return dict(counts)


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    tables, unresolved = document_tables(context.log, context.config, context.folder)
    for relation in unresolved[:_MAX_SHOWN]:
        say(f"ignored: {relation}: no such source in {context.name}")
    numbers = {
        "relations_to_nowhere": float(len(unresolved)),
        "past_retention": float(context.log.current()["left_out"].sum() or 0),
    }
    not_kept = {f"not_stored_{why}": float(n) for why, n in not_stored(context.log).items()}
    return StageResult(tables, numbers=numbers | not_kept)


def _settings(context: StageContext) -> object:
    config, log = context.config, context.log
    rows = log.versions().select("uri", "content_hash", "ordinal", "text_key", pl.col("gone_at").is_null())
    relations = context.folder / config.document_relations if config.document_relations else None
    stated = relations.read_bytes().hex() if relations and relations.is_file() else ""
    unread = log.current().filter(pl.col("unread_hash").is_not_null()).select("uri", "unread_hash", "problems")
    return (config.model_dump_json(), stated, rows.rows(), unread.rows(), context.decisions.erased_key)


def _estimate(context: StageContext, home: Home) -> Mapping[str, int]:
    current = published(home)
    removed = 0
    if current is not None and context.name in current.collections:
        read = set(IngestLog(home.log / context.name).current()["uri"])
        removed = len(read - set(context.log.current()["uri"]))
    return {"files": context.table("documents")["uri"].n_unique(), "removed_sources": removed}


STAGE = Stage(
    name="documents",
    description="Every version of every source that was read and not deleted; what cannot be read is a reject with its "
    "reason.",
    group="sources",
    kinds=("parquet", "polars"),
    reads=(),
    writes=(
        Table(
            "documents",
            key=("document_id",),
            references=(Reference("superseded_by", ("documents",), may_dangle=True),),
            removed_by={"document_id": "document"},
            digest=Digest(skipped=("seq", "kind"), with_project=True),
        ),
        Table(
            "document_texts",
            key=("document_id",),
            references=(Reference("document_id", ("documents",)),),
            removed_by={"document_id": "document"},
        ),
        Table("document_relations", removed_by={"newer_uri": "uri", "older_uri": "uri"}),
        Table(
            "redactions",
            references=(Reference("document_id", ("documents",), may_dangle=True),),
            removed_by={"document_id": "document"},
        ),
        Table("rejects", removed_by={"uri": "source"}),
    ),
    run=_run,
    settings=_settings,
    environment=installed_readers_hash,
    modules=("palimpsest.sources",),
    prepare=read_sources,
    on_delete="remove_rows",
    in_dry_run=True,
    estimate=_estimate,
    shown_tables=("rejects",),
)
