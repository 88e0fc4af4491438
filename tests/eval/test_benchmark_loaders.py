"""Loaders of published benchmarks, on small files in the published shapes, written here."""

import json
from pathlib import Path

import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest_eval.suites.convert import as_suite
from palimpsest_eval.suites.suite import Suite, load_suite

BEAM_CHAT = [
    {
        "batch_number": 1,
        "turns": [
            [
                {"role": "user", "id": 0, "time_anchor": "March-15-2024", "content": "I run 5 km. ->-> 1,1"},
                {"role": "assistant", "id": 1, "content": "Good."},
            ]
        ],
    },
    {"batch_number": 2, "turns": [[{"role": "user", "id": 2, "content": "I run 8 km now. ->-> 2,1"}]]},
]
BEAM_QUESTIONS = {
    "abstention": [{"question": "Which shoes?", "rubric": []}],
    "knowledge_update": [
        {"question": "How far do I run?", "source_chat_ids": {"original_info": [0], "updated_info": [2]}}
    ],
    "event_ordering": [{"question": "In which order?", "source_chat_ids": [2, 0]}],
}


def converted(path: Path, cache: Path, only: str | None = None) -> tuple[Suite, list[dict]]:
    folder = as_suite(path, cache, only)
    return load_suite(folder), [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]


