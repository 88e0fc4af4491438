"""`palimpsest collection`: what is in one, by figures that can be counted by hand; and new ones."""

from pathlib import Path

import pytest

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.home import Home
from tests.command import last_json, process, run
from tests.small_corpus import write_chats, write_notes


@pytest.fixture(scope="module")
def made(tmp_path_factory, shared_vectors) -> Path:
    base = tmp_path_factory.mktemp("collections")
    corpus = write_notes(
        write_chats(base / "corpus"), {"a.md": "# Annex\n\nIt opens at nine.\n", "b.txt": "Nobody knows.\n"}
    )
    home = Home(base / "home", shared_vectors)
    run_without_dagster(home, make_plan(home, [corpus]))
    return base


def test_info_has_dates_sizes_types_and_months(made):
    info = last_json(run("collection", "info", "chats", "--home", made / "home", "--json"))
    size = (made / "corpus" / "chats" / "turns.jsonl").stat().st_size
    assert (info["description"], info["unit"], info["size_bytes"]) == ("small talk", "turn", size)
    wanted = {"sources": 1, "documents": 3, "memories": 5, "latest": 4, "users": 2, "projects": 0}
    assert wanted.items() <= info["counts"].items()
    assert list(info["types"].values()) == [{"documents": 3, "bytes": size}]
    assert info["months"] == {"2026-02": 4, "2026-03": 1}
    assert info["created_at"].startswith("20") and info["created_at"][:13] == info["updated_at"][:13]
    notes = last_json(run("collections", "info", "notes", "--home", made / "home", "--json"))
    assert {name: t["documents"] for name, t in notes["types"].items()} == {"text/markdown": 1, "text/plain": 1}
    assert notes["months"] == {"": notes["counts"]["memories"]}


def test_each_source_has_its_type_size_and_times(tmp_path, shared_vectors):
    home = Home(tmp_path / "home", shared_vectors)
    corpus = write_notes(tmp_path / "corpus", {"a.md": "# Annex\n\nIt opens at nine.\n", "b.txt": "Nobody knows.\n"})
    run_without_dagster(home, make_plan(home, [corpus]))
    (corpus / "notes" / "b.txt").write_text("Nobody knows yet.\n")
    run_without_dagster(home, make_plan(home, [corpus]))
    args = ("collection", "info", "notes", "--sources", "--home", home.path)
    a, b = last_json(run(*args, "--json"))["source_list"]
    assert (a["uri"], a["media_type"], a["versions"], a["documents"]) == ("a.md", "text/markdown", 1, 1)
    assert a["created_at"] == a["updated_at"] == b["created_at"] < b["updated_at"]
    assert (b["size_bytes"], b["versions"], b["media_type"]) == (len("Nobody knows yet.\n"), 2, "text/plain")
    assert "b.txt: text/plain, 18 bytes, read 20" in run(*args).stdout


def test_list_and_its_other_name_print_the_same(made):
    shown = [run(name, "list", "--home", made / "home", "--json") for name in ("collection", "collections")]
    assert shown[0].stdout == shown[1].stdout
    assert [c["name"] for c in last_json(shown[0])["collections"]] == ["chats", "notes"]
    assert "small talk" in process("collections", "list", "--home", made / "home").stdout


def test_a_new_collection_is_built_like_any_other(tmp_path, shared_vectors):
    home = Home(tmp_path / "home", shared_vectors)
    made = run(
        "collection", "create", "talks", "--description", "Our talks.", "--unit", "turn", "--home", home.path, "--json"
    )
    assert made.returncode == 0 and last_json(made)["folder"] == str(home.path / "collections" / "talks")
    before = last_json(run("collection", "info", "talks", "--home", home.path, "--json"))
    assert before["created_at"] and before["updated_at"] is None and before["counts"] == {"sources": 0}
    ingest_text(home, "The lamp is green.", user="ann", collection="talks")
    run_without_dagster(home, make_plan(home, None))
    after = last_json(run("collection", "info", "talks", "--home", home.path, "--json"))
    assert after["counts"]["memories"] == 1 and after["created_at"] == before["created_at"]


def test_a_folder_of_files_becomes_a_collection_and_its_files_stay(tmp_path):
    notes, home = tmp_path / "corpus" / "notes", tmp_path / "home"
    notes.mkdir(parents=True)
    (notes / "a.md").write_text("It opens at nine.\n")
    refused = run("build", "--corpus", notes, "--home", home)
    made = f"palimpsest collection create notes --description TEXT --corpus {tmp_path / 'corpus'}"
    assert refused.returncode == 2 and made in refused.stderr
    create = ("collection", "create", "notes", "--corpus", tmp_path / "corpus", "--home", home, "--description")
    assert run(*create, "").returncode == 2 and [p.name for p in notes.iterdir()] == ["a.md"]
    assert run(*create, "Our notes.").returncode == 0
    assert sorted(p.name for p in notes.iterdir()) == ["a.md", "collection.yaml"]
    assert last_json(run("build", "--corpus", tmp_path / "corpus", "--home", home, "--dry-run", "--json"))["files"] == 1
    inside = run("build", "--corpus", notes, "--home", home)
    assert f"it is a collection; name the folder that contains it: --corpus {tmp_path / 'corpus'}" in inside.stderr
    again = run(*create, "Our notes.", "--home", tmp_path / "other")
    assert again.returncode == 2 and "has a collection.yaml; build it" in again.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("info", "nope"), "it has: chats, notes"),
        (("create", "chats", "--description", "x"), "has one in"),
        (("create", "../x", "--description", "x"), "cannot be made"),
        (("create", "a b", "--description", "x"), "name"),
        (("create", "new", "--description", ""), "description"),
        (("create", "new", "--description", "x", "--corpus", __file__), "not a folder; name another"),
    ],
)
def test_mistakes_are_one_line(made, args, message):
    done = run("collection", *args, "--home", made / "home")
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert not list((made / "home" / "collections").glob("*"))


