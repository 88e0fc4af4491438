"""`palimpsest document`: what is listed, shown, replaced and deleted, counted by hand."""

import json
from pathlib import Path

import pytest

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query.reader import open_home
from palimpsest.sources.inbox import ingest_file, ingest_session, ingest_text
from palimpsest.store.home import Home
from tests.command import last_json, process, run
from tests.export.made import with_own_vectors
from tests.small_corpus import copy_built, write_chats, write_notes

NOTES = {
    "a.md": "---\nproject_id: apollo\ncolour: red\n---\n# Annex\n\nIt opens at nine.\n",
    "bad.pdf": "no pdf",
    "z.txt": "The bell \x1b]0;mine\x07 rings\tat ten, and once more when the last of us has left the house for good.\n",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory, shared_vectors) -> Path:
    base = tmp_path_factory.mktemp("documents")
    corpus = write_notes(write_chats(base / "corpus"), NOTES)
    home = Home(base / "home", shared_vectors)
    run_without_dagster(home, make_plan(home, [corpus]))
    return base


@pytest.fixture
def home(built, tmp_path, shared_vectors) -> Home:
    return Home(copy_built(built, tmp_path)[0].path, shared_vectors)


def documents(*args: object) -> list[dict[str, object]]:
    done = run("document", *args, "--json")
    assert done.returncode == 0, done.stderr
    return last_json(done)["documents"]


def test_each_document_has_its_owner_memories_and_state(built):
    found = documents("list", "--home", built / "home")
    assert [(d["collection"], d["uri"], d["session_id"], d["user_id"], d["memories"], d["latest"]) for d in found] == [
        ("chats", "turns.jsonl", "s1", "ann", 2, 1),
        ("chats", "turns.jsonl", "s2", "ann", 1, 1),
        ("chats", "turns.jsonl", "s3", "bob", 2, 2),
        ("notes", "a.md", None, "shared", 1, 1),
        ("notes", "bad.pdf", None, "", 0, 0),
        ("notes", "z.txt", None, "shared", 1, 1),
    ]
    assert found[4]["state"] == "rejected" and found[4]["reason"] and found[3]["project_id"] == "apollo"
    shown = run("documents", "list", "--home", built / "home").stdout
    assert shown.splitlines()[0].split() == ["ID", "TITLE", "SOURCE", "USER", "CHUNKS", "STATE"]
    line = next(line for line in shown.splitlines() if "turns.jsonl#s3" in line)
    assert line.split() == [
        found[2]["document_id"],
        "-",
        "chats:",
        "turns.jsonl#s3",
        "bob",
        str(found[2]["chunks"]),
        "built",
    ]
    assert "rejected: " in shown and found[2]["chunks"]


def test_a_list_is_narrowed_by_collection_and_user(built):
    assert {d["uri"] for d in documents("list", "--home", built / "home", "--collection", "notes")} == {*NOTES}
    assert {d["session_id"] for d in documents("list", "--home", built / "home", "--user", "bob")} == {"s3"}
    wrong = run("document", "list", "--home", built / "home", "--collection", "nope")
    assert wrong.returncode == 2 and "it has: chats, notes" in wrong.stderr


def test_a_document_is_shown_as_the_home_has_it(built):
    (a,) = documents("view", "a.md", "--home", built / "home")
    assert "It opens at nine." in str(a["text"]) and a["metadata"]["colour"] == "red"
    assert (a["version"], a["memories"], a["state"]) == (1, 1, "built")
    done = process("document", "view", "turns.jsonl#s3", "--home", built / "home")
    assert "quixotic-77" in done.stdout and "tea" not in done.stdout and "2 memories, 2 latest" in done.stdout
    assert len(documents("view", "turns.jsonl", "--home", built / "home")) == 3
    assert len(documents("view", "turns.jsonl", "--user", "bob", "--home", built / "home")) == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("view", "nope.md"), "palimpsest document list shows them"),
        (("view", "a.md", "--collection", "chats"), "no source of chats"),
        (("view", "a.md", "--user", "bob"), "nothing of it is in the log of user bob"),
        (("view", "turns.jsonl#s9"), "nothing of it is in the log"),
        (("view", "bad.pdf"), "nothing of it was stored"),
        (("view", ""), "is empty"),
        (("update", "a.md", "new.md"), "then palimpsest build"),
        (("delete", "a.md"), "add --yes"),
        (("delete", "nope.md", "--yes"), "no source"),
    ],
)
def test_mistakes_are_one_line(built, args, message):
    done = run("document", *args, "--home", built / "home")
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


def test_an_update_of_a_file_of_the_corpus_says_where_it_is(built):
    done = run("document", "update", "a.md", built / "corpus" / "notes" / "a.md", "--home", built / "home")
    assert str(built / "corpus" / "notes" / "a.md") in done.stderr


def test_a_text_that_steers_a_terminal_is_shown_and_not_obeyed(built):
    shown = run("document", "view", "z.txt", "--home", built / "home").stdout
    assert "\x1b" not in shown and "\x07" not in shown and "rings\tat ten" in shown and "mine" in shown


def test_a_delete_proves_that_nothing_is_left(home):
    home = with_own_vectors(home)
    dry = last_json(run("document", "delete", "turns.jsonl#s3", "--dry-run", "--home", home.path, "--json"))
    assert dry["documents"] == 1 and len(documents("list", "--home", home.path, "--user", "bob")) == 1
    done = last_json(run("document", "delete", "turns.jsonl#s3", "--yes", "--home", home.path, "--json"))
    assert (done["documents"], done["memories"], done["residue"]) == (1, 2, [])
    assert not documents("list", "--home", home.path, "--user", "bob")
    assert len(documents("view", "turns.jsonl", "--home", home.path)) == 2


