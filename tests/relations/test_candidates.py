import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest.relations import candidates
from palimpsest.relations.candidates import (
    MIN_SIMILARITY,
    PreviousCandidates,
    candidate_pairs,
    most_pairs,
    unordered_pairs,
)
from tests.memories.frames import by_text, chunk, day, document, formed, word_vectors


def pairs_of(inputs, previous=None):
    return candidate_pairs(inputs, word_vectors(inputs.memories), previous)


def texts_of(inputs, pairs):
    text = dict(inputs.memories.select("memory_id", "text").iter_rows())
    return {(text[n], text[o]) for n, o in pairs.select("newer_id", "older_id").iter_rows()}


def dated(n, uri, **more):
    return document(uri, source_time=day(n), **more)


def test_only_a_later_observation_or_a_later_place_in_one_document_of_one_user_is_newer():
    late, early = dated(9, "late.md"), dated(1, "early.md")
    inputs = formed(
        [late, early], [chunk(late, "The Falcon deadline is May."), chunk(early, "The Falcon deadline is June.")]
    )
    assert texts_of(inputs, pairs_of(inputs)) == {("The Falcon deadline is May.", "The Falcon deadline is June.")}
    a, b, c = dated(1, "a.md"), dated(1, "b.md"), document("c.md")
    rows = [chunk(d, f"The Falcon deadline is {t}.") for d, t in ((a, "May"), (b, "June"), (c, "July"))]
    inputs = formed([a, b, c], rows)
    assert pairs_of(inputs).is_empty()
    for doc in (document("a.md"), dated(1, "a.md")):
        inputs = formed([doc], [chunk(doc, "Falcon deadline: June.", 0), chunk(doc, "Falcon deadline: May.", 1)])
        assert texts_of(inputs, pairs_of(inputs)) == {("Falcon deadline: May.", "Falcon deadline: June.")}
    a, b = dated(1, "a.md", user="u1"), dated(9, "b.md", user="u2")
    inputs = formed([a, b], [chunk(a, "The Falcon deadline is June."), chunk(b, "The Falcon deadline is May.")])
    assert pairs_of(inputs).is_empty()


@pytest.mark.parametrize(
    ("first", "second", "unit", "is_pair"),
    [
        ("chat.jsonl#c7:9", "chat.jsonl#c7:10", "turn", True),
        ("chat.jsonl#c7:9", "chat.jsonl#c7:10", "statement", False),
        ("chat.jsonl#c7:9", "chat.jsonl#d7:10", "turn", False),
        ("chat-1.jsonl#9", "chat-2.jsonl#10", "turn", False),
        ("chat-9", "chat-10", "turn", False),
    ],
)
def test_turns_that_are_counted_rows_of_one_file_are_in_its_order(first, second, unit, is_pair):
    b, a = dated(1, second), dated(1, first)
    rows = [chunk(b, "The Falcon deadline is May."), chunk(a, "The Falcon deadline is June.")]
    inputs = formed([b, a], rows, unit)
    expected = {("The Falcon deadline is May.", "The Falcon deadline is June.")} if is_pair else set()
    assert texts_of(inputs, pairs_of(inputs)) == expected


def test_what_a_person_says_is_compared_with_what_persons_said_and_an_assistant_with_all():
    chat = document("chat.jsonl")
    said = [
        ("user", "Falcon is blue."),
        ("assistant", "Falcon is a fine blue."),
        ("user", "Falcon is red."),
        ("AI", "Red Falcon."),
    ]
    inputs = formed([chat], [chunk(chat, text, n, speaker=who) for n, (who, text) in enumerate(said)], "turn")
    pairs = texts_of(inputs, pairs_of(inputs))
    assert {older for newer, older in pairs if newer == "Falcon is red."} == {"Falcon is blue."}
    assert {older for newer, older in pairs if newer == "Red Falcon."} == {text for _, text in said[:3]}


