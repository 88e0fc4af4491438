"""A folder on disk becomes a log: names, bad files and limits."""

import datetime as dt
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
import yaml

from palimpsest.core.errors import PalimpsestError
from palimpsest.pipeline.plan import make_plan, stage_context
from palimpsest.pipeline.run_stage import run_stage
from palimpsest.sources import ingest
from palimpsest.sources.discovery import source_files
from palimpsest.store.collection_config import load_collection
from palimpsest.store.home import Home
from tests.small_corpus import write_notes
from tests.sources.hostile import HOSTILE_LIMITS, hostile_files, hostile_names, small_docx

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def documents_stage(home: Home, corpus: Path) -> dict[str, pl.DataFrame]:
    """Runs the first stage of a build of one collection and returns its tables."""
    home.create()
    plan = make_plan(home, [corpus])
    (name, folder), *_ = plan.collections.items()
    part = replace(stage_context(home, name, folder), now=NOW)
    run_stage(part, "documents")
    return {t: part.table(t) for t in ("documents", "document_texts", "rejects")}


def test_names_cannot_leave_the_folder_clear_the_terminal_or_stand_for_each_other_nor_do_reasons(
    tmp_path,
) -> None:
    corpus = write_notes(tmp_path / "corpus", {})
    for number, name in enumerate(hostile_names()):
        (corpus / "notes" / os.fsdecode(name)).write_text(f"Words of file {number}.")
    before = sorted(p for p in tmp_path.rglob("*") if "home" not in p.parts)
    tables = documents_stage(Home(tmp_path / "home"), corpus)
    uris = tables["documents"]["uri"].to_list()
    assert tables["rejects"].height == 0 and len(set(uris)) == len(hostile_names()) == tables["documents"].height
    assert all(uri.isprintable() for uri in uris)
    assert {r"caf\xe9.txt", r"caf\\xe9.txt", "café.txt", r"two\x0alines.txt", r"\u202etxt.fdp.txt"} < set(uris)
    assert sorted(p for p in tmp_path.rglob("*") if "home" not in p.parts) == before
    corpus = write_notes(tmp_path / "corpus", {"a.\x1b[2J": "Words.", "b.md": "Words."})
    rejects = documents_stage(Home(tmp_path / "home"), corpus)["rejects"]
    assert rejects.height == 1 and rejects["reason"][0].startswith(r"unknown type .\x1b[2j; readable are")


def test_hostile_files_leave_the_rest_of_the_build_as_it_is_and_the_ui_lists_each_with_its_reason(tmp_path) -> None:
    from palimpsest.orchestration.build_assets import stage_asset
    from palimpsest.orchestration.resources import HomeResource, collections
    from palimpsest.pipeline.stages import STAGES

    good = {f"good-{i}.md": f"# Note {i}\n\nWords of note {i}.\n" for i in range(10)}
    alone = documents_stage(Home(tmp_path / "alone"), write_notes(tmp_path / "a", good))
    corpus = write_notes(tmp_path / "b", good)
    hostile = hostile_files()
    for name, (data, _) in hostile.items():
        (corpus / "notes" / name).write_bytes(data)
    with (corpus / "notes/collection.yaml").open("a") as settings:
        yaml.safe_dump({"limits": HOSTILE_LIMITS}, settings)
    home = Home(tmp_path / "home")
    home.create()
    home.remember_sources(make_plan(home, [corpus]).collections)
    with dg.instance_for_test() as instance:
        instance.add_dynamic_partitions(str(collections.name), ["notes"])
        done = dg.materialize(
            [stage_asset(STAGES["documents"])],
            partition_key="notes",
            instance=instance,
            resources={"home": HomeResource(path=str(home.path))},
        )
        assert done.success
        metadata = done.asset_materializations_for_node("documents")[0].metadata
    shown = {str(r.data["uri"]): str(r.data["reason"]) for r in metadata["rejects"].value.records}
    part = stage_context(home, "notes", corpus / "notes")
    rejects = dict(part.table("rejects").select("uri", "reason").iter_rows())
    assert shown == rejects and len(hostile) >= 20
    read = set(part.table("documents")["uri"].str.split("#").list.first())
    assert read | set(rejects) == {*good, *hostile} and not set(rejects) & set(good)
    wrong = {}
    for name, (_, expected) in hostile.items():
        reason = rejects.get(name, "")
        clear = not reason or re.search(r"[;:,]| named ", reason)  # it says what to do
        ended = re.search("timed out|ended the reader", reason) and expected == "any"
        right = name in read if expected == "read" else expected == "any" or re.search(expected, reason)
        if ended or not right or not clear:
            wrong[name] = reason
    assert wrong == {}
    assert part.table("document_texts")["text"].str.len_chars().max() <= 20_000_000
    assert [u for u in part.table("documents")["uri"].sort() if u.startswith("paths.eml")] == [
        "paths.eml", "paths.eml#ab.txt", "paths.eml#evil.txt", "paths.eml#olute.md", "paths.eml#part-4.txt",
        "paths.eml#passwd.txt", "paths.eml#x_y.txt",
    ]  # fmt: skip
    with_hostile = part.table("documents").filter(pl.col("uri").is_in(list(good)))
    same = ["document_id", "uri", "title", "content_hash", "metadata"]
    assert with_hostile.select(same).equals(alone["documents"].select(same))


