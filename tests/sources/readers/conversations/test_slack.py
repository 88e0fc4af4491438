"""Slack exports read as people saw them."""

import json
from pathlib import Path

import pytest

from palimpsest.sources.discovery import scan_sources
from palimpsest.sources.readers.chat_exports import format_text
from palimpsest.sources.readers.read_source import read_source
from palimpsest.store.collection_config import load_collection
from palimpsest.store.decisions import Decisions
from tests.small_corpus import write_notes

USERS = [{"id": "U012AB3CD", "name": "ann", "profile": {"real_name": "Ann Lee"}}, {"id": "W9", "real_name": "Bob"}]
MESSAGES = [
    {
        "type": "message", "subtype": "channel_join", "user": "W9", "ts": "1772438400.000100",
        "text": "<@W9> has joined the channel",
    },
    {
        "type": "message", "user": "U012AB3CD", "ts": "1772438460.000200",
        "text": "<@W9> the price is 4 &amp; rising, see <https://x.example/p|the list> :tada:",
    },
    {"type": "message", "user": "W9", "ts": "1772438520.000300", "text": ":+1::skin-tone-2:"},
    {
        "type": "message", "subtype": "bot_message", "username": "deploys", "bot_id": "B1", "ts": "1772438580.000400",
        "text": "Release 4.2 is out in <#C1|general>",
    },
]  # fmt: skip


def export(folder: Path) -> Path:
    corpus = write_notes(
        folder, {"slack/users.json": json.dumps(USERS), "slack/ops/2026-03-02.json": json.dumps(MESSAGES)}
    )
    return corpus / "notes"


def test_messages_have_names_and_words_and_notices_are_left_out(tmp_path) -> None:
    folder = export(tmp_path)
    (found,) = read_source(folder / "slack/ops/2026-03-02.json", "slack/ops/2026-03-02.json").documents
    assert found.text == (
        "Ann Lee: @Bob the price is 4 & rising, see the list (https://x.example/p)\n"
        "deploys: Release 4.2 is out in #general"
    )
    assert [s.speaker for s in found.segments] == ["Ann Lee", "deploys"] and found.source_time.day == 2
    lists = read_source(folder / "slack/users.json", "slack/users.json")
    assert lists.documents == () and lists.problems == ()


def test_a_change_of_the_names_reads_the_messages_again_and_names_outside_the_collection_are_not_read(tmp_path) -> None:
    folder = export(tmp_path)
    config = load_collection(folder)
    before = scan_sources(folder, config, Decisions())["slack/ops/2026-03-02.json"][1]
    (folder / "slack/users.json").write_text(json.dumps(USERS[:1]))
    assert scan_sources(folder, config, Decisions())["slack/ops/2026-03-02.json"][1] != before
    (tmp_path / "users.json").write_text(json.dumps(USERS))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.json").write_text(json.dumps(MESSAGES))
    assert "@W9" in read_source(tmp_path / "other" / "a.json", "a.json").documents[0].text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("at 10:30:45 we met", "at 10:30:45 we met"), ("<!here> a &lt;b&gt; c", "@here a <b> c"),
        ("<mailto:a@x.example|a@x.example>", "a@x.example"), ("<https://x.example/a>", "https://x.example/a"),
        ("if a <b and c> d", "if a <b and c> d"), ("ratio a:b:c stays :white_check_mark:", "ratio a:b:c stays"),
    ],
)  # fmt: skip
def test_marks(text: str, words: str) -> None:
    assert format_text(text, {}) == words