@pytest.fixture
def talks(tmp_path) -> Home:
    home = Home(tmp_path / "home")
    run("collection", "create", "talks", "--description", "Our talks.", "--home", home.path)
    path = home.path / "collections" / "talks" / "collection.yaml"
    path.write_text("# Ours.\nname: talks\ndescription: Our talks. # short\nunit: turn\ndates: day_first\n")
    return home


def settings_of(home: Home) -> Path:
    return home.path / "collections" / "talks" / "collection.yaml"


def test_an_update_changes_fields_and_keeps_comments(talks, tmp_path):
    (tmp_path / "schema.json").write_text('{"type": "object", "properties": {"colour": {"type": "string"}}}')
    fields = ("--set", "retention_days=30", "--set", "form=[turn, reflection]", "--unset", "dates")
    named = ("--description", "no", "--schema", tmp_path / "schema.json", *fields)
    done = run("collection", "update", "talks", *named, "--home", talks.path, "--json")
    assert done.returncode == 0, done.stderr
    after = last_json(done)["settings"]
    assert (after["description"], after["retention_days"], after["dates"]) == ("no", 30, None)
    assert after["form"] == ["turn", "reflection"]
    assert settings_of(talks).read_text().startswith("# Ours.\nname: talks\n")
    shown = run("collection", "schema", "talks", "--home", talks.path)
    assert '"colour"' in shown.stdout
    assert last_json(run("collection", "info", "talks", "--home", talks.path, "--json"))["description"] == "no"
    run("collection", "update", "talks", "--unset", "metadata_schema", "--home", talks.path)
    assert "has no metadata_schema" in run("collection", "schema", "talks", "--home", talks.path).stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "nothing to change"),
        (("--set", "name=other"), "cannot be changed"),
        (("--set", "retention=3"), "retention_days"),
        (("--set", "retention_days=soon"), "retention_days"),
        (("--set", "unit=[turn"), "is no YAML"),
        (("--set", "unit"), "FIELD=VALUE"),
        (("--set", "unit="), "--unset unit"),
        (("--unset", "description"), "description is required"),
        (("--description", ""), "description"),
        (("--set", "metadata_schema={type: 3}"), "is no JSON Schema"),
        (("--schema", "gone.json"), "cannot be read"),
    ],
)
def test_an_update_that_cannot_be_used_changes_nothing(talks, args, message):
    before = settings_of(talks).read_bytes()
    done = run("collection", "update", "talks", *args, "--home", talks.path)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1
    assert settings_of(talks).read_bytes() == before


def test_an_unknown_collection_cannot_be_changed_or_deleted(talks):
    for args in (("update", "nope", "--description", "x"), ("delete", "nope", "--yes"), ("schema", "nope")):
        done = run("collection", *args, "--home", talks.path)
        assert done.returncode == 2 and "nope" in done.stderr and done.stderr.count("\n") == 1
    refused = run("collection", "delete", "talks", "--home", talks.path)
    assert refused.returncode == 2 and "add --yes" in refused.stderr


def test_a_deleted_collection_is_proved_gone(talks, shared_vectors):
    home = Home(talks.path, shared_vectors)
    ingest_text(home, "The lamp is green.", user="ann", collection="talks")
    run_without_dagster(home, make_plan(home, None))
    dry = last_json(run("collection", "delete", "talks", "--dry-run", "--home", talks.path, "--json"))
    assert dry["memories"] == 1 and home.sources
    done = last_json(run("collection", "delete", "talks", "--yes", "--home", talks.path, "--json"))
    assert (done["memories"], done["residue"]) == (1, []) and not home.sources


@pytest.mark.slow
def test_created_at_outlives_a_delete_of_another_collection(tmp_path):
    from palimpsest.pipeline.deletion.delete import delete

    home = Home(tmp_path / "home")
    corpus = write_notes(write_chats(tmp_path / "corpus"), {"b.txt": "Nobody knows.\n"})
    run_without_dagster(home, make_plan(home, [corpus]))
    before = home.created_at
    assert set(before) == {"chats", "notes"}
    delete(home, collection="notes")
    assert home.created_at == {"chats": before["chats"]}


def test_a_delete_leaves_source_files_in_the_home_and_proves_the_rest(tmp_path):
    from palimpsest.pipeline.deletion.delete import delete
    from palimpsest.store.edit_collection import create_collection

    home = Home(tmp_path / "home")
    folder = create_collection(home, "talks", "Our talks.", user_id="ann")
    (folder / "lamp.txt").write_text("The lamp is quixotic.")
    run_without_dagster(home, make_plan(home, None))
    assert delete(home, user="ann").to_json()["residue"] == []
    assert (folder / "lamp.txt").exists()
    run_without_dagster(home, make_plan(home, None))
    assert last_json(run("collection", "info", "talks", "--home", home.path, "--json"))["counts"]["memories"] == 0
    delete(home, collection="talks")
    assert (folder / "lamp.txt").exists() and not home.sources
