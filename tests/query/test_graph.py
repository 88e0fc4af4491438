"""The graph of a scope: reads, walks, questions, facts, and what it adds to a ranking."""

import json

import duckdb
import numpy as np
import polars as pl
import pytest

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.embed_query import query_embedder
from palimpsest.query.graph.graph_answer import GraphAnswer, _strongest, _unordered, graph_outline
from palimpsest.query.graph.graph_lines import MENTIONED_WITH, find_neighbors
from palimpsest.query.ranking.hierarchy import find_nodes, reach_memories
from palimpsest.query.reader import open_home
from palimpsest.query.request.types import Filters, Scope
from palimpsest.query.scope.served_graph import ServedGraph
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.text.questions import listed_nouns
from tests.query.graphed import ANA as ANA_fact_table
from tests.query.graphed import ANA as NOTES_OF_ANA
from tests.query.graphed import ANA as SCOPE
from tests.query.graphed import fact, graph_tables, node
from tests.query.made import at, home, home_fixture, memory, read_index, reader_fixture, rows, tables, write

ANA = Scope("notes", "ana")


reader = reader_fixture(graph_tables)


@pytest.fixture
def graph(reader):
    return reader.backend.graph(ANA)


def test_nodes_are_read_by_id_and_found_by_their_names_and_words(graph):
    ids = graph.nodes_named(["ida", "ida moreau", "ghent", "paris", "moreau"])
    assert ids == {"ida": ["ana:Ida Moreau"], "ida moreau": ["ana:Ida Moreau"], "ghent": ["ana:Ghent"]}
    assert graph.nodes_with_word(["moreau", "cities"]) == {"moreau": ["ana:Ida Moreau"]}
    (found,) = graph.nodes(["ana:Ida Moreau", "ben:Ida", "unknown"]).values()
    assert (found.name, found.type, found.aliases) == ("Ida Moreau", "person", ("Ida",))


def test_facts_have_their_nodes_memories_and_times(graph):
    assert [f.fact_id for f in graph.facts_of(["ana:Corvid", "ben:Ida"])] == ["f3", "f4"]
    (left,) = graph.facts_of(["ana:Basin"])
    assert left.ends == ("ana:Ida Moreau", "ana:Basin") and left.memory_ids == ("m2",) and not left.is_latest
    assert (left.valid_from, left.valid_until) == (at("2026-01-06"), at("2026-03-06"))
    (ill,) = graph.facts_of_memories(["m5", "m6"])
    assert (ill.value, ill.object_id, ill.ends) == ("ill", None, ("ana:Ida Moreau",))
    assert graph.facts_of([]) == graph.facts_of_memories(["m6"]) == []


def test_edges_and_facts_within_nodes_and_members_are_read(graph):
    (edge,) = graph.edges_of(["ana:Ghent"])
    assert (edge.source_id, edge.target_id, edge.type, edge.memory_ids) == ("ana:Ghent", "ana:city", "part_of", ())
    assert [e.source_id for e in graph.edges_of(["ana:city"])] == ["ana:Bruges", "ana:Ghent"]
    assert graph.edges_of(["ana:city"], types=["precedes"]) == []
    assert [e.source_id for e in graph.edges_of(["ana:city", "ana:Ghent"], within=True)] == ["ana:Ghent"]
    assert graph.edges_of(["ana:Ghent"], within=True) == []
    ends = [f.ends for f in graph.facts_of(["ana:Ida Moreau", "ana:Basin"], within=True)]
    assert ("ana:Ida Moreau", "ana:Basin") in ends and ("ana:Ida Moreau",) in ends
    assert all(set(e) <= {"ana:Ida Moreau", "ana:Basin"} for e in ends)
    assert graph.facts_of(["ana:Basin"], within=True) == []
    members = graph.members_of(["ana:city", "ana:Ghent", "ben:Ida"])
    assert members == {"ana:city": {"m1": 0.5, "m4": 0.5}, "ana:Ghent": {"m1": 1.0}}
    assert graph.nodes_of_memories(["m4", "m6"]) == {"m4": ["ana:Bruges", "ana:Corvid", "ana:city"]}


