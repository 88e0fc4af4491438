"""What the reader of answers is trained on: lists of a question with lines that answer it and lines that do not."""

import json
import random

import pytest

TURNS = [
    ("Ross Geller", "Ben is at the zoo ."),
    ("Rachel Green", "I like tea ."),
    ("#NOTE#", "It rains , does n't it ?"),
]


@pytest.fixture
def dialogues(tmp_path):
    turns = [{"uid": i, "speakers": [s], "utterance": t} for i, (s, t) in enumerate(TURNS)]
    question_rows = [
        {"question": "Where does Ross say Ben is ?", "answers": [{"utterance_id": 0}]},
        {"question": "Who knocks ?", "answers": [{"utterance_id": 9}]},
    ]
    path = tmp_path / "d.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [{"utterances:": turns, "qas": question_rows}]}]}))
    return path


def test_a_question_of_a_dialogue_has_its_turns_and_about_somebody_else_no_answer(dialogues):
    from palimpsest_eval.training.train_reader import dialogue_lists

    found = [q for seed in range(20) for q in dialogue_lists(dialogues, random.Random(seed))]
    own = [q for q in found if "Ross" in q.question]
    swapped = [q for q in found if "Rachel" in q.question]
    assert len(own) == 20 and 0 < len(swapped) < 20 and {q.question for q in own} == {"Where does Ross say Ben is?"}
    assert all([y for _, y in q.lines] == [True, False, False] for q in own)
    assert not any(y for q in swapped for _, y in q.lines)
    assert any(t.endswith("#NOTE#: It rains, doesn't it?") for t, _ in own[0].lines)


def test_half_of_the_questions_about_sentences_with_the_nearest_sentences(tmp_path):
    from palimpsest_eval.training.train_reader import sentence_lists

    rows = [
        {
            "article": "Bees",
            "question": "What do bees make?",
            "answers": [11],
            "candidates": [*(f"no {i}" for i in range(11)), "Bees make honey.", "Bees hum."],
        }
        for _ in range(100)
    ]
    path = tmp_path / "s.json"
    path.write_text(json.dumps(rows))
    found = list(sentence_lists(path, random.Random(0)))
    assert 30 < len(found) < 70
    assert all(q.lines[0][1] and q.lines[0][0].endswith("Bees make honey.") and len(q.lines) == 10 for q in found)
    assert all(q.lines[1][0] == "Bees hum." for q in found if not q.lines[0][0].startswith("# Bees "))
