"""What a person says about names is applied by every build after it, and can be taken back."""

import json

import pytest
from click.testing import CliRunner

from palimpsest.cli.query import entity
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import entity_id
from palimpsest.entities.entity_decisions import decide_names, entity_text, explain_entity
from palimpsest.entities.name_model import Merge, NameEvidence, ScopeEvidence
from palimpsest.entities.resolve_names import resolve
from palimpsest.pipeline.finish import digest, run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.pipeline.stages import indexed_tables
from palimpsest.store.builds import published
from palimpsest.store.decisions import Decisions, append_decisions, names_target, read_decisions
from palimpsest.store.home import Home
from tests.small_corpus import copy_built, write_notes

SCOPE = ("notes", "shared", "")
NOTES = {
    "a.md": "# Tides\n\nWe asked Ansel Moreau, who agreed.\n\nThe idea came from Ansel.\n",
    "b.md": "# Boats\n\nThe boat of Ansel is blue. It was Ansel Moreau's once.\n\nWe like Windhover and the Kestrel.\n",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory, shared_vectors):
    base = tmp_path_factory.mktemp("made")
    build(Home(base / "home", shared_vectors), write_notes(base / "corpus", NOTES, unit="statement"))
    return base


@pytest.fixture
def home(made, tmp_path, shared_vectors):
    return Home(copy_built(made, tmp_path)[0].path, shared_vectors)


def build(home, corpus=None):
    return run_without_dagster(home, make_plan(home, [corpus] if corpus else None))


def names(home):
    entities = published(home).table("notes", "entities")
    return {n: set(a) for n, a in entities.select("name", "aliases").iter_rows()}


@pytest.mark.slow
def test_names_set_apart_stay_apart_through_later_builds_and_from_scratch(home, tmp_path):
    assert "Ansel" in names(home)["Ansel Moreau"]
    decide_names(home, SCOPE, "Ansel", "Ansel Moreau", "apart")
    build(home)
    assert "Ansel" in names(home) and not names(home)["Ansel Moreau"]
    write_notes(tmp_path / "corpus", NOTES | {"c.md": "The song of Ansel is long.\n"}, unit="statement")
    grown = build(home)
    assert "Ansel" in names(home)
    fresh = Home(tmp_path / "fresh", home.embeddings_path)
    fresh.create()
    append_decisions(fresh.decisions, "apart", ["+".join(p) for p in read_decisions(home.decisions).apart])
    scratch = run_without_dagster(fresh, make_plan(fresh, [tmp_path / "corpus"]))
    assert digest(grown.tables(indexed_tables())) == digest(scratch.tables(indexed_tables()))
    assert grown.tables(["merges"])["merges"].equals(scratch.tables(["merges"])["merges"])


def test_names_merged_by_a_person_are_one_until_the_decision_is_withdrawn(home):
    decide_names(home, SCOPE, "Kestrel", "Windhover", "same")
    build(home)
    assert names(home)["Windhover"] == {"Kestrel"}
    reasons = explain_entity(home, SCOPE, "Kestrel")[0].reasons
    assert [(r.alias, r.name, r.why) for r in reasons] == [("Kestrel", "Windhover", "decided")]
    decide_names(home, SCOPE, "Kestrel", "Windhover", "undecided")
    build(home)
    assert names(home)["Windhover"] == set() == names(home)["Kestrel"]


def test_reasons_name_the_memory_that_shows_them(home):
    found = explain_entity(home, SCOPE, "ansel")
    texts = dict(published(home).table("notes", "memories").select("memory_id", "text").iter_rows())
    assert [e.name for e in found] == ["Ansel Moreau"]
    (shown,) = [texts[r.memory_id] for r in found[0].reasons]
    assert "Ansel Moreau" in shown
    assert "Ansel = Ansel Moreau: short form [memory:" in entity_text(found)


@pytest.mark.parametrize(
    ("a", "b", "verdict", "message"),
    [
        ("Nobody Here", "Ansel", "apart", "no name 'Nobody Here' in notes/shared"),
        ("Ansel", "ANSEL", "apart", "differ only in case"),
        ("Ansel", "Ansel Moreau", "undecided", "already undecided"),
    ],
)
def test_an_empty_decision_is_refused(home, a, b, verdict, message):
    with pytest.raises(PalimpsestError, match=message):
        decide_names(home, SCOPE, a, b, verdict)
    assert not home.decisions.exists()


def test_a_decision_keeps_no_name_and_no_user(home):
    decide_names(home, SCOPE, "Ansel", "Ansel Moreau", "apart")
    line = home.decisions.read_text()
    assert "nsel" not in line and "shared" not in line and "notes" not in line


def test_the_last_decision_about_a_pair_counts_and_a_broken_line_is_named(tmp_path):
    path = tmp_path / "decisions.jsonl"
    pair = names_target("bb", "aa")
    append_decisions(path, "same", [pair])
    append_decisions(path, "apart", [pair])
    assert read_decisions(path) == Decisions(apart=frozenset({("aa", "bb")}))
    append_decisions(path, "same", ["only-one"])
    with pytest.raises(PalimpsestError, match="line 3 is not a decision"):
        read_decisions(path)


def test_names_set_apart_never_meet_over_a_third():
    edges = (Merge("windhover", "kestrel", "also called"), Merge("windhover", "kestrel", "goes by"))
    names = {k: NameEvidence(k, 1) for k in ("windhover", "kestrel", "merlin")}
    scope = ScopeEvidence(names, edges, same=(("merlin", "windhover"),), apart=(("kestrel", "merlin"),))
    done = resolve(scope)
    assert done.canonical in ({"merlin": "windhover"}, {"windhover": "merlin"})


def test_a_decision_in_one_scope_is_none_in_another():
    pair = tuple(sorted(entity_id("c", "u1", "", k) for k in ("a", "b")))
    decisions = Decisions(same=frozenset({pair}))
    assert decisions.names_in(("c", "u1", ""), ["a", "b"])[0] and decisions.names_in(("c", "u2", ""), ["a", "b"]) == (
        (),
        (),
    )


def test_the_command_explains_and_decides(home):
    def run(*args):
        return CliRunner().invoke(entity, [*args, "--home", str(home.path), "--json"])

    explained = run("Ansel")
    assert json.loads(explained.stdout)["entities"][0]["name"] == "Ansel Moreau"
    done = run("Ansel", "Ansel Moreau", "--apart")
    assert json.loads(done.stdout)["verdict"] == "apart" and len(read_decisions(home.decisions).apart) == 1
    assert run("Ansel", "Ansel Moreau").exit_code == 2 == run("Ansel", "--same").exit_code