def lines(rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def beam(tmp_path) -> Path:
    folder = tmp_path / "100K"
    (folder / "7/probing_questions").mkdir(parents=True)
    (folder / "7/chat.json").write_text(json.dumps(BEAM_CHAT))
    (folder / "7/probing_questions/probing_questions.json").write_text(json.dumps(BEAM_QUESTIONS))
    return folder


def check_beam(suite: Suite, rows: list[dict]) -> None:
    assert [(r["_id"], r["text"], r["meta"]) for r in rows] == [
        ("7:0", "I run 5 km.", {"role": "user", "date_time": "2024-03-15"}),
        ("7:1", "Good.", {"role": "assistant", "date_time": "2024-03-15"}),
        ("7:2", "I run 8 km now.", {"role": "user", "date_time": "2024-03-15"}),
    ]
    assert suite.qrels == {"7:knowledge_update0": {"7:0": 1, "7:2": 1}, "7:event_ordering0": {"7:2": 1, "7:0": 1}}
    assert suite.stale == {"7:knowledge_update0": frozenset({"7:0"})}
    assert {q.type for q in suite.queries} == set(BEAM_QUESTIONS) and suite.ordered_turns


def test_beam_is_read_from_its_folders_the_truncated_chat_first(beam, tmp_path):
    check_beam(*converted(beam, tmp_path / "cache"))
    suite, _ = converted(beam / "7", tmp_path / "cache", "BEAM")
    assert set(suite.scopes.values()) == {"7"}
    (beam / "7/chat_trunecated.json").write_text(json.dumps(BEAM_CHAT[:1]))
    assert len(converted(beam, tmp_path / "cache")[1]) == 2


def test_a_number_of_two_messages_of_beam_judges_no_question(tmp_path):
    again = {"role": "user", "id": 0, "content": "I swim."}
    plans = [{"plan-1": BEAM_CHAT, "plan-2": None}, {"plan-1": None, "plan-2": [{"turns": [[again]]}]}]
    question_rows = {
        "abstention": [],
        "order": [{"question": "a?", "source_chat_ids": [[2], ["--"]]}, *BEAM_QUESTIONS["event_ordering"]],
    }
    path = tmp_path / "10M.json"
    path.write_text(json.dumps([{"conversation_id": 7, "chat": plans, "probing_questions": question_rows}]))
    suite, rows = converted(path, tmp_path / "cache")
    assert [r["_id"] for r in rows] == ["7:0", "7:1", "7:2", "7:0#2"]
    assert suite.qrels == {"7:order0": {"7:2": 1}} and len(suite.queries) == 2


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_beam_is_read_as_the_data_hub_gives_it_with_questions_as_a_literal(tmp_path, kind):
    chat = [turn for batch in BEAM_CHAT for turn in batch["turns"]]
    row = {"conversation_id": "7", "chat": chat, "probing_questions": str(BEAM_QUESTIONS)}
    path = tmp_path / f"rows.{kind}"
    if kind == "json":
        path.write_text(json.dumps([row]))
    else:
        pl.DataFrame([row], infer_schema_length=None).write_parquet(path)
    check_beam(*converted(path, tmp_path / "cache"))


def test_a_suite_of_beam_is_judged_by_the_ids_in_its_queries_where_beam_is_asked_for(tmp_path):
    folder = tmp_path / "beam"
    folder.mkdir()
    anchors = ["March-15-2024", None, None]
    messages = [m for batch in BEAM_CHAT for turn in batch["turns"] for m in turn]
    texts = ["I run 5 km.", "Good.", "I run 8 km now."]
    rows = [
        {"_id": f"7:{n}", "text": text, "scope": "7", "meta": {"role": m["role"], "time_anchor": anchor}}
        for n, (text, m, anchor) in enumerate(zip(texts, messages, anchors, strict=True))
    ]
    question_rows = [
        {"_id": f"x{kind}", "text": q["question"], "scope": "7", "type": kind, "meta": q}
        for kind, questions in BEAM_QUESTIONS.items()
        for q in questions
    ]
    (folder / "corpus.jsonl").write_text(lines(rows))
    (folder / "queries.jsonl").write_text(lines(question_rows))
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nxknowledge_update\t7:2\t1\n")
    check_beam(*converted(folder, tmp_path / "cache", "BEAM"))
    assert as_suite(folder, tmp_path / "cache") == folder, "without BEAM it is a suite like any other"


@pytest.fixture
def lmeb(tmp_path) -> Path:
    task = tmp_path / "Dialogue/single_hop"
    task.mkdir(parents=True)
    docs = [
        {"id": f"scene_{s}_turn_{t}", "title": f"Turn {t}", "text": f"text {s}.{t}"} for s in (0, 1) for t in (0, 1)
    ]
    pools = [{"scene_id": f"scene_{s}", "candidate_doc_ids": [f"scene_{s}_turn_{t}" for t in (0, 1)]} for s in (0, 1)]
    (task.parent / "corpus.jsonl").write_text(lines(docs))
    (task.parent / "candidates.jsonl").write_text(lines(pools))
    question_rows = [
        {"id": "scene_0_q_0", "text": "a?"},
        {"id": "scene_1_q_0", "text": "b?"},
        {"id": "other", "text": "c?"},
    ]
    (task / "queries.jsonl").write_text(lines(question_rows))
    (task / "qrels.tsv").write_text("scene_0_q_0\tscene_0_turn_1\t1\nscene_1_q_0\tscene_1_turn_0\t1\n")
    return task


def test_a_task_of_lmeb_is_searched_among_the_candidates_of_the_scene(lmeb, tmp_path):
    suite, rows = converted(lmeb, tmp_path / "cache")
    assert suite.qrels == {
        "scene_0_q_0": {"scene_0:scene_0_turn_1": 1},
        "scene_1_q_0": {"scene_1:scene_1_turn_0": 1},
    }
    assert [q.scope for q in suite.queries] == ["scene_0", "scene_1", "all"]
    assert [r["scope"] for r in rows] == ["scene_0"] * 2 + ["scene_1"] * 2 + ["all"] * 4
    assert rows[0] == {"_id": "scene_0:scene_0_turn_0", "title": "Turn 0", "text": "text 0.0", "scope": "scene_0"}


def session(n: int, day: str, *said: str, **fields) -> dict:
    turns = {f"Turn_{i}": [{"role": "user", "content": text}] for i, text in enumerate(said, 1)}
    return {"Session_ID": n, "Date": day, "Session_Dialogue": turns, **fields}


def question(n: int, kind: str) -> dict:
    return {"question_id": f"Q_00{n}", "question": f"{kind} {n}?", "answer": "x", "conflict_type": kind}


def point(role: str, conflict: str = "SC_1", **fields) -> dict:
    return {"Conflict_ID": conflict, "Role": role, **fields}


CHAIN = [
    session(0, "2022-01-03", "I live in Darwin.", Revealed_Attributes={"Residence": "Darwin"}),
    session(
        1, "2022-02-01", "I was born in Leeds. I run when it rains.",
        Static_Conflict_Information=[point("Point_A", Target_Field_Path="Birthplace")],
        Conditional_Conflict_Information=[point("Point_A", "CC_1")],
    ),
    session(
        2, "2022-03-01", "I moved to Perth.", "I was born in York. I run when it snows.",
        Updated_Attributes=[{"Attribute": "Residence", "Before": "Darwin", "After": "Perth"}],
        Static_Conflict_Information=[
            point("Distractor", Target_Field_Path="Birthplace"), point("Point_B", Target_Field_Path="Birthplace"),
        ],
        Conditional_Conflict_Information=[point("Point_B", "CC_1")],
        Session_Questions=[
            question(1, "dynamic_conflict"), question(2, "static_conflict"), question(3, "conditional_conflict"),
        ],
    ),
    session(3, "2022-04-01", "I moved to Hobart.", Updated_Attributes=[{"Attribute": "Residence", "After": "Hobart"}]),
]  # fmt: skip


def test_memconflict_is_judged_by_sessions_as_of_the_question(tmp_path):
    path = tmp_path / "Step4_4.jsonl"
    path.write_text(lines([{"ID": "p1", "Full_Session_Chain": CHAIN}]))
    suite, rows = converted(path, tmp_path / "cache")
    assert [r["_id"] for r in rows] == ["p1:0:0", "p1:1:0", "p1:2:0", "p1:2:1", "p1:3:0"]
    assert rows[0]["meta"] == {"role": "user", "session": "0", "date_time": "2022-01-03"}
    assert suite.qrels == {
        "p1:2:Q_001": {"p1:2:0": 1, "p1:2:1": 1},
        "p1:2:Q_002": {"p1:1:0": 1},
        "p1:2:Q_003": {"p1:1:0": 1},
    }
    assert suite.stale == {"p1:2:Q_001": {"p1:0:0"}, "p1:2:Q_002": {"p1:2:0", "p1:2:1"}}
    assert {str(q.as_of) for q in suite.queries} == {"2022-03-01"} and suite.sessions["p1:2:1"] == "2"


LOCOMO_BAD = [{"sample_id": "s", "conversation": {"session_1": [{"dia_id": "D1:1"}, 3]}, "qa": []}]
LONGMEMEVAL_BAD = [{"question_id": "q", "question": "?", "haystack_sessions": [[], []], "haystack_session_ids": ["a"]}]
HUB_BAD = [{"conversation_id": "7", "chat": [[{"role": "user", "content": "x"}]], "probing_questions": {}}]


@pytest.mark.parametrize(
    ("only", "value", "message"),
    [
        ("LoCoMo", LOCOMO_BAD, r"item 1: conversation.session_1\[1\] must be an object"),
        ("LoCoMo", LONGMEMEVAL_BAD, "no LoCoMo: an item must have conversation, qa, sample_id"),
        ("LongMemEval", LONGMEMEVAL_BAD, "item 1: haystack_session_ids has 1 entries"),
        ("BEAM", HUB_BAD, r"item 1: chat\[0\]\[0\].id is required"),
        ("BEAM", [{**HUB_BAD[0], "chat": [], "probing_questions": "{"}], "item 1: probing_questions is a text that"),
        ("MemConflict", [{"ID": "p", "Full_Session_Chain": [{"Session_ID": 0}]}], "no session with a Session_Dialogue"),
        ("MemConflict", [{"ID": "p", "Full_Session_Chain": [session(0, "May", "Hi.")]}], r"\[0\].Date must be a day"),
        (
            "MemConflict",
            [{"ID": "p", "Full_Session_Chain": [{**CHAIN[0], "Session_Questions": [question(1, "odd")]}]}],
            r"Full_Session_Chain\[0\].Session_Questions\[0\].conflict_type 'odd' is unknown",
        ),
    ],
)
def test_a_file_that_is_not_in_the_format_names_itself_the_item_and_the_field(tmp_path, only, value, message):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(value))
    with pytest.raises(PalimpsestError, match=message) as e:
        as_suite(path, tmp_path / "cache", only)
    assert "bad.json" in str(e.value) and "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("queries.jsonl", '{"id": "q"}\n', "text is required"),
        ("qrels.tsv", "scene_0_q_0\tscene_0_turn_1\n", "qrels.tsv line 1: 2 columns"),
        ("qrels.tsv", "nobody\tscene_0_turn_1\t1\n", "query 'nobody' is not in queries.jsonl"),
        ("candidates.jsonl", '{"scene_id": "scene_0", "candidate_doc_ids": "x"}\n', "candidate_doc_ids is required"),
        ("candidates.jsonl", '{"scene_id": "scene_0", "candidate_doc_ids": ["x"]}\n', "candidate 'x' of scene scene_0"),
    ],
)
def test_a_malformed_task_of_lmeb_names_file_and_field(lmeb, tmp_path, name, text, message):
    (lmeb / name).write_text(text)
    with pytest.raises(PalimpsestError, match=message):
        as_suite(lmeb, tmp_path / "cache", "LMEB")


