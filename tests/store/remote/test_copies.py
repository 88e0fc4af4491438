"""What happens to the copy on a machine: cleaned, damaged, read while it is made, written without the home's lock."""

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

from palimpsest.core.errors import DamagedFile, PalimpsestError
from palimpsest.orchestration.resources import HomeResource
from palimpsest.serve.app import StoreSync
from palimpsest.serve.operations import Operations, _hash
from palimpsest.sources.crawl import ingest_url
from palimpsest.sources.crawl.address_guard import VARIABLE
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.home import Home, home_option, send_unwritten
from palimpsest.store.remote_home import erase_from_store, local_home
from palimpsest.store.table_store import open_store
from palimpsest.store.web_pages import web_pages
from palimpsest.store.working_copy import STATE, WorkingCopy
from tests.small_corpus import write_notes
from tests.sources.crawl.local_site import html, serve
from tests.store.remote.conftest import Killed, kill

FILES = (
    *(f"{folder}/a.parquet" for folder in ("builds/000001", "log/chats/texts", "embeddings/space")),
    "inbox/chats/a.turns.jsonl",
)


@pytest.fixture
def home(url: str) -> Home:
    """The copy of a home with a few files that are in the bucket."""
    home = Home(local_home(url))
    with home.lock():
        for name in FILES:
            (home.path / name).parent.mkdir(parents=True, exist_ok=True)
            (home.path / name).write_text(f"content of {name}")
    return home


def clean(home: Home) -> None:
    shutil.rmtree(home.path / "builds")
    for name in FILES[1:]:
        (home.path / name).unlink()


def truncate(home: Home) -> None:
    for name in FILES[:3]:
        (home.path / name).write_text("")


@pytest.mark.parametrize("damage", [clean, truncate])
def test_what_was_cleaned_or_damaged_in_a_cache_folder_is_read_again_and_never_published(damage, home, url, elsewhere):
    damage(home)
    assert local_home(url) == home.path and is_whole(home), "by a reader"
    damage(home)
    with home.lock():
        (home.path / "new").write_text("work")
    assert is_whole(home) and is_whole(other := elsewhere()), "by a writer"
    assert (other.path / "new").read_text() == "work"


def is_whole(home: Home) -> bool:
    return all((home.path / name).read_text() == f"content of {name}" for name in FILES)


def test_answers_that_a_reader_paid_for_are_no_damage(home, url, elsewhere):
    with home.lock():
        home.lm_ledger.write_text("1")
    home.lm_ledger.write_text("1, 2")
    local_home(url)
    with home.lock():
        pass
    assert home.lm_ledger.read_text() == elsewhere().lm_ledger.read_text() == "1, 2"


def test_a_writer_that_was_stopped_goes_on_from_what_it_removed(home, elsewhere, monkeypatch):
    part = "embeddings/space/a.parquet"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(WorkingCopy, "push", kill)
        with home.lock():
            (home.path / part).unlink()
    with home.lock():
        assert not (home.path / part).exists()
    assert not (elsewhere().path / part).exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"files": {"a": [1]}}', '{"url": "s3://b/c", "files": {"a": [1]}}'])
def test_a_damaged_state_of_a_copy_is_one_line(text, home, url):
    (home.path / STATE).write_text(text)
    with pytest.raises(DamagedFile, match=f"remove the folder {home.path}, which is read again"):
        local_home(url)


def test_a_second_process_waits_for_the_first_copy(home, elsewhere, tmp_path, monkeypatch, url):
    inside, go_on, pull = threading.Event(), threading.Event(), WorkingCopy.pull

    def slow(copy: WorkingCopy) -> bool:
        if threading.current_thread() is first:
            inside.set()
            go_on.wait(30)
        return pull(copy)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new-machine"))
    monkeypatch.setattr(WorkingCopy, "pull", slow)
    first = threading.Thread(target=local_home, args=(url,))
    first.start()
    assert inside.wait(30)
    threading.Timer(0.3, go_on.set).start()
    second = local_home(url)
    assert (second / "embeddings/space/a.parquet").exists(), "it was read before it was there"
    first.join()


