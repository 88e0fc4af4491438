import json
from pathlib import Path

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest_eval.suites.convert import as_suite
from palimpsest_eval.suites.suite import load_suite

LOCOMO = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ana",
            "speaker_b": "Ben",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ana", "dia_id": "D1:1", "text": "I got a dog."},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "", "blip_caption": "a photo of a dog"},
            ],
            "session_10": [{"speaker": "Ana", "dia_id": "D10:1", "text": "Later."}],
            "session_2": [{"speaker": "Ana", "dia_id": "D2:1", "text": "Soon."}],
        },
        "qa": [
            {"question": "Which pet?", "answer": "dog", "evidence": ["D1:1; D:1:02"], "category": 4},
            {"question": "No evidence?", "evidence": [], "category": 5},
        ],
    }
]
LONGMEMEVAL = [
    {
        "question_id": "q1", "question_type": "single-session-user", "question": "Which bread?", "answer": "rye",
        "haystack_session_ids": ["s1", "s2"], "haystack_dates": ["2023/05/30 (Tue) 21:48", "2023/06/01 (Thu) 08:00"],
        "haystack_sessions": [
            [{"role": "user", "content": "Hello."}],
            [{"role": "user", "content": "I bake rye.", "has_answer": True}, {"role": "assistant", "content": "Nice."}],
        ],
        "answer_session_ids": ["s2"],
    },
    {
        "question_id": "q2", "question": "Which tea?", "haystack_session_ids": ["s1", "s2"],
        "haystack_sessions": [[{"role": "user", "content": "Green."}], [{"role": "user", "content": "Bye."}]],
        "answer_session_ids": ["s1"],
    },
    {
        "question_id": "q3_abs", "question": "Which car?", "haystack_session_ids": ["s1"],
        "haystack_sessions": [[{"role": "user", "content": "A bike."}]], "answer_session_ids": ["s1"],
    },
]  # fmt: skip
FLAT = {
    "data": [
        {
            "id": "t",
            "question_type": "temporal-reasoning",
            "conversation": [
                {"role": "user", "content": "I wake up at 6:45 AM now.", "date": "2023/05/30 (Tue) 21:48"},
                {"role": "assistant", "content": "16:45 AMPLE"},
            ],
            "questions": [{"id": "q1", "question": "When do I wake up?", "answer": "6:45 AM"}],
        }
    ]
}
HOTPOT = [
    {
        "_id": "h1", "question": "Who?", "answer": "x", "type": "bridge", "supporting_facts": [["A", 0], ["B", 1]],
        "context": [["A", ["One. ", "Two."]], ["B", ["Three."]], ["C", ["Four."]]],
    },
    {
        "_id": "h2", "question": "What?", "type": "comparison", "supporting_facts": [["A", 0]],
        "context": [["A", ["One. ", "Two."]], ["A", ["Another A."]]],
    },
]  # fmt: skip
HUB = [
    {
        "id": "w1", "question": "Who?", "type": "compositional", "supporting_facts": {"title": ["B"], "sent_id": [0]},
        "context": {"title": ["A", "B"], "sentences": [["One."], ["Two."]]},
    },
]  # fmt: skip
MUSIQUE = [
    {
        "id": "2hop__1_2", "question": "Who?", "answerable": True,
        "paragraphs": [
            {"idx": 0, "title": "A", "paragraph_text": "One.", "is_supporting": True},
            {"idx": 1, "title": "B", "paragraph_text": "Two.", "is_supporting": False},
        ],
    },
    {
        "id": "3hop1__4", "question": "Which?", "answerable": False,
        "paragraphs": [{"idx": 0, "title": "A", "paragraph_text": "One.", "is_supporting": True}],
    },
]  # fmt: skip


def loaded(tmp_path: Path, name: str, value, jsonl: bool = False):
    path = tmp_path / name
    path.write_text("".join(json.dumps(x) + "\n" for x in value) if jsonl else json.dumps(value))
    folder = as_suite(path, tmp_path / "cache")
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    return load_suite(folder), rows


def test_locomo_is_a_scope_a_conversation_and_a_row_a_turn(tmp_path):
    suite, rows = loaded(tmp_path, "locomo10.json", LOCOMO)
    assert [r["_id"] for r in rows] == ["conv-1:D1:1", "conv-1:D1:2", "conv-1:D2:1", "conv-1:D10:1"]
    about = {"speaker": "Ana", "session": "session_1", "date_time": "1:56 pm on 8 May, 2023"}
    assert rows[0] == {"_id": "conv-1:D1:1", "title": "", "text": "I got a dog.", "scope": "conv-1", "meta": about}
    assert rows[1]["meta"]["image_caption"] == "a photo of a dog"
    assert suite.name == "locomo10" and suite.ordered_turns
    (query,) = suite.judged
    assert len(suite.queries) == 2, "a question without evidence is counted and not judged"
    assert (query.query_id, query.type, query.scope) == ("conv-1:q0", "single-hop", "conv-1")
    assert suite.qrels["conv-1:q0"] == {"conv-1:D1:1": 1, "conv-1:D1:2": 1}


