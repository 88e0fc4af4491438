"""Each kind of file of a home, cut off, changed or missing: it is named, and repaired in one line, or is lost."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.pipeline.repair_builds import repair_older
from palimpsest.pipeline.repair_home import find_damage, repair_history, repair_home
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.builds import count_decisions_again, published
from palimpsest.store.decisions import append_decisions
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from palimpsest_eval.runs.judge_build import verify_home
from tests.small_corpus import build_twice, copy_built

DATABASES = ("history/runs.db", "history/runs/index.db", "schedules/schedules.db")


@pytest.fixture(scope="module")
def made(tmp_path_factory, shared_vectors) -> Path:
    """A home with every kind of file; what a text of it is about is said in other tests."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "corpus" / "chats").mkdir(parents=True)
    questions = """- {id: deadline, question: "When is the deadline of Heron?", k: 2}\n"""
    (folder / "corpus" / "chats" / "questions.yaml").write_text(questions)
    home = Home(build_twice(folder, shared_vectors) / "home")
    home.remember_sources(make_plan(home, [folder / "corpus"]).collections)
    append_decisions(home.decisions, "tombstone", ["0123456789abcdef", "fedcba9876543210"])
    # A text that has its vectors already, so that no model is loaded.
    ingest_text(home.path, "The harbour has two cranes.", user="ann", collection="notes")
    run_without_dagster(home, make_plan(home, [folder / "corpus"]))
    (published(home).path / "report.html").write_text("<p>two memories</p>")
    _make_databases(home)
    count_decisions_again(home)
    assert not find_damage(home)
    return folder


