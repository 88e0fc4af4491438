"""The picture of an answer: what each result has by itself, and over which links it was reached."""

import pytest

from palimpsest.query import Scope, open_index
from palimpsest_eval.notebook.explained import explained_figure
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
    sankey = explained_figure(results, "Who keeps bees & honey?", shown=3).data[0]
    labels, flows = sankey.node.label, sankey.link
    edges = list(zip(flows.source, flows.target, strict=True))
    place = {
        m.memory_id: i for m in results.memories for i, text in enumerate(sankey.node.customdata) if m.why[:20] in text
    }
    assert (0, place["m1"]) in edges and labels[0].startswith("Who keeps bees")
    extends, seed = labels.index("adds to"), next(i for i, n in enumerate(labels) if n.startswith("result 1: "))
    assert {(0, seed), (seed, extends), (extends, place["m2"])} <= set(edges)
    link_text = flows.customdata[edges.index((extends, place["m2"]))]
    assert "one of it and result 1 adds to the other (weight 0.90)" in link_text and link_text.startswith("+")
    assert all(width > 0 for width in flows.value)


def test_texts_are_escaped_and_an_empty_answer_is_still_a_picture(results):
    figure = explained_figure(results, "<i>bees</i>?")
    assert "<b>" not in "".join([*figure.data[0].node.label, *figure.data[0].node.customdata])
    assert "&lt;i&gt;bees" in figure.layout.title.text and "(build 000001" in figure.layout.title.text
    assert len(figure.data[0].link.value) >= len(results.memories)
    with_none = type(results)(**{**vars(results), "memories": []})
    assert list(explained_figure(with_none, "bees?").data[0].node.label) == ["bees?"]
