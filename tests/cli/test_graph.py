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


def test_nodes_neighbours_and_unknown_names(built: Path):
    found = last_json(run("graph", "neighbours", "Bruges", "--depth", 1, "--home", built, "--user", "ana", "--json"))
    assert {"id", "type", "name"} <= found["nodes"][0].keys() and found["nodes"][0]["name"] == "Bruges"
    assert ("ana:Corvid", "ana:Bruges", "has") in {(e["source"], e["target"], e["type"]) for e in found["edges"]}
    options = ("--types", "part_of", "--home", built, "--user", "ana", "--json")
    assert {e["type"] for e in last_json(run("graph", "neighbours", "Bruges", *options))["edges"]} == {"part_of"}
    one = run("graph", "node", "Corvid", "--home", built, "--user", "ana")
    other = run("graph", "node", "show", "Corvid", "--home", built, "--user", "ana")
    assert one.stdout == other.stdout and one.stdout.startswith("Corvid (organisation)")
    done = run("graph", "node", "Zorro", "--home", built, "--user", "ana")
    assert done.returncode == 2 and "graph relations" in done.stderr and len(done.stderr.splitlines()) == 1


def test_facts_profiles_and_summaries_cite_and_unknown_ones_are_one_line(built: Path):
    at = ("--home", built, "--user", "ana")
    assert run("fact", "get", "ida.works_at", *at).stdout.startswith("ida_moreau.works_at = Corvid (since 2026-03-06)")
    facts = last_json(run("fact", "list", *at, "--json"))["facts"]
    assert {"key", "value", "confidence", "provenance", "scope"} <= facts[0].keys() and len(facts) == 3
    done = run("fact", "list", "--subject", "Nobody", *at)
    assert done.returncode == 2 and done.stderr.strip().count("\n") == 0 and "palimpsest fact list" in done.stderr
    done = run("profile", "ana", "--home", built, "--json")
    assert last_json(done).keys() == {"user", "static", "dynamic", "standing"}
    unknown = run("profile", "zoe", "--home", built)
    assert unknown.returncode == 2 and unknown.stderr.strip().count("\n") == 0 and "ana" in unknown.stderr
    lines = run("summarize", "--home", built, "--user", "ana", "--sentences", 2).stdout.splitlines()
    assert len(lines) == 2 and all("[memory:" in line for line in lines)
    done = run("summarize", "nowhere", "--home", built, "--user", "ana")
    assert done.returncode == 2 and "no memory of this session" in done.stderr