def test_pages_that_were_read_are_written_before_the_command_ends_and_are_not_lost(home, elsewhere, monkeypatch):
    monkeypatch.setenv(VARIABLE, "127.0.0.1")
    with serve({"/a": html("Pump", "The pump of the harbour is tested on Fridays.")}) as site:
        ingest_url(home, f"{site.url}/a")
    other = elsewhere()
    assert len(list(web_pages(other.web, "web"))) == 1
    with other.lock():
        (other.path / "new").write_text("1")
    with home.lock():
        assert len(list(web_pages(home.web, "web"))) == 1


def test_the_first_texts_of_two_machines_are_of_one_collection_that_both_find_and_dagster_sees(elsewhere):
    first, second = elsewhere(1), elsewhere(2)
    elsewhere(1)
    one = ingest_text(first, "The spare key hangs behind the clock.", user="ann")
    send_unwritten(first.path)
    two = ingest_text(second, "The blue bike is in the shed.", user="ann")
    send_unwritten(second.path)
    assert len(list(first.inbox.glob("inbox/*.turns.jsonl"))) == 1
    assert len(list(HomeResource(path=str(first.path)).home().inbox.glob("inbox/*.turns.jsonl"))) == 2, "by a sensor"
    shutil.rmtree(first.path)
    third = elsewhere(3)
    assert one.collection == two.collection == "inbox"
    assert third.folder_of("inbox") == third.path.resolve() / "collections/inbox"
    assert len(list(third.inbox.glob("inbox/*.turns.jsonl"))) == 2


def test_a_first_text_joins_the_collection_that_another_machine_made_meanwhile(elsewhere):
    first, second = elsewhere(1), elsewhere(2)
    with first.lock():
        folder = write_notes(first.path / "collections", {}, user_id="ann") / "notes"
        first.remember_sources({"notes": folder})
    assert ingest_text(second, "The blue bike is in the shed.", user="ann").collection == "notes"


def test_the_result_of_a_delete_stays_where_the_service_was_asked(home, elsewhere):
    deletions, operation = Operations(home), "0" * 32
    deletions._write(operation, {"state": "deleted", "user": _hash("ann")})
    before = deletions.status(operation, "ann")
    other = elsewhere()
    with other.lock():
        (other.path / "new").write_text("1")
    with home.lock():
        pass
    assert (home.path / "new").exists() and deletions.status(operation, "ann") == before is not None
    assert not any("deletions" in p.parts for p in other.path.rglob("*"))


def test_what_a_delete_removed_from_reads_alone_is_removed_from_the_bucket(home, url, bucket, s3):
    with home.lock():
        (home.path / "usage").mkdir()
        (home.path / "usage/reads.jsonl").write_text("zqread\n")
        (home.path / "new").write_text("1")
    with home.lock():
        (home.path / "usage/reads.jsonl").write_text("")
        erase_from_store(home.path)
        store = open_store(url)
        assert not any(b"zqread" in store.read(key).data for key in store.list("objects"))


def test_a_url_is_no_folder_of_a_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for url in ("s3://bucket/prefix", "S3://bucket/prefix", "abfs://box/prefix"):
        with pytest.raises(PalimpsestError, match=r"a URL is no folder; in Python, pass local_home\(URL\)"):
            Home(Path(url)).create()
    for url in ("S3://bucket/x", "s3a://bucket/x", "gcs://bucket/x", "https://a:zqsecret@host/x?key=zqsecret"):
        with pytest.raises(PalimpsestError, match="write a folder, s3://") as raised:
            local_home(url)
        assert "zqsecret" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_service_looks_again_after_an_error_of_any_kind(home, monkeypatch):
    looks: list[int] = []

    def look(*_: object) -> None:
        looks.append(1)
        if len(looks) == 3:
            raise asyncio.CancelledError
        raise OSError("No space left on device")

    monkeypatch.setattr(StoreSync, "look", look)
    monkeypatch.setattr("palimpsest.serve.app.SYNC_S", 0.01)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(StoreSync(home.path).run())
    assert len(looks) == 3


def test_a_damaged_ledger_does_not_keep_texts_from_the_bucket_and_commands_name_the_url(home, elsewhere, url):
    with home.lock():
        home.lm_ledger.write_bytes(b"no database" * 1000)
    ingest_text(home, "The blue bike is in the shed.", user="ann")
    send_unwritten(home.path)
    assert list(elsewhere().inbox.glob("inbox/*.turns.jsonl"))
    assert home_option(home) == f" --home {url}"
