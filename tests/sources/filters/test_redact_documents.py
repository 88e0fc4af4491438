"""Secrets, tool turns and what opted out never reach the log; every span still holds its words."""

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.memories.documents import document_tables, not_stored
from palimpsest.sources.discovery import scan_sources
from palimpsest.sources.extracted import ExtractedDocument, Segment
from palimpsest.sources.find_secrets import find_secrets
from palimpsest.sources.ingest import IngestRules, ingest
from palimpsest.sources.storage_policy import redact_document, redact_text
from palimpsest.sources.text_edits import Edit, apply_edits, remove_spans
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.decisions import Decisions
from palimpsest.store.ingest_log import IngestLog

DRAW = random.Random(5)
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def drawn(characters: str, n: int) -> str:
    """Made at run time, so that no file of this repository holds anything that looks like a key."""
    return "".join(DRAW.choice(characters) for _ in range(n))


AWS = "AK" + "IA" + drawn("ABCDEFGHJKLMNPQRSTUVWXYZ234567", 16)
CARD = "4539 1488 " + "0343 6467"
WORD = "tr0ub" + "4dor&3"


def turn(text: str, **fields: object) -> str:
    return json.dumps({"session_id": "s", "user_id": "ana", "speaker": "ana", "text": text, **fields}) + "\n"


def read(folder: Path, files: dict[str, str], home: str = "log", **settings: object) -> IngestLog:
    config = CollectionConfig(name="c", description="d", unit="turn", **settings)
    source = folder / "source"
    source.mkdir(exist_ok=True)
    for path in source.iterdir():
        path.unlink()
    for name, text in files.items():
        (source / name).write_text(text, encoding="utf-8")
    log = IngestLog(folder / home)
    ingest(log, scan_sources(source, config, Decisions()), IngestRules(config, Decisions(), NOW, allow_removals=True))
    return log


def everything(folder: Path) -> bytes:
    """All that lies in the log, uncompressed."""
    import polars as pl

    tables = (pl.read_parquet(p) for p in sorted(folder.rglob("*.parquet")))
    return repr([t.to_dicts() for t in tables]).encode() + b"".join(
        p.read_bytes() for pattern in ("*.json", "*.extracted") for p in folder.rglob(pattern)
    )


def test_a_secret_is_redacted_before_the_log_and_spans_still_hold_their_words(tmp_path):
    rows = turn(f"Deploy with {AWS} now.") + turn("And call me.") + turn(f"My card is {CARD}.", speaker=f"bot {AWS}")
    notes = f"---\ntitle: Key {AWS}\nowner: ops\npassword: {WORD}\n---\n# Use {AWS}\n\nThe door is blue.\n"
    log = read(tmp_path, {"chat.jsonl": rows, "a.md": notes})
    stored = everything(tmp_path / "log")
    assert not [s for s in (AWS, CARD, WORD) if s.encode() in stored]
    config = CollectionConfig(name="c", description="d", unit="turn")
    tables, _ = document_tables(log, config, tmp_path)
    texts = dict(tables["document_texts"].select("document_id", "text").iter_rows())
    chat = next(t for t in texts.values() if "call me" in t)
    segments = json.loads(tables["document_texts"].filter(text=chat)["segments"][0])
    assert [chat[a:b] for a, b, *_ in segments] == [
        "Deploy with [redacted: aws access key] now.",
        "And call me.",
        "My card is [redacted: card number].",
    ]
    redactions = tables["redactions"].select("document_id", "kind", "field", "char_start", "line").rows()
    assert {(k, f) for _, k, f, _, _ in redactions} == {
        ("aws access key", "text"), ("aws access key", "title"), ("password", "metadata.password"),
        ("card number", "text"), ("aws access key", "speaker"), ("aws access key", "metadata.title"),
        ("aws access key", "metadata.speakers"),
    }  # fmt: skip
    for document_id, kind, field, start, line in redactions:
        if field == "text":
            text = texts[document_id]
            front_matter = notes.count("\n", 0, notes.index("# Use")) if text.startswith("# Use") else 0
            assert text[start:].startswith(f"[redacted: {kind}]")
            assert text.count("\n", 0, start) + front_matter == line - 1