def test_what_was_remembered_is_replaced_and_its_old_memory_retired(home, tmp_path):
    uri = ingest_text(home, "The lamp is green.", user="ann", collection="chats", speaker="Ann").uri
    assert next(d for d in documents("list", "--home", home.path) if d["uri"] == uri)["state"] == "pending"
    assert "no build has read it yet" in run("document", "view", uri, "--home", home.path).stderr
    run_without_dagster(home, make_plan(home, None))
    (tmp_path / "new.txt").write_text("The lamp is violet.")
    done = run("document", "update", uri, tmp_path / "new.txt", "--home", home.path)
    assert done.returncode == 0, done.stderr
    run_without_dagster(home, make_plan(home, None))
    (found,) = documents("view", uri, "--home", home.path)
    assert "The lamp is violet." in str(found["text"]) and (found["user_id"], found["version"]) == ("ann", 2)
    answer = run("query", "lamp", "--collection", "chats", "--user", "ann", "--home", home.path).stdout
    assert "violet" in answer and "green" not in answer


def test_turns_and_files_of_the_inbox_are_replaced_by_their_like(home, tmp_path):
    turns = ingest_session(home, [{"role": "user", "content": "I like tea."}], collection="chats", user="ann").uri
    (tmp_path / "plan.md").write_text("The plan is old.\n")
    plan = ingest_file(home, tmp_path / "plan.md", collection="notes", user="ann").uri
    new = tmp_path / "turns.jsonl"
    new.write_text('{"text": "I like coffee.", "speaker": "Ann"}\n{"text": "Noted.", "speaker": "Bot"}\n')
    assert run("document", "update", turns, new, "--home", home.path).returncode == 0
    path = home.inbox / "chats" / turns.removeprefix(".inbox/")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(r["text"], r["user_id"], r["speaker"]) for r in rows] == [
        ("I like coffee.", "ann", "Ann"),
        ("Noted.", "ann", "Bot"),
    ]
    assert path.stat().st_mode & 0o077 == 0
    (tmp_path / "new.md").write_text("The plan is new; the key is AKIAIOSFODNN7EXAMPLE.\n")
    assert run("document", "update", plan, tmp_path / "new.md", "--home", home.path).returncode == 0
    written = (home.inbox / "notes" / plan.removeprefix(".inbox/")).read_text()
    assert "The plan is new" in written and "AKIAIOSFODNN7EXAMPLE" not in written


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("new.jsonl", "no json\n", "a JSON object a line"),
        ("new.jsonl", "[1]\n", "a JSON object a line"),
        ("new.jsonl", '{"speaker": "x"}\n', "role: Field required"),
        ("new.jsonl", '{"text": "x y", "timestamp": "soon"}\n', "not a time"),
        ("new.txt", "...\n", "has no words"),
        ("new.txt", "", "is empty"),
        ("gone.txt", None, "cannot be read"),
    ],
)
def test_what_cannot_replace_a_text_leaves_it_as_it_is(home, tmp_path, name, text, message):
    uri = ingest_text(home, "The lamp is green.", user="ann", collection="chats").uri
    path = home.inbox / "chats" / uri.removeprefix(".inbox/")
    before = path.read_bytes()
    if text is not None:
        (tmp_path / name).write_text(text)
    done = run("document", "update", uri, tmp_path / name, "--home", home.path)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1
    assert path.read_bytes() == before


def test_a_name_that_leads_out_of_the_inbox_is_no_document(home, tmp_path):
    (tmp_path / "new.txt").write_text("The lamp is violet.")
    for uri in (".inbox/../../format.json", ".inbox/../chats", "../x", "/etc/passwd"):
        done = run("document", "update", uri, tmp_path / "new.txt", "--home", home.path)
        assert done.returncode == 2 and "no source" in done.stderr


def test_a_replaced_source_of_the_inbox_is_a_new_version_and_no_damage(home, tmp_path):
    home = with_own_vectors(home)
    sent = ingest_file(home, write(tmp_path / "lamp.txt", "The lamp of the pier is zqred."), collection="chats")
    run_without_dagster(home, make_plan(home, None))
    new = write(tmp_path / "new.txt", "The lamp of the pier is zqgreen.")
    assert run("document", "update", sent.uri, new, "--collection", "chats", "--home", home.path).returncode == 0
    built = run("build", "--home", home.path)
    assert built.returncode in (0, 2) and "damaged" not in built.stderr + built.stdout
    with open_home(home.path) as reader:
        found = reader.search("lamp of the pier", reader.resolve_scopes("chats", sent.user_id))
    assert "zqgreen" in found.context and "zqred" not in found.context


def test_a_rejected_source_of_the_inbox_is_deleted_with_a_proof(home, tmp_path):
    home = with_own_vectors(home)
    sent = ingest_file(home, write(tmp_path / "zqpic.png", "no picture"), collection="chats")
    run_without_dagster(home, make_plan(home, None))
    done = process("document", "delete", sent.uri, "--collection", "chats", "--yes", "--home", home.path)
    assert done.returncode == 0, done.stderr
    assert (
        not list(home.path.glob("pending-delete-*"))
        and "zqpic" not in run("document", "list", "--home", home.path).stdout
    )


def write(path, text):
    path.write_text(text)
    return path