def test_limits_of_a_collection_are_settings_and_a_change_of_them_reads_again(tmp_path) -> None:
    home, corpus = Home(tmp_path / "home"), write_notes(tmp_path / "corpus", {"a.txt": "Words. " * 100, "b.txt": "B."})
    settings = corpus / "notes/collection.yaml"
    plain = settings.read_text()
    settings.write_text(plain + "limits:\n  max_chars: 100\n")
    assert documents_stage(home, corpus)["rejects"]["reason"].to_list() == [
        "too large: 700 characters of text, the limit is 100; split the source"
    ]
    settings.write_text(plain)
    assert documents_stage(home, corpus)["rejects"].height == 0
    settings.write_text(plain + "limits:\n  max_chars: 0\n")
    with pytest.raises(PalimpsestError, match=r"collection\.yaml: limits\.max_chars input should be greater than 0"):
        load_collection(corpus / "notes")


def test_a_user_with_an_unusable_name_is_left_out_and_reported(tmp_path) -> None:
    def turns(*users: str) -> str:
        return "".join(json.dumps({"session_id": "s", "user_id": u, "text": "Words."}) + "\n" for u in users)

    long = "user_id '" + "u" * 40 + "'... has 9,000 bytes, the limit is 800; left out: give it a shorter one"
    notes = {"some.jsonl": turns("ann", "u" * 9000), "none.jsonl": turns("u" * 9000)}
    tables = documents_stage(Home(tmp_path / "home"), write_notes(tmp_path / "corpus", notes))
    assert tables["documents"]["user_id"].to_list() == ["ann"]
    assert tables["rejects"].sort("uri").select("uri", "reason").rows() == [("none.jsonl", long), ("some.jsonl", long)]


def test_a_conversation_whose_turns_name_the_default_user_or_none_is_one_document(tmp_path) -> None:
    folder = write_notes(tmp_path, {"a.md": "Words."}, default=True, user_id="u1", project_id="p1")
    turns = [{"user_id": "u1"}, {}, {"project_id": "p1"}, {"user_id": "u2"}, {"user_id": "u1", "project_id": "p1"}]
    lines = [{"session_id": "s", "speaker": "Ana", "text": f"Turn {i}."} | t for i, t in enumerate(turns)]
    (folder / "notes" / "chat.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    documents = documents_stage(Home(tmp_path / "home"), folder)["documents"].filter(pl.col("uri") == "chat.jsonl")
    assert documents.select("user_id", "project_id", "is_current").sort("user_id").rows() == [
        ("u1", "p1", True),
        ("u2", "p1", True),
    ]


def test_a_home_inside_a_collection_is_refused_and_sources_are_sorted_without_hidden_files_and_settings(
    tmp_path,
) -> None:
    corpus = write_notes(tmp_path / "corpus", {"a.txt": "Words."})
    with pytest.raises(PalimpsestError, match=r"lies inside collection notes .*; choose another --home"):
        make_plan(Home(corpus / "notes/sub/home"), [corpus])
    assert make_plan(Home(corpus / "home"), [corpus]).changed == ("notes",)
    corpus = write_notes(tmp_path / "corpus", {"b/z.txt": "Z.", "b.txt": "B.", ".hidden/x.txt": "X.", "a.txt": "A."})
    (corpus / "notes/c.docx").write_bytes(small_docx())
    config = load_collection(corpus / "notes")
    assert [uri for uri, _ in source_files(corpus / "notes", config)] == ["a.txt", "b.txt", "b/z.txt", "c.docx"]


def test_what_a_run_that_was_stopped_had_read_is_not_read_again(tmp_path, monkeypatch) -> None:
    corpus = write_notes(tmp_path / "corpus", {f"{n}.md": f"Words of {n}.\n" for n in range(4)} | {"x.pdf": "%PDF-"})
    home, read = Home(tmp_path / "home"), list[str]()
    read_sources = ingest.read_sources

    def stopped_after(most: int):
        def read_some(items, *arguments, **named):
            for number, (uri, result) in enumerate(read_sources(items, *arguments, **named)):
                if number == most:
                    raise KeyboardInterrupt
                read.append(uri)
                yield uri, result

        return read_some

    monkeypatch.setattr(ingest, "read_sources", stopped_after(3))
    with pytest.raises(KeyboardInterrupt):
        documents_stage(home, corpus)
    (corpus / "notes" / "0.md").unlink()
    monkeypatch.setattr(ingest, "read_sources", stopped_after(9))
    found = documents_stage(home, corpus)
    assert sorted(read) == ["0.md", "1.md", "2.md", "3.md", "x.pdf"]
    whole = documents_stage(Home(tmp_path / "whole"), corpus)
    assert all(found[name].equals(whole[name]) for name in found)
