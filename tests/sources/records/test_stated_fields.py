"""What turns and front matter state of their memories: fields, bad values, combination."""

import json

import polars as pl
import pytest

from palimpsest.memories.source_trust import attribute_columns
from palimpsest.sources.extracted import (
    ExtractedDocument,
    Extraction,
    Source,
    StatedFields,
    combine_stated_fields,
    parse_stated_fields,
)
from palimpsest.sources.readers.read_source import read_bytes
from palimpsest.store.collection_config import Limits


def read(name: str, text: str) -> Extraction:
    suffix = "." + name.rpartition(".")[2]
    return read_bytes(Source(uri=name, suffix=suffix, data=text.encode()), Limits())


def turn(text: str, **fields: object) -> str:
    return json.dumps({"session_id": "s", "speaker": "ana", "text": text, **fields}) + "\n"


def test_a_turn_states_its_type_tags_importance_and_privacy_and_without_them_is_as_before():
    privacy = {"pii": True, "user_visible": False, "retention_days": 30}
    one = turn("I like tea.", type="preference", tags=["b", "a"], importance=0.9, privacy=privacy, memory="off")
    (document,) = read("chat.jsonl", one + turn("Fine.")).documents
    first, second = document.segments
    assert first.stated == StatedFields("preference", ("a", "b"), 0.9, None, None, True, False, 30, "off")
    assert second.stated is None
    assert ExtractedDocument.from_json(json.loads(json.dumps(document.to_json()))) == document
    (document,) = read("chat.jsonl", turn("Fine.")).documents
    assert document.to_json()["segments"] == [[5, 10, "turn", None, None, "ana", None]]


def test_privacy_holds_however_it_is_spelt_and_a_problem_shows_no_piece_of_a_secret():
    stated, problems = parse_stated_fields(
        {"memory": "OFF", "kind": "Tool", "privacy": {"pii": "yes", "user_visible": "False", "retention_days": "30"}}
    )
    assert problems == []
    assert stated == StatedFields(memory="off", kind="tool", pii=True, user_visible=False, retention_days=30)
    assert parse_stated_fields({"memory": " Off "}, free_words=True)[0] == StatedFields(memory="off")
    token = "gh" + "p_" + "A1b2C3d4" * 4 + "e5F6"
    _, problems = parse_stated_fields({"importance": token, "privacy": {token: 1, "retention_days": f"x {token}"}})
    assert len(problems) == 3 and not any("A1b2C3d4" in p for p in problems)


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ({"importance": "high"}, "importance 'high' must be a number from 0 to 1"),
        ({"importance": True}, "importance True must be a number"),
        ({"type": "story"}, "type 'story' must be episodic, semantic"),
        ({"privacy": [1]}, "privacy (a list) must be a mapping such as {pii: true"),
        ({"privacy": {"pii": "perhaps"}}, "privacy.pii 'perhaps' must be true or false"),
        ({"privacy": {"retention_days": 0}}, "privacy.retention_days 0 must be a whole number of days from 1"),
        ({"privacy": {"visible": False}}, "privacy.visible is no field; use pii, user_visible or retention_days"),
        ({"memory": "never"}, "memory 'never' must be save or off"),
    ],
)
def test_a_value_that_cannot_be_used_is_a_problem_by_line_and_field_and_the_turn_is_kept(field, problem):
    extraction = read("chat.jsonl", turn("One.") + turn("Two.", **field))
    (message,) = extraction.problems
    assert message.startswith("line 2: ") and problem in message
    assert extraction.documents[0].text == "ana: One.\nana: Two."


@pytest.mark.parametrize(
    ("field", "stated", "message"),
    [
        ({"privacy": {"pii": "perhaps"}}, StatedFields(pii=True), "true is used"),
        ({"privacy": {"user_visible": "who knows"}}, StatedFields(user_visible=False), "false is used"),
        ({"privacy": "high"}, StatedFields(pii=True, user_visible=False), "{pii: true, user_visible: false} is used"),
        ({"memory": "never"}, StatedFields(memory="off"), "off is used"),
        ({"privacy": {"retention_days": "soon"}}, None, "the default is used"),
    ],
)
def test_what_cannot_be_read_of_privacy_counts_as_the_stricter_value(field, stated, message):
    found, (problem,) = parse_stated_fields(field)
    assert found == stated and problem.endswith(message)


