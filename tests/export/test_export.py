"""An export has all that is stored about one user, nothing of another, and is as its schema says."""

import json
from pathlib import Path

import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import entity_id
from palimpsest.export.export_schema import export_schema, kind_of
from palimpsest.export.export_user import export_user
from palimpsest.lm.client import Ledger, LmAnswer
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.query.reader import open_home
from palimpsest.relations.relation_review import decide
from palimpsest.store.builds import published
from palimpsest.store.decisions import append_decisions, append_made, names_target
from palimpsest.store.graph_decisions import GraphDecision, NodeValues
from tests.command import last_json, process, run
from tests.export.made import CANARY, build, read_rows, remember, with_own_vectors

ROOT = Path(__file__).parents[2]


def test_every_json_file_is_as_the_schema_says_which_is_that_of_the_docs(copy, tmp_path):
    from jsonschema import Draft202012Validator

    assert json.loads((ROOT / "docs/reference/export.schema.json").read_text()) == export_schema()
    home, _, _ = copy
    remember(home, "The spare key hangs behind the clock.", "ann")
    out = export_user(home, "ann", tmp_path / "new").out
    schema = json.loads((out / "schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    assert schema == export_schema()
    checked = 0
    for path in sorted(out.rglob("*.json")):
        name = path.relative_to(out).as_posix()
        if path.name != "schema.json" and not name.startswith(("originals/", "inbox/")):
            Draft202012Validator(schema["$defs"][kind_of(name)]).validate(json.loads(path.read_text()))
            checked += 1
    assert checked > 40


def everything(out: Path) -> str:
    return "".join(p.read_text() for p in sorted(out.rglob("*")) if p.is_file())


def test_it_has_old_hidden_and_derived_rows_and_two_exports_are_the_same(copy, tmp_path):
    home, _, _ = copy
    done = export_user(home, "ann", tmp_path / "new")
    build = published(home)
    stored = pl.concat([build.table(c, "memories") for c in build.collections]).filter(pl.col("user_id") == "ann")
    assert done.counts["memories"] == stored.height and done.to_json()["documents"] == done.counts["documents"]
    rows = read_rows(done.out, "collections/papers/tables/memories.json")
    assert {True, False} == {r["user_visible"] for r in rows} and any("Postgres" in r["text"] for r in rows)
    versions = read_rows(done.out, "collections/papers/sources.json")
    (ledger,) = [s for s in versions if s["uri"] == "ledger.md"]
    assert [v["ordinal"] for v in ledger["versions"]] == [1, 2]
    assert read_rows(done.out, "collections/papers/tables/redactions.json")[0]["kind"]
    for table in ("relations", "versions", "entities", "facts", "nodes", "edges", "chunks", "topics"):
        expected = sum(build.table(c, table).filter(pl.col("user_id") == "ann").height for c in build.collections)
        assert done.counts[table] == expected, table
    assert "AKIA" not in everything(done.out)
    home, _, _ = copy
    first, second = (export_user(home, "ann", tmp_path / name).out for name in ("a", "b"))
    files = ({p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()} for out in (first, second))
    assert next(files) == next(files)


def test_nothing_of_another_user_is_in_it(copy, tmp_path):
    home, _, _ = copy
    remember(home, "Bob hides the emerald.", "bob")
    text = everything(export_user(home, "ann", tmp_path / "new").out)
    assert CANARY not in text and "canteen" not in text and "emerald" not in text and "mallory" not in text
    bob = export_user(home, "bob", tmp_path / "bob")
    text = everything(bob.out)
    assert CANARY in text and "emerald" in text and "Heron" not in text and "ledger" not in text
    assert bob.counts["memories"] == 2 and bob.counts["pending"] == 1


def test_an_original_is_copied_only_where_it_holds_nothing_else(copy, tmp_path):
    home, corpus, _ = copy
    done = export_user(home, "ann", tmp_path / "new")
    originals = {p.name for p in (done.out / "originals").rglob("*") if p.is_file()}
    assert originals == {"old.txt", "new.txt"}
    reasons = {r["uri"]: r["reason"] for r in done.left_out}
    assert "other users" in reasons["turns.jsonl"] and "redacted" in reasons["ledger.md"]
    (corpus / "papers" / "old.txt").write_text("The annex is closed.\n")
    again = export_user(home, "ann", tmp_path / "again")
    assert "changed since" in {r["uri"]: r["reason"] for r in again.left_out}["old.txt"]


@pytest.mark.slow
def test_a_deleted_text_does_not_come_back_with_the_original(copy, tmp_path):
    home, corpus, _ = copy
    home = with_own_vectors(home)
    (corpus / "papers" / "two.txt").write_text("The emerald is under the stairs.\n\nThe lamp is green.\n")
    build(home, [corpus])
    memories = published(home).table("papers", "memories")
    delete(home, memories=memories.filter(pl.col("text").str.contains("emerald"))["memory_id"].to_list())
    done = export_user(home, "ann", tmp_path / "new")
    assert "emerald" not in everything(done.out) and "lamp" in everything(done.out)
    assert "deleted" in {r["uri"]: r["reason"] for r in done.left_out}["two.txt"]


def test_decisions_names_reads_and_answers_of_the_user_alone_are_in_it(copy, tmp_path):
    home, _, _ = copy
    build = published(home)
    relations = build.table("chats", "relations").filter(pl.col("label") == "UPDATE")
    decide(home, "undo", [(relations["relation_id"][0],)], None)
    keys = build.table("chats", "surfaces").filter(pl.col("user_id") == "ann")["key"].unique().sort()[:2]
    memories, ledger = build.table("chats", "memories"), Ledger(home.lm_ledger)
    for user in ("ann", "bob"):
        node = GraphDecision("add_node", ("chats", user, ""), f"{user:0>16}", values=NodeValues(name=user))
        append_made(home.decisions, node)
        own = memories.filter(pl.col("user_id") == user)
        first, second = own["memory_id"][:2]
        document, chunks = own["document_id"][0], " ".join(own["chunk_ids"][0])
        queries = {"pair": (first, second), "note": (f"{document}:0", f"{document} {chunks}"), "fact": (first, first)}
        for what, ids in queries.items():
            ledger.put(f"{user} {what}", *ids, "program", "model", LmAnswer(f"{what} of {user}", 1, 1, 0.0))
    ledger.put("question", "", "", "rerank", "model", LmAnswer("of nobody", 1, 1, 0.0))
    ledger.close()
    targets = [names_target(*(entity_id("chats", user, "", k) for k in keys)) for user in ("ann", "bob")]
    append_decisions(home.decisions, "same", targets)
    with open_home(home.path) as reader:
        found = reader.search("What do I prefer in the morning?", reader.resolve_scopes("chats", "ann"))
        reader.search("locker", reader.resolve_scopes("chats", "bob"))
    out = export_user(home, "ann", tmp_path / "new", "chats").out
    decided = read_rows(out, "decisions.json")
    assert [(r["kind"], r.get("user_id")) for r in decided] == [("undo", None), ("graph", "ann"), ("same", None)]
    assert len(keys) == 2 and sorted(decided[-1]["names"]) == [*keys]
    reads = {r["memory_id"]: r["reads"] for r in read_rows(out, "usage.json")}
    assert reads == {m.memory_id: 1 for m in found.memories}
    answers = sorted(r["answer"] for r in read_rows(out, "answers.json"))
    assert answers == ["fact of ann", "note of ann", "pair of ann"]


def test_bad_arguments_are_one_line(copy, tmp_path):
    home, _, _ = copy
    with pytest.raises(PalimpsestError, match="nothing of this user"):
        export_user(home, "nobody", tmp_path / "new")
    assert not (tmp_path / "new").exists() and not list(tmp_path.glob(".new*"))
    with pytest.raises(PalimpsestError, match="it has: chats, papers"):
        export_user(home, "ann", tmp_path / "new", "nope")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    with pytest.raises(PalimpsestError, match="not empty"):
        export_user(home, "ann", tmp_path / "full")
    with pytest.raises(PalimpsestError, match="inside the home"):
        export_user(home, "ann", home.path / "out")
    refused = run("export", "--user", "ann", "--out", tmp_path / "full", "--home", home.path)
    assert refused.returncode == 2 and len(refused.stderr.strip().splitlines()) == 1


def test_the_command_prints_the_counts(copy, tmp_path):
    home, _, _ = copy
    done = process("export", "--user", "ann", "--out", tmp_path / "new", "--home", home.path, "--json")
    expected = export_user(home, "ann", tmp_path / "b").counts["memories"]
    assert done.returncode == 0 and last_json(done)["memories"] == expected
    assert "Heron" in "".join(p.read_text() for p in (tmp_path / "new").rglob("*.json"))
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