def test_equal_texts_never_pair_and_others_need_no_common_word():
    a, b, c = dated(1, "a.md"), dated(2, "b.md"), dated(3, "c.md")
    rows = [chunk(a, "Falcon is late."), chunk(b, "FALCON is late."), chunk(c, "Heron has landed.")]
    inputs = formed([a, b, c], rows)
    vectors = np.tile(np.eye(1, 8, dtype=np.float32), (3, 1))
    pairs = texts_of(inputs, candidate_pairs(inputs, vectors))
    assert pairs == {("Heron has landed.", "Falcon is late."), ("Heron has landed.", "FALCON is late.")}


def test_only_pairs_over_the_floor_and_at_most_so_many_live_ones_the_best(monkeypatch):
    monkeypatch.setattr(candidates, "PER_MEMORY", 3)
    monkeypatch.setattr(candidates, "PER_MEMORY", 3)
    docs = [dated(i, f"{i}.md") for i in range(6)]
    inputs = formed(docs, [chunk(d, f"falcon number{i}") for i, d in enumerate(docs)])
    order = by_text(inputs.memories)
    angles = {5: 0.0, 0: 0.9, 1: 0.8, 2: 0.7, 3: 0.6, 4: MIN_SIMILARITY - 0.01}
    vectors = np.zeros((6, 2), np.float32)
    for i, cosine in angles.items():
        row = inputs.memories["memory_id"].to_list().index(order[f"falcon number{i}"])
        vectors[row] = (1, 0) if i == 5 else (cosine, (1 - cosine**2) ** 0.5)
    pairs = candidate_pairs(inputs, vectors).filter(newer_id=order["falcon number5"])
    scores = dict(pairs.select("older_id", "score").iter_rows())
    assert scores == {order[f"falcon number{i}"]: angles[i] for i in (0, 1, 2)}
    assert set(pairs["why"]) == {"vector"}


def test_a_shared_entity_is_named_as_the_reason_and_no_memories_have_no_pairs():
    a, b = dated(1, "a.md"), dated(2, "b.md")
    inputs = formed([a, b], [chunk(a, "We asked Ana Silva twice."), chunk(b, "We asked Ana Silva again.")])
    (why,) = pairs_of(inputs)["why"]
    entity = inputs.mentions["entity_id"][0]
    assert why == f"vector+entity:{entity}"
    inputs = formed([document("a.md")], [chunk(document("a.md"), "x")])
    nothing = type(inputs)(
        *(t.clear() for t in (inputs.memories, inputs.embed_inputs, inputs.mentions, inputs.documents))
    )
    no_vectors = np.zeros((0, 4), np.float32)
    assert candidate_pairs(nothing, no_vectors).is_empty()
    earlier = PreviousCandidates(inputs, candidate_pairs(nothing, no_vectors))
    assert candidate_pairs(nothing, no_vectors, earlier).is_empty()


def test_what_was_edited_out_is_older_only_and_a_retired_memory_compared_with_the_most_similar_alone():
    old, new = dated(5, "a.md", seq=1, current=False), dated(5, "a.md", seq=2)
    others = [dated(i, f"{i}.md") for i in range(3)]
    rows = [chunk(d, f"falcon deadline number{i}") for i, d in enumerate(others)]
    rows += [chunk(old, "falcon deadline june"), chunk(new, "falcon deadline may")]
    inputs = formed([old, new, *others], rows)
    vectors = np.ones((inputs.memories.height, 1), np.float32)
    found = texts_of(inputs, candidate_pairs(inputs, vectors))
    newest = {o for n, o in found if n == "falcon deadline may"}
    assert newest == {"falcon deadline june", *(f"falcon deadline number{i}" for i in range(3))}
    assert not any(n == "falcon deadline june" for n, _ in found)
    old = dated(1, "a.md", seq=1, current=False)
    newer = [dated(i, f"{i}.md") for i in (2, 3, 4)]
    rows = [chunk(old, "falcon deadline june"), *(chunk(d, f"falcon deadline number{i}") for i, d in enumerate(newer))]
    inputs = formed([old, *newer], rows)
    order = by_text(inputs.memories)
    vectors = np.zeros((4, 2), np.float32)
    for text, cosine in {"june": 1.0, "number0": 0.6, "number1": 0.9, "number2": 0.8}.items():
        row = inputs.memories["memory_id"].to_list().index(order[f"falcon deadline {text}"])
        vectors[row] = (cosine, (1 - cosine**2) ** 0.5)
    pairs = candidate_pairs(inputs, vectors).filter(older_id=order["falcon deadline june"])
    assert pairs["newer_id"].to_list() == [order["falcon deadline number1"]]