def test_a_node_has_the_mean_of_its_memories_vectors(graph):
    one = query_embedder().embed("Ida Moreau lives in Ghent with Tom.")
    cosines = graph.node_cosines(one, ["ana:Ghent", "ana:city", "ben:Ida"])
    assert cosines["ana:Ghent"] == pytest.approx(1, abs=0.002) and set(cosines) == {"ana:Ghent", "ana:city"}
    mean = one + query_embedder().embed("Corvid has its office in Bruges.")
    assert cosines["ana:city"] == pytest.approx(float(mean @ one / np.linalg.norm(mean)), abs=0.002)
    nearest = graph.nearest_nodes(one, 2)
    assert [i for i, _ in nearest] == ["ana:Ghent", "ana:Tom"]
    assert [i for i, _ in graph.nearest_nodes(one, 9, types=["category"])] == ["ana:city"]
    assert graph.nodes_of_type(["person"], 5) == ["ana:Ida Moreau", "ana:Tom"]


def test_an_index_without_nodes_says_what_to_do(tmp_path):
    path = tmp_path / "i.duckdb"
    write(graph_tables(), path)
    with duckdb.connect(str(path)) as db:
        db.execute("DROP TABLE nodes").fetchall()
    with pytest.raises(PalimpsestError, match="run palimpsest build again"):
        DuckDBBackend(path).graph(ANA)


def test_a_scope_without_memories_has_no_graph(reader):
    assert reader.backend.graph(Scope("notes", "nobody")) is None


NODES = [f"ana:{n}" for n in ("Basin", "Bruges", "Corvid", "Ghent", "Ida Moreau", "Tom", "Zorro", "city")]


@pytest.fixture
def backend(reader):
    return reader.backend


def served(backend: DuckDBBackend, scope: Scope = ANA, *, all_shown: bool = True) -> ServedGraph:
    graph = ServedGraph.of(ServedScope(backend, scope, Filters(history=True, include_hidden=all_shown)))
    assert graph is not None
    return graph


def test_links_and_nodes_named_together_are_walked_each_once(backend):
    edges, facts = served(backend).graph.links_of(["ana:Corvid", "ana:city", "ben:Ida"])
    assert edges == [("ana:Bruges", "ana:city"), ("ana:Corvid", "ana:Zorro"), ("ana:Ghent", "ana:city")]
    assert facts == [("ana:Ida Moreau", "ana:Corvid"), ("ana:Corvid", "ana:Bruges")]
    assert served(backend).graph.links_of(["ana:city"], ["related_to"]) == ([], [])
    assert served(backend).graph.links_of(["ana:Corvid"], ["has"]) == ([], [("ana:Corvid", "ana:Bruges")])
    assert served(backend).graph.links_of([]) == ([], [])
    first, second, *rest = served(backend).graph.named_together(["ana:Ida Moreau"], 8, 1)
    assert (first.ends, first.share, first.memory_ids) == (("ana:Ida Moreau", "ana:Basin"), 0.5, ("m2",))
    assert (second.ends, second.share) == (("ana:Ida Moreau", "ana:Corvid"), 0.25)
    assert [t.ends[1] for t in rest] == ["ana:Ghent", "ana:Tom", "ana:Zorro", "ana:city"]
    assert served(backend).graph.named_together(["ana:Ida Moreau", "ben:Ida"], 1, 1) == [first]
    found = find_neighbors(served(backend), ["ana:Ghent"], 3, [MENTIONED_WITH])
    pairs = [(e.source_id, e.target_id) for e in found.edges]
    assert pairs == sorted(set(pairs))
    assert {e.weight for e in found.edges if e.source_id == "ana:Ghent" and e.target_id == "ana:Tom"} == {1.0}


