"""A damaged file of a home is named, with the fix; nothing is read from it as if all were well."""

import json

import polars as pl
import pytest

from palimpsest.core.errors import DamagedFile, PalimpsestError
from palimpsest.query.reader import open_home
from palimpsest.relations.relation_review import current_build
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home
from palimpsest.store.manifest import BuildManifest
from palimpsest_eval.runs.judge_build import compare_builds, find_violations


@pytest.fixture
def home(tmp_path) -> Home:
    made = Home(tmp_path / "home")
    made.create()
    build = Build(made.builds / "000001")
    build.write_table("notes", "rejects", pl.DataFrame({"uri": ["a"], "stage": ["read"], "reason": ["empty"]}))
    build.write_manifest(BuildManifest(build_id="000001"))
    (made.path / "published.json").write_text('{"build": "000001"}')
    return made


@pytest.mark.parametrize(
    "pointer", ["[]", "{", "null", '{"x": 1}', '{"build": 1}', '{"build": "../../x"}', "[" * 100_000, '{"build": ""}']
)
def test_a_damaged_pointer_to_the_published_build_is_the_same_error_everywhere(home, pointer: str) -> None:
    (home.path / "published.json").write_text(pointer)
    for read in (published, current_build, lambda h: open_home(h.path)):
        with pytest.raises(PalimpsestError, match=r"published\.json is damaged; run palimpsest build") as e:
            read(home)
        assert e.value.exit_code == 2


def test_a_pointer_to_a_build_that_is_not_there_and_a_truncated_table_are_named(home) -> None:
    build = Build(home.builds / "000001")
    build.write_table("notes", "memories", pl.DataFrame(schema={}))
    path = build.table_path("notes", "memories")
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DamagedFile, match=r"memories\.parquet: damaged; run palimpsest build, which makes it again"):
        build.table("notes", "memories")
    (violation,) = find_violations(home, build)
    assert violation.name == "tables" and "memories.parquet: damaged" in violation.text
    (home.path / "published.json").write_text('{"build": "000009"}')
    with pytest.raises(PalimpsestError, match=r"published\.json names build 000009, which is not there"):
        published(home)


@pytest.mark.parametrize(
    "change", [{"markers": {"notes": {"relations": None}}}, {"settings": []}, {"digest": 1}, {"markers": []}, None]
)
def test_a_damaged_manifest_is_named(home, change: dict[str, object] | None) -> None:
    path = home.builds / "000001" / "manifest.json"
    path.write_text(json.dumps({} if change is None else json.loads(path.read_text()) | change))
    with pytest.raises(DamagedFile, match=r"manifest\.json: damaged; run palimpsest build, which makes it again"):
        _ = Build(path.parent).manifest


@pytest.mark.parametrize("text", ["[1]", '{"collections": []}', '{"collections": {"a": 1}}'])
def test_a_damaged_list_of_sources_is_named(home, text: str) -> None:
    (home.path / "home.json").write_text(text)
    with pytest.raises(DamagedFile, match=r"home\.json: damaged; name the folders of its collections"):
        _ = home.sources


@pytest.mark.parametrize("name", ["../builds/000001", "x" * 5_000, "9" * 5_000, "", "-1", "\0"])
def test_a_build_is_named_by_digits_alone(home, name: str) -> None:
    with pytest.raises(PalimpsestError, match="not kept in home"):
        compare_builds(home, name, "1")