WORDS = ["falcon", "heron", "deadline", "budget", "Ana Silva", "Rome"]


@st.composite
def corpora(draw):
    """A small corpus twice: before and after texts were added, removed, edited, moved or redated."""
    texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
    before, after = [], []
    for n in range(draw(st.integers(1, 4))):
        user = draw(st.sampled_from(["u1", "u2"]))
        old = draw(st.lists(texts, min_size=1, max_size=5, unique=True))
        new = draw(st.permutations(old))[: draw(st.integers(0, len(old)))] + draw(st.lists(texts, max_size=2))
        times = st.one_of(st.none(), st.integers(1, 3).map(day))
        uri = draw(st.sampled_from([f"{n}.md", f"chat.jsonl#{n}"]))
        doc = document(uri, user=user, source_time=draw(times), title=draw(st.sampled_from(["", "Rome"])))
        before.append((doc, old))
        fate = draw(st.sampled_from(["same", "edited", "redated", "gone", "absent"]))
        if fate == "same":
            after.append((doc, old))
        elif fate == "edited":
            after += [(doc | {"is_current": False}, old)]
            again = document(uri, seq=2, user=user, source_time=doc["source_time"], title=doc["title"])
            after.append((again, list(dict.fromkeys(new))))
        elif fate == "redated":
            after.append((doc | {"source_time": draw(times)}, old))
        elif fate == "gone":
            after.append((doc | {"is_current": False}, old))
    fresh = draw(st.lists(texts, min_size=1, max_size=4, unique=True))
    after.append((document("new.md", user="u1", source_time=day(2), title=""), fresh))
    return before, after


def build(corpus):
    docs = [d for d, _ in corpus]
    speakers = (None, "user", "assistant")
    rows = [chunk(d, t, i, speaker=speakers[len(t) % 3]) for d, texts in corpus for i, t in enumerate(texts)]
    return formed(docs, rows, "turn")


def incremental_equals_scratch(corpus):
    """Changes there and back again: the second change starts from a build with retired memories."""
    before, after = build(corpus[0]), build(corpus[1])
    forth = pairs_of(after, PreviousCandidates(before, pairs_of(before)))
    assert forth.equals(pairs_of(after))
    assert pairs_of(before, PreviousCandidates(after, forth)).equals(pairs_of(before))
    retired = build([(doc | {"is_current": doc["uri"] == "new.md"}, texts) for doc, texts in corpus[1]])
    assert pairs_of(retired, PreviousCandidates(after, forth)).equals(pairs_of(retired))


@settings(max_examples=12)
@given(corpora())
def test_an_incremental_build_equals_one_from_scratch(corpus):
    incremental_equals_scratch(corpus)


@pytest.mark.slow
@settings(max_examples=200)
@given(corpora())
def test_many_incremental_builds_equal_those_from_scratch(corpus):
    incremental_equals_scratch(corpus)


@settings(max_examples=10)
@given(corpora(), st.randoms(use_true_random=False))
def test_pairs_do_not_depend_on_the_order_of_rows(corpus, random):
    inputs = build(corpus[1])
    rows = list(range(inputs.memories.height))
    random.shuffle(rows)
    shuffled = type(inputs)(inputs.memories[rows], inputs.embed_inputs, inputs.mentions, inputs.documents.reverse())
    assert pairs_of(shuffled).equals(pairs_of(inputs))


@settings(max_examples=10)
@given(corpora())
def test_a_pair_stays_in_its_scope_and_its_newer_memory_is_live(corpus):
    inputs = build(corpus[1])
    user = dict(inputs.memories.select("memory_id", "user_id").iter_rows())
    live = inputs.documents.filter("is_current")["document_id"].to_list()
    document_of = dict(inputs.memories.select("memory_id", "document_id").iter_rows())
    for newer, older, scope in pairs_of(inputs).select("newer_id", "older_id", "user_id").iter_rows():
        assert user[newer] == user[older] == scope and document_of[newer] in live and newer != older