def test_a_scope_with_concealed_memories_is_walked_as_if_they_were_not_there(backend, tmp_path):
    bare = graph_tables()
    columns = {
        "facts": ~pl.col("memory_ids").list.contains("m5"),
        "edges": ~pl.col("memory_ids").list.contains("m5"),
        "nodes": pl.col("name") != "Zorro",
    }
    bare |= {name: bare[name].filter(kept) for name, kept in columns.items()}
    bare |= {name: frame.filter(pl.col("memory_id") != "m5") for name, frame in bare.items() if "memory_id" in frame}
    write(bare, tmp_path / "i.duckdb")
    without = served(DuckDBBackend(tmp_path / "i.duckdb"))
    concealed = served(backend, all_shown=False)
    assert concealed.links_of(NODES) == without.links_of(NODES)
    assert concealed.links_of(NODES, ["part_of", "has"]) == without.links_of(NODES, ["part_of", "has"])
    assert concealed.named_together(NODES, 2, 1) == without.named_together(NODES, 2, 1)
    assert "ana:Zorro" not in find_neighbors(concealed, ["ana:Ida Moreau"], 4).nodes


stated = home_fixture(graph_tables)


@pytest.fixture
def questions(stated):
    return stated.graph(ANA)


def memory_ids(answer: GraphAnswer) -> list[tuple[str, ...]]:
    return [line.memory_ids for line in answer.lines]


def test_relations_and_paths_are_shown_with_what_states_them(questions):
    answer = questions.relations("How does Ida relate to Ghent?")
    first = answer.lines[0]
    assert first.memory_ids == ("m1",) and first.kind == "fact" and "Ida Moreau lives in Ghent" in first.text
    assert first.cited.endswith("[memory:m1]") and answer.names == ("Ida", "Ghent")
    (step,) = answer.paths[0]
    assert (step.source_id, step.target_id, step.type) == ("ana:Ida Moreau", "ana:Ghent", "lives in")
    answer = questions.relations("What connects Ida with Bruges?")
    path = next(line for line in answer.lines if line.kind == "path")
    assert path.memory_ids == ("m3", "m4")
    assert [(s.source_id, s.target_id) for s in answer.paths[0]] == [
        ("ana:Ida Moreau", "ana:Corvid"),
        ("ana:Corvid", "ana:Bruges"),
    ]


def test_a_timeline_has_the_stages_in_the_order_of_events_and_what_replaced_what(questions):
    answer = questions.timeline("Where has Ida worked, and what changed?")
    worked = [line for line in answer.lines if line.memory_ids[0] in ("m2", "m3")]
    assert [line.memory_ids for line in worked] == [("m2",), ("m3",)]
    assert "replaced by [m3]" in worked[0].text
    times = [line.time for line in answer.lines if line.time]
    assert times == sorted(times)


def test_what_is_disputed_is_named_with_what_disputes_it(tmp_path):
    ids = {"relation_id": "r", "newer_id": "m3", "older_id": "m1", "label": "NONE", "labeler": "offline"}
    dispute = rows("relations", {**SCOPE, **ids, "consequence": "disputed", "likelihood": 0.5})
    made = graph_tables()
    made |= {"relations": pl.concat([made["relations"], dispute])}
    words = "(disputed by [memory:m3], 2026-03-06: “Ida left Basin and works at Corvid.”)"
    with open_home(home(tmp_path, made), count_reads=False) as opened:
        questions = opened.graph(ANA)
        assert words in questions.relations("How does Ida relate to Ghent?").lines[0].text
        (stage,) = (line for line in questions.timeline("Where has Ida lived?").lines if "m1" in line.memory_ids)
    assert words in stage.text and stage.memory_ids == ("m1", "m3")


