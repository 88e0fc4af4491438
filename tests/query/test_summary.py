"""Summaries of sessions and scopes: sentences of their memories, without what is hidden, replaced or of others."""

import pytest

from palimpsest.core.errors import ArgumentError
from palimpsest.query.reader import open_home
from palimpsest.text.terms import summary_sentences
from tests.query.made import at, home, memory, tables

SCOPE = ("notes", "ana")
TURNS = [
    ("m1", "s1", "The bridge over the Calder needs new bolts. Thanks!", "2026-01-05"),
    ("m2", "s1", "Which bolts does the bridge need?", "2026-01-06"),
    ("m3", "s1", "The bridge bolts come from Corvid on Monday.", "2026-01-07"),
    ("m4", "s1", "The bridge bolts come from Corvid on Friday instead.", "2026-01-08"),
    ("m5", "s1", "The secret price of the bridge bolts is nine euros.", "2026-01-09"),
    ("m6", "s2", "The canteen serves soup with bread at noon.", "2026-02-01"),
    ("m7", "s2", "My neighbor feeds the ducks near the canteen.", "2026-02-02"),
]


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    made = tables(
        [
            *(
                memory(i, text, session_id=session, speaker="Ana", observed_at=at(day), user_visible=i != "m5")
                for i, session, text, day in TURNS
            ),
            memory("b1", "Ben sold the bridge.", "ben", session_id="s1", observed_at=at("2026-01-05")),
        ],
        updates=[("m4", "m3")],
    )
    return open_home(home(tmp_path_factory.mktemp("home"), made), count_reads=False)


def test_a_session_is_summed_up_by_its_sentences_in_order_each_with_its_memory(reader):
    found = reader.summarize_session(SCOPE, "s1")
    assert [s.memory_id for s in found.sentences] == ["m1", "m4"]
    assert found.sentences[0].cited == "2026-01-05  Ana: The bridge over the Calder needs new bolts. [memory:m1]"


def test_what_is_hidden_replaced_or_of_another_user_is_in_no_summary(reader):
    read = {
        s.memory_id for s in (*reader.summarize_session(SCOPE, "s1", 50).sentences, *reader.summarize(SCOPE).sentences)
    }
    assert read.isdisjoint({"m3", "m5", "b1"})


def test_a_scope_is_summed_up_from_the_summaries_of_its_sessions(reader):
    found = reader.summarize(SCOPE, sentences=2)
    assert (found.sessions, len(found.sentences)) == (2, 2)
    assert {"s1", "s2"} == {next(s for i, s, *_ in TURNS if i == x.memory_id) for x in found.sentences}


def test_an_unknown_session_and_a_number_out_of_range_are_errors(reader):
    with pytest.raises(ArgumentError, match="no memory of this session"):
        reader.summarize_session(SCOPE, "s9")
    with pytest.raises(ArgumentError, match="1 to 50"):
        reader.summarize(SCOPE, 0)


def test_a_sentence_that_repeats_another_gives_its_place_to_one_that_does_not():
    said = ["The dam holds the water back.", "The dam holds the water back now.", "Otters live below the dam."]
    assert 2 in summary_sentences(said, 2)


def test_a_text_of_questions_or_of_nothing_has_no_summary():
    assert summary_sentences(["Where is the red lamp now?"], 3) == [] == summary_sentences([], 3)


def test_a_long_text_is_summed_up_from_its_last_sentences_only(tmp_path):
    long = [f"Room {n} has a window with a view." for n in range(1200)]
    assert min(summary_sentences(long, 5)) >= 200
