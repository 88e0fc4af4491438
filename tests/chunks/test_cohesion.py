import pytest

from palimpsest.memories.chunks import Cohesion
from palimpsest.sources.extracted import ExtractedDocument, Segment
from tests.chunks.one_document import chunk_document

GARDEN = [
    "The gardener waters roses in the garden every morning.",
    "Roses need good soil, and the gardener turns the soil in spring.",
    "A garden of roses smells sweet when the soil is wet.",
]
ENGINE = [
    "The mechanic repairs engines in the workshop at night.",
    "Engines need clean oil, and the mechanic changes the oil in winter.",
    "A workshop full of engines smells of oil and iron.",
]


def test_the_same_words_cohere_fully_and_a_boundary_between_topics_less_than_one_inside() -> None:
    texts = [*GARDEN, *ENGINE]
    cohesion = Cohesion(texts, [12] * 6)
    values = [cohesion.before(i) for i in range(1, 6)]
    assert min(range(5), key=values.__getitem__) == 2
    assert all(0 <= v <= 1 for v in values)
    assert Cohesion(["red fox", "red fox", "blue sea"], [60, 200, 2]).before(1) == pytest.approx(1.0)


@pytest.mark.parametrize(("texts", "expected"), [(["", "words here"], 0.0), (["one two", "three four"], 0.0)])
def test_pieces_that_share_no_word_do_not_cohere(texts: list[str], expected: float) -> None:
    assert Cohesion(texts, [1, 1]).before(1) == expected


def test_a_chunk_ends_where_the_topic_changes_and_after_an_edit_where_it_did_before() -> None:
    topics = [" ".join(topic * 10) for topic in (GARDEN, ENGINE, GARDEN, ENGINE)]
    text = " ".join(topics)
    document = ExtractedDocument(
        uri="a.txt", media_type="text/plain", text=text, segments=(Segment(0, len(text), "prose"),)
    )
    ends = {c.char_end for c in chunk_document(document, "chunk")}
    at = 0
    for topic in topics:
        at += len(topic)
        assert at in ends
        at += 1
    topics = [" ".join(topic * 10) for topic in (GARDEN, ENGINE) * 4]
    before, after = " ".join(topics), " ".join(["A new sentence begins it.", *topics])
    chunks = [
        {
            c.text
            for c in chunk_document(
                ExtractedDocument(uri="a", media_type="text/plain", text=t, segments=(Segment(0, len(t), "prose"),)),
                "chunk",
            )
        }
        for t in (before, after)
    ]
    assert len(chunks[1] - chunks[0]) == 1