def test_nodes_neighbors_and_subgraphs_are_read_by_type_and_metadata(questions):
    near = questions.neighbors("Ida Moreau", 2, node_types=["organisation"], where="since > 2000 and importance = 0.5")
    assert [n.name for n in near.nodes] == ["Ida Moreau", "Corvid"]
    assert {s for e in near.facts for s in e.ends} == {"ana:Ida Moreau", "ana:Corvid"}
    assert [n.name for n in questions.neighbors("Corvid", 1, where='exists(city) or name = "Bruges"').nodes] == [
        "Corvid",
        "Bruges",
    ]
    assert questions.node("Corvid", where="not since < 2021").nodes
    with pytest.raises(ArgumentError, match="satisfies"):
        questions.node("Corvid", node_types=["person"])
    answer = questions.node("Corvid")
    assert {f.fact_id for f in answer.facts} == {"f3", "f4"} and answer.nodes[0].name == "Corvid"
    assert all("Corvid" in line.text and line.memory_ids for line in answer.lines)
    one, two = questions.neighbors("Bruges", 1), questions.neighbors("Bruges", 2)
    assert {n.name for n in one.nodes} == {"Bruges", "Corvid", "cities"}
    assert {"Ghent", "Ida Moreau"} <= {n.name for n in two.nodes}
    assert {n.name for n in questions.neighbors("Bruges", 2, ["part_of"]).nodes} == {
        "Bruges",
        "cities",
        "Ghent",
    }
    edges = one.to_json()["edges"]
    assert isinstance(edges, list) and {"source", "target", "type"} <= set(edges[0])
    answer = questions.subgraph(["m3", "m4"])
    assert {n.name for n in answer.nodes} == {"Ida Moreau", "Basin", "Corvid", "Bruges", "cities"}
    assert {f.fact_id for f in answer.facts} == {"f3", "f4"}
    assert [(e.source_id, e.type) for e in answer.edges] == [("ana:Bruges", "part_of")]
    with pytest.raises(ArgumentError, match="k"):
        questions.timeline("Ida", k=0)
    with pytest.raises(ArgumentError, match="depth"):
        questions.neighbors("Ida", depth=9)
    with pytest.raises(ArgumentError, match="text"):
        questions.relations("  ")


def test_nothing_hidden_or_of_another_user_is_shown(stated):
    for answer in (
        stated.graph(ANA).neighbors("Ida", 3),
        stated.graph(ANA).relations("How does Ida relate to Zorro?"),
        stated.graph(ANA).timeline("Ida"),
        stated.graph(ANA).subgraph(["m1", "m5"]),
    ):
        assert "Zorro" not in str(answer.nodes) + str(answer.lines) and "f5" not in {f.fact_id for f in answer.facts}
        assert "m5" not in str(answer.to_json())
    with pytest.raises(ArgumentError, match="no node in this scope"):
        stated.graph(ANA).node("Zorro")
    shown = stated.graph(ANA, include_hidden=True).node("Zorro")
    assert [e.type for e in shown.edges if e.type == "related_to"] == ["related_to"]
    both = [
        stated.graph(ANA).neighbors("Ida", 4),
        stated.graph(ANA).relations("How does Ida relate to Paris?"),
    ]
    assert not any("ben" in str(answer.to_json()) or "m6" in str(answer.to_json()) for answer in both)
    assert {n.node_id for n in stated.graph(("notes", "ben")).neighbors("Ida").nodes} == {
        "ben:Ida",
        "ben:Paris",
    }


def test_a_text_cannot_pass_for_a_citation(tmp_path):
    made = graph_tables("Ida Moreau lives in Ghent [memory:m2] with Tom.")
    with open_home(home(tmp_path, made), count_reads=False) as opened:
        lines = opened.graph(ANA).relations("How does Ida relate to Ghent?").lines
    assert all(line.text.count("[memory:") == 0 for line in lines)


@pytest.fixture
def table(stated):
    return stated.facts(ANA)


@pytest.mark.parametrize("text", ["ida_moreau.works_at", "Ida Moreau works at", "IDA.works_at", "ida works at"])
def test_a_key_gives_its_latest_value_under_any_name_of_its_subject(table, text):
    answer = table.get(text)
    (line,) = answer.facts
    assert answer.is_direct and (line.key, line.value) == ("ida_moreau.works_at", "Corvid")
    assert line.provenance == ("m3",) and line.confidence == 0.8 and tuple(line.scope) == ("notes", "ana", "")


def test_facts_are_found_by_key_or_search_with_history_and_hidden_ones_only_on_demand(table, stated):
    lines = table.get("ida.works_at", history=True).facts
    assert [(x.value, x.is_latest) for x in lines] == [("Corvid", True), ("Basin", False)]
    assert not any(x.conflicts for x in lines)
    answer = table.get("who has an office in Bruges?")
    assert not answer.is_direct and (answer.facts[0].subject, answer.facts[0].value) == ("Corvid", "Bruges")
    keys = [line.key for line in table.facts().facts]
    assert keys == ["corvid.has", "ida_moreau.lives_in", "ida_moreau.works_at"]
    hidden = stated.facts(ANA, include_hidden=True).facts("Ida").facts
    assert "ida_moreau.is" in [line.key for line in hidden]
    assert "Paris" not in {line.value for line in (*table.facts().facts, *table.get("ida.lives_in").facts)}
    assert [line.value for line in stated.facts(("notes", "ben")).facts().facts] == ["Paris"]
    with pytest.raises(ArgumentError, match="palimpsest fact list"):
        table.facts("Nobody")


