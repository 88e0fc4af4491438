"""Nodes and edges by hand, as others run the commands: every build keeps them, undo and deletes take them away."""

from pathlib import Path

import pytest

from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.command import last_json, run
from tests.small_corpus import copy_built, write_chats, write_notes

NOTES = {"team.md": "Vera Maling leads the Tarn Mill. The Tarn Mill is a mill at Lindow.\n"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("decided")
    corpus = write_notes(write_chats(base / "corpus"), NOTES, unit="statement", user_id="ann")
    run_without_dagster(Home(base / "home"), make_plan(Home(base / "home"), [corpus]))
    return base


@pytest.fixture
def made(built: Path, tmp_path: Path) -> tuple[Home, Path]:
    return copy_built(built, tmp_path)


def graph(home: Home, *args: object, user: str = "ann") -> dict:
    """Runs a command of the group graph on the notes of a user."""
    at = () if args[0] in ("undo", "decisions") else ("--collection", "notes", "--user", user)
    done = run("graph", *args, *at, "--home", home.path, "--json")
    assert done.returncode == 0, done.stderr
    return last_json(done)


def rebuild(home: Home, corpus: Path) -> None:
    run_without_dagster(home, make_plan(home, [corpus]))


def nodes(home: Home) -> dict[str, dict]:
    rows = published(home).tables(["nodes"])["nodes"].filter(collection="notes")
    return {row["name"]: row for row in rows.iter_rows(named=True)}


def test_decisions_are_kept_by_every_build_and_undone_by_their_id(made):
    home, corpus = made
    added = graph(home, "node", "add", "Winter list", "--type", "project", "--description", "What to fix.")
    graph(home, "node", "edit", "Vera Maling", "--type", "person", "--alias", "Vee", "--property", "role=lead")
    graph(home, "edge", "add", "Winter list", "Tarn Mill", "--type", "depends_on", "--weight", 0.7)
    assert len(graph(home, "decisions")["decisions"]) == 3
    rebuild(home, corpus)
    first = nodes(home)
    assert (first["Winter list"]["type"], first["Vera Maling"]["aliases"]) == ("project", ["Vee"])
    leads = graph(home, "neighbours", "Tarn Mill", "--where", 'role = "lead"')["nodes"]
    assert {n["name"] for n in leads} == {"Tarn Mill", "Vera Maling"}
    edges = published(home).tables(["edges"])["edges"].filter(provenance="decision")
    assert edges.select("source_id", "weight").rows() == [(first["Winter list"]["node_id"], 0.7)]
    (corpus / "notes" / "more.md").write_text("The Tarn Mill burned.\n")
    rebuild(home, corpus)
    assert nodes(home)["Winter list"]["description"] == "What to fix."
    graph(home, "undo", added["decision_id"])
    rebuild(home, corpus)
    assert "Winter list" not in nodes(home) and nodes(home)["Vera Maling"]["aliases"] == ["Vee"]


def test_a_merge_of_two_entities_is_a_decision_about_names(made):
    home, corpus = made
    graph(home, "node", "merge", "Vera Maling", "Lindow")
    rebuild(home, corpus)
    assert "Lindow" not in nodes(home) or "Vera Maling" not in nodes(home)


def test_a_deleted_node_is_in_no_later_build(made):
    home, corpus = made
    graph(home, "node", "delete", "Lindow")
    rebuild(home, corpus)
    assert "Lindow" not in nodes(home)


@pytest.mark.parametrize("target", [{"user": "ann"}, pytest.param({"collection": "notes"}, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_the_delete_of_a_scope_removes_what_people_wrote_of_it(made, target):
    home, corpus = made
    graph(home, "node", "add", "Zqlist", "--description", "Zqsecret of the mill.")
    rebuild(home, corpus)
    assert "Zqlist" in nodes(home)
    assert delete(home, **target).to_json()["residue"] == []
    files = [p for p in home.path.rglob("*") if p.is_file()]
    assert [p for p in files if b"Zqsecret" in p.read_bytes() or b"Zqlist" in p.read_bytes()] == []


@pytest.mark.slow
def test_the_delete_of_a_document_removes_decisions_with_its_words(made):
    home, corpus = made
    graph(home, "node", "edit", "Vera Maling", "--description", "Vera Maling leads the Tarn Mill.")
    graph(home, "node", "add", "Winter list")
    rebuild(home, corpus)
    assert delete(home, document="team.md", collection="notes").to_json()["residue"] == []
    assert [d["name"] for d in graph_decisions(home)] == ["Winter list"]


def graph_decisions(home: Home) -> list[dict]:
    return graph(home, "decisions")["decisions"]


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (("node", "edit", "Zorro", "--type", "place"), "no node 'Zorro'"),
        (("node", "edit", "Lindow"), "nothing to change"),
        (("node", "add", "Lindow"), "graph node edit"),
        (("node", "add", "x" * 300), "at most 200"),
        (("edge", "add", "Lindow", "Lindow"), "one node"),
        (("node", "add", "New", "--type", "title"), "title"),
        (("node", "add", "New", "--importance", "7"), "0<=x<=1"),
        (("node", "add", "New", "--property", "role"), "KEY=VALUE"),
    ],
)
def test_what_cannot_be_decided_is_one_line_and_exit_code_2(built, args, hint):
    done = run("graph", *args, "--collection", "notes", "--user", "ann", "--home", built / "home")
    assert done.returncode == 2 and hint in done.stderr and len(done.stderr.splitlines()) == 1
    undo = run("graph", "undo", "nothing", "--home", built / "home")
    assert undo.returncode == 2 and "graph decisions" in undo.stderr
