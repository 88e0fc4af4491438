"""Chat exports in JSON."""

import json
from datetime import UTC, datetime

import pytest

from palimpsest.core.errors import Rejected
from tests.sources.segment_texts import segment_texts


def test_sessions_of_data_sets_are_documents_with_their_dates_and_ids(read) -> None:
    talk = {
        "speaker_a": "Cam",
        "session_2": [{"speaker": "Mel", "dia_id": "D2:1", "text": "Hi."}],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_10": [{"speaker": "Cam", "text": "Look.", "blip_caption": "a dog"}],
        "session_3": [],
    }
    one, two = read("l.json", json.dumps([{"sample_id": "conv-1", "qa": [], "conversation": talk}])).documents
    assert (one.user_id, one.session_id, one.text) == ("conv-1", "session_2", "Mel: Hi.")
    assert one.source_time == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert (two.session_id, two.text, two.source_time) == ("session_10", "Cam: Look. [image: a dog]", None)
    item = {
        "question_id": "q1",
        "haystack_dates": ["2023/05/30 (Tue) 21:48", "2023/06/01 (Thu) 09:00"],
        "haystack_session_ids": ["s1", "s2"],
        "haystack_sessions": [
            [{"role": "user", "content": "A."}, {"role": "assistant", "content": "B."}],
            [{"role": "user", "content": "C."}],
        ],
    }
    one, two = read("l.json", json.dumps([item])).documents
    assert (one.user_id, one.session_id, one.text) == ("q1", "s1", "user: A.\nassistant: B.")
    assert (two.session_id, two.source_time) == ("s2", datetime(2023, 6, 1, 9, tzinfo=UTC))


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "Hi.", "timestamp": "2024-01-02T03:04:05Z"}],
        [{"author": {"name": "user"}, "content": [{"type": "text", "text": "Hi."}], "date": "2024-01-02T03:04:05Z"}],
        [{"from": "user", "text": ["H", {"type": "bold", "text": "i."}], "date": "2024-01-02T03:04:05"}],
        [{"user": "user", "text": "Hi.", "ts": "1704164645"}],
        [{"sender_name": "user", "content": "Hi.", "timestamp_ms": 1704164645000}],
    ],
)
def test_exports_of_chats_are_conversations(read, messages: list[dict]) -> None:
    for value in (messages, {"messages": messages}, {"chats": {"list": [{"id": 7, "messages": messages}]}}):
        (document,) = read("chat.json", json.dumps(value)).documents
        assert document.text == "user: Hi."
        assert document.source_time == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    (document,) = read("chat.jsonl", json.dumps({"title": "T", "messages": messages}) + "\n").documents
    assert (document.title, document.text) == ("T", "user: Hi.")


def test_json_that_is_no_conversation_is_kept_and_what_is_wrong_with_it_is_explained(read) -> None:
    (document,) = read("data.json", '{"budget": 40000}\n').documents
    assert segment_texts(document) == [("code", None, '{"budget": 40000}')]
    found = read("a.json", '[{"id": "a", "id": "b", "messages": [{"role": "user", "content": "I live in Porto."}]}]')
    assert found.problems == ("id stated twice in one object; remove one",)
    with pytest.raises(Rejected, match="not JSON: a number has too many digits; export it again"):
        read("a.json", "1" * 10_000)