def test_two_latest_values_of_a_slot_that_has_one_at_a_time_conflict(tmp_path):
    tables = graph_tables()
    other = fact("f7", "ana:Ida Moreau", "lives_in", ANA_fact_table, object_id="ana:Bruges", memory_ids=["m4"])
    same = fact("f8", "ana:Ida Moreau", "lives_in", ANA_fact_table, object_id="ana:Ghent", memory_ids=["m1"])
    old = fact("f9", "ana:Ida Moreau", "lives_in", ANA_fact_table, object_id="ana:Basin", valid_until=at("2026-03-06"))
    tables["facts"] = rows("facts", other, same, old | {"memory_ids": ["m2"], "is_latest": False})
    with open_home(home(tmp_path, tables), count_reads=False) as stated:
        found = {line.value: line.conflicts for line in stated.facts(ANA).get("ida.lives_in").facts}
    assert found == {"Bruges": ("Ghent",), "Ghent": ("Bruges",)}


ZERO = np.zeros(384, np.float32)


def search(reader, question, **options):
    found = reader.search(question, ANA, k=10, strategy="hierarchical", explain=True, **options).memories
    return {m.memory_id: m for m in found}


def test_the_node_that_a_question_names_or_metadata_finds_lifts_or_narrows(reader):
    found = search(reader, "What of Corvid?")
    assert "the question asks about 'Corvid', which it names" in found["m3"].why
    assert next(iter(found)) in ("m3", "m4")
    of_people = {"node_types": ["organisation"], "depth": 0}
    assert set(search(reader, "What of Basin?", narrow=False, **of_people)) == {"m1", "m3", "m4"}
    assert set(search(reader, "What of Basin?", narrow=True, **of_people)) == {"m3"}
    found = search(reader, "What of Basin?", narrow=True, depth=0, node_where='city = "Aalst" and since >= 2020')
    assert set(found) == {"m3", "m4"}
    with pytest.raises(ArgumentError, match="node_where"):
        search(reader, "What of Basin?", node_where="city =")


def test_hidden_memories_and_those_of_others_are_not_reached(reader):
    of_ida = {"narrow": True, "depth": 0, "node_where": "since = 1999"}
    shown = search(reader, "Ida Moreau", include_hidden=True, **of_ida)
    assert "m5" in shown and set(search(reader, "Ida Moreau", **of_ida)) != set(shown) - {"m5"}
    assert "m5" not in search(reader, "Zorro", narrow=True) and "m5" in search(reader, "Zorro", include_hidden=True)
    assert "m6" not in search(reader, "Ida Paris", narrow=True)


def test_edges_are_followed_as_deep_as_asked_and_names_count_more_than_nearness(reader):
    view, graph = reader.backend.view(ANA), reader.backend.graph(ANA)
    only, with_places = (reach_memories(graph, view.ids, ["ana:city"], depth)["ana:city"] for depth in (0, 1))
    assert only.names == ("cities",) and set(with_places.names) == {"Bruges", "Ghent", "cities"}
    assert only.gains.tolist() == with_places.gains.tolist() == pytest.approx([0.5, 0.5])
    assert reach_memories(graph, view.ids, ["ana:Ghent"], 2)["ana:Ghent"].names == ("Ghent",)  # not what it is part of
    related = reach_memories(graph, view.ids, ["ana:Zorro"], 1)["ana:Zorro"]
    assert dict(zip(view.ids[related.rows], related.gains, strict=True)) == pytest.approx(
        {"m3": 0.7 * 0.5, "m4": 0.7 * 0.5, "m5": 1.0}
    )
    graph = reader.backend.graph(ANA)
    assert next(iter(find_nodes(graph, "Ida Moreau?", ZERO, (), 5))) == "ana:Ida Moreau"
    assert find_nodes(graph, "Ida Moreau?", ZERO, ("place",), 5).keys() <= {"ana:Bruges", "ana:Ghent", "ana:Zorro"}