def test_longmemeval_judges_marked_turns_else_answer_sessions_and_a_flat_sample_by_the_answers_words(tmp_path):
    suite, rows = loaded(tmp_path, "s.json", LONGMEMEVAL)
    assert suite.qrels == {"q1": {"q1:1:0": 1}, "q2": {"q2:0:0": 1}}
    assert [q.query_id for q in suite.queries] == ["q1", "q2", "q3_abs"]
    assert rows[0]["meta"] == {"speaker": "user", "session": "s1", "date_time": "2023-05-30 21:48"}
    suite, _ = loaded(tmp_path, "oracle.json", FLAT)
    assert suite.qrels == {"t:q1": {"t:0": 1}} and suite.queries[0].type == "temporal-reasoning"


@pytest.mark.parametrize("jsonl", [False, True])
def test_hotpot_pools_passages_and_judges_by_the_titles_of_each_question(tmp_path, jsonl):
    suite, rows = loaded(tmp_path, "hotpot.json", HOTPOT, jsonl)
    by = {(r["title"], r["text"]): r["_id"] for r in rows}
    assert len(rows) == 4 and [q.type for q in suite.queries] == ["bridge", "comparison"]
    assert set(suite.qrels["h1"]) == {by["A", "One. Two."], by["B", "Three."]}
    assert set(suite.qrels["h2"]) == {by["A", "One. Two."], by["A", "Another A."]}


def test_2wiki_as_a_data_hub_gives_it_and_musique_are_read(tmp_path):
    suite, rows = loaded(tmp_path, "2wiki.json", HUB)
    assert [r["_id"] for r in rows if r["title"] == "B"] == list(suite.qrels["w1"])
    suite, rows = loaded(tmp_path, "musique.jsonl", MUSIQUE, jsonl=True)
    assert len(rows) == 2 and list(suite.qrels["2hop__1_2"]) == [rows[0]["_id"]]
    assert [q.query_id for q in suite.judged] == ["2hop__1_2"]


@pytest.fixture
def beir(tmp_path):
    folder = tmp_path / "scifact"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "title": "T", "text": "x"}\n{"_id": "d2", "text": "y"}\n')
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "x?"}\n{"_id": "q2", "text": "train only?"}\n')
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\tgone\t1\n")
    (folder / "qrels/train.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td2\t1\n")
    return folder


def test_a_beir_folder_is_judged_by_its_test_split_converted_once_and_a_missing_path_reported(beir, tmp_path):
    cache = tmp_path / "cache"
    made = as_suite(beir, cache)
    (made / "mark").touch()
    assert as_suite(beir, cache) == made and (made / "mark").exists() and as_suite(made, cache) == made
    assert not list(cache.rglob(".making-*"))
    suite = load_suite(as_suite(beir, tmp_path / "cache"))
    assert suite.name == "scifact" and suite.qrels == {"q1": {"d1": 2}}
    (beir / "qrels/test.tsv").unlink()
    assert load_suite(as_suite(beir, tmp_path / "cache")).qrels == {"q2": {"d2": 1}}
    with pytest.raises(PalimpsestError, match="no such file or folder"):
        as_suite(tmp_path / "none", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "must be a list of JSON objects"),
        ("[1]", "must be a list of JSON objects"),
        ('[{"a": 1}]', "not a known data set"),
        (
            '[{"sample_id": 1, "conversation": {"session_1": [{}]}, "qa": []}]',
            r"item 1: conversation.session_1\[0\].dia_id is required",
        ),
        ('[{"sample_id": 1, "conversation": {}, "qa": []}]', "no judged question"),
        ('[{"id": "m", "paragraphs": [{}], "question": "q"}]', "looks like MuSiQue"),
    ],
)
def test_a_file_that_is_no_data_set_is_refused_in_one_line(tmp_path, text, message):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(PalimpsestError, match=message) as e:
        as_suite(path, tmp_path / "cache")
    assert "x.json" in str(e.value) and "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("qrels/test.tsv", "head\nq1 d1 1\n", "line 2"),
        ("qrels/test.tsv", "head\nq9\td1\t1\n", "'q9' is not in queries"),
        ("corpus.jsonl", "{", "corpus.jsonl line 1"),
    ],
)
def test_a_malformed_beir_folder_names_file_and_line(beir, tmp_path, name, text, message):
    (beir / name).write_text(text)
    with pytest.raises(PalimpsestError, match=message):
        as_suite(beir, tmp_path / "cache")
