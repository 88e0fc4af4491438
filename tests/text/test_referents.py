"""What an opening pronoun refers to: right where the rules speak, silent where they cannot know."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.sources.extracted import ExtractedDocument, Segment
from palimpsest.text.referents import opening_referents
from tests.chunks.one_document import chunk_document

NAMES = "We saw the Pike and met Mara Lind and the Otter."  # capitalised inside a sentence: names, and which are things


@pytest.mark.parametrize(
    ("before", "statement", "referent"),
    [
        ("The Pike lists at 90 euros.", "It has a sapphire window.", "Pike"),
        ("The coffee machine was repaired.", "It will not be repaired again.", "The coffee machine"),
        ("The form was signed by Mara Lind.", "She did it on the spot.", "Mara Lind"),
        ("Mara Lind measured the annex.", "It has 640 square metres.", None),
        ("The lamps are new.", "They are bright.", "The lamps"),
        ("The Pike is new.", "It follows that the Otter is old.", None),
        ("The Pike is new.", "This page is old.", None),
        ("The Pike is new.", "This is good.", "The Pike"),
        ("The Pike is new.", "Italy is far.", None),
        ("On Monday we met.", "It was long.", None),
    ],
)
def test_the_sentence_before_names_what_a_pronoun_stands_for(before, statement, referent):
    assert opening_referents([NAMES, before, statement], [0, 0, 0])[2] == referent


def test_pronouns_in_a_row_stand_for_the_same_thing_up_to_three_and_not_across_sections():
    rows = ["The Pike is new.", "It is small.", "It is blue.", "Its case is steel.", "It floats."]
    assert opening_referents(rows, [0] * 5) == [None, "The Pike", "The Pike", "The Pike", None]
    assert opening_referents(["The Pike is new.", "It is small."], ["Pike", "Otter"]) == [None, None]


@given(st.lists(st.text(alphabet="It The Pike. '-1\n", max_size=30), max_size=8))
def test_any_texts_give_one_answer_each_that_occurs_in_them(texts):
    found = opening_referents(texts, [0] * len(texts))
    assert len(found) == len(texts)
    assert all(f is None or " ".join(f.split()) in " ".join(" ".join(texts[:i]).split()) for i, f in enumerate(found))


def test_a_statement_keeps_its_text_and_carries_what_it_refers_to():
    text = "We saw the Pike. The Pike lists at 90 euros. It has a sapphire window."
    segments = (Segment(0, len(text), "prose"),)
    document = ExtractedDocument(uri="a.md", media_type="text/markdown", text=text, segments=segments)
    chunks = chunk_document(document, "statement")
    assert [(c.text, c.refers_to) for c in chunks] == [
        ("We saw the Pike.", None),
        ("The Pike lists at 90 euros.", None),
        ("It has a sapphire window.", "Pike"),
    ]
