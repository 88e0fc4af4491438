"""The command line as others run it: exit codes, one line on bad input, JSON as the last line.

Each command runs as a real process once at least (`process`); what else is asked of it runs here (`run`).
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from palimpsest.neo4j_graph.identity import home_id
from palimpsest.pipeline.stages import STAGES
from palimpsest.store.home import Home
from palimpsest_eval.testing.fake_lm_server import FakeLMServer
from tests.command import last_json, process, run, terminal
from tests.small_corpus import write_chats, write_notes


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, embed_corpus) -> tuple[Path, Path, dict, str]:
    """A home, its corpus, and what the build said; with its imports, each a line."""
    base = tmp_path_factory.mktemp("cli")
    corpus = write_notes(write_chats(base / "corpus"), {"heron.md": "# Heron\n\nHeron is a weather station.\n"})
    home = embed_corpus(base / "home", corpus)
    done = process("build", "--home", home, "--corpus", corpus, "--json", PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0, done.stderr
    return home, corpus, last_json(done), done.stderr


def test_a_build_runs_every_stage_in_order_publishes_imports_no_torch_and_a_second_one_does_nothing(built):
    _, _, summary, stderr = built
    stages = [line.split()[1] for line in stderr.splitlines() if line.startswith("stage ")]
    each = list(STAGES)
    assert stages == [*each, *each, "index", "retrieval_report", "published"]
    assert summary["published"] and summary["documents"] == 4 and summary["memories"] == 6
    assert summary["relations"]["UPDATE"] == 1 and summary["retired"] == 1
    assert summary["work"] == {"embeddings": 0, "lm_calls": 0, "graph_writes": 0}
    assert summary["gate"]["status"] == "unjudged"
    imported = {line.split("|")[-1].strip() for line in built[3].splitlines() if line.startswith("import time:")}
    assert "dagster" in imported and not [m for m in imported if m.startswith(("torch.", "sentence_transformers"))]
    home, corpus, first, _ = built
    done = run("build", "--home", home, "--corpus", corpus, "--json")
    again = last_json(done)
    assert again["build_id"] == first["build_id"] and again["digest"] == first["digest"]
    assert not any(again["work"].values())
    assert "nothing changed" in done.stderr


def test_query_answers_with_the_current_fact_cited_and_history_shows_the_old_one(built):
    chats = ("--home", built[0], "--collection", "chats", "--json")
    answer = last_json(process("query", "when is the deadline of Heron?", *chats))
    assert "20 April" in answer["memories"][0]["text"] and all(m["is_latest"] for m in answer["memories"])
    assert answer["citations"][0] == answer["memories"][0]["memory_id"] and " [1]\n" in answer["context"]
    past = last_json(run("query", "when is the deadline of Heron?", "--as-of", "2026-02-15", *chats))
    assert "12 March" in past["memories"][0]["text"]
    history = last_json(run("query", "deadline of Heron", *chats, "--history"))["memories"]
    assert {m["is_latest"] for m in history} == {True, False}
    newest, oldest = next(m for m in history if not m["is_latest"])["history"]
    assert newest["is_latest"] and newest["why"] is None and oldest["superseded_by"] == newest["memory_id"]
    why = oldest["why"]
    assert why["kind"] == "updated" and why["text"].startswith(f"replaced by [{newest['memory_id']}]")
    question = "What did we believe on 15 February 2026 about the deadline of Heron?"
    believed = last_json(run("query", question, *chats))
    assert "12 March" in believed["memories"][0]["text"] and believed["time"]["as_of"].startswith("2026-02-15T23:59")
    mine = last_json(run("query", "locker code quixotic-77", *chats, "--user", "bob"))
    assert "quixotic-77" in mine["context"]
    done = run("query", "locker code", *chats, "--user", "ann")
    assert "quixotic" not in done.stdout + done.stderr, "one user never sees the other"


@pytest.mark.parametrize("group", ["", "neo4j", "baseline", "config", "service", "instance", "collection", "document"])
def test_the_list_of_commands_is_not_cut_off_in_80_columns(group):
    done = run(*group.split(), "--help")
    commands = done.stdout.split("Commands:")[1]
    assert len(commands.splitlines()) > 1 and "..." not in commands


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["query", "x", "--home", "nowhere"], "no published build"),
        (["verify", "--home", "nowhere"], "no published build"),
        (["build", "--home", "h", "--corpus", "no-such-folder"], "no such folder"),
        (["query"], "TEXT"),
        (["query", "x", "--k", "0"], "--k"),
        (["query", "x", "--as-of", "soon", "--home", "HOME", "--collection", "chats"], "--as-of soon: not a date"),
        (["query", " ", "--home", "HOME", "--collection", "chats"], "TEXT: is empty"),
        (["suite", "no-such-suite"], "no-such-suite"),
        (["label", "--pairs", "none.jsonl", "--out", "o"], "none.jsonl"),
        (["frobnicate"], "frobnicate"),
        (["delete", "--home", "HOME"], ""),
        (["delete", "--home", "HOME", "--document", "nope.md"], "nope.md"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(built, tmp_path, args, message):
    command = process if args[0] == "label" else run
    done = command(*(built[0] if a == "HOME" else a for a in args), cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr and len(done.stderr.strip().splitlines()[-1]) < 400


@pytest.mark.parametrize(
    ("text", "message"), [("name: notes\n", "description is required"), ("name: n\ndescription: d\nunit: x\n", "unit")]
)
def test_a_setting_that_is_missing_or_wrong_is_named_with_its_file(tmp_path, text, message):
    corpus = write_notes(tmp_path / "corpus", {"a.md": "text"})
    (corpus / "notes/collection.yaml").write_text(text)
    done = run("build", "--home", tmp_path / "h", "--corpus", corpus)
    assert done.returncode == 2 and message in done.stderr and "collection.yaml" in done.stderr


def test_a_rejected_source_is_reported_with_its_reason_and_the_rest_is_built(tmp_path):
    notes, home = {"a.md": "A fine note about herons.", "b.bin": "\x00\x01\x02"}, tmp_path / "h"
    corpus = write_notes(tmp_path / "corpus", notes)
    plan = last_json(run("build", "--home", home, "--corpus", write_chats(tmp_path / "dry"), "--dry-run", "--json"))
    assert (plan["files"], plan["memories"], plan["embeddings"]) == (1, 5, 5) and not (home / "builds").exists()
    done = run("build", "--home", home, "--corpus", corpus, "--json")
    said = last_json(done)
    assert done.returncode == 2 and said["published"] and said["rejects"] == 1 and "b.bin" in done.stderr
    assert said["work"]["embeddings"] == 1
    assert run("build", "--home", home, "--corpus", corpus, "--allow-rejects").returncode == 0
    assert run("verify", "--home", home).returncode == 0


def test_verify_fails_when_a_table_was_changed_and_not_when_a_relation_was_undone(built, tmp_path):
    home = shutil.copytree(built[0], tmp_path / "home")
    relations = pl.read_parquet(next(home.glob("builds/*/chats/relations.parquet")))
    assert run("undo", relations.filter(label="UPDATE")["relation_id"][0], "--home", home).returncode == 0
    done = run("verify", "--home", home)
    assert done.returncode == 0, done.stdout
    path = next(home.glob("builds/*/chats/versions.parquet"))
    frame = pl.read_parquet(path).with_columns(is_latest=pl.lit(True))
    path.unlink()
    frame.write_parquet(path)
    done = process("verify", "--home", home)
    assert done.returncode == 1 and "invariant" in done.stderr


@pytest.mark.slow
def test_a_build_of_a_home_that_neo4j_serves_warns_that_the_graph_shows_an_earlier_build(built, tmp_path):
    home, corpus = (shutil.copytree(source, tmp_path / source.name) for source in built[:2])
    home_id(Home(home))
    settings = corpus / "notes/collection.yaml"
    settings.write_text(settings.read_text().replace("description: notes", "description: our notes"))
    done = process("build", "--home", home, "--corpus", corpus)
    assert done.returncode == 0, done.stderr
    assert "warning: Neo4j was not loaded and still shows an earlier build" in done.stderr
    assert f"palimpsest build --graph --home {home}" in done.stderr
    assert "warning: Neo4j" not in built[3]


def test_a_delete_prompts_at_a_terminal_unless_yes_is_given_and_leaves_no_word_in_any_file(built, tmp_path):
    home = shutil.copytree(built[0], tmp_path / "home")
    of_bob, command = ("--user", "bob", "--home", home), ["delete", "--user", "bob", "--home", str(home)]
    shown = terminal(command, "n\n", tmp_path, code=2)
    assert "would" in shown and "Delete this for good?" in shown and "nothing was deleted" in shown
    assert "quixotic" in run("query", "locker code", *of_bob, "--collection", "chats").stdout
    shown = terminal([*command, "--yes", "--json"], "", tmp_path)
    deleted = json.loads(shown.strip().splitlines()[-1])
    assert (deleted["memories"], deleted["residue"]) == (2, []) and "Delete this" not in shown
    assert "would delete 0 documents" in run("delete", *of_bob, "--dry-run").stdout
    # The source still says it; the tombstone keeps it out.
    assert run("build", "--home", home, "--corpus", built[1]).returncode == 0
    assert "quixotic" not in run("query", "locker code", *of_bob, "--collection", "chats", "--history").stdout
    assert not [p for p in home.rglob("*") if p.is_file() and b"quixotic-77" in p.read_bytes()]
    assert run("verify", "--home", home).returncode == 0


def test_deleting_the_updating_document_makes_the_older_fact_latest_again(tmp_path):
    notes = {
        "a.md": "---\ndate: 2026-01-01\n---\nThe deadline of Heron is 12 March.\n",
        "b.md": "---\ndate: 2026-02-01\n---\nThe deadline of Heron is now 20 April instead of 12 March.\n",
    }
    corpus = write_notes(tmp_path / "corpus", notes, unit="statement")
    home = tmp_path / "h"
    assert last_json(run("build", "--home", home, "--corpus", corpus, "--json"))["relations"]["UPDATE"] == 1
    assert run("delete", "--document", "b.md", "--home", home).returncode == 0
    answer = last_json(run("query", "deadline of Heron", "--home", home, "--json"))
    assert [m["text"] for m in answer["memories"]] == ["The deadline of Heron is 12 March."]
    rebuilt = last_json(run("build", "--home", home, "--corpus", corpus, "--json"))
    assert rebuilt["retired"] == 0 and rebuilt["memories"] == 1
    assert rebuilt["skipped"] == ["notes/b.md"]


def test_the_query_command_imports_none_of_the_heavy_packages():
    code = (
        "import sys; sys.argv=['palimpsest','query','x','--home','nowhere']\n"
        "from palimpsest.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "import palimpsest.query.reader, palimpsest.query.result\n"
        "import palimpsest.query.backends.duckdb_backend, palimpsest.query.embed_query\n"
        "heavy={'torch','sentence_transformers','dspy','ragas','dagster','spacy','ranx','sklearn'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout


OLD, NEW = (
    "The deadline of project Heron is 12 March.",
    "The deadline of project Heron is now 20 April instead of 12 March.",
)


def latest(home: Path, text: str) -> set[str]:
    found = run("query", text, "--home", home, "--user", "ann", "--json")
    return {m["text"] for m in last_json(found)["memories"]}


@pytest.mark.slow
def test_an_undone_update_comes_back_after_a_rebuild_and_becomes_a_labelled_pair(tmp_path):
    home, corpus = tmp_path / "h", write_chats(tmp_path / "c")
    assert last_json(run("build", "--home", home, "--corpus", corpus, "--json"))["relations"]["UPDATE"] == 1
    found = last_json(run("query", "deadline", "--home", home, "--user", "ann", "--history", "--json"))["memories"]
    ids = [m["memory_id"] for m in found if m["text"] in (OLD, NEW)]
    done = last_json(run("undo", "--pair", *ids, "--home", home, "--json"))
    assert (done["was"], done["label"], done["stays_retired"]) == ("UPDATE", "NONE", None)
    assert OLD not in latest(home, "deadline of project Heron"), "from the next build on"
    built = last_json(run("build", "--home", home, "--json"))
    assert built["relations"]["UPDATE"] == 0 and built["work"]["embeddings"] == 0
    assert {OLD, NEW} <= latest(home, "deadline of project Heron")
    pairs = tmp_path / "pairs.jsonl"
    assert last_json(run("review", "--home", home, "--export", pairs, "--json"))["exported"] == 1
    row = json.loads(pairs.read_text())
    assert (row["older"], row["newer"], row["label"]) == (OLD, NEW, "NONE") and row["newer_date"] > row["older_date"]
    run("confirm", done["relation_id"], "--as", "UPDATE", "--home", home)
    assert last_json(run("build", "--home", home, "--json"))["relations"]["UPDATE"] == 1
    assert last_json(run("build", "--home", home, "--json"))["changed"] == []
    assert run("verify", "--home", home).returncode == 0
    for wrong in (["undo", "nonesuch"], ["confirm"], ["undo", ids[0]], ["undo", "--pair", ids[0], ids[0]]):
        refused = run(*wrong, "--home", home)
        assert refused.returncode == 2 and len(refused.stderr.strip().splitlines()) == 1


@pytest.mark.lm
@pytest.mark.slow
def test_a_build_by_an_lm_is_paid_once_stops_at_its_budget_and_leaves_nothing_after_a_delete(tmp_path):
    home, corpus = tmp_path / "h", write_chats(tmp_path / "c")
    with FakeLMServer({(OLD, NEW): "UPDATE"}) as server:
        env = {
            "PALIMPSEST_LABELER": "dspy",
            "PALIMPSEST_LM": f"stand-in@{server.url}",
            "PALIMPSEST_LM_PRICE": "1,1",
            "PALIMPSEST_LM_KEY": "sk-canary-key",
        }
        first = run("build", "--home", home, "--corpus", corpus, "--max-cost", 0, "--json", **env)
        assert first.returncode == 0, first.stderr
        assert last_json(first)["work"]["lm_calls"] == 0 and last_json(first)["relations"]["UPDATE"] == 0
        second = last_json(run("build", "--home", home, "--json", **env))
        calls = second["work"]["lm_calls"]
        assert calls == server.counts.answered > 0 and second["relations"]["UPDATE"] == 1
        third = last_json(run("build", "--home", home, "--json", **env))
        assert third["changed"] == [] and server.counts.answered == calls
        offline = last_json(run("build", "--home", home, "--json"))
        back = last_json(run("build", "--home", home, "--json", **env))
        assert offline["work"]["lm_calls"] == back["work"]["lm_calls"] == 0 and server.counts.answered == calls
        assert back["digest"] == second["digest"]
        assert server.counts.keys == {"Bearer sk-canary-key"}
    assert not any(b"sk-canary-key" in p.read_bytes() for p in home.rglob("*") if p.is_file())
    (corpus / "chats/turns.jsonl").write_text("")
    assert run("delete", "--user", "ann", "--home", home).returncode == 0
    assert not any(b"20 April" in p.read_bytes() for p in home.rglob("*") if p.is_file())


@pytest.mark.lm
def test_a_setting_that_is_wrong_is_one_line(tmp_path):
    corpus = write_chats(tmp_path / "c")
    for env, message in [
        ({"PALIMPSEST_LABELER": "magic"}, "PALIMPSEST_LABELER"),
        ({"PALIMPSEST_LABELER": "dspy"}, "PALIMPSEST_LM"),
        ({"PALIMPSEST_LABELER": "cascade", "PALIMPSEST_LM": "m@ftp://x"}, "MODEL@URL"),
    ]:
        done = run("build", "--home", tmp_path / "h", "--corpus", corpus, **env)
        assert done.returncode == 2 and message in done.stderr and len(done.stderr.strip().splitlines()) == 1
