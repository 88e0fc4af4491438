"""Hostile files, hangs and deaths: each costs only itself."""

import os
import re
import signal
from pathlib import Path

import pytest

from pipelines.corpus.isolate import read_sources
from pipelines.corpus.limits import Limits
from pipelines.corpus.read import read_source
from pipelines.corpus.types import Extraction
from pipelines.errors import Rejected
from tests.corpus.hostile import hostile_files, many_pages_pdf

LIMITS = Limits(max_expanded_bytes=20_000_000, max_seconds=60)


def workers_of_this_process() -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and b"pipelines.corpus.worker" in (folder / "cmdline").read_bytes():
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                found += [int(folder.name)] if int(parent) == os.getpid() else []
        except OSError:
            continue
    return found


def test_hostile_files_are_read_within_limits_or_rejected_and_the_files_between_them_are_untouched(tmp_path) -> None:
    files = hostile_files()
    items = []
    for name, (data, _) in files.items():
        (tmp_path / name).write_bytes(data)
        (tmp_path / f"{name}.good.txt").write_text(f"Good words beside {name}.")
        items += [(tmp_path / name, name), (tmp_path / f"{name}.good.txt", f"{name}.good.txt")]
    outcomes = dict(read_sources(items, LIMITS))
    assert list(outcomes) == [uri for _, uri in items]
    wrong = {}
    for name, (_, expected) in files.items():
        good = outcomes[f"{name}.good.txt"]
        assert isinstance(good, Extraction) and good.documents[0].text == f"Good words beside {name}."
        outcome = outcomes[name]
        if isinstance(outcome, Rejected):
            assert re.search(r"[;:,]| named ", str(outcome)), "a reason says what to do"
            ok = expected == "any" or re.search(expected, str(outcome))
        else:
            assert all(len(d.text) <= LIMITS.max_chars for d in outcome.documents)
            ok = expected in ("any", "read")
        if not ok or "timed out" in str(outcome) or "ended by it" in str(outcome):
            wrong[name] = str(outcome)[:200]
    assert wrong == {}
    attached = outcomes["paths.eml"]
    assert isinstance(attached, Extraction)
    assert [d.uri for d in attached.documents] == [
        "paths.eml",
        "paths.eml#passwd.txt",
        "paths.eml#evil.txt",
        "paths.eml#olute.md",
        "paths.eml#part-4.txt",
        "paths.eml#ab.txt",
        "paths.eml#x_y.txt",
    ]


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
    (tmp_path / "slow.pdf").write_bytes(many_pages_pdf(5_000))
    (tmp_path / "fast.txt").write_text("Words.")
    items = [(tmp_path / "slow.pdf", "slow.pdf"), (tmp_path / "fast.txt", "fast.txt")]
    outcomes = dict(read_sources(items, Limits(max_seconds=0.2, max_pages=10_000), workers=1))
    assert "timed out: reading took longer than 0.2 seconds" in str(outcomes["slow.pdf"])
    assert isinstance(outcomes["fast.txt"], Extraction)


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
    outcomes = {}
    for uri, outcome in read_sources(items, workers=1):
        outcomes[uri] = outcome
        for pid in workers_of_this_process():
            os.kill(pid, signal.SIGKILL)
    assert [o.documents[0].text for o in outcomes.values() if isinstance(o, Extraction)] == [
        f"Words of {name}." for name in "abcdef"
    ]
    assert workers_of_this_process() == []


def test_workers_see_no_secrets_of_the_environment(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary")
    (tmp_path / "a.txt").write_text("Words.")
    seen = []
    for _ in read_sources([(tmp_path / "a.txt", "a"), (tmp_path / "a.txt", "b")], workers=1):
        seen += [Path(f"/proc/{pid}/environ").read_bytes() for pid in workers_of_this_process()]
    assert seen and not any(b"canary" in environment for environment in seen)


def test_names_that_are_not_utf8_reach_the_worker(tmp_path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")
    Path(path).write_text("Words.")
    assert [isinstance(o, Extraction) for _, o in read_sources([(Path(path), "caf\\xe9.txt")])] == [True]