def test_what_was_redacted_once_is_left_alone_and_cells_below_a_secrets_name_are_redacted():
    table = f"| user | Password | api_key | note |\n|---|---|---|---|\n| bob | {WORD} | {AWS} | {WORD[:4]} |\n"
    (first, second) = find_secrets(table)
    assert (table[first.start : first.end], first.kind) == (WORD, "password")
    assert table[second.start : second.end] == AWS
    assert find_secrets("| Test | Pass | Fail |\n|---|---|---|\n| a1 | 1234567 | n=25/30 |\n") == []
    assert find_secrets("| policy | password |\n| length | 12 characters |\n| rotation | never |\n") == []
    text = f"password = {WORD}, key {AWS}, https://ana:{WORD}@example.org and {CARD}"
    document = ExtractedDocument(uri="a", media_type="text/plain", text=text, metadata={"password": WORD})
    once, found = redact_document(document)
    assert len(found) == 5
    assert redact_document(once) == (once, ())


def test_tags_names_and_reasons_of_rejects_hold_no_secret(tmp_path, capfd):
    log = read(
        tmp_path, {"a.jsonl": turn("hello there", tags=[AWS, "tea"]), "b.md": f"---\nsupersedes: {AWS}\n---\nHi.\n"}
    )
    stored = [row for key in log.versions()["text_key"] for row in log.text(key).to_dicts()]
    assert (
        len(stored) == 2
        and AWS not in json.dumps(stored, default=str)
        and "tea" in stored[0]["segments"] + stored[1]["segments"]
    )
    log = read(tmp_path, {"chat.jsonl": turn("Fine.", valid_from=f"password={WORD}", timestamp=f"password={WORD}")})
    (problem,) = log.current()["problems"][0]
    warning = capfd.readouterr().err
    assert all("is not a date" in said and WORD not in said for said in (problem, warning))


def test_reject_leaves_the_document_out_and_keep_keeps_what_was_found(tmp_path):
    log = read(tmp_path, {"a.md": f"Hello.\n\nThe password = {WORD}\n", "b.md": "Fine.\n"}, secrets="reject")
    reasons = dict(log.current().select("uri", "reason").iter_rows())
    assert reasons == {
        "a.md": "holds secrets (password in text line 3); take them out, or set secrets: redact",
        "b.md": None,
    }
    assert WORD.encode() not in everything(tmp_path / "log")
    log = read(tmp_path, {"a.md": f"The password = {WORD}\n"}, secrets="keep")
    assert WORD.encode() in everything(tmp_path / "log")
    assert log.text(log.current()["text_key"][0])["redactions"].to_list() == [None]


def test_turns_of_tools_and_those_that_opted_out_are_counted_and_not_stored(tmp_path):
    rows = turn("zqtool 42", speaker="tool") + turn("Fine.") + turn("zqprivate", memory="off") + turn("Good.")
    rows += turn("zqfunction", role="function", speaker="search") + turn("zqnobody", user_id="mallory")
    settings = {"users": {"deny": ["mallory"]}}
    log = read(tmp_path, {"chat.jsonl": rows, "off.md": "---\nmemory: off\n---\nzqdocument\n"}, **settings)
    (text,) = [t for key in log.current()["text_key"] for t in log.text(key)["text"]]
    assert text == "ana: Fine.\nana: Good."
    assert not_stored(log) == {"denied_user": 1, "opted_out": 2, "tool": 2}
    assert b"zq" not in everything(tmp_path / "log")
    kept = read(tmp_path, {"chat.jsonl": rows}, home="other", store_tool_outputs=True)
    assert b"zqtool 42" in everything(tmp_path / "other") and not_stored(kept) == {"opted_out": 1}
    some = read(tmp_path, {"chat.jsonl": rows}, home="some", store_tool_outputs=["Search"])
    assert b"zqfunction" in everything(tmp_path / "some") and b"zqtool" not in everything(tmp_path / "some")
    assert not_stored(some) == {"opted_out": 1, "tool": 1}


