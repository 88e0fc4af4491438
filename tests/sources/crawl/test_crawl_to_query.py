"""From a site to a cited answer: built like any source, updated, deleted for good, and never somebody else's."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from palimpsest.core.errors import ArgumentError, PalimpsestError, Rejected
from palimpsest.export.export_user import export_user
from palimpsest.export.import_export import import_export
from palimpsest.pipeline.backup import backup_home, restore_home
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.document_info import list_documents
from palimpsest.pipeline.estimate import dry_run
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.pipeline.repair_home import find_damage, repair_home
from palimpsest.query.reader import open_home
from palimpsest.sources.crawl import ingest_site, ingest_url
from palimpsest.sources.crawl.address_guard import VARIABLE
from palimpsest.sources.extracted import ExtractedDocument, Extraction, Scope
from palimpsest.sources.storage_policy import restrict_to_owner
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.web_pages import web_pages
from tests.command import last_json, process, run
from tests.small_corpus import write_notes
from tests.sources.crawl.local_site import LocalSite, Page, html, serve

PUMP = "The emergency pump of the harbour is tested on Fridays."
SECRET = b"zqTide-4471-kelp"


def build(home: Home) -> None:
    run_without_dagster(home, make_plan(home, None))


@pytest.fixture(scope="module")
def vectors(tmp_path_factory) -> Path:
    """A store for the homes of the file, for a delete removes from it."""
    return tmp_path_factory.mktemp("vectors")


@pytest.fixture(scope="module")
def running() -> Iterator[LocalSite]:
    with serve({}) as local:
        yield local


@pytest.fixture
def site(running, monkeypatch) -> LocalSite:
    """One server for all tests of the file: a copied home knows its URLs."""
    monkeypatch.setenv(VARIABLE, "127.0.0.1")
    running.pages = {}
    return running


@pytest.fixture
def home(tmp_path, vectors) -> Home:
    corpus = write_notes(tmp_path / "corpus", {"own.md": "The annex has a blue door.\n"})
    home = Home(tmp_path / "home", vectors)
    home.create()
    home.remember_sources({"notes": corpus / "notes"})
    return home


@pytest.fixture(scope="module")
def made(running, tmp_path_factory, vectors) -> Path:
    """A folder with a built home: a note, and two pages of ines, one of which says a password."""
    base = tmp_path_factory.mktemp("made")
    home = Home(base / "home", vectors)
    home.create()
    home.remember_sources({"notes": write_notes(base / "corpus", {"own.md": "The annex has a blue door.\n"}) / "notes"})
    running.pages = {"/a": html(PUMP), "/wifi": html(f"The harbour is open. The wifi password: {SECRET.decode()}")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "127.0.0.1")
        for path in running.pages:
            ingest_url(home, running.page(path), user="ines")
    build(home)
    return base


@pytest.fixture
def built(made, tmp_path, vectors, site) -> Home:
    """A copy of `made`, with its pages on the server."""
    for name in ("home", "corpus"):
        shutil.copytree(made / name, tmp_path / name)
    home = Home(tmp_path / "home", vectors)
    home.remember_sources({"notes": tmp_path / "corpus/notes"})
    site.pages = {"/a": html(PUMP), "/b": html("The quay is closed.")}
    return home


def ask(home: Home, question: str, user: str = "shared") -> str:
    with open_home(home.path) as reader:
        return reader.search(question, reader.resolve_scopes("notes", user)).context_with("full")


def test_a_page_is_cited_by_its_url_updated_and_deleted_for_good(home, site):
    site.pages |= {"/": html("The harbour has two cranes.", "/pump", "/light"), "/pump": html(PUMP)}
    site.pages["/light"] = html("The lighthouse is red.")
    session = ingest_site(home, site.url).session
    assert make_plan(home, None).changed == ("notes",) and dry_run(home, None, None).counts["files"] == 4
    build(home)
    context = ask(home, "When is the emergency pump tested?")
    assert "Fridays" in context and site.page("/pump") in context
    assert make_plan(home, None).nothing_to_do and "red" in ask(home, "What colour is the lighthouse?")
    documents = published(home).table("notes", "documents")
    metadata = dict(documents.select("uri", "metadata").iter_rows())[site.page("/pump")]
    assert session in metadata and "fetched_at" in metadata

    site.pages["/pump"] = html("The emergency pump of the harbour is tested on Mondays.")
    assert ingest_site(home, site.url).counts["changed"] == 1
    build(home)
    context = ask(home, "When is the emergency pump tested?")
    assert "Mondays" in context and "Fridays" not in context
    assert len(list((home.web / "notes").glob("*.html"))) == 3  # the bytes of the first version are swept

    done = delete(home, document=site.page("/pump"))
    assert done.documents == 1 and done.fields["pages"] == 3
    again = ingest_site(home, site.url)
    assert again.counts["deleted"] == 1 and not again.stored
    found = b"".join(p.read_bytes() for p in home.web.rglob("*") if p.is_file())
    assert b"Mondays" not in found and site.page("/pump").encode() not in found

    site.pages = {"/": html("The harbour has two cranes and a quay.")}
    assert ingest_site(home, site.url).counts["gone"] == 1
    build(home)
    assert "Mondays" not in ask(home, "When is the emergency pump tested?")
    assert "red" not in ask(home, "What colour is the lighthouse?")


def test_a_page_of_which_a_memory_was_deleted_is_not_stored_again(built, site):
    with open_home(built.path) as reader:
        found = reader.search("pump", reader.resolve_scopes("notes", "ines")).memories
    (memory,) = [m for m in found if "pump" in m.text]
    delete(built, memories=[memory.memory_id])
    site.pages["/a"] = html(PUMP + " It is green.")
    assert ingest_url(built, site.page("/a"), user="ines").counts["deleted"] == 1
    build(built)
    assert "pump" not in ask(built, "emergency pump", "ines")


def test_a_page_that_states_another_user_or_replaces_documents_does_neither(home, site):
    stolen = b"---\nuser_id: ines\nsupersedes: own.md\n---\nThe vault opens with quixotic-77.\n"
    replacing = b"---\nsupersedes: own.md\n---\nThe annex has no door.\n"
    site.pages |= {"/a.md": Page(stolen, "text/markdown"), "/b.md": Page(replacing, "text/markdown")}
    for path in ("/a.md", "/b.md"):
        ingest_url(home, site.page(path), user="bob")
    build(home)
    rejects = published(home).table("notes", "rejects")
    reasons = " ".join(rejects["reason"])
    assert "states that it replaces or needs other documents; ignored" in reasons
    users = set(published(home).table("notes", "documents")["user_id"])
    assert users == {"shared", "bob"} and "blue door" in ask(home, "annex door")


def test_texts_in_a_page_that_name_another_owner_are_left_out_and_listed():
    documents = [ExtractedDocument(uri="u", media_type="m", text="t\n", user_id=user) for user in (None, "bob", "ines")]
    read = restrict_to_owner(Extraction(tuple(documents)), Scope("bob", None), Scope("bob", None))
    assert isinstance(read, Extraction)
    assert [d.user_id for d in read.documents] == [None, "bob"] and "user_id or project_id of its own" in read.problems[
        0
    ]
    alone = restrict_to_owner(Extraction(tuple(documents[2:])), Scope("bob", None), Scope("bob", None))
    assert isinstance(alone, Rejected)


def test_stored_bytes_have_a_secret_that_no_memory_has_and_a_delete_searches_and_removes_them(built, site, monkeypatch):
    def files_with_secret() -> list[str]:
        found = (p for p in built.path.rglob("*") if p.is_file() and SECRET in p.read_bytes())
        return [str(p.relative_to(built.path)) for p in found]

    (stored,) = files_with_secret()
    assert stored.startswith("web/notes/") and (built.path / stored).stat().st_mode & 0o077 == 0
    assert "[redacted: password]" in ask(built, "wifi password", "ines")
    ingest_url(built, site.page("/b"), user="ines")
    with monkeypatch.context() as patch:
        patch.setattr("palimpsest.pipeline.deletion.erase_home.erase_pages", lambda *_: 0)
        with pytest.raises(PalimpsestError, match=r"web/notes/[\w-]+\.html \("):  # it searches the bytes of pages
            delete(built, user="ines")
    done = delete(built, user="ines")
    assert done.to_json()["residue"] == [] and files_with_secret() == [] and list(built.web.rglob("*.html")) == []
    assert list(web_pages(built.web, "notes")) == [], "built or not"
    with pytest.raises(ArgumentError, match="was deleted from this home"):
        ingest_url(built, site.page("/a"), user="ines")


def test_pages_are_in_exports_and_backups_and_one_that_no_build_has_read_is_pending(built, site, tmp_path, vectors):
    ingest_url(built, site.page("/b"), user="ines")
    states = {d.uri: (d.state, d.user_id, d.chunks > 0) for d in list_documents(built)}
    assert states[site.page("/b")] == ("pending", "ines", False) and states[site.page("/a")] == ("built", "ines", True)
    (tmp_path / "new.txt").write_text("Other words.")
    for path in ("/a", "/b"):  # a page is read again by its own command
        done = run("document", "update", site.page(path), tmp_path / "new.txt", "--home", built.path)
        assert done.returncode == 2 and "palimpsest ingest url" in done.stderr and str(built.path) not in done.stderr
    exported = export_user(built, "ines", tmp_path / "export")
    reasons = {str(row["uri"]): str(row["reason"]) for row in exported.left_out}
    assert "not built yet" in reasons[site.page("/b")] and "read from the web" in reasons[site.page("/a")]

    other = Home(tmp_path / "other", vectors)
    import_export(other, tmp_path / "export")
    build(other)
    assert site.page("/a") in ask(other, "emergency pump", "ines") and make_plan(other, None).nothing_to_do

    backup_home(built, tmp_path / "home.backup")
    restored = Home(tmp_path / "restored", vectors)
    restore_home(tmp_path / "home.backup", restored)
    expected = {site.page(path) for path in ("/a", "/b", "/wifi")}
    assert {page.record.uri for page in web_pages(restored.web, "notes")} == expected
    assert ingest_url(restored, site.page("/b"), user="ines").counts["unchanged"] == 1


def test_bytes_that_were_damaged_are_found_and_fetched_again(built, site):
    (page,) = [page for page in web_pages(built.web, "notes") if page.record.uri == site.page("/a")]
    page.path.write_bytes(b"damaged")
    assert find_damage(built) == [str(page.path.relative_to(built.path))]
    assert any("web pages of notes" in line for line in repair_home(built, read_all=True).lines)
    build(built)
    assert "Fridays" in ask(built, "emergency pump", "ines")
    assert ingest_url(built, site.page("/a"), user="ines").counts["changed"] == 1 and not find_damage(built)
    build(built)
    assert IngestLog(built.log / "notes").current().height == 3


def test_the_commands_say_what_was_done_in_words_and_json(home, site, tmp_path):
    site.pages |= {"/": html("Start.", "/a", "/gone"), "/a": html("A page.")}
    where = ("--home", home.path)
    done = process("ingest", "site", site.url, "--json", "--max-pages", 5, *where)
    assert done.returncode == 0 and last_json(done)["stored"] == 2 and last_json(done)["failed"] == 1
    assert last_json(done)["failures"] == [{"url": site.page("/gone"), "reason": "status 404"}]
    again = run("ingest", "site", site.url, *where)
    assert "0 stored" in again.stdout and "2 unchanged" in again.stdout and "1 failed" in again.stdout
    twice = run("ingest", "url", site.page("/a"), "--mode", "ingest", *where)
    assert twice.returncode == 2 and twice.stderr.strip().count("\n") == 0 and "--mode reingest" in twice.stderr
    refused = run("ingest", "url", "http://10.0.0.1/", *where)
    assert refused.returncode == 2 and "PALIMPSEST_WEB_ALLOW_PRIVATE" in refused.stderr
    assert run("ingest", "url", site.page("/none"), *where).returncode == 2
    assert last_json(run("analyze", site.url, "--json", *where))["urls"] == 2
    (home.sources["notes"] / "sources.yaml").write_text(f"web: [{{url: {site.url}a}}]\n")
    assert last_json(run("ingest", "sites", "--json", *where))["crawls"][0]["unchanged"] == 1
    folder = tmp_path / "folder"
    (folder / "in").mkdir(parents=True)
    (folder / "in/plan.md").write_text("The plan is ready.\n")
    (folder / "empty.txt").write_text("")
    sent = run("ingest", "directory", folder, "--json", *where)
    assert sent.returncode == 0 and last_json(sent)["received"] == 1 and last_json(sent)["empty"] == ["empty.txt"]
    for received, known in ((1, 0), (0, 1)):
        sent = last_json(run("ingest", "directory", folder / "in", "--json", *where))
        assert (sent["received"], sent["known"]) == (received, known)
    assert run("ingest", "text", "The key is red.", *where).returncode == 0
    assert run("ingest", "file", folder / "in/plan.md", *where).returncode == 0
