import pytest

from palimpsest.text.sentences import clause_spans, covers, merge_spans


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("Tea at four.", ["Tea at four."]),
        ("I live in Lisbon and I work at Acme.", ["I live in Lisbon ", "and I work at Acme."]),
        ("Patrols: Foxes - Zosia, Lynxes - Kuba.", ["Patrols: ", "Foxes - ", "Zosia, ", "Lynxes - ", "Kuba."]),
        ("Our queue runs on Redis. Everything is dark.", ["Our queue runs on Redis.", "Everything is dark."]),
        ("", []),
    ],
)
def test_clauses_end_at_sentences_marks_and_conjunctions(text, clauses):
    found = [text[a:b] for a, b in clause_spans(text)]
    assert "".join(found).split() == "".join(clauses).split()
    assert all(len(c) >= 8 or len(found) == 1 for c in found[1:])


def test_spans_that_touch_are_one_and_marks_and_white_space_may_be_outside():
    assert merge_spans([(5, 9), (0, 3), (3, 4), (8, 12)]) == [(0, 4), (5, 12)]
    assert covers("Yes, it is.", [(0, 3), (5, 10)])
    assert not covers("Yes, it is.", [(0, 3)])
