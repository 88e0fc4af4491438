"""A project is a boundary: what a search reads, what it says of it, and what an unknown name gets."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from palimpsest.cli.query import query, scopes
from palimpsest.core.errors import ArgumentError
from palimpsest.core.ids import SCOPE
from palimpsest.query import Scope, open_home
from palimpsest.query.ranking.merge import pool_stats
from palimpsest.query.ranking.scoring import score_stats
from palimpsest.query.result import results_text
from palimpsest_eval.golden.answers import check_citations
from tests.query.made import home, memory, tables

MADE = [
    memory("a1", "The database of the project is Postgres.", project_id="alpha"),
    memory("b1", "The database of the project is SQLite.", project_id="beta"),
    memory("g1", "The office with the database is in Leiden."),
    memory("g2", "Lunch is at noon."),
    memory("w1", "A database is a store.", collection="wiki"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    collections = {"notes": {"default": True, "user_id": "ana"}, "wiki": {"user_id": "ana"}}
    return home(tmp_path_factory.mktemp("scopes") / "h", tables(MADE), collections=collections)


@pytest.fixture(scope="module")
def reader(folder):
    with open_home(folder) as r:
        yield r


def found(reader, scope, **filters):
    return sorted(m.memory_id for m in reader.search("which database?", scope, k=10, **filters).memories)


def test_a_search_in_a_project_sees_the_project_and_the_general_memory_and_nothing_else(reader):
    assert found(reader, reader.resolve_scopes(project="alpha")) == ["a1", "g1", "g2"]
    assert found(reader, ("notes", "ana"), project="beta") == ["b1", "g1", "g2"]
    assert found(reader, ("notes", "ana", "beta")) == ["b1"]
    assert found(reader, reader.resolve_scope()) == ["g1", "g2"]
    assert found(reader, reader.resolve_scopes(all_projects=True)) == ["a1", "b1", "g1", "g2"]
    assert found(reader, reader.resolve_scopes(all_collections=True)) == ["g1", "g2", "w1"]
    answer = reader.search("which database?", reader.resolve_scopes(all_projects=True))
    assert "… and " in answer.context and all(f"] {i}.md" in results_text(answer) for i in ("a1", "b1", "g1", "g2"))
    every = reader.resolve_scopes(all_collections=True, project="alpha")
    assert every == [Scope("notes", "ana"), Scope("notes", "ana", "alpha"), Scope("wiki", "ana")]


def test_an_answer_has_the_scope_of_each_memory_and_valid_citations(reader):
    answer = reader.search("which database?", reader.resolve_scopes(project="alpha"), k=5)
    assert "(undated, project alpha)" in results_text(answer)
    assert "[memory:a1] a1.md, chars 0-40, project alpha" in answer.context_with("full")
    general = [line for line in answer.context_with("full").splitlines() if line.startswith("[memory:g1]")]
    assert len(general) == 1 and "project" not in general[0]
    memories = {m["memory_id"]: m for m in answer.to_json()["memories"]}
    assert [memories["a1"][c] for c in SCOPE] == ["notes", "ana", "alpha"] and memories["g1"]["project_id"] == ""

    class Known:
        def find_error(self, memory_id, text, source):
            return None if source and source["uri"] == f"{memory_id}.md" and source["spans"] else memory_id

    assert check_citations(answer.context_with("full"), Known())[1] == []


def test_a_user_without_a_collection_is_read_where_all_memories_of_the_user_are_as_the_inbox_stores_them(tmp_path):
    made = [memory("n1", "The office is in Leiden."), memory("w1", "A database.", collection="wiki", user_id="bo")]
    made += [
        memory("x1", "A sail.", collection="yard", user_id="cy"),
        memory("x2", "C.", collection="wiki", user_id="cy"),
    ]
    settings = {"notes": {"default": True, "user_id": "ana"}, "wiki": {"user_id": "bo"}, "yard": {"user_id": "cy"}}
    path = home(tmp_path / "h", tables(made), collections=settings)
    with open_home(path) as reader:
        assert (
            reader.resolve_scopes(user="bo") == [Scope("wiki", "bo")] and reader.resolve_scope().collection == "notes"
        )
        with pytest.raises(ArgumentError, match=r"^collection: cy has memories in wiki, yard; name one of them$"):
            reader.resolve_scopes(user="cy")
    said = CliRunner().invoke(query, ["which database?", "--user", "bo", "--home", str(path)])
    assert "in collection wiki, user bo; --collection names another: notes, yard" in said.stderr
    assert "A database." in said.stdout and "collection wiki" not in said.stdout


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"project": "gamma"}, "project='gamma': not in collection notes for user ana; projects there: alpha, beta"),
        ({"user": "zoe"}, "user='zoe': not in collection notes; it has: ana"),
        ({"collection": "x"}, "collection='x': not in this build; it has: notes, wiki"),
        ({"project": "alpha", "all_projects": True}, "all_projects: excludes a project"),
        ({"user": "zoe", "all_collections": True}, "user='zoe': in no collection; users: ana"),
    ],
)
def test_an_unknown_name_is_an_error_that_lists_those_known(reader, named, message):
    with pytest.raises(ArgumentError) as caught:
        reader.resolve_scopes(**named)
    assert str(caught.value) == message


def test_the_command_line_searches_and_lists_scopes(folder):
    def run(command, *args):
        return CliRunner().invoke(command, [*args, "--home", str(folder), "--json"])

    listed = json.loads(run(scopes).stdout.splitlines()[-1])["scopes"]
    assert [(s["collection"], s["project_id"], s["memories"]) for s in listed] == [
        ("notes", "", 2),
        ("notes", "alpha", 1),
        ("notes", "beta", 1),
        ("wiki", "", 1),
    ]
    answer = json.loads(run(query, "which database?", "--project", "alpha").stdout.splitlines()[-1])
    assert {m["project_id"] for m in answer["memories"]} == {"alpha", ""}
    assert run(query, "database", "--project", "gamma").exit_code != 0


def test_a_question_without_a_word_is_refused(reader):
    with pytest.raises(ArgumentError, match="text: has no words"):
        reader.search("?!", reader.resolve_scope())
    assert reader.search("\u6771\u4eac", reader.resolve_scope()).memories


def test_the_scope_of_a_query_has_the_scope_columns():
    assert Scope._fields == SCOPE


def test_a_project_of_one_memory_is_found_next_to_a_large_general_memory(tmp_path):
    """Its z-scores alone are all 0: a scope of one memory has no deviation."""
    general = [memory(f"g{i:03}", f"The parking space number {i} belongs to the team.") for i in range(120)]
    own = [memory("p1", "The database of the project is Postgres.", project_id="alpha")]
    with open_home(home(tmp_path / "h", tables([*general, *own]), collections={"notes": {"user_id": "ana"}})) as reader:
        for strategy in ("flat", "hybrid", "auto"):
            answer = reader.search("which database?", ("notes", "ana"), project="alpha", strategy=strategy)
            assert answer.memories[0].memory_id == "p1"
            answer = reader.search("whose is parking space 7?", ("notes", "ana"), project="alpha", strategy=strategy)
            assert answer.memories[0].memory_id != "p1"


def test_merged_score_stats_are_those_of_all_scores_together():
    a, b = np.array([0.1, 0.4, 0.7]), np.array([0.9])
    both = score_stats(np.concatenate([a, b]))
    pool = pool_stats([(3, score_stats(a)), (1, score_stats(b))])
    assert (pool.mean, pool.std) == (pytest.approx(both.mean), pytest.approx(both.std))
