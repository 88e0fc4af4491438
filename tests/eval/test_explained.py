"""The picture of an answer: what each result has by itself, and over which links it was reached."""

import pytest

from palimpsest.query import Scope, open_index
from palimpsest_eval.notebook.explained import explained_arcs, explained_figure
from tests.query.made import memory, tables, write

ANA = Scope("notes", "ana")
MADE = [
    memory("m1", "I keep bees & sell <b>honey</b>."),
    memory("m2", "It is sold at the market on Sundays."),
    memory("m3", "The market is in Elm Square."),
    memory("m4", "The van is red."),
]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("explained") / "i.duckdb"
    write(tables(MADE, links=[("m2", "m1", "EXTEND")]), path)
    with open_index(path) as reader:
        return reader.search("Who keeps bees & honey?", ANA, explain=True, all_results=True)


def test_every_result_is_reached_by_itself_and_over_the_links_that_explain_prints(results):
    nodes, links = explained_arcs(results, "Who keeps bees & honey?", shown=3)
    kinds, ends = {n.node_id: n for n in nodes}, {(x.source_id, x.target_id): x for x in links}
    place = {m.memory_id: n.node_id for m in results.memories for n in nodes if m.why[:20] in n.tooltip}
    assert ends[nodes[0].node_id, place["m1"]].kind == "by itself" and nodes[0].label.startswith("Who keeps bees")
    extends = next(n.node_id for n in nodes if n.label == "adds to")
    seed = next(n.node_id for n in nodes if n.label.startswith("result 1: "))
    assert {(nodes[0].node_id, seed), (seed, extends), (extends, place["m2"])} <= set(ends)
    link = ends[extends, place["m2"]].tooltip
    assert "one of it and result 1 adds to the other (weight 0.90)" in link and link.startswith("+")
    assert {n.kind for n in kinds.values()} == {"question", "found first", "leads on over", "result"}


def test_texts_are_data_and_an_empty_answer_is_still_a_picture(results):
    figure = explained_figure(results, "<i>bees</i>?")
    still = figure._repr_mimebundle_()["image/svg+xml"]
    assert "<b>" not in still and "<i>" not in still and "&lt;i&gt;bees" in still and "(build 000001" in figure.title
    with_none = type(results)(**{**vars(results), "memories": []})
    assert [n.label for n in explained_arcs(with_none, "bees?")[0]] == ["bees?"]
