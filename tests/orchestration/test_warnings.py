"""What people should know of a build: one wording on runs, checks, in the output, the report, the list and answers."""

import json
import os

import dagster as dg
import polars as pl
import pytest

from palimpsest.orchestration.automation import COLLECTION
from palimpsest.orchestration.resources import WARNINGS
from palimpsest.pipeline.build_warnings import KINDS, build_warnings, warning_lines, warning_summary
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.document_info import list_documents
from palimpsest.pipeline.summary import build_summary
from palimpsest.query import open_home
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest.text.parse import MAX_PARSED_CHARACTERS
from tests.small_corpus import build_home, write_chats, write_notes

LONG = "The crane of the harbour is painted green every other year by two people. " * 30


@pytest.fixture(scope="module")
def home(tmp_path_factory, shared_vectors):
    """A home with all but a labeler that abstains; the published build is as its folders are."""
    base = tmp_path_factory.mktemp("warned")
    notes = {
        "key.md": "The key hangs behind the clock.",
        "crane.md": LONG,
        "old.md": "The old ferry is sold.",
        "binary.md": "\x00\x01",
    }
    home = Home(base / "home", shared_vectors)
    build_home(home, write_notes(write_chats(base / "corpus"), notes))
    delete(home, document="old.md", collection="notes")
    (home.sources["notes"] / "key.md").write_bytes(b"\x00\x01\x02")
    build_home(home)
    return home


def test_each_kind_has_a_line_that_says_what_to_do(home):
    found = build_warnings(home, published(home))
    assert warning_summary(found) == "1 rejected, 1 last good version, 1 skipped, 1 undated, 1 truncated"
    assert [line.split(": ")[:2] for line in warning_lines(found)] == [
        ["rejected", "notes/binary.md"],
        ["last good version", "notes/key.md"],
        ["skipped", "notes/old.md"],
        ["undated", "notes"],
        ["truncated", "notes/crane.md"],
    ]
    assert len(LONG) > MAX_PARSED_CHARACTERS and build_summary(home, published(home)).warnings == warning_lines(found)


def test_a_labeler_that_abstains_is_told_by_relation(home, monkeypatch):
    build = published(home)
    (kind,) = (k for k in KINDS if k.name == "abstained")
    relations = build.table("chats", "relations")
    rules = [{"rule": "abstain"}, {"rule": "person"}, {"rule": "unpaid"}]
    pairs = (
        relations.head(1)
        .clear(3)
        .with_columns(
            relation_id=pl.Series("relation_id", ["a", "b", "c"]),
            evidence=pl.Series("evidence", [json.dumps(r) for r in rules]),
            labeler=pl.Series("labeler", ["dspy"] * 3),
        )
    )
    monkeypatch.setattr(type(build), "table", lambda *_: pairs)
    assert [w.what.split()[6].rstrip(";") for w in kind.of(home, build, "chats")] == ["a", "c"]


def test_runs_and_checks_of_dagster_warn_until_nothing_of_any_collection_is_wrong(home, tmp_path, monkeypatch):
    from palimpsest.orchestration.code_location import defs

    monkeypatch.setenv("DAGSTER_HOME", os.environ.get("DAGSTER_HOME", str(tmp_path)))
    config = {"path": str(home.path), "embeddings_path": str(home.embeddings_path)}
    with dg.instance_for_test() as instance:
        instance.add_dynamic_partitions("collections", ["chats", "notes"])

        def build(name):
            options = {"instance": instance, "run_config": {"resources": {"home": {"config": config}}}}
            job = defs.resolve_job_def("rebuild")
            return job.execute_in_process(partition_key=name, asset_selection=COLLECTION, **options)

        for name in ("notes", "chats"):  # that of another collection does not hide it
            done = build(name)
            failed = {e.check_name: e for e in done.get_asset_check_evaluations() if not e.passed}
            names = {"rejects", "last_good_versions", "skipped_sources", "undated_collection", "truncated_texts"}
            assert failed.keys() == names and "notes/key.md" in failed["last_good_versions"].description
            tags = instance.get_run_by_id(done.run_id).tags
            logged = [e.user_message for e in instance.all_logs(done.run_id) if e.level == 30]
            if name == "notes":
                assert failed["rejects"].severity == dg.AssetCheckSeverity.ERROR  # a third of the sources
                assert failed["last_good_versions"].severity == dg.AssetCheckSeverity.WARN
                assert tags[WARNINGS].startswith("1 rejected, 1 last good version") and len(logged) == 5
                assert any(line.startswith("rejected: notes/binary.md: ") for line in logged)
            else:
                assert WARNINGS not in tags and logged == []


def test_the_list_of_documents_and_answers_say_which_version_is_served(home):
    states = {d.uri: d for d in list_documents(home, "notes")}
    assert states["key.md"].state == "last good version" and states["crane.md"].state == "built"
    assert "binary" in states["key.md"].reason and states["binary.md"].state == "rejected"
    with open_home(home.path) as reader:
        scopes = reader.resolve_scopes("notes")
        found = reader.search("Where does the key hang?", scopes)
        marked = {m.uri: m.source_unreadable for m in found.memories}
        assert marked.pop("key.md") and not any(marked.values())
        assert found.to_json()["memories"][0]["source_unreadable"] is True
        said = "last good version of an unreadable source"
        assert f"- ({said}) The key hangs behind the clock. [1]" in found.context and said in found.message()["content"]
        assert reader.memory_with_changes(scopes, found.memories[0].memory_id).source_unreadable