def test_a_chat_that_is_nested_deeply_is_refused_however_deep(beam, tmp_path):
    for depth in (*range(700, 1000, 3), 10_000):  # some are read as JSON and are too deep for what follows
        (beam / "7/chat.json").write_text("[" * depth + "]" * depth)
        with pytest.raises(PalimpsestError, match=r"not JSON|has 0 texts"):
            as_suite(beam, tmp_path / "cache")


def test_a_missing_part_is_named(beam, lmeb, tmp_path):
    (beam / "7/probing_questions/probing_questions.json").unlink()
    with pytest.raises(PalimpsestError, match=r"needs probing_questions.json"):
        as_suite(beam, tmp_path / "cache", "BEAM")
    (lmeb.parent / "candidates.jsonl").unlink()
    with pytest.raises(PalimpsestError, match=r"needs candidates.jsonl"):
        as_suite(lmeb, tmp_path / "cache", "LMEB")
    with pytest.raises(PalimpsestError, match="no LoCoMo"):
        as_suite(tmp_path, tmp_path / "cache", "LoCoMo")


@pytest.mark.parametrize(
    ("stale", "message"),
    [
        ("q\td\n", "line 1: the header"),
        ("query-id\tcorpus-id\nq1\n", "line 2: 1 columns"),
        ("query-id\tcorpus-id\nq9\ta\n", "line 2: query 'q9'"),
        ("query-id\tcorpus-id\n\nq1\tb\n", "line 3: row 'b' is not in the scope"),
    ],
)
def test_stale_rows_are_read_strictly(tmp_path, stale, message):
    (tmp_path / "corpus.jsonl").write_text(lines([{"_id": "a", "text": "x"}, {"_id": "b", "text": "y", "scope": "s"}]))
    (tmp_path / "queries.jsonl").write_text(lines([{"_id": "q1", "text": "x?"}]))
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\n")
    (tmp_path / "stale.tsv").write_text(stale)
    with pytest.raises(PalimpsestError, match=message):
        load_suite(tmp_path)


def test_the_day_of_a_query_must_be_one(tmp_path):
    (tmp_path / "corpus.jsonl").write_text(lines([{"_id": "a", "text": "x"}]))
    (tmp_path / "queries.jsonl").write_text(lines([{"_id": "q1", "text": "x?", "as_of": "soon"}]))
    with pytest.raises(PalimpsestError, match=r"queries\.jsonl line 1: as_of must be a day"):
        load_suite(tmp_path)
