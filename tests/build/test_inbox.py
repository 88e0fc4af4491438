"""From the inbox to memories: pending, built, published or rejected; and gone after a delete, with a proof."""

import json
import time
from pathlib import Path

import pytest

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.document_info import operation_status, record_inbox_failure
from palimpsest.pipeline.estimate import dry_run
from palimpsest.pipeline.finish import record_tail, run_without_dagster, stage_build
from palimpsest.pipeline.plan import make_plan, stage_context
from palimpsest.pipeline.run_stage import run_stage
from palimpsest.query.reader import open_home
from palimpsest.sources.inbox import ingest_file, ingest_session, ingest_text
from palimpsest.store.builds import published, staged
from palimpsest.store.home import Home
from palimpsest.store.inbox import inbox_files
from palimpsest.store.ingest_log import IngestLog
from tests.command import last_json, run
from tests.small_corpus import copy_built, write_chats

KEY = "The spare key of Ann hangs behind the quixotic clock."


def build(home: Home, corpus: Path) -> None:
    run_without_dagster(home, make_plan(home, [corpus]))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, shared_vectors: Path) -> Path:
    """A folder with a corpus and its home, built."""
    base = tmp_path_factory.mktemp("inbox")
    build(Home(base / "home", shared_vectors), write_chats(base / "corpus"))
    return base


@pytest.fixture
def copy(made: Path, tmp_path: Path, shared_vectors: Path) -> tuple[Home, Path]:
    home, corpus = copy_built(made, tmp_path)
    return Home(home.path, shared_vectors), corpus


def pending(home: Home, question: str, user: str = "ann", **options: object) -> list[str]:
    with open_home(home.path) as reader:
        scopes = reader.resolve_scopes("chats", user, include_pending=True)
        found = reader.search(question, scopes, include_pending=True, all_results=True, k=50, **options)
        return [m.text for m in found.pending]


def test_a_text_is_pending_then_published_and_a_further_build_does_nothing(copy):
    home, corpus = copy
    operation = ingest_text(home, KEY, user="ann").operation_id
    assert operation_status(home, operation).state == "received"
    assert pending(home, "Where is the spare key?") == [KEY]
    plan = make_plan(home, [corpus])
    assert plan.changed == ("chats",) and dry_run(home, [corpus], None).counts["memories"] == 1
    stage_build(home, plan)
    waiting = operation_status(home, operation)
    assert (waiting.state, waiting.chunks) == ("built", 1) and "palimpsest gate shows all" in waiting.reason
    build(home, corpus)
    status = operation_status(home, operation)
    assert (status.state, status.chunks, status.reason) == ("published", 1, None) and status.document_id
    assert not pending(home, "Where is the spare key?")
    with open_home(home.path) as reader:
        answer = reader.search("Where is the spare key?", ("chats", "ann"))
    assert answer.memories[0].text == KEY and status.uri in answer.context_with("full")
    assert make_plan(home, [corpus]).nothing_to_do


def test_what_a_running_build_has_read_is_received_and_not_rejected(copy):
    home, corpus = copy
    operation = ingest_text(home, KEY, user="ann").operation_id
    time.sleep(1.1)  # a build has its time in whole seconds
    run_stage(stage_context(home, "chats", make_plan(home, [corpus]).collections["chats"]), "documents")
    assert operation_status(home, operation).state == "received"


def test_a_sender_reads_nothing_that_the_gate_or_a_failure_quotes_of_others(copy):
    home, corpus = copy
    operation = ingest_text(home, KEY, user="ann").operation_id
    secret = "question 'q': turns.jsonl does not have 'My locker code is quixotic-77.'; " + "x" * 900
    record_inbox_failure(home, secret)
    failed = operation_status(home, operation)
    assert "quixotic" in failed.reason and "quixotic" not in failed.for_sender().reason
    stage_build(home, make_plan(home, [corpus]))
    record_tail(staged(home), "retrieval_report", 0.1, gate={"status": "failed", "reasons": [secret, "R@5 fell"]})
    built = operation_status(home, operation)
    assert built.reason.startswith("question 'q'") and len(built.reason) < 400
    assert built.reason.endswith("; and 1 more; palimpsest gate shows all")
    assert built.for_sender().to_json() | {"reason": built.reason} == built.to_json()
    assert "quixotic" not in built.for_sender().reason and "palimpsest gate" in built.for_sender().reason


