"""Numbers of things in a line for people."""

import pytest

from palimpsest.core.files import counted


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (1, ("memory",), "1 memory"),
        (2, ("memory",), "2 memories"),
        (0, ("day",), "0 days"),
        (1, ("answer", "was"), "1 answer was"),
        (1200, ("latest memory", "names"), "1,200 latest memories name"),
    ],
)
def test_a_number_of_things_has_their_noun_and_verb_in_its_number(number, words, text):
    assert counted(number, *words) == text