def _make_databases(home: Home) -> None:
    for path in (home.lm_ledger, *(home.dagster / name for name in DATABASES)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE answers (answer TEXT)")
            db.executemany("INSERT INTO answers VALUES (?)", [(f"{n:0400}",) for n in range(40)])
            db.execute("CREATE TABLE alembic_version (version_num TEXT)")
            db.execute("INSERT INTO alembic_version VALUES ('29b539ebc72a')")
            db.commit()


@pytest.fixture
def home(made, tmp_path) -> Home:
    return copy_built(made, tmp_path)[0]


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip(path: Path) -> None:
    """As a disk does: neither size nor time say so."""
    stat = path.stat()
    data = bytearray(path.read_bytes())
    # A database has no checksums: what it notices is a change of how its pages are made.
    data[100 if path.suffix in (".db", ".sqlite") else len(data) // 4] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _remove(path: Path) -> None:
    path.unlink()


DAMAGES = pytest.mark.parametrize(
    "damage", [pytest.param(_cut, marks=pytest.mark.slow), _flip, pytest.param(_remove, marks=pytest.mark.slow)]
)
BUILD = "builds/000003/"
REPAIRED = {
    "published.json": "published.json was damaged; readers see build 000003",
    BUILD + "manifest.json": "it is written again from the tables",
    BUILD + "index.duckdb": "it is written again from the tables",
    BUILD + "standing.json": "its questions are answered again",
    BUILD + "report.html": "is removed; the next build writes its own",
    BUILD + "notes/chunks.json": "it is written again from the manifest",
    BUILD + "notes/memories.parquet": "it is made again from the record",
    BUILD + "notes/documents.parquet": "it is made again from the record",
    BUILD + "notes/versions.parquet": "it is made again from the record",
    BUILD + "notes/rejects.parquet": "another build has it",
    BUILD + "chats/relations.parquet": "another build has it",
    "builds/000001/index.duckdb": "removed, for index.duckdb is damaged",
    "builds/000001/manifest.json": "removed, for manifest.json is damaged",
    "builds/000002/chats/memories.parquet": "another build has it",
    "log/notes/versions.parquet": "it is made again from its copy",
    "log/notes/texts/TEXT.extracted": "the text of b.md was damaged; it is read again",
}
HIDDEN = ("builds/000001/manifest.json", "log/notes/versions.parquet")  # by other damage
UNNOTICED = {  # where they are missing: nothing is lost with them
    "home.json": "the folders of collections are those of --corpus",
    "format.json": "format.json was damaged; it is written again",
    "log/notes/versions.copy.parquet": "it is made again from its copy",
    "log/notes/deleted.json": "what it says is found out again",
    "log/notes/stored_by.json": "what it says is found out again",
    "inbox/notes/TURNS.jsonl": "was damaged and is removed; the log has its text",
    "embeddings/MODEL/PART.parquet": "their texts are embedded again",
}
LOST = {
    "decisions.jsonl": "what was undone, confirmed or deleted by it would come back",
    "lm-ledger.sqlite": "its answers were paid",
}


def _path(home: Home, name: str) -> Path:
    if name.endswith("TEXT.extracted"):
        log = IngestLog(home.log / "notes")
        return log.text_path(log.current().filter(uri="b.md")["text_key"][0])
    if name.endswith("TURNS.jsonl"):
        return next(home.inbox.glob("notes/*.jsonl"))
    return next(home.embeddings.rglob("*.parquet")) if name.startswith("embeddings") else home.path / name


def _repair(home: Home, allow_lost: bool = False) -> list[str]:
    return repair_home(home, [home.path.parent / "corpus"], allow_lost, read_all=True).lines


@DAMAGES
@pytest.mark.parametrize("name", [*REPAIRED, *UNNOTICED])
def test_a_damaged_file_is_named_and_repaired_in_one_line(home, name: str, damage: Callable[[Path], None]) -> None:
    path, line = _path(home, name), (REPAIRED | UNNOTICED)[name]
    damage(path)
    if damage is _remove and name in UNNOTICED:
        assert find_damage(home) == _repair(home) == []
        return
    if name == "published.json":
        with pytest.raises(PalimpsestError, match=r"run palimpsest build"):
            verify_home(home)
    else:
        assert find_damage(home) == [str(path.relative_to(home.path))]
    (shown,) = _repair(home)
    assert line in shown
    needs_build = "made again from the record" in line or "read again" in line or "embedded again" in line
    assert needs_build or find_damage(home) == []
    assert needs_build or _repair(home) == []


@DAMAGES
@pytest.mark.parametrize("name", LOST)
def test_what_nothing_else_says_is_given_up_only_with_allow_lost(
    home, name: str, damage: Callable[[Path], None]
) -> None:
    damage(home.path / name)
    if damage is _remove and name == "lm-ledger.sqlite":
        assert find_damage(home) == _repair(home) == []  # nothing of a build needs its answers again
        return
    assert find_damage(home) == [name]
    with pytest.raises(PalimpsestError, match=LOST[name]) as error:
        _repair(home)
    assert "restore a backup" in str(error.value) and "--allow-lost" in str(error.value)
    (shown,) = _repair(home, allow_lost=True)
    assert name in shown
    assert find_damage(home) == _repair(home) == []


@DAMAGES
def test_a_damaged_database_of_dagster_is_put_aside(home, damage: Callable[[Path], None]) -> None:
    for number, name in enumerate(DATABASES):
        damage(home.dagster / name)
        if damage is _remove:
            assert repair_history(home) == find_damage(home) == []
            continue
        assert find_damage(home) == [f"dagster/{name}"]
        (shown,) = repair_history(home)
        assert f"Dagster's {name} was damaged" in shown and (home.dagster / f"{name}.damaged-1").exists(), number
        assert repair_history(home) == find_damage(home) == []


def test_a_database_of_dagster_that_a_full_disk_kept_from_being_made_is_put_aside(home) -> None:
    path = home.dagster / "history/runs/index.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE alembic_version")
        db.commit()
    (shown,) = repair_history(home)
    assert "index.db was damaged" in shown and not path.exists()
    assert repair_history(home) == []


def test_a_file_that_changed_since_the_build_is_noticed_without_reading_all(home) -> None:
    names = [n for n in (*REPAIRED, *UNNOTICED) if not n.startswith((BUILD, "published")) and n not in HIDDEN]
    for path in [_path(home, name) for name in names]:
        _cut(path)
    repairs = repair_home(home, [home.path.parent / "corpus"])
    repairs.add(repair_older(home))  # as a build does last, where the damaged vectors are those of this home
    shown = "\n".join(repairs.lines)
    assert [name for name in names if (REPAIRED | UNNOTICED)[name] not in shown] == []


def test_a_copy_of_a_home_with_other_times_is_whole(made, tmp_path) -> None:
    shutil.copytree(made / "home", tmp_path / "home", copy_function=shutil.copyfile)
    assert find_damage(Home(tmp_path / "home")) == _repair_copy(tmp_path / "home", made / "corpus") == []


def _repair_copy(home: Path, corpus: Path) -> list[str]:
    return repair_home(Home(home), [corpus]).lines
