import pytest

from palimpsest.query import Scope, open_index
from palimpsest.query.ranking.experimental.hierarchy import INHERITED
from tests.query.made import memory, rows, tables, write

ANA = Scope("notes", "ana")
TEXTS = {
    "m1": "The bees swarm in May.",
    "m2": "The bees need sugar in winter.",
    "m3": "Stings are treated with vinegar.",
    "m4": "The rent is due on Friday.",
    "m5": "The landlord lives upstairs.",
    "m6": "The lift is out of order.",
}


def made(relevance=1.0, below=(), **more):
    out = tables([memory(i, text) for i, text in TEXTS.items()], **more)
    scope = {"collection": "notes", "user_id": "ana"}
    labels = {"t1": "bees", "t2": "house", "t3": "order"}
    members = [("t1", i) for i in ("m1", "m2", "m3")] + [("t2", i) for i in ("m4", "m5", "m6")] + [("t3", "m6")]
    out["topics"] = rows("topics", *({"topic_id": i, **scope, "label": n, "size": 3} for i, n in labels.items()))
    out["topic_edges"] = rows(
        "topic_edges",
        *(
            {"source_id": child, "target_id": parent, **scope, "kind": "subtopic_of", "weight": 1.0}
            for child, parent in below
        ),
    )
    out["topic_memories"] = rows(
        "topic_memories", *({"topic_id": t, "memory_id": m, **scope, "relevance": relevance} for t, m in members)
    )
    return out


@pytest.fixture
def index(tmp_path):
    write(made(), tmp_path / "i.duckdb")
    return tmp_path / "i.duckdb"


def scores(path, question, **options):
    with open_index(path) as reader:
        return {m.memory_id: m for m in reader.search(question, ANA, k=10, **options).memories}


def test_a_memory_is_lifted_by_its_distinctive_topic(index):
    flat, found = (scores(index, "bees", strategy=s, explain=True) for s in ("hybrid", "hierarchical"))
    place = lambda memories: list(memories).index("m3")  # noqa: E731
    assert place(found) <= place(flat) and "belongs to the topic 'bees'" in found["m3"].why
    assert "topic" not in found["m5"].why


def test_what_is_below_a_topic_that_fits_inherits_a_part_of_it(tmp_path):
    write(made(below=[("t2", "t1")]), tmp_path / "i.duckdb")
    found = scores(tmp_path / "i.duckdb", "bees", strategy="hierarchical", explain=True)
    lift = {i: float(m.why.rsplit("(+", 1)[1].split(")")[0]) for i, m in found.items() if "topic" in m.why}
    assert lift["m4"] == pytest.approx(INHERITED * lift["m3"], abs=0.01) and "the topic 'house'" in found["m4"].why


def test_a_topic_lifts_nothing_that_hardly_belongs_to_it(tmp_path):
    write(made(relevance=0.2), tmp_path / "i.duckdb")
    found = scores(tmp_path / "i.duckdb", "bees", strategy="hierarchical", explain=True)
    assert all("topic" not in m.why for m in found.values())


def test_memories_that_name_what_the_question_asks_about_are_lifted(tmp_path):
    named = [("m2", "Varn"), ("m5", "Varn"), *((i, "Everyone") for i in TEXTS)]
    write(tables([memory(i, text) for i, text in TEXTS.items()], mentions=named), tmp_path / "i.duckdb")
    found = scores(tmp_path / "i.duckdb", "What of Varn and Everyone?", strategy="hierarchical", hops=0, explain=True)
    assert {i for i, m in found.items() if "the question asks about 'Varn', which it names" in m.why} == {"m2", "m5"}
    assert all("Everyone" not in m.why for m in found.values())  # all six name it: it tells nothing


def test_where_nothing_fits_memories_rank_as_hybrid_ranks_them_by_themselves(index):
    flat, found = (scores(index, "zebra", strategy=s, hops=0) for s in ("hybrid", "hierarchical"))
    assert {i: m.score for i, m in found.items()} == {i: m.score for i, m in flat.items()}


def test_without_topics_memories_rank_by_themselves(tmp_path):
    write(tables([memory(i, text) for i, text in TEXTS.items()]), tmp_path / "i.duckdb")
    flat, found = (scores(tmp_path / "i.duckdb", "bees", strategy=s) for s in ("hybrid", "hierarchical"))
    assert {i: m.score for i, m in found.items()} == {i: m.score for i, m in flat.items()}


def test_memories_that_are_no_candidates_do_not_count_for_a_topic(tmp_path):
    write(made(updates=[("m4", "m1"), ("m5", "m2")]), tmp_path / "i.duckdb")
    found = scores(tmp_path / "i.duckdb", "bees", strategy="hierarchical", explain=True)
    assert not {"m1", "m2"} & set(found)
    assert scores(tmp_path / "i.duckdb", "bees", strategy="hierarchical", session="none") == {}
