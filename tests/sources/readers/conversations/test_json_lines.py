import json
from datetime import UTC, datetime

import pytest

from palimpsest.core.errors import Rejected
from palimpsest.sources.extracted import SUITE_ROW, document_to_row, row_to_document


def lines(*rows: object) -> str:
    return "".join(f"{r if isinstance(r, str) else json.dumps(r)}\n" for r in rows)


def turn(session: str, user: str, speaker: str, text: str, timestamp: object = None) -> dict:
    return {"session_id": session, "user_id": user, "speaker": speaker, "text": text, "timestamp": timestamp}


def test_each_user_and_session_is_a_document_in_order_of_first_turns(read) -> None:
    extraction = read(
        "chat.jsonl",
        lines(
            turn("s2", "ana", "Ana", "Hello.", "2024-05-01T10:00:00Z"),
            turn("s1", "bo", "Bo", "Morning."),
            turn("s2", "bo", "Bo", "Same session name, other user."),
            turn("s2", "ana", "Bot", "Line one\r\nline two", "2024-05-01T10:01:00+02:00"),
        ),
    )
    assert extraction.problems == ()
    assert [(d.user_id, d.session_id) for d in extraction.documents] == [("ana", "s2"), ("bo", "s1"), ("bo", "s2")]
    first = extraction.documents[0]
    assert first.text == "Ana: Hello.\nBot: Line one\nline two"
    assert [(first.text[s.char_start : s.char_end], s.speaker) for s in first.segments] == [
        ("Hello.", "Ana"),
        ("Line one\nline two", "Bot"),
    ]
    assert first.segments[1].said_at == datetime(2024, 5, 1, 8, 1, tzinfo=UTC)
    assert first.source_time == datetime(2024, 5, 1, 8, 1, tzinfo=UTC)


def test_turns_keep_the_offset_of_their_clock_through_the_log_and_the_tables(read) -> None:
    stamps = "2026-03-01T23:30:00-08:00", "2026-03-02T09:00:00Z", "2026-03-02 10:00"
    (document,) = read("chat.jsonl", lines(*(turn("s", "u", "A", "Hello.", s) for s in stamps))).documents
    assert [s.said_at.isoformat() for s in document.segments] == [
        "2026-03-01T23:30:00-08:00",
        "2026-03-02T09:00:00+00:00",
        "2026-03-02T10:00:00+00:00",
    ]
    row = document_to_row(document, "u", None)
    assert row["utc_offset"] == -480
    stored = row | {"source_time": row["source_time"].astimezone(UTC)}  # as a table has it
    assert row_to_document(stored).source_time.isoformat() == "2026-03-01T23:30:00-08:00"


def test_bad_lines_are_named_or_counted_and_the_rest_is_read(read) -> None:
    extraction = read(
        "chat.jsonl",
        lines(
            turn("s", "u", "A", "Good."), '{"session_id": "s", "text": "cut o', "[1, 2]", turn("s", "u", "A", "   "),
            {"session_id": "s", "speaker": "A", "text": 5}, "", turn("s", "u", "A", "Undated.", "around noon"),
            "[" * 100_000,
        ),
    )  # fmt: skip
    assert [s.char_end - s.char_start for s in extraction.documents[0].segments] == [5, 8]
    assert [p.split(":")[0] for p in extraction.problems] == [
        "line 2", "line 3", "line 8", "line 4", "line 5",
    ]  # fmt: skip
    assert [w.split(":")[0] for w in extraction.warnings] == ["line 7"]
    extraction = read("chat.jsonl", lines(turn("s", "u", "A", "Good."), *["{"] * 250), max_problems=100)
    assert len(extraction.problems) == 101
    assert extraction.problems[-1] == "and 150 more such problems"
    good = '{"speaker": "Ana", "text": "I live in Porto."}\n'
    twice = '{"speaker": "Ana", "text": "Mine.", "text": "Yours."}\n'
    number = '{"speaker": "Ana", "text": "I moved.", "importance": NaN}\n'
    found = read("a.jsonl", good + twice + number)
    assert found.documents[0].text == "Ana: I live in Porto.\nAna: I moved."
    assert found.problems[0] == "line 2: text stated twice; remove one; the line is left out"
    assert found.problems[1].startswith("line 3: importance nan must be a number from 0 to 1")


