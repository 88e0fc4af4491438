"""What is sent to the inbox: written once, private, within limits, and refused in one line where it cannot be used."""

import datetime as dt
import json
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from palimpsest.core.errors import ArgumentError
from palimpsest.sources.inbox import ingest_file, ingest_session, ingest_text
from palimpsest.store.decisions import append_decisions, tombstone
from palimpsest.store.home import Home
from palimpsest.store.inbox import inbox_files, is_of_user
from tests.command import run
from tests.small_corpus import write_chats, write_notes

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home that knows one collection."""
    home = Home(tmp_path / "home")
    home.create()
    home.remember_sources({"chats": write_chats(tmp_path / "corpus") / "chats"})
    return home


def files_of(home: Home) -> list[Path]:
    return [file.path for file in inbox_files(home.inbox)]


def test_a_text_is_a_private_file_with_its_scope(home):
    receipt = ingest_text(home, "The key is red.", user="bob", project="p", session="s", tags=["b", "a"], type="task")
    (path,) = files_of(home)
    (row,) = [json.loads(line) for line in path.read_text().splitlines()]
    assert row.pop("timestamp").startswith("20")
    assert row == {
        "text": "The key is red.", "user_id": "bob", "project_id": "p", "session_id": "s", "tags": ["a", "b"],
        "type": "task",
    }  # fmt: skip
    assert receipt.is_new and receipt.collection == "chats" and is_of_user(receipt.uri, "bob")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(home.inbox.stat().st_mode) == 0o700


def test_the_same_operation_id_writes_once_for_each_user_also_at_the_same_time(home, tmp_path):
    first = ingest_text(home, "The key is red.", operation_id="k")
    again = ingest_text(home, "The key is red.", operation_id="k")
    other = ingest_text(home, "The key is blue.", operation_id="k", user="bob")
    assert first.is_new and other.is_new and not again.is_new and again.uri == first.uri != other.uri
    with pytest.raises(ArgumentError, match=r"operation_id.*was used for another text"):
        ingest_text(home, "The key is green.", operation_id="k")
    assert len(files_of(home)) == 2
    home.remember_sources({"notes": write_notes(tmp_path / "n", {"a.md": "A."}, default="true") / "notes"})
    again = ingest_text(home, "The key is blue.", user="bob", operation_id="k")
    assert again.collection == "chats" and not again.is_new, "the collection of the first time"
    assert ingest_text(home, "The key is red.", user="bob", operation_id="l").collection == "notes"


def test_writers_at_the_same_time_with_one_id_write_once(home):
    receipts = []
    threads = [
        threading.Thread(target=lambda: receipts.append(ingest_text(home, "The key is red.", operation_id="k")))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(r.is_new for r in receipts) == 1 and len(receipts) == 6 and len(files_of(home)) == 1


def test_a_session_keeps_the_order_and_roles_of_its_turns(home):
    turns = [{"role": "user", "content": "Where is it?"}, {"role": "assistant", "content": "Behind the clock."}]
    ingest_session(home, turns, session="s", observed_at=NOON)
    rows = [json.loads(line) for line in files_of(home)[0].read_text().splitlines()]
    assert [(r["role"], r["text"], r["timestamp"]) for r in rows] == [
        ("user", "Where is it?", NOON.isoformat()),
        ("assistant", "Behind the clock.", NOON.isoformat()),
    ]


def test_a_time_keeps_the_offset_of_its_clock(home):
    late = "2026-03-01T23:30:00-08:00"
    ingest_text(home, "The key is red.", observed_at=dt.datetime.fromisoformat(late), operation_id="k")
    ingest_session(home, [{"content": "The key is old.", "timestamp": late}], operation_id="l")
    assert all(json.loads(path.read_text())["timestamp"] == late for path in files_of(home))


def test_a_file_is_copied_with_its_name_and_a_sidecar_that_states_its_scope(home, tmp_path):
    note = tmp_path / "My plan (2).md"
    note.write_text("# Plan\n\nThe key is red.\n")
    receipt = ingest_file(home, note, user="bob", project="p", operation_id="k")
    path, sidecar = files_of(home)[0], files_of(home)[0].with_name(files_of(home)[0].name + ".meta.yaml")
    assert receipt.uri.endswith("-My_plan_2.md") and path.read_text() == note.read_text()
    assert json.loads(sidecar.read_text()) == {"user_id": "bob", "project_id": "p"}
    assert not ingest_file(home, note, user="bob", project="p", operation_id="k").is_new
    with pytest.raises(ArgumentError, match="was used for another text"):
        ingest_file(home, note, user="bob", project="q", operation_id="k")


def test_secrets_do_not_reach_the_inbox(home, tmp_path):
    secret = "hunter2-Xk93-quixotic"
    ingest_text(home, f"password: {secret}", operation_id="k")
    note = tmp_path / "a.txt"
    note.write_text(f"password: {secret}\n")
    ingest_file(home, note)
    assert all(secret not in path.read_text() and "redacted" in path.read_text() for path in files_of(home))
    corpus = write_notes(tmp_path / "strict", {"a.md": "A."}, name="strict", secrets="reject")
    home.remember_sources({"strict": corpus / "strict"})
    with pytest.raises(ArgumentError, match="holds secrets") as error:
        ingest_text(home, f"password: {secret}", collection="strict")
    assert secret not in str(error.value)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("  ", {}, "text: has no words"), ("...", {}, "text: has no words"),
        ("x" * 1_000_001, {}, "text: has 1,000,0.. bytes"),
        ("A.", {"type": "fact"}, "type='fact': must be one of episodic"), ("A.", {"user": " "}, "user: is no name"),
        ("A.", {"user": "a\0b"}, "user: is no name"), ("A.", {"project": "p" * 801}, "project: has 801 bytes"),
        ("A.", {"collection": "nope"}, "collection='nope': not in this home; it has: chats"),
        ("A.", {"operation_id": "a\nb"}, "operation_id=.*printable"),
        ("A.", {"operation_id": "k" * 201}, "operation_id=.*printable"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_one_line_and_writes_nothing(home, text, options, message):
    with pytest.raises(ArgumentError, match=message) as error:
        ingest_text(home, text, **options)
    assert "\n" not in str(error.value) and not files_of(home)


def test_files_that_cannot_be_read_and_users_who_are_denied_or_were_deleted_are_refused(home, tmp_path):
    empty = tmp_path / "empty.md"
    empty.touch()
    for path, message in [(empty, "is empty"), (tmp_path / "gone.md", "cannot be read"), (tmp_path, "cannot be read")]:
        with pytest.raises(ArgumentError, match=message):
            ingest_file(home, path)
    assert not files_of(home)
    append_decisions(home.decisions, "tombstone", [tombstone("user", "bob")])
    with pytest.raises(ArgumentError, match="user='bob': was deleted from this home"):
        ingest_text(home, "A.", user="bob")
    corpus = write_notes(tmp_path / "d", {"a.md": "A."}, name="d", users="{deny: [eve]}")
    home.remember_sources({"d": corpus / "d"})
    with pytest.raises(ArgumentError, match="users\\.deny"):
        ingest_text(home, "A.", user="eve", collection="d")


def test_a_home_without_collections_makes_its_own_and_several_must_be_named(tmp_path):
    home = Home(tmp_path / "new")
    receipt = ingest_text(home, "The key is red.", user="bob")
    assert receipt.collection == "inbox" and list(home.sources) == ["inbox"]
    home.remember_sources({"chats": write_chats(tmp_path / "corpus") / "chats"})
    with pytest.raises(ArgumentError, match="collection: name one of: chats, inbox"):
        ingest_text(home, "The key is red.")


def test_first_texts_that_come_at_once_make_one_collection_and_none_is_lost(tmp_path):
    home = Home(tmp_path / "home")
    with ThreadPoolExecutor(8) as pool:
        sent = list(
            pool.map(lambda i: ingest_text(home, f"The bell has {i} cracks.", operation_id=f"op-{i}"), range(24))
        )
    assert {r.collection for r in sent} == {"inbox"} and len({r.uri for r in sent}) == 24
    assert len([p for p in (home.inbox / "inbox").iterdir() if not p.name.startswith(".")]) == 24
    assert not list(home.path.rglob("*.tmp"))


def test_an_empty_file_of_a_folder_is_left_out_and_the_rest_is_received(home, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "empty.md").touch()
    (folder / "key.md").write_text("The key is red.")
    done = run("ingest", "directory", folder, "--home", home.path)
    assert done.returncode == 0 and "received 1 new file, 0 as before in collection chats" in done.stdout
    assert "warning: empty.md: is empty, left out" in done.stdout and len(files_of(home)) == 1
