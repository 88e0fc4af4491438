"""Trust through the command line: proposed in review, retired by confirm, back by undo; a change labels nothing."""

import json
import shutil

import pytest

from palimpsest.pipeline.finish import digest, run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.pipeline.stages import indexed_tables
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.command import last_json, run
from tests.small_corpus import write_chats, write_notes

OLD, NEW = "The deadline of project Heron is 12 March.", "The deadline of project Heron is now 20 April."
SETTINGS = {
    "collection": "trust: {default: 0.2, speakers: {Ann: 0.8}}",
    "kind": "trust: {kinds: {import: 0.2}}",
    "speaker": "trust: {speakers: {bot: 0.2}}",
}


def write(corpus, trust):
    turns = [("s1", "ann", "Ann", OLD, "2026-02-01T09:00:00Z"), ("s2", "ann", "Bot", NEW, "2026-03-01T09:00:00Z")]
    write_chats(corpus, turns)
    path = corpus / "chats/turns.jsonl"
    first, second = map(json.loads, path.read_text().splitlines())
    path.write_text(json.dumps(first) + "\n" + json.dumps(second | {"kind": "import"}) + "\n")
    settings = corpus / "chats/collection.yaml"
    settings.write_text(f"name: chats\ndescription: small talk\nunit: turn\nuser_id: ann\n{trust}\n")


@pytest.fixture
def home(tmp_path, shared_vectors):
    home = Home(tmp_path / "home", shared_vectors)
    home.create()
    return home


@pytest.fixture
def command(tmp_path, home):
    def execute(name, *args):
        more = ["--corpus", tmp_path / "corpus"] if name == "build" else []
        done = run(name, *args, *more, "--home", home.path, "--json")
        assert done.returncode == 0, done.stderr
        return last_json(done)

    return execute


def latest(home):
    tables = published(home).tables(["memories", "versions"])
    found = tables["versions"].filter("is_latest").join(tables["memories"], on="memory_id")
    return set(found["text"])


@pytest.mark.parametrize(
    "source", [pytest.param(s, marks=() if s == "collection" else pytest.mark.slow) for s in SETTINGS]
)
def test_a_less_trusted_source_is_proposed_confirmed_and_undone(tmp_path, home, command, source):
    write(tmp_path / "corpus", SETTINGS[source])
    assert command("build")["retired"] == 0 and latest(home) == {OLD, NEW}
    (row,) = command("review")["relations"]
    assert (row["why"], row["rank"], row["instead_of"]) == ("low trust", 2, "UPDATE")
    assert (row["older"], row["newer"], row["conflict"]) == (OLD, NEW, None)
    found = command("query", "When is the deadline of project Heron?", "--all-results", "--sources", "full")
    marks = {
        m["text"]: m["disputed_by"] and (m["disputed_by"]["text"], m["disputed_by"]["why"]) for m in found["memories"]
    }
    assert marks == {OLD: (NEW, "low trust"), NEW: None}
    assert f"disputed by [memory:{row['newer_id']}]) {OLD}" in found["context"]
    assert command("confirm", row["relation_id"])["label"] == "UPDATE"
    assert command("build")["retired"] == 1 and latest(home) == {NEW}
    assert command("review")["relations"] == []
    assert command("undo", row["relation_id"])["label"] == "NONE"
    assert command("build")["retired"] == 0 and latest(home) == {OLD, NEW}
    assert command("review")["relations"] == []
    assert all(m["disputed_by"] is None for m in command("query", "deadline of project Heron")["memories"])


def test_undo_rejects_a_proposal(tmp_path, home, command):
    write(tmp_path / "corpus", SETTINGS["speaker"])
    command("build")
    (row,) = command("review", "--why", "low trust")["relations"]
    assert command("undo", row["relation_id"])["was"] == "NONE"
    assert command("build")["retired"] == 0 and command("review")["relations"] == []


@pytest.mark.slow
def test_another_trust_changes_versions_labels_and_embeds_nothing_and_equals_a_build_from_scratch(
    tmp_path, home, command
):
    corpus = tmp_path / "corpus"
    write(corpus, "")
    assert command("build")["retired"] == 1 and latest(home) == {NEW}
    for trust, retired in ((SETTINGS["speaker"], 0), ("trust: {speakers: {bot: 0.1}}", 0), ("trust: 0.3", 1)):
        write(corpus, trust)
        built = command("build")
        record = published(home).manifest.stages["chats"]["relations"]
        assert built["retired"] == retired and built["work"]["embeddings"] == 0
        assert (record.numbers["labelled"], record.numbers["carried"]) == (0, 1)
        fresh = Home(tmp_path / f"fresh {trust[:20]}", home.embeddings_path)
        fresh.create()
        shutil.copytree(home.log, fresh.log, dirs_exist_ok=True)
        scratch = run_without_dagster(fresh, make_plan(fresh, [corpus]))
        assert digest(published(home).tables(indexed_tables())) == digest(scratch.tables(indexed_tables()))
        for table in ("memories", "relations", "versions"):
            assert published(home).table("chats", table).equals(scratch.table("chats", table))
        shutil.rmtree(fresh.path)


def test_a_stated_replacement_by_a_less_trusted_document_is_reported(tmp_path, home, command):
    notes = {
        "a.md": "The gate opens at eight.\n",
        "b.md": "---\ntrust: 0.1\nsupersedes: a.md\n---\nIt opens at nine.\n",
    }
    corpus = write_notes(tmp_path / "corpus", notes, unit="statement")
    done = run("build", "--corpus", corpus, "--home", home.path, "--json")
    assert last_json(done)["retired"] == 0
    line = "not retired: 1 memories of a.md, which b.md states to replace: trusted more (0.5 and 0.1)"
    assert line in done.stderr
    (refused,) = command("review")["refused_replacements"]
    assert (refused["newer_uri"], refused["older_uri"], refused["memories"]) == ("b.md", "a.md", 1)
    assert line in run("review", "--home", home.path).stdout


def test_a_wrong_trust_is_one_line_and_exit_2(tmp_path, home):
    write(tmp_path / "corpus", "trust: {speakers: {Ann: high}}")
    done = run("build", "--corpus", tmp_path / "corpus", "--home", home.path)
    assert done.returncode == 2
    assert "collection.yaml: trust.speakers 'Ann': must be a number from 0 to 1" in done.stderr.splitlines()[-1]
