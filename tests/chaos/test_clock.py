"""A clock that is set back and forward between builds, deletes, retention and consolidation: nothing is lost for it."""

import multiprocessing
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from palimpsest.pipeline.finish import digest, run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.pipeline.stages import indexed_tables
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home
from palimpsest.store.proposals import read_proposals
from palimpsest_eval.runs.judge_build import verify_home
from tests.chaos import child
from tests.small_corpus import write_chats, write_notes
from tests.word_embedder import WordEmbedder

pytestmark = pytest.mark.slow
BACK, AHEAD = -3650, 3650
ORDERS = [(0, BACK, AHEAD, BACK), (BACK, 0, BACK, AHEAD), (AHEAD, BACK, 0, 0)]


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palimpsest.memories.embed.load_embedder", WordEmbedder)


def run_at(days: float, work: Callable[..., object], *arguments: object) -> None:
    """Works in a process of its own under another clock."""
    process = multiprocessing.get_context("spawn").Process(target=child.at, args=(days, work, *arguments))
    process.start()
    process.join(120)
    assert process.exitcode == 0, (days, work.__name__)


def built_at(days: float, home: Home, corpus: Path) -> Build:
    run_at(days, child.build, home.path, corpus)
    build = published(home)
    assert build is not None and not verify_home(home).violations
    return build


def latest(build: Build) -> set[str]:
    tables = build.tables(["memories", "versions"])
    return set(tables["memories"].join(tables["versions"].filter("is_latest"), on="memory_id", how="semi")["text"])


@pytest.mark.parametrize("days", ORDERS)
def test_edits_deletes_and_consolidation_under_a_jumping_clock(tmp_path, days):
    home, corpus = Home(tmp_path / "home"), write_chats(tmp_path / "corpus")
    texts = [f"The bridge is {40 + n} metres long.\n" for n in range(4)]
    for n, day in enumerate(days):
        build = built_at(day, home, write_notes(corpus, {"a.md": texts[n], f"b{n}.md": f"Cat number {n}.\n"}))
        assert build.build_id == f"{n + 1:06}"
        assert texts[n].strip() in latest(build) and {f"Cat number {k}." for k in range(n + 1)} <= latest(build)
        stored = set(build.tables(["memories"])["memories"]["text"])
        assert {t.strip() for t in texts[: n + 1]} <= stored  # what was edited stays as history
        assert not {t.strip() for t in texts[:n]} & latest(build)
        before = set(read_proposals(home.path))
        run_at(days[-1 - n], child.find_proposals, home.path)
        assert before <= set(read_proposals(home.path))
    run_at(days[1], child.remove, home.path, "bob")
    build = built_at(days[0], home, corpus)
    left = set(build.tables(["memories"])["memories"]["text"])
    assert "My locker code is quixotic-77." not in left and {t.strip() for t in texts} <= left
    assert make_plan(home, [corpus]).nothing_to_do


def test_what_is_not_past_its_retention_survives_a_clock_that_is_set_back_and_what_is_past_it_goes_once(tmp_path):
    home = Home(tmp_path / "home")
    corpus = write_notes(tmp_path / "corpus", {"a.md": "The bridge is long.\n"}, retention_days="30")
    write_chats(corpus)
    for day in (0, BACK, 29):
        assert "The bridge is long." in latest(built_at(day, home, corpus)), day
    gone = built_at(31, home, corpus)
    assert "The bridge is long." not in set(gone.tables(["memories"])["memories"]["text"])
    assert "I prefer tea in the morning." in latest(gone)
    for day in (32, AHEAD):
        assert "The bridge is long." not in latest(built_at(day, home, corpus)), day


def test_a_home_built_under_a_jumping_clock_is_that_of_its_log(tmp_path):
    home, corpus = Home(tmp_path / "home"), write_chats(tmp_path / "corpus")
    for n, day in enumerate((AHEAD, BACK, 0)):
        built_at(day, home, write_notes(corpus, {"a.md": f"The bridge is {40 + n} metres long.\n"}))
    fresh = Home(tmp_path / "fresh")
    fresh.create()
    shutil.copytree(home.log, fresh.log, dirs_exist_ok=True)
    build = published(home)
    assert build is not None
    scratch = run_without_dagster(fresh, make_plan(fresh, [corpus]))
    assert digest(build.tables(indexed_tables())) == digest(scratch.tables(indexed_tables()))