def test_what_is_no_text_of_a_chat_is_counted_and_its_tools_are_not_stored(tmp_path):
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    call = {"function": {"name": "zqweather", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": "zqinstruction"},
        {"role": "user", "content": [{"type": "text", "text": "Is it warm?"}, picture]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "zqresult"},
        {"role": "assistant", "content": "Yes."},
    ]
    log = read(tmp_path, {"chat.json": json.dumps(messages)})
    (text,) = [t for key in log.current()["text_key"] for t in log.text(key)["text"]]
    assert text == "user: Is it warm?\n[image]\nassistant: Yes."
    assert not_stored(log) == {"image": 1, "instruction": 1, "tool": 2}
    assert b"zq" not in everything(tmp_path / "log")


def test_a_user_who_is_denied_later_and_secrets_of_old_versions_leave_the_log(tmp_path):
    first = turn(f"zqold is {AWS}.") + turn("zqmallory", user_id="mallory")
    read(tmp_path, {"chat.jsonl": first}, secrets="keep")
    read(tmp_path, {"chat.jsonl": turn("New.")}, secrets="keep")
    log = read(tmp_path, {"chat.jsonl": turn("New.")}, users={"deny": ["mallory"]})
    stored = everything(tmp_path / "log")
    assert log.versions().height == 2 and b"zqold is [redacted: aws access key]." in stored
    assert AWS.encode() not in stored and b"zqmallory" not in stored


@given(st.text("ab\n", max_size=40), st.lists(st.integers(0, 40), max_size=8, unique=True), st.integers(0, 3))
def test_segments_outside_of_edits_keep_their_words(text, places, width):
    places = sorted(p for p in places if p <= len(text))
    edits = [Edit(a, b, "*" * width) for a, b in zip(places[::2], places[1::2], strict=False)]
    segments = [Segment(i, min(i + 3, len(text)), "prose") for i in range(0, len(text), 3)]
    out = apply_edits(text, segments, edits)
    assert all(a.char_end <= b.char_start for a, b in zip(out.segments, out.segments[1:], strict=False))
    assert len(out.text) == len(text) + sum(len(e.replacement) - (e.end - e.start) for e in edits)
    whole = [s for s in segments if not any(e.start < s.char_end and e.end > s.char_start for e in edits)]
    kept = [out.text[s.char_start : s.char_end] for s in out.segments]
    assert [w for w in (text[s.char_start : s.char_end] for s in whole) if w not in kept] == []


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Password for the portal: hunter22x9", "hunter22x9"),
        ("The password for the guest wifi is Blau-Wal7.", "Blau-Wal7"),
        ("The pa\u017f\u017fword is Ab3$x9Qz now", "Ab3$x9Qz"),
        ("Ad\u0130na set password: Ab3$x9Qz", "Ab3$x9Qz"),
    ],
)
def test_what_a_password_is_for_may_stand_before_it(text, secret):
    assert [text[s.start : s.end] for s in find_secrets(text)] == [secret]


@pytest.mark.parametrize(
    "text",
    [
        "the password is on the board", "password: str", "token count: 42", "4539 1488 0343 6468",
        "Password for the portal: ask Jonas", "The password for the portal is changed on 2026-05-01.",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_secret_stays(text):
    assert find_secrets(text) == []


@pytest.mark.parametrize(
    "piece", ["eyJ", "sk-", "-----BEGIN PRIVATE KEY-----", "xoxb-", "password=", "pypi-AgE", "password for a "]
)
def test_a_text_made_to_be_slow_is_read_in_linear_time(piece):
    started = process_time()
    redact_text(piece * 5_000)
    assert process_time() - started < 2  # a minute where a pattern scans to the end from every place


def test_spans_that_overlap_are_removed_as_one():
    removed = remove_spans("One two three four. Five.", None, [(4, 13), (0, 7)])
    assert removed is not None and removed.text == "four. Five." and removed.spans == ((0, 14),)
