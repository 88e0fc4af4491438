"""Homes for tests of exports: two users, hidden and personal memories, an edited source, decisions, a pending text."""

import json
import shutil
from pathlib import Path

import polars as pl

from palimpsest.consolidation.decide import confirm
from palimpsest.export.export_user import export_user
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.relations.relation_review import decide
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.builds import published
from palimpsest.store.decisions import append_made
from palimpsest.store.graph_decisions import GraphDecision, NodeValues
from palimpsest.store.home import Home
from palimpsest.store.proposals import Proposal, write_proposals
from tests.small_corpus import write_chats

CANARY = "quixotic-77"
KEY = "The spare key hangs behind the clock."
NOTE = """---
title: Ledger
date: 2026-02-04
tags: [money]
privacy: {user_visible: false}
---
# Ledger

The ledger runs on Postgres. Ann keeps the ledger.

## Backups

Backups of the ledger are made at night. The key is AKIAIOSFODNN7EXAMPLE today.
"""


def build(home: Home, corpora: list[Path] | None = None) -> None:
    """Builds the corpora, or the collections that the home knows."""
    run_without_dagster(home, make_plan(home, corpora))


def write_corpus(corpus: Path) -> Path:
    """Writes `chats` of ann and bob, and `papers` of ann alone."""
    write_chats(corpus)
    papers = corpus / "papers"
    papers.mkdir()
    (papers / "collection.yaml").write_text(
        "name: papers\ndescription: papers of Ann\nunit: statement\nuser_id: ann\ndocument_relations: stated.jsonl\n"
        "users: {deny: [mallory]}\n"
    )
    (papers / "stated.jsonl").write_text(json.dumps({"newer": "new", "older": "old", "label": "UPDATE"}) + "\n")
    (papers / "ledger.md").write_text(NOTE)
    (papers / "old.txt").write_text("The annex opens at nine.\n")
    (papers / "new.txt").write_text("The annex opens at ten.\n")
    return corpus


def make(base: Path, vectors: Path) -> tuple[Home, Path]:
    """Builds a home twice: between the builds a source was edited."""
    home, corpus = Home(base / "home", vectors), write_corpus(base / "corpus")
    build(home, [corpus])
    ledger = corpus / "papers" / "ledger.md"
    ledger.write_text(NOTE.replace("runs on Postgres", "runs on Oracle"))
    build(home, [corpus])
    return home, corpus


def make_export(base: Path, vectors: Path) -> Path:
    """Exports ann of such a home, with decisions and with two operations, of which one is not built yet."""
    home, _ = make(base, vectors)
    ingest_text(home, "I bought a lamp.", user="ann", collection="chats", operation_id="lamp")
    build(home)
    relations = published(home).table("chats", "relations").filter(pl.col("label") == "UPDATE")
    decide(home, "undo", [(relations["relation_id"][0],)], None)
    values = NodeValues(name="Annex", type="place")
    for user in ("ann", "bob"):
        append_made(home.decisions, GraphDecision("add_node", ("chats", user, ""), "a" * 16, values=values))
    propose(home)
    build(home)
    remember(home, KEY, "ann")
    return export_user(home, "ann", base / "out").out


def propose(home: Home) -> None:
    """Writes a proposal for a memory of each user, and confirms it."""
    memories = published(home).table("chats", "memories").sort("memory_id")
    proposals = [
        Proposal("confidence", "contradicted", ("chats", user, ""), (memory,), "lower", 0.8, value=0.4)
        for user in ("ann", "bob")
        for memory in memories.filter(pl.col("user_id") == user)["memory_id"].head(1)
    ]
    write_proposals(home.path, proposals)
    confirm(home, [p.proposal_id for p in proposals])


def with_own_vectors(home: Home) -> Home:
    """Returns the home with a copy of its vectors: a delete removes those that no build of the home has."""
    shutil.copytree(home.embeddings, Home(home.path).embeddings, dirs_exist_ok=True)
    return Home(home.path)


def texts(home: Home, collection: str, user: str = "ann", latest: bool = True) -> list[str]:
    """Returns the texts of memories of a user in the published build."""
    build = published(home)
    versions = build.table(collection, "versions").filter(pl.col("is_latest") | (not latest))
    rows = build.table(collection, "memories").join(versions, on="memory_id", how="semi")
    return sorted(rows.filter(pl.col("user_id") == user)["text"])


def remember(home: Home, text: str, user: str) -> str:
    """Sends a text to the inbox of `chats`; returns its operation id."""
    return ingest_text(home, text, user=user, collection="chats").operation_id


def read_rows(out: Path, name: str) -> list[dict]:
    """Returns the rows of a JSON file of an export."""
    return json.loads((out / name).read_text())
