"""Hangs and deaths: each costs only itself."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palimpsest.core.errors import ComponentFailed
from palimpsest.sources.extracted import Extraction
from palimpsest.sources.readers.read_source import read_source
from palimpsest.sources.worker_pool import read_sources
from palimpsest.store.collection_config import Limits
from tests.sources.hostile import deflated_pdf

ROOT = Path(__file__).resolve().parent.parent.parent


def workers_of_this_process() -> list[int]:
    return workers_of(os.getpid())


def wait_for(look: Callable[[], Any]) -> Any:
    for _ in range(600):
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError("waited 30 s in vain")


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def workers_of(build: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and b"palimpsest.sources.worker_process" in (folder / "cmdline").read_bytes():
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                found += [int(folder.name)] if int(parent) == build else []
        except OSError:
            continue
    return found


def test_what_a_worker_reads_equals_what_is_read_here(tmp_path) -> None:
    paths = []
    for name, text in {
        "a.md": "---\nsupersedes: b.md\ndate: 2024-01-01\n---\n# H\n\nText.\n",
        "b.jsonl": '{"session_id":"s","speaker":"A","text":"Hi \\ud83d\\ude00","timestamp":"2024-01-01"}\n{\n',
        "c.csv": "a,b\n1,2\n",
    }.items():
        (tmp_path / name).write_text(text)
        paths.append((tmp_path / name, name))
    assert list(read_sources(paths)) == [(uri, read_source(path, uri)) for path, uri in paths]


def test_a_source_that_takes_too_long_is_rejected_and_the_next_is_read(tmp_path) -> None:
    (tmp_path / "slow.pdf").write_bytes(deflated_pdf(100_000, pages=2_000))
    (tmp_path / "fast.txt").write_text("Words.")
    items = [(tmp_path / "slow.pdf", "slow.pdf"), (tmp_path / "fast.txt", "fast.txt")]
    outcomes = dict(read_sources(items, Limits(max_seconds=0.2), workers=1))
    assert "timed out: reading took longer than 0.2 seconds" in str(outcomes["slow.pdf"])
    assert isinstance(outcomes["fast.txt"], Extraction)


@pytest.mark.slow
def test_a_source_that_needs_too_much_memory_is_rejected_and_the_next_is_read(tmp_path) -> None:
    (tmp_path / "big.csv").write_text("word,word,word,word\n" * 1_000_000)
    (tmp_path / "small.txt").write_text("Words.")
    items = [(tmp_path / "small.txt", "a"), (tmp_path / "big.csv", "big"), (tmp_path / "small.txt", "b")]
    limits = Limits(max_memory_bytes=400_000_000, max_rows=2_000_000, max_cells=10_000_000)
    outcomes = dict(read_sources(items, limits, workers=1))
    assert "memory" in str(outcomes["big"])
    assert isinstance(outcomes["a"], Extraction) and isinstance(outcomes["b"], Extraction)


def test_sources_are_read_again_when_a_worker_dies_that_read_others_before(tmp_path) -> None:
    for name in "abcdef":
        (tmp_path / name).with_suffix(".txt").write_text(f"Words of {name}.")
    items = [(tmp_path / f"{name}.txt", name) for name in "abcdef"]
    outcomes, others = {}, {*workers_of_this_process()}  # those that other tests keep
    for uri, outcome in read_sources(items, workers=1):
        outcomes[uri] = outcome
        for pid in {*workers_of_this_process()} - others if uri == "a" else ():
            os.kill(pid, signal.SIGKILL)
    assert [o.documents[0].text for o in outcomes.values() if isinstance(o, Extraction)] == [
        f"Words of {name}." for name in "abcdef"
    ]
    assert wait_for(lambda: {*workers_of_this_process()} <= others)  # the last one ends by itself


def test_a_reader_that_ends_its_process_costs_one_source_and_is_tried_in_two_workers(tmp_path) -> None:
    (tmp_path / "bomb.pdf").write_bytes(deflated_pdf(5_000_000))
    (tmp_path / "good.txt").write_text("Words.")
    items = [(tmp_path / name, name) for name in ("good.txt", "bomb.pdf", "good.txt")]
    outcomes = list(read_sources(items, Limits(max_memory_bytes=400_000_000), workers=1))
    assert [isinstance(o, Extraction) for _, o in outcomes] == [True, False, True]
    assert "it ended the reader process (SIG" in str(outcomes[1][1]) and "export it again or split it" in str(
        outcomes[1][1]
    )


def test_reading_that_is_given_up_leaves_no_worker_not_even_one_that_hangs(tmp_path) -> None:
    (tmp_path / "slow.pdf").write_bytes(deflated_pdf(100_000, pages=2_000))
    (tmp_path / "fast.txt").write_text("Words.")
    others = {*workers_of_this_process()}  # those that other tests keep
    reading = read_sources([(tmp_path / "fast.txt", "a"), (tmp_path / "slow.pdf", "slow.pdf")])
    assert next(reading)[0] == "a"
    started = time.monotonic()
    reading.close()
    assert time.monotonic() - started < 60 and {*workers_of_this_process()} <= others


def test_a_worker_dies_with_the_build_that_is_killed_although_it_hangs(tmp_path) -> None:
    (tmp_path / "slow.pdf").write_bytes(deflated_pdf(100_000, pages=2_000))
    code = (
        "import sys; from pathlib import Path; from palimpsest.sources.worker_pool import read_sources\n"
        "list(read_sources([(Path(sys.argv[1]), 'slow.pdf')], workers=1))"
    )
    build = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "slow.pdf")], cwd=ROOT)
    try:
        pids = wait_for(lambda: workers_of(build.pid))
        time.sleep(0.5)  # it reads by now
    finally:
        build.kill()
        build.wait()
    assert wait_for(lambda: not any(runs(pid) for pid in pids))


def test_no_worker_is_a_failed_component_and_the_time_of_a_source_follows_its_size(tmp_path, monkeypatch) -> None:
    (tmp_path / "a.txt").write_text("Words.")
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    with pytest.raises(ComponentFailed, match="a reader process does not start"):
        list(read_sources([(tmp_path / "a.txt", "a.txt")]))
    assert [Limits().seconds_for(size) for size in (0, 4_000_000, 50_000_000)] == [20, 40, 120]
    assert Limits(max_seconds=5).seconds_for(0) == 5


def test_workers_see_no_secrets_of_the_environment(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary")
    (tmp_path / "a.txt").write_text("Words.")
    seen = []
    for _ in read_sources([(tmp_path / "a.txt", "a"), (tmp_path / "a.txt", "b")], workers=1):
        seen += [Path(f"/proc/{pid}/environ").read_bytes() for pid in workers_of_this_process()]
    assert seen and not any(b"canary" in environment for environment in seen)


def test_names_that_are_not_utf8_and_modules_of_the_folder_reach_or_take_over_no_worker(tmp_path, monkeypatch) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")
    Path(path).write_text("Words.")
    assert [isinstance(o, Extraction) for _, o in read_sources([(Path(path), "caf\\xe9.txt")])] == [True]
    (tmp_path / "charset_normalizer.py").write_text("raise SystemExit('taken over')")
    (tmp_path / "a.txt").write_text("Words.")
    monkeypatch.chdir(tmp_path)
    assert [isinstance(o, Extraction) for _, o in read_sources([(Path("a.txt"), "a.txt")])] == [True]
