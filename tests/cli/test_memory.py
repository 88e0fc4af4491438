"""One memory by its id: shown with its history, in its source, and edited."""

from pathlib import Path

import pytest

from tests.command import last_json, run
from tests.small_corpus import write_chats


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    base = tmp_path_factory.mktemp("memory")
    turns = [
        ("s1", "ann", "Ann", "My bike is red.", "2026-02-01T09:00:00Z"),
        ("s1", "ann", "Ann", "The rack is in the yard.", "2026-02-01T09:01:00Z"),
    ]
    done = run("build", "--home", base / "home", "--corpus", write_chats(base / "corpus", turns))
    assert done.returncode == 0, done.stderr
    return base / "home"


def test_a_memory_is_shown_in_its_source_and_its_words_are_edited(home):
    who = ("--user", "ann", "--home", home)
    memory = last_json(run("query", "red bike", *who, "--json"))["memories"][0]["memory_id"]
    assert last_json(run("memory", "show", memory, *who, "--json"))["text"] == "My bike is red."
    shown = run("memory", "show", memory, *who).stdout
    assert shown.startswith("My bike is red.\n") and "{" not in shown and f"  id:       {memory}\n" in shown
    assert "  source:   chats: turns.jsonl\n" in shown and "  state:    latest\n" in shown
    source = run("memory", "source", memory, *who)
    assert [line[0] for line in source.stdout.splitlines()] == [">", " "] and "rack" in source.stdout
    edited = run("memory", "edit", memory, "My bike is green.", *who, "--json")
    assert last_json(edited)["before"] == "My bike is red."
    assert run("build", "--home", home).returncode == 0
    assert last_json(run("query", "bike", *who, "--json"))["memories"][0]["text"] == "My bike is green."
    history = last_json(run("memory", "show", memory, *who, "--json"))
    assert not history["is_latest"] and history["text"] == "My bike is red."
    shown = run("memory", "show", memory, *who).stdout
    assert f"superseded by {history['superseded_by']}" in shown and "history, newest first:" in shown


def test_a_memory_of_another_scope_is_not_there(home):
    memory = last_json(run("query", "bike", "--user", "ann", "--home", home, "--json"))["memories"][0]["memory_id"]
    for verb, more in (("show", ()), ("source", ()), ("edit", ("Mine.",))):
        done = run("memory", verb, "0" * 16, *more, "--user", "ann", "--home", home)
        assert done.returncode == 2 and "no such memory" in done.stderr
    assert run("memory", "edit", memory, "?", "--user", "ann", "--home", home).returncode == 2