def test_a_remembered_update_retires_what_it_replaces(copy):
    home, corpus = copy
    ingest_text(home, "The deadline of project Heron is now 5 May instead of 20 April.", user="ann", speaker="Ann")
    build(home, corpus)
    with open_home(home.path) as reader:
        texts = [m.text for m in reader.search("When is the deadline of Heron?", ("chats", "ann"), k=2).memories]
    assert "5 May" in texts[0] and not any("is now 20 April" in t for t in texts)


def test_incremental_equals_from_scratch_and_a_build_of_another_corpus_reads_the_inbox_too(
    copy, tmp_path, shared_vectors
):
    home, corpus = copy
    operation = ingest_text(home, KEY, user="new", operation_id="k").operation_id
    more = write_chats(tmp_path / "more", name="more")
    build(home, more)
    assert operation_status(home, operation).state == "published"
    assert make_plan(home, [corpus]).changed == ()
    other = Home(tmp_path / "other", shared_vectors, inbox_path=home.inbox)
    other.create()
    other.remember_sources(home.sources)
    run_without_dagster(other, make_plan(other, None))
    assert published(other).manifest.digest == published(home).manifest.digest


def test_pending_texts_stay_in_their_scope_and_filters(copy, tmp_path):
    home, _ = copy
    ingest_text(home, "Canary-bob-77 opens the locker.", user="bob")
    ingest_text(home, "Canary-proj-88 opens the locker.", user="ann", project="secret", tags=["t"], session="s9")
    ingest_text(home, "Canary-new-99 opens the locker.", user="new")
    assert pending(home, "Which canary opens the locker?") == []
    assert pending(home, "Which canary opens the locker?", "bob") == ["Canary-bob-77 opens the locker."]
    assert pending(home, "Which canary opens the locker?", "new") == ["Canary-new-99 opens the locker."]
    in_project = {"project": "secret"}
    assert len(pending(home, "locker", **in_project)) == 1
    assert len(pending(home, "locker", **in_project, tags=["t"], session="s9", since="2020-01-01")) == 1
    for other in (
        {"tags": ["u"]},
        {"session": "s1"},
        {"until": "2020-01-01"},
        {"types": ["task"]},
        {"min_score": 0.99},
    ):
        assert pending(home, "locker", **in_project, **other) == []
    with open_home(home.path) as reader:
        assert reader.search("locker", ("chats", "bob")).pending == []
        with pytest.raises(ArgumentError, match="'new'"):
            reader.resolve_scopes("chats", "new")
    note = tmp_path / "private.md"
    note.write_text("---\nprivacy: {user_visible: false}\n---\nThe locker is hidden.\n")
    ingest_file(home, note, user="ann")
    assert pending(home, "Where is the locker?") == []


def test_what_is_pending_is_ranked_as_it_will_be_and_disputes_what_it_will_end(copy):
    home, corpus = copy
    text = "The deadline of project Heron is now 5 May instead of 20 April."
    question, scope = "By which day must Heron be done?", ("chats", "ann")
    with open_home(home.path) as reader:
        before = reader.search("When is the deadline of Heron?", scope, k=1).memories[0]
        ingest_text(home, text, user="ann", speaker="Ann")
        newer, older = reader.search(question, scope, include_pending=True, all_results=True, k=2).memories
        shown = reader.memory_with_changes(scope, before.memory_id)
        assert reader.search(question, scope, all_results=True, k=1).memories[0].memory_id == before.memory_id
        assert reader.memory_with_changes(scope, newer.memory_id).text == text
        assert reader.memory(scope, newer.memory_id) is None
    assert (newer.text, newer.is_pending, older.memory_id, older.is_latest) == (text, True, before.memory_id, True)
    assert older.disputed_by.memory_id == newer.memory_id and shown.disputed_by is None
    build(home, corpus)
    with open_home(home.path) as reader:
        built = reader.search(question, scope, include_pending=True, all_results=True, k=1).memories[0]
        assert (built.memory_id, built.text, built.is_pending) == (newer.memory_id, text, False)


