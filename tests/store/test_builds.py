import subprocess
import sys

import polars as pl
import pytest

from palimpsest.store.builds import KEPT_BUILDS, Build, kept_builds, publish, published, staged, sweep
from palimpsest.store.decisions import Decisions, tombstone
from palimpsest.store.home import Home
from palimpsest.store.manifest import BuildManifest
from palimpsest.store.tables import SCHEMAS, conform, description, empty


@pytest.fixture
def home(tmp_path):
    made = Home(tmp_path / "home")
    made.create()
    return made


def finish(build: Build, reason: str) -> None:
    build.write_table("c", "rejects", pl.DataFrame([{"uri": "u", "stage": "read", "reason": reason}]))
    build.write_manifest(BuildManifest(digest=reason))


def test_the_pointer_moves_to_the_staged_build_five_are_kept_and_a_stopped_removal_leaves_no_half(home, monkeypatch):
    assert published(home) is None
    for i in range(KEPT_BUILDS + 2):
        finish(staged(home), str(i))
        publish(home, staged(home))
    assert published(home).build_id == "000007"
    assert [b.build_id for b in kept_builds(home)] == [f"{i:06d}" for i in range(3, 8)]
    assert published(home).table("c", "rejects")["reason"].to_list() == ["6"]
    finish(staged(home), "last")
    monkeypatch.setattr("shutil.rmtree", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        publish(home, staged(home))
    monkeypatch.undo()
    assert [b.build_id for b in kept_builds(home)] == [f"{i:06d}" for i in range(4, 9)]
    sweep(home)
    assert sorted(p.name for p in home.builds.iterdir()) == [b.build_id for b in kept_builds(home)]


def test_an_adopted_collection_shares_its_files_and_outlives_the_build_it_came_from(home):
    old, new = Build(home.builds / "000001"), Build(home.builds / "000002")
    finish(old, "kept")
    new.adopt(old, "c")
    assert new.table_path("c", "rejects").samefile(old.table_path("c", "rejects"))
    old.write_table("c", "rejects", empty("rejects"))
    assert new.table("c", "rejects")["reason"].to_list() == ["kept"]


def test_a_table_has_exactly_its_columns():
    frame = conform("rejects", pl.DataFrame({"reason": ["r"], "uri": ["u"]}))
    assert frame.columns == ["collection", "uri", "stage", "reason", "is_kept"]
    with pytest.raises(ValueError, match="unknown columns"):
        conform("rejects", pl.DataFrame({"why": ["r"]}))


def test_a_second_writer_is_turned_away_with_one_line_and_a_home_is_private_to_its_owner(home):
    code = (
        "import sys, pathlib\n"
        "from palimpsest.store.home import Home; from palimpsest.core.errors import PalimpsestError\n"
        "try:\n  Home(pathlib.Path(sys.argv[1])).lock().__enter__(); print('got it')\n"
        "except PalimpsestError as e: print(e)"
    )

    def other() -> str:
        command = [sys.executable, "-c", code, home.path]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with home.lock(), home.lock():
        assert "another build is writing it" in other()
    assert other() == "got it"
    assert home.path.stat().st_mode & 0o077 == 0


def test_every_column_of_every_table_is_described_in_one_sentence():
    for table, columns in SCHEMAS.items():
        missing = [c for c in columns if not description(table, c)]
        assert not missing, f"{table}: describe {', '.join(missing)} in palimpsest/store/tables.py"
        assert all(description(table, c).endswith(".") for c in columns)


def test_what_was_attached_to_a_deleted_document_is_deleted_too() -> None:
    def hides(deleted: str, uri: str, session: str | None = None) -> bool:
        decisions = Decisions(tombstones=frozenset([tombstone("document", "notes", deleted)]))
        return decisions.hides_document("notes", "ana", uri, session, None)

    assert hides("a.json#s1", "a.json", "s1") and hides("a.json#s1", "a.json#s1#plan.txt", "s1")
    assert hides("a.eml#b.eml", "a.eml#b.eml#c.txt")
    assert not hides("a.json#s1", "a.json#s10#plan.txt", "s10") and not hides("a.json#s1", "a.json", "s10")
