"""The gate over a real build: every fault in the code path closes it, and a repeat never does."""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from palimpsest.index.write_index import write_index
from palimpsest.memories.embedders import embedding_store
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.pipeline.stages import indexed_tables
from palimpsest.query.reader import open_index
from palimpsest.store.builds import Build
from palimpsest.store.home import Home
from palimpsest_eval.gate.baseline import Baseline, accept_baseline, load_baseline
from palimpsest_eval.gate.decide import decide
from palimpsest_eval.gate.verdict import CollectionVerdict
from palimpsest_eval.golden.golden_run import GoldenRun
from palimpsest_eval.golden.questions import GoldenSet, Question, load_golden
from palimpsest_eval.golden.score_golden import run_golden
from tests.eval.home import ticking
from tests.eval.mutations import HARMLESS, MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Judge:
    """A build of one collection with its questions and the baseline that its own first run was accepted as."""

    home: Home
    build: Build
    name: str
    questions: list[Question]
    tables: dict[str, pl.DataFrame]
    baseline: Baseline | None = None

    def run(self, index: Path | None = None, few: int | None = None, clock=None) -> GoldenRun:
        own = {
            n: t.filter(pl.col("collection") == self.name) if "collection" in t.columns else t
            for n, t in self.tables.items()
        }
        user = self.build.manifest.default_user(self.name)
        with open_index(index or self.build.index) as reader:
            return run_golden(
                reader, GoldenSet(self.name, tuple(self.questions[:few]), user), own, clock=clock or ticking(0.001)
            )

    def verdict(self, index: Path | None = None, few: int | None = None, clock=None) -> CollectionVerdict:
        return decide(self.run(index, few, clock), self.baseline, True)

    def reindex(self, path: Path, mutation: Mutation | None = None) -> Path:
        tables, lookup = self.build.tables(indexed_tables()), embedding_store(self.home).vectors
        if mutation and mutation.index:
            tables, lookup = mutation.index(tables, lookup)
        settings = self.build.manifest.settings | {"build_id": self.build.build_id}
        if mutation and mutation.weights:
            settings |= {"weights": {self.name: dict(mutation.weights)}}
        write_index(tables, lookup, path, settings)
        return path


def judge_of(base: Path, vectors: Path, name: str) -> Judge:
    shutil.copytree(ROOT / "data/corpora" / name, base / "corpus" / name)
    home = Home(base / "home", vectors)
    build = run_without_dagster(home, make_plan(home, [base / "corpus"]))
    questions = load_golden(ROOT / f"data/golden/{name}.jsonl")
    judge = Judge(home, build, name, questions, build.tables(indexed_tables()))
    judge.baseline = accept_baseline(judge.run(), base / "baseline.json", "the code as it is", who="test")
    return judge


def verdict_on(judge: Judge, mutation: Mutation, folder: Path, patch: pytest.MonkeyPatch) -> CollectionVerdict:
    index = judge.reindex(folder / "index.duckdb", mutation) if mutation.index or mutation.weights else None
    mutation.path(patch)
    clock = time.perf_counter if mutation.few else None
    return judge.verdict(index, mutation.few, clock)


def assert_caught(judge: Judge, mutation: Mutation, folder: Path, patch: pytest.MonkeyPatch) -> None:
    got = verdict_on(judge, mutation, folder, patch)
    assert got.status == "failed", mutation.name
    assert any(mutation.expected in r for r in got.reasons), got.reasons


@pytest.fixture(scope="module")
def diary(tmp_path_factory, shared_vectors) -> Judge:
    """The demo's diary: 200 memories of three users; every home of the run shares its vectors."""
    return judge_of(tmp_path_factory.mktemp("diary"), shared_vectors, "diary")


@pytest.fixture(scope="module")
def atlas(tmp_path_factory, shared_vectors) -> Judge:
    return judge_of(tmp_path_factory.mktemp("atlas"), shared_vectors, "atlas")


@pytest.fixture(scope="module")
def lexicon(tmp_path_factory, shared_vectors) -> Judge:
    return judge_of(tmp_path_factory.mktemp("lexicon"), shared_vectors, "lexicon")


@pytest.fixture(scope="module")
def household(tmp_path_factory, shared_vectors) -> Judge:
    return judge_of(tmp_path_factory.mktemp("household"), shared_vectors, "household")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["diary", "atlas", "lexicon", "household"])
def test_the_committed_baseline_does_not_lie_behind_what_the_code_gives(name, request):
    judge = request.getfixturevalue(name)
    assert judge.baseline is not None and judge.baseline.per_query
    accepted = load_baseline(ROOT / f"data/baselines/{name}.json")
    assert decide(judge.run(), accepted, True).lagging == [], "palimpsest baseline accept, on a home of the demo"


def test_twenty_faults_and_ten_harmless_changes_are_tried():
    assert len({m.name for m in MUTATIONS}) == len(MUTATIONS) >= 20
    assert len({m.name for m in HARMLESS}) == len(HARMLESS) >= 10


# tests/eval/test_mutations.py tries one of each kind by default.
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
@pytest.mark.slow
def test_a_fault_closes_the_gate(diary, mutation, tmp_path, monkeypatch):
    assert_caught(diary, mutation, tmp_path, monkeypatch)


# A corpus of one collection has no foreign documents to add; `measure_gate` adds them to a whole home.
ALONE = ("add foreign documents", "a busy machine", "pause now and then")


@pytest.mark.slow
@pytest.mark.parametrize("mutation", [m for m in HARMLESS if m.name not in ALONE], ids=lambda m: m.name)
def test_a_harmless_change_does_not_close_the_gate(diary, mutation, tmp_path, monkeypatch):
    assert verdict_on(diary, mutation, tmp_path, monkeypatch).reasons == ()


def assert_quiet(judge: Judge, folder: Path, times: int) -> None:
    for number in range(times):
        got = judge.verdict(judge.reindex(folder / f"{number}.duckdb"))
        assert (got.status, got.reasons, got.broken) == ("passed", (), ())
        assert got.smallest_loss is not None and got.smallest_loss <= 0.04


@pytest.mark.slow
def test_two_repeats_with_a_rebuilt_index_raise_no_alarm(diary, tmp_path):
    assert_quiet(diary, tmp_path, 2)


@pytest.mark.slow
def test_twenty_repeats_on_the_demo_raise_no_alarm(diary, atlas, lexicon, tmp_path):
    for judge in (diary, atlas, lexicon):
        (tmp_path / judge.name).mkdir()
        assert_quiet(judge, tmp_path / judge.name, 20)


ONE_USER = ("ignore scope", "swap two users")  # atlas has one: there is nobody to leak to


@pytest.mark.slow
@pytest.mark.parametrize("mutation", [m for m in MUTATIONS if m.name not in ONE_USER], ids=lambda m: m.name)
def test_a_fault_on_the_demos_other_collection_closes_the_gate(atlas, mutation, tmp_path, monkeypatch):
    assert_caught(atlas, mutation, tmp_path, monkeypatch)


# Nothing in the lexicon changes: nothing is outdated there. Its pages are found by names and words without a vector.
NOT_ON_PAGES = (
    *ONE_USER, "drop is_latest in the query", "drop is_latest in the index", "ignore the day of as_of",
    "embed another question", "forget that half was retired",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mutation", [m for m in MUTATIONS if m.name not in NOT_ON_PAGES], ids=lambda m: m.name)
def test_a_fault_on_pages_that_name_each_other_closes_the_gate(lexicon, mutation, tmp_path, monkeypatch):
    assert_caught(lexicon, mutation, tmp_path, monkeypatch)