def test_a_role_is_read_as_speaker_and_front_matter_may_have_other_types():
    extraction = read("eip.md", "---\ntype: Meta\nkind: blog\nprivacy: none\n---\nText.\n")
    (message,) = extraction.problems
    assert message.startswith("front matter: privacy 'none' must be a mapping")
    assert read("a.md", "---\nmemory: off\n---\nText.\n").problems == ()
    rows = [{"role": "user", "text": "Hi."}, {"role": "tool", "speaker": "search", "text": "3 results"}]
    (document,) = read("c.jsonl", "".join(json.dumps({"session_id": "s", **r}) + "\n" for r in rows)).documents
    assert [(s.speaker, s.stated.kind if s.stated else None) for s in document.segments] == [
        ("user", None),
        ("search", "tool"),
    ]


def test_the_openai_message_format_is_a_message_and_a_chat_export_an_import():
    messages = [
        {"role": "user", "content": "Hi.", "privacy": {"pii": True}},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": [{"type": "text", "text": "42"}]},
    ]
    extraction = read("a.json", json.dumps({"messages": messages}))
    (document,) = extraction.documents
    assert extraction.problems == () and document.kind == "message"
    assert document.text == "user: Hi.\ntool: 42"
    assert document.segments[0].stated == StatedFields(pii=True)
    lines = "".join(json.dumps({**m, "session_id": "s"}) + "\n" for m in messages)
    (by_line,) = read("a.jsonl", lines).documents
    assert (by_line.text, by_line.session_id, by_line.kind) == (document.text, "s", "message")
    export = [{"sender": "Ana", "message": "Hi.", "type": "message", "date": "2026-01-01"}]
    (imported,) = read("b.json", json.dumps({"messages": export})).documents
    assert imported.kind == "import" and imported.segments[0].stated is None


def test_what_turns_share_is_as_private_as_the_most_private_of_them():
    task = StatedFields(user_visible=True, retention_days=90, type="task")
    parts = [task, StatedFields(pii=True, retention_days=7)]
    assert combine_stated_fields(parts) == StatedFields(type="task", pii=True, user_visible=True, retention_days=7)
    assert (
        combine_stated_fields([StatedFields(user_visible=True), StatedFields(user_visible=False)]).user_visible is False
    )


def test_retention_is_the_shortest_and_days_beyond_the_calendar_are_for_ever():
    day = pl.Series([0], dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
    document = {"importance": 0.2, "type": "summary", "privacy": {"retention_days": 36_000}, "tags": ["x"]}
    rows = pl.DataFrame(
        {
            "stated": [json.dumps({"importance": 0.8, "tags": ["y"]}), None, None],
            "metadata": [json.dumps(document), json.dumps(document), "{}"],
            "kind": ["message", "file", "import"],
            "observed_at": [day[0], day[0], None],
            "created_at": [None, None, day[0]],
        },
        schema_overrides={"observed_at": day.dtype, "created_at": day.dtype},
    )
    out = pl.DataFrame(attribute_columns(rows, "episodic", 30))
    assert out.select("type", "tags", "importance", "importance_source").rows() == [
        ("summary", ["x", "y"], 0.8, "turn"),
        ("summary", ["x"], 0.2, "document"),
        ("episodic", [], 0.5, "default"),
    ]
    assert out.select("confidence", "confidence_source", "kind").rows()[2] == (0.8, "kind", "import")
    assert [(t - day[0]).days for t in out["retention_until"]] == [30, 30, 30]
    assert parse_stated_fields({"privacy": {"retention_days": 36_501}})[0] is None
    late = pl.Series([253_370_764_800_000_000], dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
    rows = pl.DataFrame(
        {"stated": [None], "metadata": ["{}"], "kind": ["file"], "observed_at": late, "created_at": late}
    )
    assert pl.DataFrame(attribute_columns(rows, "document", 36_500))["retention_until"].to_list() == [None]