def test_a_turn_may_lack_speaker_and_session_have_a_role_or_letters_that_are_none(read) -> None:
    (document,) = read("chat.jsonl", lines({"timestamp": "2024-01-01", "text": "Alone."})).documents
    assert (document.user_id, document.session_id, document.text) == (None, None, "Alone.")
    assert document.segments[0].kind == "turn" and document.segments[0].speaker is None
    extraction = read("c.jsonl", lines({"role": "user", "text": "Hi."}, {"role": "assistant", "text": 3}))
    (document,) = extraction.documents
    assert [(s.kind, s.speaker) for s in document.segments] == [("turn", "user")]
    assert extraction.problems == ("line 2: no text; a turn needs a text of at least one word",)
    (document,) = read(
        "c.jsonl", '{"speaker": "A\\u0000", "text": "bad \\ud800 end\\u0000", "session_id": 7}\n'
    ).documents
    assert document.text == "A: bad \ufffd end"
    assert document.session_id == "7"


def test_a_suite_row_is_a_document_of_its_scope_spoken_by_the_role_of_a_chat(read) -> None:
    extraction = read(
        "corpus.jsonl",
        lines(
            {
                "_id": "c:1", "title": "", "text": "Look at this.", "scope": "conv-1",
                "meta": {
                    "speaker": "Mel", "session": "session_1", "date_time": "1:56 pm on 8 May, 2023",
                    "image_caption": "a photo of a dog",
                },
            },
            {"_id": "c:2", "title": "Port  Blair", "text": "A capital.", "meta": {"date": "1998"}},
        ),
    )  # fmt: skip
    one, two = extraction.documents
    assert (one.uri, one.user_id, one.session_id, one.media_type) == (
        "corpus.jsonl#c:1", "conv-1", "session_1", SUITE_ROW,
    )  # fmt: skip
    assert one.text == "Look at this. [image: a photo of a dog]"
    assert one.metadata["image_caption"] == "a photo of a dog" and one.metadata["_id"] == "c:1"
    (segment,) = one.segments
    assert (segment.kind, segment.speaker, segment.char_end) == ("turn", "Mel", len(one.text))
    assert segment.said_at == one.source_time == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert (two.title, two.user_id, two.segments[0].kind) == ("Port Blair", None, "prose")
    assert two.source_time == datetime(1998, 1, 1, tzinfo=UTC)
    bot = {"role": "Assistant", "speaker": "Bot"}
    metas = [{"role": "user"}, bot, {"role": "tool"}, {"role": "actor"}, {"role": 1}]
    rows = ({"_id": str(i), "text": "x", "meta": m} for i, m in enumerate(metas))
    segments = [d.segments[0] for d in read("c.jsonl", lines(*rows)).documents]
    assert [(s.kind, s.speaker) for s in segments] == [
        ("turn", "user"), ("turn", "Bot"), ("turn", "tool"), ("prose", None), ("prose", None),
    ]  # fmt: skip
    assert [s.stated and s.stated.kind for s in segments] == [None, None, "tool", None, None]


def test_suite_rows_without_id_or_text_or_with_a_used_id_are_problems(read) -> None:
    extraction = read(
        "corpus.jsonl",
        lines(
            {"_id": "1", "title": "t", "text": "x"},
            {"_id": "1", "title": "t", "text": "y"},
            {"title": "t", "text": "z"},
            {"_id": "2", "title": "", "text": ""},
            {"_id": "3", "title": "Only a title", "text": ""},
        ),
    )
    assert [(d.uri, d.text) for d in extraction.documents] == [
        ("corpus.jsonl#1", "x"),
        ("corpus.jsonl#3", "Only a title"),
    ]
    assert [p.split(":")[0] for p in extraction.problems] == ["line 2", "line 3", "line 4"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("not json\nat all\n", "no line is a JSON object"),
        ('{"a": 1}\n', "unknown layout"),
        ('{"session_id": "s", "text": ""}\n', "no readable turn; line 1"),
        ('{"_id": "", "text": "x"}\n', "no readable row; line 1"),
    ],
)
def test_a_file_without_one_good_line_is_rejected(read, content: str, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        read("x.jsonl", content)