def test_a_turn_that_refers_back_is_compared_with_the_turns_before_it_also_of_the_session_before():
    texts = [
        "The meeting is at 3pm.", "I weigh 80 kg.", "Down to 165 lb.", "Rent went up.", "Sorry, scratch that: 16:00.",
    ]  # fmt: skip
    session = document("chat.jsonl", session_id="s1")
    inputs = formed([session], [chunk(session, text, i) for i, text in enumerate(texts)])
    vectors = np.eye(len(texts), 8, dtype=np.float32)
    pairs = candidate_pairs(inputs, vectors)
    assert texts_of(inputs, pairs) == {(texts[4], before) for before in texts[1:4]}
    assert set(pairs["why"]) == {"turn before"}
    assert candidate_pairs(inputs, vectors, PreviousCandidates(inputs, pairs)).equals(pairs)
    first, other, next_one = (dated(n, f"{n}.jsonl", session_id=f"s{n}") for n in (1, 2, 3))
    rows = [
        chunk(first, "Ole goes to the kindergarten."),
        chunk(other, "We had soup."),
        chunk(next_one, "He began school."),
    ]
    inputs = formed([first, other, next_one], rows)
    pairs = candidate_pairs(inputs, np.eye(3, 8, dtype=np.float32))
    assert texts_of(inputs, pairs) == {
        ("He began school.", "We had soup."),
        ("He began school.", "Ole goes to the kindergarten."),
    }


def test_unordered_pairs_are_those_that_no_build_compares():
    a, b, c = document("a.md"), document("b.md"), dated(3, "c.md")
    rows = [chunk(a, "The bridge is long.", 0), chunk(a, "The bridge is old.", 1), chunk(b, "The bridge is short.")]
    inputs = formed([a, b, c], [*rows, chunk(c, "The bridge is red.")])
    vectors = word_vectors(inputs.memories)
    text = dict(inputs.memories.select("memory_id", "text").iter_rows())
    found = list(unordered_pairs(inputs.memories, inputs.documents, (vectors, vectors), set(text)))
    pairs = [{text[x], text[y]} for x, y, _ in found]
    assert len(pairs) == 5 and {"The bridge is long.", "The bridge is old."} not in pairs
    of_one = unordered_pairs(
        inputs.memories, inputs.documents, (vectors, vectors), {i for i, t in text.items() if "short" in t}
    )
    assert all("The bridge is short." in (text[x], text[y]) for x, y, _ in of_one)


def test_the_most_pairs_of_a_memory_are_six_or_the_older_ones_that_it_may_have():
    documents = [dated(n, f"{n}.md") for n in range(1, 10)] + [document("undated.md")]
    rows = [chunk(d, f"The Falcon deadline is {d['uri']}.") for d in documents]
    rows += [chunk(documents[-1], f"The Falcon deadline is part {n}.", n) for n in (1, 2)]
    inputs = formed(documents, rows, "statement")
    found = dict(most_pairs(inputs.memories, inputs.documents).iter_rows())
    text = dict(inputs.memories.select("memory_id", "text").iter_rows())
    by_text = {text[memory_id]: pairs for memory_id, pairs in found.items()}
    assert [by_text[f"The Falcon deadline is {n}.md."] for n in range(1, 10)] == [0, 1, 2, 3, 4, 5, 6, 6, 6]
    assert [by_text[f"The Falcon deadline is part {n}."] for n in (1, 2)] == [1, 2]
    assert pairs_of(inputs).height == sum(by_text.values())


def test_chunks_of_one_version_of_a_document_and_two_long_ones_are_no_pairs():
    a, b = dated(1, "a.md"), dated(9, "b.md")
    june, may, long = "Falcon deadline: June.", "Falcon deadline: May.", {"token_count": candidates.MAX_TOKENS + 1}
    inputs = formed([a], [chunk(a, june, 0), chunk(a, may, 1)], "chunk")
    assert pairs_of(inputs).is_empty()
    for first, second, is_pair in (({}, {}, True), (long, {}, True), ({}, long, True), (long, long, False)):
        inputs = formed([a, b], [chunk(a, june, **first), chunk(b, may, **second)], "chunk")
        assert texts_of(inputs, pairs_of(inputs)) == ({(may, june)} if is_pair else set())
