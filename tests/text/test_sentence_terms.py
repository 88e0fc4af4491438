import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.terms import cut_sentences, join_sentences, terms

TEXT = "The mill of Varn grinds corn. It has not run since 3 May 2021!\n\n- Corn, corn and rye"


def test_sentences_have_their_distinct_terms_and_end_at_rows_headings_short_lines_or_between_words():
    found = cut_sentences(TEXT)
    texts = [TEXT[a:b] for a, b in found.spans.tolist()]
    assert texts == ["The mill of Varn grinds corn.", "It has not run since 3 May 2021!", "Corn, corn and rye"]
    assert found.counts.tolist() == [len(set(terms(t))) for t in texts]
    assert found.weigh({"corn": 2.0, "rye": 0.5, "none": 7.0}).tolist() == [2.0, 0.0, 2.5]
    wrapped = "The record of the mill is poor, and it was never kept with care by\nHenk or by anybody else."
    assert cut_sentences(wrapped).spans.tolist() == [[0, len(wrapped)]]
    for apart in (
        "| a column of many values | another of many values |\n| Corn | rye and more of many values, of all kinds |",
        "A heading that takes quite a part of a line\nThe text under it is a good deal longer than the heading.",
        "It has run dry.\nNobody came.",
    ):
        assert [apart[a:b] for a, b in cut_sentences(apart).spans.tolist()] == apart.split("\n")
    text = "ground corn " * 200
    spans = cut_sentences(text).spans.tolist()
    assert all(b - a <= 600 for a, b in spans) and len(spans) > 3
    assert " ".join(text[a:b].strip() for a, b in spans).split() == text.split()
    assert cut_sentences("x" * 1500).spans.tolist() == [[0, 600], [600, 1200], [1200, 1500]]


@given(
    st.lists(st.text("abc ,.!\n", max_size=60), max_size=4),
    st.dictionaries(st.text("abc", min_size=1), st.floats(0, 9)),
)
def test_weights_are_those_of_the_terms_cut_from_the_text_to_the_last_bit(texts, weights):
    found = join_sentences([cut_sentences(t) for t in texts])
    cut = [frozenset(terms(t[a:b])) for t in texts for a, b in memory_sentence_spans(t)]
    expected = np.array([sum(w for term, w in weights.items() if term in present) for present in cut], float)
    assert found.weigh(weights).tobytes() == expected.tobytes()
