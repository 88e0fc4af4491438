"""What a machine does to a build: full disk, read-only home, clock set back, sources that change, two at once."""

import ctypes
import multiprocessing
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from palimpsest.pipeline.finish import digest, run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.pipeline.stages import indexed_tables
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home
from tests.chaos import child
from tests.small_corpus import TURNS, write_chats, write_notes
from tests.word_embedder import WordEmbedder

COMMAND = str(Path(sys.executable).with_name("palimpsest"))
ADDED = ("s4", "ann", "Ann", "The deadline of project Heron is now 2 May.", "2026-04-01T09:00:00Z")


@pytest.fixture
def changed(tmp_path: Path, embed_corpus: Callable[[Path, Path], Path]) -> Path:
    """A published build, and one more turn that no build has seen; all vectors are in the home."""
    corpus = write_chats(tmp_path / "corpus", [*TURNS, ADDED])
    home = Home(embed_corpus(tmp_path / "home", corpus))
    write_chats(corpus)
    run_without_dagster(home, make_plan(home, [corpus]))
    write_chats(corpus, [*TURNS, ADDED])
    return tmp_path


def run(folder: Path, prepare: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    arguments = (COMMAND, "build", "--home", folder / "home", "--corpus", folder / "corpus")
    return subprocess.run(arguments, preexec_fn=prepare, capture_output=True, text=True, timeout=300, check=False)


def current(folder: Path) -> Build:
    build = published(Home(folder / "home"))
    assert build is not None
    return build


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("limit", [300, 3_000, 30_000])
def test_a_full_disk_is_one_line_and_the_next_build_ends_as_if_it_had_not_been_full(changed, tmp_path, limit):
    resource = pytest.importorskip("resource")
    whole = shutil.copytree(changed, tmp_path / "whole")
    assert run(whole).returncode in (0, 1)  # 1: no baseline, so that the build is staged
    full = run(changed, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert full.returncode == 3 and "the disk is full" in last_line(full), full.stderr
    assert "damaged" not in full.stderr
    assert current(changed).build_id == "000001"
    for folder in (changed, whole):
        child.build(folder / "home", folder / "corpus")
    assert current(changed).manifest.digest == current(whole).manifest.digest


def _obey_modes() -> None:
    """Takes from a process of root the right to read and write what its mode forbids."""
    drop_from_bounding_set, dac_override, dac_read_search = 24, 1, 2  # prctl(2), capabilities(7)
    for right in (dac_override, dac_read_search):
        ctypes.CDLL(None).prctl(drop_from_bounding_set, right, 0, 0, 0)


@pytest.mark.slow
def test_a_read_only_home_is_one_line_that_says_so(changed):
    for path in (changed, *changed.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    done = run(changed, _obey_modes)
    for path in (changed, *changed.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert done.returncode == 2 and "writable" in last_line(done), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["home", "home/published.json", "home/log", "home/builds/000001/chats/documents.parquet"]
)
def test_what_this_user_may_not_read_is_one_line_and_is_not_repaired_as_if_it_were_damaged(changed, name):
    path, mode = changed / name, (changed / name).stat().st_mode
    before = {p: p.read_bytes() for p in (path, *path.rglob("*")) if p.is_file() and "logs" not in p.parts}
    path.chmod(0)
    done = run(changed, _obey_modes)
    path.chmod(mode)
    assert done.returncode == 2 and "run it as the user who owns the home" in last_line(done), done.stderr
    assert "damaged" not in done.stderr
    assert {p: p.read_bytes() for p in before if p.is_file()} == before and current(changed).build_id == "000001"


@pytest.mark.slow
def test_a_clock_that_is_set_back_changes_nothing_in_a_build(changed, tmp_path):
    whole = shutil.copytree(changed, tmp_path / "whole")
    for folder, target in ((changed, child.build_in_the_past), (whole, child.build)):
        process = multiprocessing.get_context("spawn").Process(target=target, args=(folder / "home", folder / "corpus"))
        process.start()
        process.join()
        assert process.exitcode == 0
    assert current(changed).build_id == current(whole).build_id == "000002"
    assert current(changed).manifest.digest == current(whole).manifest.digest
    home = Home(changed / "home")
    assert make_plan(home, [changed / "corpus"]).nothing_to_do


@pytest.mark.slow
def test_sources_that_change_during_a_build_are_read_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr("palimpsest.memories.embed.load_embedder", WordEmbedder)
    corpus, home, stop = tmp_path / "corpus", Home(tmp_path / "home"), threading.Event()
    notes = {f"{n}.md": f"Note {n} is about topic {n % 7}.\n" for n in range(40)}
    write_notes(corpus, notes)

    def edit() -> None:
        n = 0
        while not stop.wait(0.01):
            (corpus / f"notes/{n % 40}.md").write_text(f"Note {n % 40} was edited {n} times.\n")
            n += 1
        for name, text in notes.items():
            (corpus / "notes" / name).write_text(f"{text}It is final.\n")

    writer = threading.Thread(target=edit)
    writer.start()
    run_without_dagster(home, make_plan(home, [corpus]))
    stop.set()
    writer.join()
    grown = run_without_dagster(home, make_plan(home, [corpus]))
    fresh = Home(tmp_path / "fresh", home.embeddings_path)
    fresh.create()
    shutil.copytree(home.log, fresh.log, dirs_exist_ok=True)
    scratch = run_without_dagster(fresh, make_plan(fresh, [corpus]))
    assert digest(grown.tables(indexed_tables())) == digest(scratch.tables(indexed_tables()))
    latest = grown.tables(["memories", "versions"])
    kept = latest["memories"].join(latest["versions"].filter("is_latest"), on="memory_id", how="semi")
    assert sum("It is final." in text for text in kept["text"]) == len(notes)


@pytest.mark.slow
def test_of_two_builds_at_once_one_waits_or_is_refused_and_the_result_is_that_of_one(changed, tmp_path):
    whole = shutil.copytree(changed, tmp_path / "whole")
    arguments = [COMMAND, "build", "--home", str(changed / "home"), "--corpus", str(changed / "corpus")]
    both = [subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ended = [(p.communicate(timeout=300)[1], p.returncode) for p in both]
    for stderr, code in ended:
        assert code in (0, 1, 2, 3) and "Traceback" not in stderr, stderr
        assert code in (0, 1) or "home" in stderr.strip().splitlines()[-1], stderr
    assert any(code in (0, 1) for _, code in ended)
    for folder in (changed, whole):
        child.build(folder / "home", folder / "corpus")
    assert current(changed).manifest.digest == current(whole).manifest.digest
