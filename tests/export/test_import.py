"""An export becomes the same memories in another home, and overwrites nothing."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from palimpsest.build.delete import delete
from palimpsest.build.dry_run import dry_run
from palimpsest.build.plan import make_plan
from palimpsest.core.errors import PalimpsestError
from palimpsest.export.export_user import export_user
from palimpsest.export.import_export import import_export
from palimpsest.query.reader import open_home
from palimpsest.relations.relation_review import decide
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.builds import published
from palimpsest.store.decisions import append_graph_decisions, read_decisions
from palimpsest.store.graph_decisions import GraphDecision, NodeValues
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from tests.command import last_json, run
from tests.export.made import build, make, read_rows, remember, texts, with_own_vectors

KEY = "The spare key hangs behind the clock."


@pytest.fixture(scope="module")
def made(tmp_path_factory, shared_vectors) -> Path:
    """A home, an export of ann, and the home in which it was imported and built."""
    base = tmp_path_factory.mktemp("imported")
    home, _ = make(base, shared_vectors)
    ingest_text(home, "I bought a lamp.", user="ann", collection="chats", operation_id="lamp")
    build(home)
    relations = published(home).table("chats", "relations").filter(pl.col("label") == "UPDATE")
    decide(home, "undo", [(relations["relation_id"][0],)], None)
    values = NodeValues(name="Annex", type="place")
    for user in ("ann", "bob"):
        append_graph_decisions(home.decisions, GraphDecision("add_node", ("chats", user, ""), "a" * 16, values=values))
    build(home)
    remember(home, KEY, "ann")
    out = export_user(home, "ann", base / "out").out
    other = Home(base / "other", shared_vectors)
    import_export(other, out)
    return base


@pytest.fixture
def homes(made, shared_vectors) -> tuple[Home, Home]:
    other = Home(made / "other", shared_vectors)
    if not make_plan(other, None).nothing_to_do:
        build(other)
    return Home(made / "home", shared_vectors), other


COMPARED = {
    "memories": "memory_id document_id text type observed_at session_id user_visible tags trust importance",
    "versions": "memory_id is_latest valid_from valid_until superseded_by",
    "documents": "document_id uri is_current superseded_by source_time ingested_at metadata seq",
    "document_relations": "newer_uri older_uri label",
    "relations": "relation_id label",
    "nodes": "node_id name type",
    "facts": "fact_id is_latest",
    "redactions": "uri kind char_start",
}


@pytest.mark.parametrize("table", COMPARED)
def test_the_same_rows_in_every_table_with_the_same_ids(homes, table):
    columns = COMPARED[table].split()

    def rows(home: Home, collection: str) -> list[tuple]:
        found = published(home).table(collection, table).filter(pl.col("user_id") == "ann").select(columns)
        return sorted(found.rows(), key=str)

    first, second = (rows(home, "papers") for home in homes)
    assert first == second and first
    if table == "memories":  # in chats a text that was pending is built there
        before, after = (set(map(str, rows(home, "chats"))) for home in homes)
        assert before < after and len(after - before) == 1


def test_the_home_is_the_user_s_alone_and_answers_alike(homes):
    home, other = homes
    with open_home(home.path, count_reads=False) as a, open_home(other.path, count_reads=False) as b:
        assert {s.user_id for s in b.scope_sizes()} == {"ann"}
        for question in ("When does the annex open?", "What does the ledger run on?"):
            answers = [r.search(question, r.resolve_scopes("papers", "ann"), include_hidden=True) for r in (a, b)]
            assert answers[0].context == answers[1].context and answers[0].memories


def test_an_operation_that_was_pending_is_built_there_and_a_built_one_is_known(homes):
    _, other = homes
    assert KEY in texts(other, "chats") and "I bought a lamp." in texts(other, "chats")
    assert last_json(run("operation", "lamp", "--home", other.path, "--json"))["state"] == "published"


def test_decisions_apply_and_only_those_of_the_user(homes):
    home, other = homes
    mine, theirs = read_decisions(other.decisions), read_decisions(home.decisions)
    assert mine.undone == theirs.undone and mine.undone
    assert [d.scope[1] for d in mine.graph] == ["ann"] and mine.graph[0].at == theirs.graph[0].at


def test_a_further_build_and_a_further_import_do_nothing(homes, made):
    _, other = homes
    assert make_plan(other, None).nothing_to_do
    before = IngestLog(other.log / "papers").versions()
    done = import_export(other, made / "out")
    assert done.collections == done.edited == done.removed == done.problems == [] and done.unchanged
    assert IngestLog(other.log / "papers").versions().equals(before) and make_plan(other, None).nothing_to_do


def test_an_export_of_the_import_has_the_same_sources(homes, made, tmp_path):
    _, other = homes
    again = export_user(other, "ann", tmp_path / "again", "papers").out
    for name in ("collections/papers/sources.json", "collections/papers/tables/memories.json"):
        assert read_rows(again, name) == read_rows(made / "out", name)


def test_a_dry_run_knows_sources_without_files(homes):
    _, other = homes
    ingest_text(other, "One more statement.", user="ann", collection="chats")
    counts = dry_run(other, None, None).counts
    assert counts["memories"] == 1 and counts["removed_memories"] == 0
    build(other)


def test_another_collection_of_the_name_is_left_alone(made, tmp_path, shared_vectors):
    home = Home(tmp_path / "home", shared_vectors)
    import_export(home, made / "out", rename={"chats": "talks", "papers": "sheets"})
    assert list(home.sources) == ["sheets", "talks"]
    with pytest.raises(PalimpsestError, match=r"already.*--rename chats=NAME"):
        other = Home(tmp_path / "third", shared_vectors)
        folder = other.path / "collections" / "chats"
        folder.mkdir(parents=True)
        (folder / "collection.yaml").write_text("name: chats\ndescription: other talk\n")
        other.remember_sources({"chats": folder})
        import_export(other, made / "out")
    assert list(other.sources) == ["chats"] and not (other.path / "collections" / "papers").exists()
    build(home)
    assert texts(home, "sheets") == texts(Home(made / "home"), "papers")
    assert import_export(home, made / "out", rename={"chats": "talks", "papers": "sheets"}).unchanged


def test_a_file_of_the_same_name_is_newer_than_what_was_imported(made, tmp_path, shared_vectors):
    home = Home(tmp_path / "home", shared_vectors)
    import_export(home, made / "out")
    build(home)
    (home.path / "collections" / "papers" / "old.txt").write_text("The annex opens at noon.\n")
    build(home)
    assert "The annex opens at noon." in texts(home, "papers", latest=False)


def test_a_delete_of_the_user_leaves_nothing_and_refuses_another_import(made, tmp_path, shared_vectors):
    home = Home(tmp_path / "home", shared_vectors)
    import_export(home, made / "out")
    build(home)
    home = with_own_vectors(home)
    assert delete(home, user="ann").to_json()["residue"] == []
    build(home)
    assert texts(home, "papers", latest=False) == []
    with pytest.raises(PalimpsestError, match="was deleted"):
        import_export(home, made / "out")


def test_a_stopped_import_is_begun_again(made, tmp_path, shared_vectors, monkeypatch):
    home = Home(tmp_path / "home", shared_vectors)
    with monkeypatch.context() as patched, pytest.raises(OSError):

        def fail(self, folders):
            raise OSError("disk full")

        patched.setattr(Home, "remember_sources", fail)
        import_export(home, made / "out")
    assert not home.sources
    assert import_export(home, made / "out").collections == ["chats", "papers"]


def test_the_command(made, tmp_path):
    done = run("import", made / "out", "--home", tmp_path / "home", "--rename", "chats=talks", "--json")
    assert done.returncode == 0 and last_json(done)["collections"] == ["talks", "papers"]
    for args, message in (
        ((tmp_path,), "no export.json"),
        ((made / "out", "--rename", "x"), "OLD=NEW"),
        ((made / "out", "--rename", "nope=y"), "no such collection"),
        ((made / "out", "--rename", "chats=../y"), "letters, digits"),
    ):
        refused = run("import", *args, "--home", tmp_path / "new")
        assert refused.returncode == 2 and message in refused.stderr and len(refused.stderr.strip().splitlines()) == 1


# ---------------------------------------------------------------- untrusted input


def change(out: Path, name: str, edit) -> None:
    value = json.loads((out / name).read_text())
    edit(value)
    (out / name).write_text(json.dumps(value))


def set_document(**fields):
    def edit(sources):
        sources[0]["versions"][0]["documents"][0].update(fields)

    return edit


SOURCES = "collections/papers/sources.json"
HOSTILE = {
    "another user": (SOURCES, set_document(user_id="bob"), "another user"),
    "a path out": (SOURCES, lambda s: s[0].update(uri="../../x"), "another source|no path"),
    "a path out in both": (
        SOURCES,
        lambda s: (s[0].update(uri="../x"), [d.update(uri="../x") for v in s[0]["versions"] for d in v["documents"]]),
        "no path inside",
    ),
    "an operation of somebody": (
        SOURCES,
        lambda s: (
            s[0].update(uri=".inbox/" + "0" * 16 + "-" + "1" * 16 + ".turns.jsonl"),
            [d.update(uri=s[0]["uri"]) for v in s[0]["versions"] for d in v["documents"]],
        ),
        "inbox of another user",
    ),
    "a span out of the text": (SOURCES, set_document(segments=[[0, 10**6, "prose", None, None, None, None]]), "longer"),
    "a kind of nothing": (SOURCES, set_document(segments=[[0, 1, "x", None, None, None, None]]), "unknown kind"),
    "a segment of words": (SOURCES, set_document(segments=[["a", "b", "prose", None, None, None, None]]), "no span"),
    "a NUL": (SOURCES, set_document(text="a\0b", segments=[]), "NUL"),
    "no time": (SOURCES, lambda s: s[0]["versions"][0].update(seen_at="yesterday"), "no time"),
    "a text that is a number": (SOURCES, set_document(text=7), "not of type"),
    "a field too many": (SOURCES, set_document(extra=1), "extra"),
    "a version twice": (SOURCES, lambda s: s[0]["versions"].append(s[0]["versions"][0]), "twice"),
    "a model of another machine": (
        "collections/papers/settings.json",
        lambda s: s["settings"].update(embedder="/tmp/model"),
        "another machine",
    ),
    "a setting that is none": (
        "collections/papers/settings.json",
        lambda s: s["settings"].update(unit="page"),
        "settings.unit|unit",
    ),
    "a page elsewhere": ("export.json", lambda m: m["markdown"][-1].update(file="../../etc/passwd"), "not in markdown"),
    "another format": ("export.json", lambda m: m.update(format=99), "format 99"),
    "a name out of the folder": ("export.json", lambda m: m.update(collections=["../x"]), "does not match|collections"),
    "a tombstone": (
        "decisions.json",
        lambda d: d.append({"kind": "tombstone", "target": "0" * 16, "at": "2026-01-01"}),
        "decisions.json",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_was_tampered_with_is_one_line_and_writes_nothing(made, tmp_path, shared_vectors, name):
    out = tmp_path / "out"
    shutil.copytree(made / "out", out)
    file, edit, message = HOSTILE[name]
    change(out, file, edit)
    home = Home(tmp_path / "home", shared_vectors)
    with pytest.raises(PalimpsestError, match=message) as e:
        import_export(home, out)
    assert "\n" not in str(e.value)
    assert not home.sources and not list(home.log.glob("*")) and not home.decisions.exists()


@pytest.mark.parametrize("file", [SOURCES, "export.json", "decisions.json"])
def test_a_link_is_not_followed_and_no_json_is_refused(made, tmp_path, shared_vectors, file):
    out = tmp_path / "out"
    shutil.copytree(made / "out", out)
    home = Home(tmp_path / "home", shared_vectors)
    (out / file).rename(tmp_path / "elsewhere.json")
    (out / file).symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(PalimpsestError, match="is a link"):
        import_export(home, out)
    (out / file).unlink()
    (out / file).write_text("[" * 100_000)
    with pytest.raises(PalimpsestError, match="is no JSON"):
        import_export(home, out)
    assert not home.sources


def test_a_decision_about_another_scope_is_left_out(made, tmp_path, shared_vectors):
    out = tmp_path / "out"
    shutil.copytree(made / "out", out)
    foreign = {"kind": "confirm", "target": "0" * 16, "at": "2026-01-01", "newer_id": "1" * 16, "older_id": "2" * 16}
    graph = {**read_rows(out, "decisions.json")[-1], "user_id": "bob"}
    names = {"kind": "same", "at": "2026-01-01", "scope": ["chats", "bob", ""], "names": ["a", "b"]}
    change(out, "decisions.json", lambda d: d.extend([{**foreign, "label": "UPDATE"}, graph, names]))
    home = Home(tmp_path / "home", shared_vectors)
    assert import_export(home, out).decisions == 2
    found = read_decisions(home.decisions)
    assert not found.confirmed and not found.same and {d.scope[1] for d in found.graph} == {"ann"}
