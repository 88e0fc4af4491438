"""The commands over the graph, as others run them."""

from pathlib import Path

import pytest

from tests.command import last_json, process, run
from tests.query.graphed import graph_tables
from tests.query.made import home


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return home(tmp_path_factory.mktemp("graph"), graph_tables())


def test_relations_and_a_timeline_print_lines_that_cite(built: Path) -> None:
    done = process("graph", "relations", "How does Ida relate to Ghent?", "--home", built, "--user", "ana")
    assert done.returncode == 0, done.stderr
    assert "lives in Ghent" in done.stdout.splitlines()[0] and "[memory:m1]" in done.stdout.splitlines()[0]
    lines = run("graph", "timeline", "Ida", "--home", built, "--user", "ana").stdout.splitlines()
    assert lines and all("[memory:" in line for line in lines)


def test_neighbours_are_nodes_and_edges_in_json(built: Path) -> None:
    found = last_json(run("graph", "neighbours", "Bruges", "--depth", 1, "--home", built, "--user", "ana", "--json"))
    assert {"id", "type", "name"} <= found["nodes"][0].keys() and found["nodes"][0]["name"] == "Bruges"
    assert ("ana:Corvid", "ana:Bruges", "has") in {(e["source"], e["target"], e["type"]) for e in found["edges"]}
    options = ("--types", "part_of", "--home", built, "--user", "ana", "--json")
    assert {e["type"] for e in last_json(run("graph", "neighbours", "Bruges", *options))["edges"]} == {"part_of"}


def test_a_node_is_shown_by_its_name_alone_or_by_show(built: Path) -> None:
    one = run("graph", "node", "Corvid", "--home", built, "--user", "ana")
    other = run("graph", "node", "show", "Corvid", "--home", built, "--user", "ana")
    assert one.stdout == other.stdout and one.stdout.startswith("Corvid (organisation)")


def test_a_key_of_the_fact_table_is_looked_up(built: Path) -> None:
    at = ("--home", built, "--user", "ana")
    assert run("fact", "get", "ida.works_at", *at).stdout.startswith("ida_moreau.works_at = Corvid (since 2026-03-06)")
    facts = last_json(run("fact", "list", *at, "--json"))["facts"]
    assert {"key", "value", "confidence", "provenance", "scope"} <= facts[0].keys() and len(facts) == 3
    done = run("fact", "list", "--subject", "Nobody", *at)
    assert done.returncode == 2 and done.stderr.strip().count("\n") == 0 and "palimpsest fact list" in done.stderr


def test_a_profile_has_two_sections_and_an_unknown_user_is_one_line(built: Path) -> None:
    done = run("profile", "ana", "--home", built, "--json")
    assert last_json(done).keys() == {"user", "static", "dynamic", "standing"}
    unknown = run("profile", "zoe", "--home", built)
    assert unknown.returncode == 2 and unknown.stderr.strip().count("\n") == 0 and "ana" in unknown.stderr


def test_a_scope_is_summed_up_by_sentences_that_cite(built: Path) -> None:
    lines = run("summarize", "--home", built, "--user", "ana", "--sentences", 2).stdout.splitlines()
    assert len(lines) == 2 and all("[memory:" in line for line in lines)
    done = run("summarize", "nowhere", "--home", built, "--user", "ana")
    assert done.returncode == 2 and "no memory of this session" in done.stderr


def test_an_unknown_name_is_one_line_that_says_what_to_do(built: Path) -> None:
    done = run("graph", "node", "Zorro", "--home", built, "--user", "ana")
    assert done.returncode == 2 and "graph relations" in done.stderr and len(done.stderr.splitlines()) == 1
