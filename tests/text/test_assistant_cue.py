import pytest

from palimpsest.text.questions import asks_for_answers


@pytest.mark.parametrize(
    "question",
    [
        "What did you recommend for the garden?", "How did you originally suggest structuring the work?",
        "Which books have you already recommended?", "Remind me of the video that you\u2019ve mentioned.",
        "Where was the boatyard you told me about?", "What was your advice on the mast?",
        "Repeat your earlier explanation of the tides.", "What did the assistant say about the mast?",
        "Which port has ChatGPT suggested?",
    ],
)  # fmt: skip
def test_a_question_about_what_the_assistant_wrote_asks_for_answers(question: str) -> None:
    assert asks_for_answers(question)


@pytest.mark.parametrize(
    "question",
    [
        "What would you suggest for the garden?", "Can you recommend a boat?", "What is your advice on the mast?",
        "What did I tell you about the mast?", "What did Ana recommend?", "Did you know that I live in Porto?",
        "Which boat have I bought?",
    ],
)  # fmt: skip
def test_a_question_that_asks_for_advice_or_for_what_people_said_does_not(question: str) -> None:
    assert not asks_for_answers(question)
