import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.store.builds import KEPT_BUILDS, Build, kept, publish, published, staged, sweep
from palimpsest.store.home import Home
from palimpsest.store.manifest import BuildManifest
from palimpsest.store.tables import conform, empty


@pytest.fixture
def home(tmp_path):
    made = Home(tmp_path / "home")
    made.create()
    return made


def finish(build: Build, reason: str) -> None:
    build.write_table("c", "rejects", pl.DataFrame([{"uri": "u", "stage": "read", "reason": reason}]))
    build.write_manifest(BuildManifest(digest=reason))


def test_the_pointer_moves_to_the_staged_build_and_five_are_kept(home):
    assert published(home) is None
    for i in range(7):
        finish(staged(home), str(i))
        publish(home, staged(home))
    assert published(home).build_id == "000007"
    assert [b.build_id for b in kept(home)] == [f"{i:06d}" for i in range(3, 8)]
    assert published(home).table("c", "rejects")["reason"].to_list() == ["6"]


def test_a_build_whose_removal_is_stopped_is_no_half_of_a_build(home, monkeypatch):
    for n in range(KEPT_BUILDS):
        finish(staged(home), str(n))
        publish(home, staged(home))
    finish(staged(home), "last")
    monkeypatch.setattr("shutil.rmtree", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        publish(home, staged(home))
    monkeypatch.undo()
    assert [b.build_id for b in kept(home)] == ["000002", "000003", "000004", "000005", "000006"]
    sweep(home)
    assert sorted(p.name for p in home.builds.iterdir()) == [b.build_id for b in kept(home)]


def test_an_adopted_collection_shares_its_files_and_outlives_the_build_it_came_from(home):
    old, new = Build(home.builds / "000001"), Build(home.builds / "000002")
    finish(old, "kept")
    new.adopt(old, "c")
    assert new.table_path("c", "rejects").samefile(old.table_path("c", "rejects"))
    old.write_table("c", "rejects", empty("rejects"))
    assert new.table("c", "rejects")["reason"].to_list() == ["kept"]


def test_a_table_has_exactly_its_columns():
    frame = conform("rejects", pl.DataFrame({"reason": ["r"], "uri": ["u"]}))
    assert frame.columns == ["uri", "stage", "reason"]
    with pytest.raises(ValueError, match="unknown columns"):
        conform("rejects", pl.DataFrame({"why": ["r"]}))


def test_a_second_writer_is_turned_away_with_one_line(home):
    import subprocess
    import sys

    code = (
        "import sys, pathlib\n"
        "from palimpsest.store.home import Home; from palimpsest.core.errors import PalimpsestError\n"
        "try:\n  Home(pathlib.Path(sys.argv[1])).lock().__enter__(); print('got it')\n"
        "except PalimpsestError as e: print(e)"
    )
    with home.lock(), home.lock():
        out = subprocess.run([sys.executable, "-c", code, home.path], capture_output=True, text=True, check=True).stdout
        assert "another build is writing it" in out
    out = subprocess.run([sys.executable, "-c", code, home.path], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "got it"
    assert issubclass(PalimpsestError, Exception)


def test_a_home_is_private_to_its_owner(home):
    assert home.path.stat().st_mode & 0o077 == 0
