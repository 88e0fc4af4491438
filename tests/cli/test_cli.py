"""The command line as others run it: exit codes, one line on bad input, JSON as the last line.

Each command runs as a real process once at least (`process`); the rest is tested here (`run`).
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from palimpsest.neo4j_graph.identity import home_id
from palimpsest.pipeline.stages import STAGES
from palimpsest.store.home import Home
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


def test_a_build_runs_every_stage_in_order_and_publishes(built):
    _, _, summary, stderr = built
    stages = [line.split()[1] for line in stderr.splitlines() if line.startswith("stage ")]
    each = list(STAGES)
    assert stages == [*each, *each, "index", "retrieval_report", "published"]
    assert summary["published"] and summary["documents"] == 4 and summary["memories"] == 6
    assert summary["relations"]["UPDATE"] == 1 and summary["retired"] == 1
    assert summary["work"] == {"embeddings": 0, "lm_calls": 0, "graph_writes": 0}
    assert summary["gate"]["status"] == "unjudged"


def test_a_build_whose_texts_all_have_vectors_imports_no_torch(built):
    imported = {line.split("|")[-1].strip() for line in built[3].splitlines() if line.startswith("import time:")}
    assert "dagster" in imported and not [m for m in imported if m.startswith(("torch.", "sentence_transformers"))]


def test_a_second_build_says_that_nothing_changed_and_does_nothing(built):
    home, corpus, first, _ = built
    done = run("build", "--home", home, "--corpus", corpus, "--json")
    again = last_json(done)
    assert again["build_id"] == first["build_id"] and again["digest"] == first["digest"]
    assert not any(again["work"].values())
    assert "nothing changed" in done.stderr


def test_query_answers_with_the_current_fact_cited_and_history_shows_the_old_one(built):
    home, *_ = built
    done = process("query", "when is the deadline of Heron?", "--home", home, "--collection", "chats", "--json")
    answer = last_json(done)
    assert "20 April" in answer["memories"][0]["text"] and answer["memories"][0]["is_latest"]
    assert answer["citations"][0] == answer["memories"][0]["memory_id"] and " [1]\n" in answer["context"]
    assert all(m["is_latest"] for m in answer["memories"])
    chats = ("--home", home, "--collection", "chats", "--json")
    past = last_json(run("query", "when is the deadline of Heron?", "--as-of", "2026-02-15", *chats))
    assert "12 March" in past["memories"][0]["text"]
    history = last_json(
        run("query", "deadline of Heron", "--home", home, "--collection", "chats", "--history", "--json")
    )
    assert {m["is_latest"] for m in history["memories"]} == {True, False}
    newest, oldest = next(m for m in history["memories"] if not m["is_latest"])["history"]
    assert newest["is_latest"] and newest["why"] is None and oldest["superseded_by"] == newest["memory_id"]
    assert oldest["why"]["kind"] == "updated" and oldest["why"]["text"].startswith(
        f"replaced by [{newest['memory_id']}]"
    )
    command = ("query", "What did we believe on 15 February 2026 about the deadline of Heron?", *chats)
    believed = last_json(run(*command))
    assert "12 March" in believed["memories"][0]["text"] and believed["time"]["as_of"].startswith("2026-02-15T23:59")


@pytest.mark.parametrize("group", ["", "neo4j", "baseline", "config", "service", "instance", "collection", "document"])
def test_the_list_of_commands_is_not_cut_off_in_80_columns(group):
    done = run(*group.split(), "--help")
    commands = done.stdout.split("Commands:")[1]
    assert len(commands.splitlines()) > 1 and "..." not in commands


def test_one_user_never_sees_the_other(built):
    home, *_ = built
    mine = last_json(
        run("query", "locker code quixotic-77", "--home", home, "--collection", "chats", "--user", "bob", "--json")
    )
    assert "quixotic-77" in mine["context"]
    done = run("query", "locker code", "--home", home, "--collection", "chats", "--user", "ann", "--json")
    assert "quixotic" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["query", "x", "--home", "nowhere"], "no published build"),
        (["verify", "--home", "nowhere"], "no published build"),
        (["build", "--home", "h", "--corpus", "no-such-folder"], "no such folder"),
        (["query"], "TEXT"),
        (["query", "x", "--k", "0"], "--k"),
        (
            ["query", "x", "--as-of", "soon", "--home", "HOME", "--collection", "chats"],
            "--as-of soon: not a date; write 2024-05-31",
        ),
        (["query", " ", "--home", "HOME", "--collection", "chats"], "'TEXT': is empty"),
        (["suite", "no-such-suite"], "no-such-suite"),
        (["label", "--pairs", "none.jsonl", "--out", "o"], "none.jsonl"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(built, tmp_path, args, message):
    command = process if args[0] in ("suite", "label") else run
    done = command(*(built[0] if a == "HOME" else a for a in args), cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr and len(done.stderr.strip().splitlines()[-1]) < 400


def test_a_setting_that_is_missing_or_wrong_is_named_with_its_file(tmp_path):
    corpus = write_notes(tmp_path / "corpus", {"a.md": "text"})
    settings = corpus / "notes/collection.yaml"
    settings.write_text("name: notes\n")
    done = run("build", "--home", tmp_path / "h", "--corpus", corpus)
    assert done.returncode == 2 and "description is required" in done.stderr and "collection.yaml" in done.stderr
    settings.write_text("name: notes\ndescription: d\nunit: paragraph\n")
    done = run("build", "--home", tmp_path / "h", "--corpus", corpus)
    assert done.returncode == 2 and "unit" in done.stderr


def test_a_rejected_source_is_reported_with_its_reason_and_the_rest_is_built(tmp_path):
    corpus = write_notes(tmp_path / "corpus", {"a.md": "A fine note about herons.", "b.bin": "\x00\x01\x02"})
    done = run("build", "--home", tmp_path / "h", "--corpus", corpus, "--json")
    assert done.returncode == 2
    assert last_json(done)["published"] and last_json(done)["rejects"] == 1
    assert last_json(done)["work"]["embeddings"] == 1
    assert "b.bin" in done.stderr
    assert run("build", "--home", tmp_path / "h", "--corpus", corpus, "--allow-rejects").returncode == 0
    assert run("verify", "--home", tmp_path / "h").returncode == 0


def test_verify_fails_when_a_table_was_changed(built, tmp_path):
    import shutil

    import polars as pl

    home = tmp_path / "home"
    shutil.copytree(built[0], home)
    assert run("verify", "--home", home).returncode == 0
    path = next(home.glob("builds/*/chats/versions.parquet"))
    frame = pl.read_parquet(path).with_columns(is_latest=pl.lit(True))
    path.unlink()
    frame.write_parquet(path)
    done = process("verify", "--home", home)
    assert done.returncode == 1 and "invariant" in done.stderr


@pytest.mark.slow
def test_a_build_of_a_home_that_neo4j_serves_warns_that_the_graph_shows_an_earlier_build(built, tmp_path):
    import shutil

    home, corpus = (shutil.copytree(source, tmp_path / source.name) for source in built[:2])
    home_id(Home(home))
    settings = corpus / "notes/collection.yaml"
    settings.write_text(settings.read_text().replace("description: notes", "description: our notes"))
    done = process("build", "--home", home, "--corpus", corpus)
    assert done.returncode == 0, done.stderr
    assert "warning: Neo4j was not loaded and still shows an earlier build" in done.stderr
    assert f"palimpsest build --graph --home {home}" in done.stderr
    assert "warning: Neo4j" not in built[3]


def test_undoing_a_relation_breaks_no_invariant_of_the_build_before_the_next_one(built, tmp_path):
    import shutil

    import polars as pl

    home = tmp_path / "home"
    shutil.copytree(built[0], home)
    path = next(home.glob("builds/*/chats/relations.parquet"))
    update = pl.read_parquet(path).filter(label="UPDATE").row(0, named=True)
    assert run("undo", update["relation_id"], "--home", home).returncode == 0
    done = run("verify", "--home", home)
    assert done.returncode == 0, done.stdout


def test_deleting_a_user_leaves_none_of_their_words_in_any_file(built, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(built[0], home)
    done = run("delete", "--user", "bob", "--home", home, "--json")
    assert done.returncode == 0, done.stderr
    assert last_json(done)["memories"] == 2 and last_json(done)["residue"] == []
    # The source still says it; the tombstone keeps it out.
    assert run("build", "--home", home, "--corpus", built[1]).returncode == 0
    answer = run("query", "locker code", "--home", home, "--collection", "chats", "--user", "bob", "--history")
    assert "quixotic" not in answer.stdout
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


def test_delete_at_a_terminal_lists_and_prompts_unless_yes_is_given(built, tmp_path):
    home = shutil.copytree(built[0], tmp_path / "home")
    command = ["delete", "--user", "bob", "--home", str(home)]
    shown = terminal(command, "n\n", tmp_path, code=2)
    assert "would" in shown and "Delete this for good?" in shown and "nothing was deleted" in shown
    assert "quixotic" in run("query", "locker code", "--home", home, "--collection", "chats", "--user", "bob").stdout
    assert "Delete this" not in terminal([*command, "--yes"], "", tmp_path)
    assert "would delete 0 documents" in run("delete", "--user", "bob", "--home", home, "--dry-run").stdout


def test_delete_without_a_target_or_with_a_wrong_one_is_refused(built):
    home = built[0]
    assert run("delete", "--home", home).returncode == 2
    assert run("delete", "--home", home, "--document", "nope.md").returncode == 2


def test_a_dry_run_reports_the_work_and_does_none(tmp_path):
    corpus = write_chats(tmp_path / "corpus")
    done = run("build", "--home", tmp_path / "h", "--corpus", corpus, "--dry-run", "--json")
    plan = last_json(done)
    assert (plan["files"], plan["memories"], plan["embeddings"]) == (1, 5, 5)
    assert not (tmp_path / "h/builds").exists()


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
