import numpy as np

from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.context.pack import completes, neighbor_ids, pronoun_name
from palimpsest.query.reader import open_index
from palimpsest.query.request.types import Filters, Memory, Scope
from palimpsest.query.scope.scope_arrays import ReadingOrder
from palimpsest.query.scope.served_scope import ServedScope
from tests.query.made import at, memory, tables, write

ANA, BEN = Scope("notes", "ana"), Scope("notes", "ben")


def turn(memory_id, text, ordinal, user_id="ana", **columns):
    return memory(
        memory_id,
        text,
        user_id,
        unit="turn",
        session_id="s1",
        document_id=f"d-{user_id}",
        ordinal=ordinal,
        uri="talk.jsonl",
        **({"speaker": "Ana"} | columns),
    )


TALK = [
    turn("m5", "What did you plant in spring?", 0),
    turn("m4", "Potatoes and beans.", 1),
    turn("m3", "And where do the owls nest?", 2),
    turn("m2", "In the old barn.", 3, speaker="Bo"),
    turn("m1", "Good to know.", 4),
    turn("b1", "Ben was there, too.", 2, "ben"),
]
PAGE = [
    memory(f"p{i}", text, document_id="d-page", ordinal=i)
    for i, text in enumerate(["Owls are birds.", "They hunt at night.", "They eat mice."])
]


def test_neighbors_come_nearest_first_and_end_where_the_session_does():
    order = ReadingOrder.of(np.array([0, 1, 2]), np.array([1, 2, 3]), 5)
    assert order.neighbors(1, 2) == [(-1, 0), (1, 2), (2, 3)]
    assert order.neighbors(0, 1) == [(1, 1)] and order.neighbors(4, 3) == []


def test_neighbors_of_a_turn_or_a_chunk_are_of_its_session_or_document_and_scope(tmp_path):
    write(tables([*TALK, *PAGE]), tmp_path / "i.duckdb")
    backend = DuckDBBackend(tmp_path / "i.duckdb")
    assert neighbor_ids(ServedScope(backend, ANA, Filters()), ["m3", "p0"], 2) == {
        "m3": [(-1, "m4"), (1, "m2"), (-2, "m5"), (2, "m1")],
        "p0": [(1, "p1"), (2, "p2")],
    }
    assert neighbor_ids(ServedScope(backend, BEN, Filters()), ["b1"]) == {}
    assert neighbor_ids(ServedScope(backend, Scope("notes", "nobody"), Filters()), ["m3"]) == {}
    assert neighbor_ids(ServedScope(backend, ANA, Filters()), []) == {}


def test_a_memory_that_is_no_candidate_is_no_neighbor(tmp_path):
    days = [m | {"observed_at": at(f"2024-05-0{m['ordinal'] + 1}")} for m in TALK[:5]]
    write(tables(days, updates=[("m1", "m4")]), tmp_path / "i.duckdb")
    backend = DuckDBBackend(tmp_path / "i.duckdb")
    near = {
        name: [i for _, i in neighbor_ids(ServedScope(backend, ANA, filters), ["m3"], 1)["m3"]]
        for name, filters in {
            "now": Filters(),
            "history": Filters(history=True),
            "as of": Filters(as_of=at("2024-05-03")),
            "since": Filters(since=at("2024-05-04")),
            "elsewhere": Filters(session="s2"),
        }.items()
    }
    assert near == {"now": ["m2"], "history": ["m4", "m2"], "as of": ["m4"], "since": ["m2"], "elsewhere": []}


def test_a_context_has_the_reply_to_a_question_and_an_answer_lists_it_apart(tmp_path):
    write(tables([*TALK, *PAGE]), tmp_path / "i.duckdb")
    with open_index(tmp_path / "i.duckdb") as reader:
        found = reader.search("Where do the owls nest?", ANA, k=1, strategy="hybrid", budget_tokens=400)
        assert [m.memory_id for m in found.memories] == ["m3"]
        assert [m.memory_id for m in found.beside] == ["m2"] and found.packed_ids == ("m3", "m2")
        assert "  context: (Bo) In the old barn. [memory:m2]" in found.context_with("full").splitlines()
        assert found.citations.ids == ("m3", "m2")
        bare = reader.search("Where do the owls nest?", ANA, k=1, strategy="hybrid", budget_tokens=25)
    assert bare.packed_ids == ("m3",) and bare.beside == ()


def test_what_completes_a_memory_is_a_reply_its_question_or_what_it_refers_back_to():
    def said(text, speaker="Ana"):
        return Memory("m", "notes", "ana", text, unit="turn", speaker=speaker, token_count=len(text.split()))

    asks, replies = said("When do you open?", "Bo"), said("At eight.")
    long_reply = said("On weekdays we open at eight, and on Saturdays not before ten in the morning.")
    assert completes(asks, 1, replies) and completes(replies, -1, asks)
    assert not completes(asks, -1, replies) and not completes(long_reply, -1, asks) and not completes(replies, 1, asks)
    assert completes(said("He is late again."), -1, long_reply)
    assert not completes(asks, 1, said("word " * 200))


def test_a_pronoun_at_the_start_of_a_turn_gets_the_one_name_of_the_turn_before():
    def said(text, speaker):
        return Memory("m", "notes", "ana", text, unit="turn", speaker=speaker)

    answer = said("She moved to Ghent.", "Joris")
    assert pronoun_name(answer, said("Joris, how is Ruth these days?", "Ana")) == "she = Ruth"
    assert pronoun_name(answer, said("How are Ruth and Gwen these days?", "Ana")) == ""
    assert pronoun_name(answer, said("Hello Joris, any news?", "Ana")) == ""
    assert pronoun_name(said("I moved.", "Joris"), said("How is Ruth?", "Ana")) == ""
