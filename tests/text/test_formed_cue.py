"""Which kind of formed memory a question asks for."""

import pytest

from palimpsest.text.questions import requested_kinds


@pytest.mark.parametrize(
    ("question", "kinds"),
    [
        ("What have we decided about the kitchen?", {"decision"}), ("Which hob did we go for?", {"decision"}),
        ("What do I dislike about hotels?", {"preference"}), ("What can't I stand?", {"preference"}),
        ("What fixed the printer?", {"solution"}), ("How did we get the van running again?", {"solution"}),
        ("Which of my questions are still open?", {"gap"}), ("When do the releases go out?", set()),
        ("Who is my dentist?", set()),
    ],
)  # fmt: skip
def test_the_words_of_a_question_say_which_kind_it_asks_for(question, kinds):
    assert requested_kinds(question) == kinds