def test_without_nodes_memories_rank_by_themselves(tmp_path):
    with read_index(tmp_path, tables([memory("m1", "The bees swarm."), memory("m2", "The rent is due.")])) as opened:
        flat = opened.search("bees", ANA, strategy="hybrid", hops=0).memories
        for narrow in (False, True):
            found = opened.search("bees", ANA, strategy="hierarchical", hops=0, narrow=narrow).memories
            assert {m.memory_id: m.score for m in found} == {m.memory_id: m.score for m in flat}


@pytest.mark.parametrize(
    ("options", "field"), [({"narrow": True}, "strategy"), ({"strategy": "hierarchical", "depth": 3}, "depth")]
)
def test_options_of_the_strategy_are_checked(reader, options, field):
    with pytest.raises(ArgumentError, match=field):
        reader.search("bees", ANA, **options)


def described():
    """Ghent and Bruges are cities; m1 describes the one, m4 the other, and hidden m5 a third."""
    made, of = graph_tables(), {"Ghent": "m1", "Bruges": "m4", "Zorro": "m5"}
    stated = {name: {"metadata": json.dumps({"description_memory_id": i})} for name, i in of.items()}
    nodes = [row | stated.get(row["name"], {}) for row in made["nodes"].to_dicts()]
    zorro = {"source_id": "ana:Zorro", "target_id": "ana:city", **NOTES_OF_ANA, "type": "part_of", "weight": 1.0}
    made["nodes"] = rows("nodes", *nodes, node("ana:none", "empty things", "category", NOTES_OF_ANA))
    made["edges"] = rows("edges", *made["edges"].to_dicts(), zorro)
    return made


listed = reader_fixture(described)


def ranked(listed, question):
    return {m.memory_id: m for m in listed.search(question, ANA, k=10, strategy="hybrid", explain=True).memories}


def test_a_question_for_all_of_a_kind_finds_what_describes_each_and_nothing_hidden(listed):
    found = ranked(listed, "Which cities did Ida leave when she left Basin for Corvid?")
    assert {"m1", "m4"} <= set(list(found)[:3])
    assert any("the question asks for all of a kind, and it describes one" in m.why for m in found.values())
    assert "m5" not in ranked(listed, "Which cities are there?")
    for question in ("Does Ida like cities?", "Which empty things are there?", "Which rivers are there?"):
        assert all("it describes one" not in m.why for m in ranked(listed, question).values())


@pytest.mark.parametrize(
    ("question", "nouns"),
    [
        ("Which customers do we have?", ["customers"]),
        ("List all the notable buildings", ["notable buildings", "buildings"]),
        ("Who are our suppliers?", ["suppliers"]),
        ("What do people eat on Sundays?", []),
        ("Which book was written first?", []),
        ("When is the fair?", []),
        ("", []),
    ],
)
def test_what_a_question_asks_to_list(question, nouns):
    assert listed_nouns(question) == nouns


def test_of_too_many_links_each_node_keeps_those_to_its_most_important_neighbors_once():
    importance = np.array([0.9, 0.8, 0.1, 0.1, 0.1])
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 4), (2, 3), (3, 4)]
    found = np.array(pairs)
    assert _strongest(found, importance, 7) == tuple(pairs)
    assert _strongest(found, importance, 5) == ((0, 1), (0, 2), (0, 3), (1, 2), (1, 4))
    assert _strongest(found, importance, 0) == ()
    assert _unordered([(3, 1), (1, 3), (2, 2), (0, 4), (1, 3)], 5).tolist() == [[0, 4], [1, 3]]
    assert _unordered([], 0).tolist() == []


@pytest.mark.parametrize(("nodes", "links"), [(0, 1), (20_001, 1), (1, -1), (1, 100_001)])
def test_numbers_out_of_range_are_refused(nodes, links):
    with pytest.raises(ArgumentError):
        graph_outline([], nodes, links)
