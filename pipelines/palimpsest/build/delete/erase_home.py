"""Erases what a delete names from log, builds, decisions, ledger, vectors, usage log, run history and Neo4j."""

import json
import shutil

import polars as pl

from palimpsest.build.backup import remove_restores
from palimpsest.build.delete.collect import DeletionSet
from palimpsest.build.delete.delete_result import Erased
from palimpsest.build.delete.home_folders import erase_settings
from palimpsest.build.delete.inbox import erase_inbox
from palimpsest.build.delete.probes import Probes
from palimpsest.build.delete.rewrite_builds import rewrite_build
from palimpsest.build.delete.run_history import delete_runs
from palimpsest.build.delete.target import Target
from palimpsest.build.delete.web_pages import erase_pages
from palimpsest.build.repair.repair_databases import remove_damaged
from palimpsest.build.vector_sweep import sweep_vectors
from palimpsest.neo4j_graph.identity import served_id
from palimpsest.relations.classify.lm.ledger import Ledger
from palimpsest.sources.log_maintenance import apply_deletions, update_stored_documents
from palimpsest.store.builds import count_decisions_again, kept
from palimpsest.store.collection_config import load_collection
from palimpsest.store.decisions import append_decisions, append_erased, read_decisions, tombstone
from palimpsest.store.event_log import erase_events
from palimpsest.store.forget_decisions import forget_overrides
from palimpsest.store.graph_decisions import forget_graph_decisions
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.proposals import forget_proposals
from palimpsest.store.service_files import erase_service_logs
from palimpsest.store.usage_log import keep_reads

# They quote texts and questions, or name users; the next build writes its own.
_QUOTING_FILES = ("builds/*/report.*", "notes/*", "health/report.html")


def check_server(home: Home) -> None:
    """Checks, before anything is deleted, that the home can be deleted from Neo4j as well.

    Raises:
        PalimpsestError: the home was loaded into Neo4j, and no server answers.
    """
    if served_id(home.path) is not None:  # the driver takes a second to import
        from palimpsest.neo4j_graph.load.erase import check_server

        check_server(home)


def write_tombstones(home: Home, target: Target, found: DeletionSet) -> None:
    """Writes the tombstones that exclude what is deleted from later builds."""
    places = pl.DataFrame(
        sorted(found.documents, key=str),
        orient="row",
        schema=dict.fromkeys(("collection", "user_id", "uri", "session_id", "project_id"), pl.String()),
    )
    append_erased(home.decisions, found.erased)
    append_decisions(home.decisions, "tombstone", sorted(target.tombstones(places)))


def erase(home: Home, target: Target, found: DeletionSet, probes: Probes) -> Erased:
    """Removes a target from a home; returns what was removed next to tables."""
    remove_restores(home.path)
    operations = erase_inbox(home, target, found.inbox)
    pages = erase_pages(home, target, found.pages, found.parted_pages)
    erase_settings(home, target, probes)
    _erase_from_logs(home, target)
    # Before the builds are written again: their nodes apply these decisions.
    scope = (target.collection, target.user, target.project)
    forget_graph_decisions(home.decisions, probes, *scope, target.whole_scope)
    for path in (p for pattern in _QUOTING_FILES for p in home.path.glob(pattern)):
        path.unlink()  # before the manifests of the builds list their files again
    for build in kept(home):
        rewrite_build(home, build, target, probes)
    forget_overrides(home.decisions, probes)
    count_decisions_again(home)
    remove_damaged(home)
    forget_proposals(home.path, probes, *scope, target.whole_scope)
    ledger = 0
    if home.lm_ledger.exists():
        answers = Ledger(home.lm_ledger)
        ledger = answers.forget(probes)
        answers.close()
    vectors = sweep_vectors(home)
    runs = delete_runs(home, probes, target.collection if target.whole_collection else None)
    reads = keep_reads(home.path, _memory_ids(home))
    erase_events(home.path, lambda lines: _events_of(lines, target, probes))
    erase_service_logs(home.path, probes.rows_in)
    return Erased(
        vectors, ledger, runs, *_erase_from_server(home, probes), reads=reads, operations=operations, pages=pages
    )


def _erase_from_server(home: Home, probes: Probes) -> tuple[int | None, int]:
    """Returns the writes to Neo4j, None where the home was never loaded, and how many bytes were searched there."""
    if served_id(home.path) is None:
        return None, 0
    from palimpsest.neo4j_graph.load.erase import forget

    searched = 0

    def has_probe(data: bytes) -> bool:
        nonlocal searched
        searched += len(data)
        return probes.any_in(data)

    return forget(home, has_probe), searched


def _erase_from_logs(home: Home, target: Target) -> None:
    """Removes the target from the logs; a source of which nothing is left is removed, and its hash excluded."""
    decisions = read_decisions(home.decisions)
    for name in home.sources:
        log = IngestLog(home.log / name)
        if not target.covers(name):
            continue
        if target.whole_collection:
            shutil.rmtree(log.folder, ignore_errors=True)
            continue
        if target.denied:
            update_stored_documents(log, load_collection(home.sources[name]))
        if target.document is not None and decisions.hides_source(name, target.document, ""):
            log.forget({target.document})
        _, emptied = apply_deletions(log, name, decisions)
        append_decisions(home.decisions, "tombstone", (tombstone("source", name, *source) for source in emptied))
    if target.whole_collection:
        home.forget_source(str(target.collection))


def _events_of(lines: list[str], target: Target, probes: Probes) -> list[int]:
    """Returns which lines of the event log contain a name of what is deleted: collections are the only names in it."""
    name = f'"collection": {json.dumps(target.collection)}' if target.whole_collection else None
    named = {i for i, line in enumerate(lines) if name is not None and name in line}
    return sorted(named.union(probes.rows_in(lines)))


def _memory_ids(home: Home) -> set[str]:
    """Returns the ids of the memories of all kept builds."""
    return {i for build in kept(home) for name in build.collections for i in build.table(name, "memories")["memory_id"]}
