from palimpsest.entities.collection_shape import strategy_for
from palimpsest.memories.recency import document_order, turn_order
from tests.query.made import memory, rows


def order(*turns, shuffled=False):
    memories = [
        memory(i, i, user, unit="turn", document_id=f"{user}:{uri}", ordinal=n, session_id=session)
        for i, user, uri, n, session in turns
    ]
    documents = {
        f"{user}:{uri}": {"document_id": f"{user}:{uri}", "uri": uri, "is_current": True}
        for _, user, uri, _, _ in turns
    }
    frames = rows("memories", *memories), rows("documents", *documents.values())
    if shuffled:
        frames = frames[0].reverse(), frames[1].reverse()
    return turn_order(*frames).rows()


def test_turns_and_memories_of_a_document_follow_each_other_in_their_order():
    turns = [
        ("b", "ana", "talk.jsonl", 0, "s1"),
        ("a", "ana", "talk.jsonl", 1, "s1"),
        ("c", "ana", "other.jsonl", 0, "s2"),
        ("d", "ben", "talk.jsonl", 2, "s1"),
    ]
    assert order(*turns) == order(*turns, shuffled=True) == [("b", "a")]
    turns = [(f"m{n}", "ana", f"rows.jsonl#turn:{n}", 0, "s1") for n in (10, 9, 100)]
    assert order(*turns) == [("m10", "m100"), ("m9", "m10")]
    turns = [("a", "ana", "x.vtt", 0, None), ("b", "ana", "x.vtt", 1, None), ("c", "ana", "y.vtt", 0, None)]
    assert order(*turns) == [("a", "b")]
    memories = rows(
        "memories",
        *(
            memory(i, i, unit="turn", document_id=d, ordinal=n)
            for i, d, n in [("a", "new", 0), ("b", "old", 1), ("c", "new", 2)]
        ),
    )
    documents = rows(
        "documents",
        {"document_id": "new", "uri": "x", "is_current": True},
        {"document_id": "old", "uri": "x", "is_current": False},
    )
    assert turn_order(memories, documents).rows() == [("a", "c")]
    memories = [
        memory("b", "b", document_id="d1", ordinal=0), memory("a", "a", document_id="d1", ordinal=10),
        memory("c", "c", document_id="d1", ordinal=9), memory("d", "d", document_id="d2", ordinal=1),
        memory("e", "e", "ben", document_id="d1"), memory("t", "t", unit="turn", document_id="d1", ordinal=2),
        memory("n", "n", document_id=None),
    ]  # fmt: skip
    frame = rows("memories", *memories)
    assert document_order(frame).rows() == document_order(frame.reverse()).rows() == [("b", "c"), ("c", "a")]


def test_a_collection_of_turns_is_searched_as_conversations():
    def units(*names):
        return rows("memories", *(memory(f"m{i}", "x", unit=name) for i, name in enumerate(names)))

    assert strategy_for(units("turn", "turn", "chunk")) == "turns"
    assert strategy_for(units("statement", "statement", "turn")) == "statements"
    assert strategy_for(units("chunk", "statement", "turn")) == "dated"
    assert strategy_for(units()) == "dated"
