"""A home on object storage: equal to a local one, one build at a time for readers, and nothing left after a delete."""

import shutil
import threading
from pathlib import Path

import pytest

from palimpsest.core.errors import PalimpsestError, Refused
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.plan import make_plan
from palimpsest.query.reader import open_home
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.builds import published
from palimpsest.store.home import Home, send_unwritten
from palimpsest.store.remote_home import local_home
from palimpsest.store.table_store import open_store
from palimpsest.store.working_copy import STATE
from tests.small_corpus import build_home, write_chats

_IS_WRITING = r"another build is writing it \(process \d+ on \S+\); wait for it"


def build(folder: Path, vectors: Path, corpus: Path) -> Home:
    home = Home(folder, vectors)
    with home.lock():
        home.create()
        build_home(home, corpus)
    return home


def objects(url: str) -> set[str]:
    return set(open_store(url).list())


def test_it_equals_a_local_home_and_a_second_build_does_nothing(url, tmp_path, shared_vectors, monkeypatch):
    corpus = write_chats(tmp_path / "corpus")
    home = build(local_home(url), shared_vectors, corpus)
    local = build(tmp_path / "home", shared_vectors, corpus)
    assert published(home).manifest.digest == published(local).manifest.digest
    before = objects(url)
    with home.lock():
        assert make_plan(home, [corpus]).nothing_to_do
    assert {key for key in objects(url) if not key.endswith(".json")} == {k for k in before if not k.endswith(".json")}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other-machine"))
    with open_home(url) as reader:
        assert "quixotic" in reader.search("What is my locker code?", ("chats", "bob")).context
    other = Home(local_home(url), shared_vectors)
    assert other.path != home.path
    assert make_plan(other, [corpus]).nothing_to_do, "another machine goes on where the first one was"


def test_what_one_machine_sends_another_builds(url, tmp_path, shared_vectors, elsewhere):
    corpus = write_chats(tmp_path / "corpus")
    home = build(local_home(url), shared_vectors, corpus)
    other = elsewhere()
    ingest_text(other, "The spare key hangs behind the clock.", user="ann")
    build(home.path, shared_vectors, corpus)  # writes nothing, since nothing changed there
    send_unwritten(other.path)
    build(home.path, shared_vectors, corpus)
    with open_home(url) as reader:
        assert "behind the clock" in reader.search("Where is the spare key?", ("chats", "ann")).context


def test_an_unsent_text_outlives_a_build_of_another_machine(url, tmp_path, shared_vectors, elsewhere):
    corpus = write_chats(tmp_path / "corpus")
    home = build(local_home(url), shared_vectors, corpus)
    other = elsewhere()
    ingest_text(other, "The spare key hangs behind the clock.", user="ann")
    with home.lock():
        delete(home, user="bob")
    send_unwritten(other.path)
    assert [p.name for p in other.inbox.rglob("*") if p.is_file() and p.suffix != ".lock"]
    assert "quixotic" not in "".join(p.read_text(errors="replace") for p in other.path.rglob("*") if p.is_file())


def test_a_delete_leaves_no_object_version_marker_or_unfinished_upload(
    url, s3, bucket, tmp_path, shared_vectors, monkeypatch
):
    shutil.copytree(shared_vectors, local_home(url) / "embeddings", dirs_exist_ok=True)
    home = build(local_home(url), None, write_chats(tmp_path / "corpus"))
    s3.create_multipart_upload(Bucket=bucket, Key="home/objects/00000001/unfinished")
    for body in (b"1", b"2"):
        s3.put_object(Bucket=bucket, Key="other/a", Body=body)
    with monkeypatch.context() as patch:
        patch.setattr("palimpsest.store.remote_home._S3History.purge", lambda _: 0)
        with pytest.raises(Refused, match="the store of the home still has"):
            delete(home, user="bob")
    assert [*home.path.glob("pending-delete-*")]
    with home.lock():
        done = delete(home, user="bob")
    assert done.memories == 2 and not [*home.path.glob("pending-delete-*")]
    assert done.fields["store"]["versions"] > 0 and "none left" in done.text
    versions = s3.list_object_versions(Bucket=bucket, Prefix="home/")
    assert not versions.get("DeleteMarkers") and "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    found = [{"Bucket": bucket, "Key": v["Key"], "VersionId": v["VersionId"]} for v in versions["Versions"]]
    assert found and not any(b"quixotic" in s3.get_object(**v)["Body"].read() for v in found)
    assert len(s3.list_object_versions(Bucket=bucket, Prefix="other/")["Versions"]) == 2, "not of this home"


@pytest.mark.parametrize("builds", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_readers_see_one_build_or_the_next_while_others_are_published(
    builds, url, tmp_path, shared_vectors, monkeypatch
):
    corpus = write_chats(tmp_path / "corpus")
    home = build(local_home(url), shared_vectors, corpus)
    turns = corpus / "chats/turns.jsonl"
    text, seen, stop = turns.read_text(), [], threading.Event()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "readers"))

    def read() -> None:
        while not stop.wait(0.05):
            with open_home(url) as reader:
                answer = reader.search("What is my locker code?", ("chats", "bob"), k=1).memories[0]
                seen.append((reader.build_id, answer.text))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for number in range(1, builds + 1):
            turns.write_text(text.replace("quixotic-77", f"quixotic-{number}"))
            build(home.path, shared_vectors, corpus)
    finally:
        stop.set()
        thread.join()
    codes = {"000001": "77", **{f"{n + 1:06d}": str(n) for n in range(1, builds + 1)}}
    assert len({b for b, _ in seen}) > 1
    assert all(f"quixotic-{codes[b]}." in text for b, text in seen)


def test_a_second_builder_is_turned_away_and_a_url_without_a_prefix_too(url, bucket, tmp_path, monkeypatch):
    home = Home(local_home(url))
    with home.lock():
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other-machine"))
        with pytest.raises(PalimpsestError, match=_IS_WRITING), Home(local_home(url)).lock():
            pass
    with Home(local_home(url)).lock():
        pass
    for wrong in (f"s3://{bucket}", "s3://", f"s3://{bucket}//x"):
        with pytest.raises(PalimpsestError, match="name a bucket and a prefix"):
            local_home(wrong)


def test_a_damaged_object_is_named_and_changes_nothing(url, s3, bucket, tmp_path, shared_vectors, monkeypatch):
    build(local_home(url), shared_vectors, write_chats(tmp_path / "corpus"))
    key = next(k for k in sorted(objects(url)) if k.startswith("objects/"))
    s3.put_object(Bucket=bucket, Key=f"home/{key}", Body=b"damaged")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other-machine"))
    with pytest.raises(PalimpsestError, match=f"{key}: not what Palimpsest wrote"):
        local_home(url)
    (copy,) = (tmp_path / "other-machine").rglob(STATE)
    assert not (copy.parent / "published.json").exists()
