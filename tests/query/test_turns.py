import numpy as np
import pytest

from pipelines.query import Filters, Scope, open_index
from pipelines.query.duckdb_backend import DuckDBBackend
from pipelines.query.embed import query_embedder
from pipelines.query.rank import STRATEGIES, rank
from pipelines.query.turns import TurnOrder, smooth
from pipelines.query.words import query_terms
from tests.query.made import memory, tables, write

ANA = Scope("notes", "ana")
# rows 0-4; said in the order 2, 0, 3 and, in another session, 1, 4
ORDER = TurnOrder.of(np.array([2, 0, 1]), np.array([0, 3, 4]), 5)


def turn(memory_id, text, ordinal, session="s1", **told):
    about = {"unit": "turn", "session_id": session, "document_id": f"d-{session}", "ordinal": ordinal}
    return memory(memory_id, text, **(about | told))


def test_a_turn_takes_a_share_of_its_neighbours_and_nothing_of_another_session():
    scores = np.array([1.0, 10.0, 4.0, 2.0, 0.0])
    assert smooth(scores, ORDER, (0.5, 0.25)).tolist() == [
        1 + 0.5 * (4 + 2), 10, 4 + 0.5 * 1 + 0.25 * 2, 2 + 0.5 * 1 + 0.25 * 4, 0.5 * 10,
    ]  # fmt: skip


TALK = [
    turn("m3", "Which city did you visit in spring?", 0),
    turn("m1", "Porto, with my sister.", 1),
    turn("m5", "Soup again.", 2),
    turn("m2", "What do you cook today?", 0, "s2"),
    turn("m4", "Something with the asparagus that spring brings.", 1, "s2"),
]


@pytest.fixture
def index(tmp_path):
    write(tables(TALK), tmp_path / "i.duckdb", strategies={"notes": "turns"})
    return tmp_path / "i.duckdb"


def test_an_answer_is_found_by_the_question_before_it(index):
    with open_index(index) as reader:
        flat = [m.memory_id for m in reader.search("which city in spring?", ANA, strategy="flat").memories]
        found = reader.search("which city in spring?", ANA, explain=True)
    told = {m.memory_id: m for m in found.memories}
    assert found.strategy == "turns" and list(told)[:2] == ["m3", "m1"]
    assert flat[:2] == ["m3", "m4"]
    assert "said beside m3" in told["m1"].why


def test_what_is_no_candidate_adds_nothing_to_its_neighbours(index, tmp_path):
    write(tables(TALK, updates=[("m5", "m3")]), tmp_path / "updated.duckdb")
    vector, terms = query_embedder().embed("which city in spring?"), query_terms("which city in spring?")

    def helped(path):
        found = rank(DuckDBBackend(path), ANA, Filters(), vector, terms, STRATEGIES["turns"], 0)
        return {c.memory_id: [link.source for link in c.path] for c in found}

    before, after = helped(index), helped(tmp_path / "updated.duckdb")
    assert before["m1"] == ["m3"] and "m3" not in after and after["m1"] != ["m3"]


def test_a_scope_without_candidates_gives_no_ranking(index):
    with open_index(index) as reader:
        assert reader.search("spring", ANA, session="none").memories == []
        assert reader.search("spring", ("notes", "nobody")).memories == []
