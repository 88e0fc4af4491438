"""A document in several collections: embedded once, apart in everything else."""

from pathlib import Path

import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query.reader import open_home
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.small_corpus import write_notes

LEAVE = "Everybody has thirty days of leave."
KEYS = "The keys hang behind the clock."


def build(home: Home, corpus: Path) -> None:
    run_without_dagster(home, make_plan(home, [corpus]))


@pytest.fixture
def corpus(tmp_path) -> Path:
    write_notes(tmp_path / "corpus", {"policies/leave.md": LEAVE, "keys.txt": KEYS}, "handbook", unit="statement")
    return tmp_path / "corpus"


def add_including(corpus: Path, include: str = "{handbook: [policies/*]}") -> None:
    write_notes(
        corpus, {"hello.txt": "Welcome to all."}, "onboarding", unit="statement", include=include, user_id="new"
    )


def texts(home: Home, collection: str) -> list[str]:
    build = published(home)
    latest = build.table(collection, "versions").filter("is_latest")
    return sorted(build.table(collection, "memories").join(latest, on="memory_id", how="semi")["text"])


def test_an_included_document_is_not_embedded_again_and_has_its_own_memories(tmp_path, corpus):
    home = Home(tmp_path / "home")
    build(home, corpus)
    assert published(home).manifest.stages["handbook"]["embeddings"].work.embeddings == 2
    add_including(corpus)
    build(home, corpus)
    record = published(home).manifest.stages["onboarding"]["embeddings"]
    assert record.work.embeddings == 1 and record.numbers["reused"] == 1  # its own text alone
    assert texts(home, "onboarding") == [LEAVE, "Welcome to all."]
    tables = [published(home).table(c, "memories").filter(pl.col("text") == LEAVE) for c in ("handbook", "onboarding")]
    assert tables[0]["memory_id"][0] != tables[1]["memory_id"][0]
    assert tables[1].row(0, named=True)["provenance"] == "handbook/policies/leave.md"
    assert [t["user_id"][0] for t in tables] == ["shared", "new"]
    with open_home(home.path) as reader:
        for collection, user, other in (("onboarding", "new", KEYS), ("handbook", "shared", "Welcome to all.")):
            found = reader.search("keys welcome leave", reader.resolve_scopes(collection, user), k=10).memories
            assert {m.collection for m in found} == {collection} and other not in [m.text for m in found]
    assert make_plan(home, [corpus]).nothing_to_do


@pytest.mark.slow
def test_an_edit_changes_both_and_a_delete_one(tmp_path, corpus):
    home = Home(tmp_path / "home")
    add_including(corpus)
    build(home, corpus)
    (corpus / "handbook" / "policies" / "leave.md").write_text(LEAVE.replace("thirty", "forty"))
    assert make_plan(home, [corpus]).changed == ("handbook", "onboarding")
    build(home, corpus)
    assert all(LEAVE.replace("thirty", "forty") in texts(home, c) for c in ("handbook", "onboarding"))
    delete(home, document="handbook/policies/leave.md", collection="onboarding")
    build(home, corpus)
    assert texts(home, "onboarding") == ["Welcome to all."]
    assert LEAVE.replace("thirty", "forty") in texts(home, "handbook")


@pytest.mark.parametrize(
    ("include", "message"),
    [
        ("{nothing: ['*']}", "no collection 'nothing' is beside this one, only handbook"),
        ("{handbook: ['*.pdf']}", "no source of handbook matches"),
        ("{handbook: ['../x']}", "is no pattern"),
        ("{handbook: []}", "names no file"),
        ("{onboarding: ['*']}", "no collection 'onboarding'"),
        ("handbook", "include"),
    ],
)
def test_a_wrong_include_is_one_line(tmp_path, corpus, include, message):
    add_including(corpus, include)
    with pytest.raises(PalimpsestError, match=message) as e:
        make_plan(Home(tmp_path / "home"), [corpus], ["onboarding"])
    assert "\n" not in str(e.value)


def test_two_sources_with_one_uri_and_links_out_are_refused(tmp_path, corpus, shared_vectors):
    add_including(corpus)
    outside = tmp_path / "secret.txt"
    outside.write_text("The code is quixotic.")
    (corpus / "handbook" / "policies" / "out.txt").symlink_to(outside)
    home = Home(tmp_path / "home", shared_vectors)
    build(home, corpus)
    assert "The code is quixotic." not in texts(home, "onboarding")
    own = corpus / "onboarding" / "handbook" / "policies"
    own.mkdir(parents=True)
    (own / "leave.md").write_text("Mine.")
    with pytest.raises(PalimpsestError, match="is a source here already"):
        make_plan(home, [corpus], ["onboarding"])