def test_rejected_and_failed_operations_say_why(copy, tmp_path):
    home, corpus = copy
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.4 nothing")
    other = tmp_path / "theirs.md"
    other.write_text("---\nuser_id: bob\n---\nA text of Bob.\n")
    operations = [ingest_file(home, path, user="ann").operation_id for path in (broken, other)]
    record_inbox_failure(home, "disk full:\n no space")
    failed = operation_status(home, operations[0])
    assert (failed.state, failed.reason) == ("failed", "disk full: no space")
    build(home, corpus)
    states = [operation_status(home, operation) for operation in operations]
    assert [s.state for s in states] == ["rejected", "rejected"] and "user_id" in str(states[1].reason)
    with open_home(home.path) as reader:
        assert "A text of Bob." not in [m.text for m in reader.search("text of Bob", ("chats", "bob")).memories]
    for wanted in (("nope", None), (operations[0], "bob")):
        with pytest.raises(PalimpsestError, match="not in home"):
            operation_status(home, *wanted)


@pytest.mark.parametrize("is_built", [pytest.param(False, marks=pytest.mark.slow), True])
def test_deleting_a_user_removes_files_and_operations_and_proves_it(copy, is_built):
    home, corpus = copy
    gone = ingest_text(home, "Bob hides the quixotic emerald.", user="bob", session="emerald-talk").operation_id
    kept = ingest_text(home, "Ask bob about the weather station.", user="ann").operation_id
    if is_built:
        build(home, corpus)
    else:
        record_inbox_failure(home, "disk full")
    done = delete(home, user="bob").to_json()
    assert done["residue"] == [] and done["operations"] == 1
    assert [file.rows()[0]["user_id"] for file in inbox_files(home.inbox)] == ["ann"]
    assert not any(b"emerald" in p.read_bytes() for p in home.path.rglob("*") if p.is_file())
    with pytest.raises(PalimpsestError, match="not in home"):
        operation_status(home, gone)
    assert operation_status(home, kept).state == ("published" if is_built else "failed")
    build(home, corpus)
    assert operation_status(home, kept).state == "published"
    with pytest.raises(ArgumentError, match="was deleted"):
        ingest_text(home, "Bob is back.", user="bob")


@pytest.mark.slow
def test_deleting_one_turn_of_a_session_keeps_the_rest_in_the_log(copy):
    home, corpus = copy
    turns = [{"speaker": "Ann", "text": "The emerald is under the stairs."}, {"speaker": "Ann", "text": KEY}]
    operation = ingest_session(home, turns, user="ann", session="s9").operation_id
    build(home, corpus)
    memories = published(home).table("chats", "memories")
    (memory_id,) = memories.filter(memories["text"].str.contains("emerald"))["memory_id"]
    assert delete(home, memories=[memory_id]).to_json()["residue"] == []
    assert not list(inbox_files(home.inbox))
    build(home, corpus)
    assert set(
        published(home)
        .table("chats", "memories")
        .join(published(home).table("chats", "versions").filter("is_latest"), on="memory_id", how="semi")["text"]
    ) >= {KEY}
    assert operation_status(home, operation).state == "published"
    assert make_plan(home, [corpus]).nothing_to_do


def test_deleting_a_collection_removes_its_inbox(copy):
    home, _ = copy
    ingest_text(home, KEY, user="ann")
    delete(home, collection="chats")
    assert not list(inbox_files(home.inbox)) and not (home.inbox / "chats").exists()


def test_the_commands(copy, tmp_path):
    home, corpus = copy
    sent = last_json(run("remember", KEY, "--user", "ann", "--home", home.path, "--operation-id", "k1", "--json"))
    assert sent["operation_id"] == "k1" and sent["is_new"]
    shown = run("query", "Where is the spare key?", "--user", "ann", "--home", home.path, "--include-pending").stdout
    assert ", pending)" in shown and "quixotic clock" in shown
    note = tmp_path / "note.md"
    note.write_text("# Note\n\nThe annex opens at nine.\n")
    assert last_json(run("remember", note, "--home", home.path, "--json"))["uri"].endswith("-note.md")
    refused = run("remember", "", "--home", home.path)
    assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1
    assert run("remember", note, "--speaker", "Ann", "--home", home.path).returncode == 2
    build(home, corpus)
    status = last_json(run("operation", "k1", "--home", home.path, "--json"))
    assert status["state"] == "published" and {"document_id", "chunks", "entities", "facts"} <= status.keys()
    assert json.dumps(IngestLog(home.log / "chats").on_disk()["uri"].to_list()).count(".inbox/") == 2
